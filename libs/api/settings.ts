/**
 * Operations on the settings of this installation, for operators. A setting whose environment
 * variable is set is read-only.
 */
import Type, { type TSchema } from "typebox";
import {
  changeOf,
  flag,
  id,
  integer,
  listOf,
  name,
  object,
  oneOf,
  optional,
  orNull,
  role,
  strictObject,
  text,
} from "./common.ts";
import type { Operation } from "./operation.ts";
import { email } from "./people.ts";

/** An origin, or nothing. */
export const originPattern = /^(https?:\/\/[^/?#@\s]+)?$/;
export const mailServerPattern = /^smtps?:\/\/\S+$/;
export const webhookPattern = /^https?:\/\/\S+$/;
export const webhookSecretPattern = /^\S{24,200}$/;
/** An address without a person, a query or a fragment. */
export const issuerPattern = /^(https?:\/\/[^\s@?#/]+(\/[^\s?#]*)?)?$/;
export const clientSecretPattern = /^\S{1,2000}$/;
export const claimPattern = /^\S{1,200}$/;
/** Such as `eng=acme:member, ops=acme:owner`. */
export const oidcMappingPattern =
  /^(\s*[^,=]{1,200}=(?!\.{1,2}:)[0-9A-Za-z._@-]{1,100}:(owner|member|reader)\s*(,(?=.)|$)){0,200}$/;
/** Days that usage records are kept, at least and at most. */
export const usageDaysBounds = { minimum: 1, maximum: 3_650 } as const;
/** The same for the audit log; 0 keeps it for ever. */
export const auditDaysBounds = { minimum: 0, maximum: 3_650 } as const;
export const logoBytesMax = 65_536;

const origin = {
  variable: text("The environment variable that sets it."),
  source: oneOf(
    ["environment", "stored", "default"],
    "environment: the variable is set, so the setting cannot be changed here.",
  ),
};
const setting = <Value extends TSchema>(value: Value) => object({ value, ...origin });
const secret = object({
  isSet: flag(),
  shown: orNull(text("What of it is no secret, such as the host.")),
  ...origin,
});

const installationName = name("The name of this installation, in the console and in mails.");
const sender = Type.String({ maxLength: 320, pattern: "^[^\\s@<>]{1,64}@[^\\s@<>]{1,190}$" });
const secretText = (pattern: RegExp, description: string) =>
  orNull(Type.String({ maxLength: 2_000, pattern: pattern.source, description: `${description} null removes it.` }));

const settings = object({
  name: setting(text()),
  logo: orNull(
    object({
      address: text("Its address at this control."),
      type: text("Its media type."),
      bytes: integer(),
    }),
  ),
  gatewayUrl: setting(text("Empty without one.")),
  mailFrom: setting(text()),
  smtpUrl: secret,
  alertWebhookUrl: secret,
  alertWebhookSecret: secret,
  oidcIssuer: setting(text("Empty without a provider.")),
  oidcClientId: setting(text()),
  oidcClientSecret: secret,
  oidcName: setting(text("The name of the provider on the sign-in page.")),
  oidcEmailClaim: setting(text()),
  oidcNameClaim: setting(text()),
  oidcGroupsClaim: setting(text()),
  oidcGroups: setting(text("The groups whose members may sign in; empty for everybody.")),
  oidcMapping: setting(text("Roles by group, such as eng=acme:member,ops=acme:owner.")),
  oidcCreatesAccounts: setting(text("true: a sign-in makes the accounts of the mapping that do not exist.")),
  usageDays: setting(integer()),
  auditDays: setting(integer("0: the audit log is kept for ever.")),
});

const delivery = object({
  problem: orNull(text("Why it was not accepted; null if it was.")),
});

const plainText = (maxLength: number, description: string, pattern?: RegExp) =>
  orNull(Type.String({ maxLength, description, ...(pattern && { pattern: pattern.source }) }));

/** The settings of the OpenID Connect provider. */
const oidcChange = {
  oidcIssuer: plainText(300, "The address of the provider.", issuerPattern),
  oidcClientId: plainText(300, "This gateway's id at the provider."),
  oidcClientSecret: secretText(clientSecretPattern, "This gateway's secret at the provider."),
  oidcName: plainText(100, "The name of the provider on the sign-in page."),
  oidcEmailClaim: plainText(200, "The claim with a person's address.", claimPattern),
  oidcNameClaim: plainText(200, "The claim with a person's name.", claimPattern),
  oidcGroupsClaim: plainText(200, "The claim with a person's groups.", claimPattern),
  oidcGroups: plainText(4_000, "The groups whose members may sign in, separated by commas."),
  oidcMapping: plainText(20_000, "Roles by group, such as eng=acme:member,ops=acme:owner.", oidcMappingPattern),
  oidcCreatesAccounts: plainText(5, "true: a sign-in makes the accounts of the mapping.", /^(true|false)$/),
};

export const settingsOperations = {
  readSettings: {
    method: "GET",
    path: "/settings",
    summary: "Shows the settings of this installation, without secrets.",
    access: "operator",
    answer: settings,
  },
  updateSettings: {
    method: "PATCH",
    path: "/settings",
    summary: "Changes settings; null returns to the default. They take effect at every control process within seconds.",
    access: "operator",
    body: changeOf({
      name: orNull(installationName),
      logo: orNull(
        Type.String({
          pattern: "^data:image/(png|svg\\+xml);base64,[A-Za-z0-9+/]+={0,2}$",
          maxLength: Math.ceil(logoBytesMax / 3) * 4 + 30,
          description: `A PNG or SVG file of at most ${logoBytesMax} bytes, as a data URL. null removes it.`,
        }),
      ),
      gatewayUrl: orNull(
        Type.String({
          maxLength: 300,
          pattern: originPattern.source,
          description: "Where browsers reach the gateway: http:// or https:// and a host, without a path.",
        }),
      ),
      mailFrom: orNull(sender),
      smtpUrl: secretText(mailServerPattern, "The mail server, such as smtps://user:password@mail.example.com."),
      alertWebhookUrl: secretText(webhookPattern, "The address that receives alerts."),
      alertWebhookSecret: secretText(webhookSecretPattern, "Signs what is sent to the webhook."),
      ...oidcChange,
      usageDays: orNull(Type.Integer({ ...usageDaysBounds, description: "Days that usage records are kept." })),
      auditDays: orNull(
        Type.Integer({ ...auditDaysBounds, description: "Days that the audit log is kept; 0 for ever." }),
      ),
    }),
    answer: settings,
  },
  startOidcTest: {
    method: "POST",
    path: "/settings/oidc-tests",
    summary:
      "Begins a test sign-in with settings that are not saved; absent ones are those in force. The person's own browser opens the address of the answer, and comes back to the settings. Nobody is signed in by it.",
    access: "operator",
    body: changeOf(oidcChange),
    answer: object({ test: id("The id of the test."), url: text("The provider's address for the browser.") }),
  },
  readOidcTest: {
    method: "GET",
    path: "/settings/oidc-tests",
    summary: "The claims of a test sign-in, and what they would lead to. Only for whoever began it, for ten minutes.",
    access: "operator",
    query: strictObject({ test: optional(id("The id of the test.")) }),
    answer: object({
      isOver: flag("False until the provider has sent the browser back."),
      problem: orNull(text("The code of what failed; null if the provider's token is valid.")),
      claims: text("The claims of the verified ID token, as JSON."),
      isAllowed: flag("Whether this person may sign in."),
      email: orNull(text("The person's address.")),
      groups: orNull(Type.Array(text(), { description: "Null if the token says nothing of groups." })),
      memberships: listOf(
        object({ account: text(), role, exists: flag("Whether the account exists.") }),
        "What the mapping gives.",
      ),
    }),
  },
  sendTestMail: {
    method: "POST",
    path: "/settings/test-mail",
    summary: "Sends a mail with the settings in force, and waits for the mail server's answer.",
    access: "operator",
    body: strictObject({ to: email("Who gets it.") }),
    answer: delivery,
  },
  sendTestAlert: {
    method: "POST",
    path: "/settings/test-alert",
    summary:
      "Sends an alert of the type `test` to the webhook in force, signed like any other, and waits for its answer.",
    access: "operator",
    answer: delivery,
  },
} as const satisfies Record<string, Operation>;
