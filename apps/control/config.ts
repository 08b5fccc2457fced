/** Control's settings. */
import { internalSecretSetting } from "#access/internal-signature.ts";
import { nameForm } from "#access/record.ts";
import {
  auditDaysBounds,
  claimPattern,
  clientSecretPattern,
  issuerPattern,
  mailServerPattern,
  oidcMappingPattern,
  originPattern,
  usageDaysBounds,
  webhookPattern,
  webhookSecretPattern,
} from "#api/settings.ts";
import { credentialsSecretSetting } from "#catalogue/credentials.ts";
import type { Environment } from "#catalogue/environment.ts";
import {
  addressSetting,
  integerSetting,
  madeUpSecret,
  madeUpToken,
  noCredentials,
  plainAddress,
  proxySettings,
  readSettings,
  rotatingSecret,
  secretSetting,
  textSetting,
} from "#service/config.ts";
import { networksSetting } from "#service/public-agent.ts";

const mebibyte = 1 << 20;

const mailServer = { test: (text: string) => mailServerPattern.test(text) && URL.canParse(text) };

/**
 * Settings of the installation, which operators also change in the console. A variable that is set
 * wins over what is stored there.
 */
export const installationSettings = {
  name: textSetting(
    "INSTALLATION_NAME",
    "Sluice",
    "The name of this installation, in the console and in mails.",
    "visible characters",
    nameForm,
  ),
  gatewayUrl: addressSetting(
    "GATEWAY_URL",
    "The address under which browsers reach the ingress, for the console's examples and playground, such as https://api.example.com. Not needed if the catalogue names a base URL.",
    "http:// or https:// and a host, without a path",
    originPattern,
  ),
  smtpUrl: secretSetting(
    "SMTP_URL",
    "The mail server for invitations and forgotten passwords, such as smtps://user:password@mail.example.com. Without it, links are copied by hand.",
    { form: "smtp:// or smtps:// and a host", pattern: mailServer, rotates: true },
  ),
  mailFrom: textSetting("MAIL_FROM", "sluice@localhost", "The sender of mails.", "an address"),
  alertWebhookUrl: secretSetting(
    "ALERT_WEBHOOK_URL",
    "Receives alerts about budgets and keys as JSON by POST, such as https://hooks.example.com/sluice. It may contain a secret.",
    { form: `http:// or https:// and a host, ${noCredentials}`, pattern: plainAddress(webhookPattern), rotates: true },
  ),
  alertWebhookSecret: secretSetting(
    "ALERT_WEBHOOK_SECRET",
    "Signs what is sent to the webhook (standardwebhooks.com). A value that begins with whsec_ is base64.",
    { form: "24 to 200 characters without spaces", pattern: webhookSecretPattern, rotates: true },
  ),
  oidcIssuer: addressSetting(
    "OIDC_ISSUER",
    "The address of an OpenID Connect provider. Whoever it lets in becomes a user, without any account until invited.",
    "an address",
    issuerPattern,
  ),
  oidcClientId: textSetting("OIDC_CLIENT_ID", "", "This gateway's id at the provider."),
  oidcClientSecret: secretSetting("OIDC_CLIENT_SECRET", "This gateway's secret at the provider.", {
    form: "without spaces",
    pattern: clientSecretPattern,
    rotates: true,
  }),
  oidcName: textSetting("OIDC_NAME", "Single sign-on", "The name of the provider on the sign-in page."),
  oidcEmailClaim: textSetting(
    "OIDC_EMAIL_CLAIM",
    "email",
    "The claim of the provider's ID token with a person's address. Microsoft Entra ID has `preferred_username`.",
    "the name of a claim",
    claimPattern,
  ),
  oidcNameClaim: textSetting(
    "OIDC_NAME_CLAIM",
    "name",
    "The claim with a person's name.",
    "the name of a claim",
    claimPattern,
  ),
  oidcGroupsClaim: textSetting(
    "OIDC_GROUPS_CLAIM",
    "groups",
    "The claim with a person's groups, a text or a list of texts.",
    "the name of a claim",
    claimPattern,
  ),
  oidcGroups: textSetting(
    "OIDC_GROUPS",
    "",
    "The groups whose members may sign in, separated by commas. By default everybody whom the provider lets in may.",
  ),
  oidcMapping: textSetting(
    "OIDC_MAPPING",
    "",
    "Roles in accounts that follow from groups at each sign-in, such as eng=acme:member,ops=acme:owner; * in the place of a group is everybody. Roles that people have given by hand stay.",
    "<group>=<account>:<owner, member or reader>, separated by commas",
    oidcMappingPattern,
  ),
  oidcCreatesAccounts: textSetting(
    "OIDC_CREATES_ACCOUNTS",
    "false",
    "Whether a sign-in makes the accounts of OIDC_MAPPING that do not exist.",
    "true or false",
    /^(true|false)$/,
  ),
  usageDays: integerSetting(
    "USAGE_DAYS",
    400,
    usageDaysBounds.minimum,
    usageDaysBounds.maximum,
    "How many days usage records are kept. Their totals by half hour are kept for ever.",
  ),
  auditDays: integerSetting(
    "AUDIT_DAYS",
    0,
    auditDaysBounds.minimum,
    auditDaysBounds.maximum,
    "How many days the audit log is kept; 0 keeps it for ever.",
  ),
};

export type InstallationValues = ReturnType<typeof readSettings<typeof installationSettings>>;

/** Settings that are read once, at the start. */
const startSettings = {
  ...proxySettings,
  host: textSetting(
    "CONTROL_HOST",
    "127.0.0.1",
    "The address of the API and of the console.",
    "a host name or address",
  ),
  port: integerSetting(
    "CONTROL_PORT",
    8090,
    0,
    65_535,
    "The port of the API and of the console; 0 uses any free port.",
  ),
  url: addressSetting(
    "CONTROL_URL",
    "The address under which browsers reach control, such as https://sluice.example.com. With https, cookies are sent over https only. Without it, people can sign in at localhost and 127.0.0.1 only.",
    "http:// or https:// and a host, without a path",
    originPattern,
  ),
  usageNames: textSetting(
    "USAGE_NAMES",
    "plain",
    "How usage records keep the names that callers give their users and sessions: plain, or hashed with a key that is derived from AUTH_SECRET.",
    "plain or hashed",
    /^(plain|hashed)$/,
  ),
  usageExport: textSetting(
    "USAGE_EXPORT",
    "",
    "Exports each hour of usage to the bucket (S3_BUCKET) or to FILES_DIRECTORY, unencrypted: jsonl has the records, focus has costs in the form of FOCUS 1.2.",
    "jsonl, focus or jsonl,focus",
    /^(|jsonl|focus|jsonl,focus)$/,
  ),
  consoleDirectory: textSetting(
    "CONSOLE_DIRECTORY",
    "",
    "The directory of the built console (`node apps/console/build.ts DIRECTORY`). Without it, control serves no console.",
    "a path",
  ),
  webhookNetworks: networksSetting(
    "WEBHOOK_NETWORKS",
    "Private networks in which webhooks of accounts may be, and one for alerts whose address is stored in the console, such as 10.0.0.0/8. None by default; ALERT_WEBHOOK_URL may name any address.",
  ),
  internalAddress: textSetting(
    "CONTROL_INTERNAL_ADDRESS",
    "127.0.0.1:8091",
    "Where control listens for ingresses, if INTERNAL_SECRET is set.",
    "<host>:<port>, or unix:<path>",
    /^(unix:.+|\S+:\d{1,5})$/,
  ),
  internalSecret: internalSecretSetting,
  filesDirectory: textSetting(
    "FILES_DIRECTORY",
    ".sluice/files",
    "The directory of files that callers upload, sealed. All control processes need the same one; a bucket (S3_BUCKET) replaces it.",
    "a path",
  ),
  fileBytesMax: integerSetting(
    "FILE_BYTES_MAX",
    512 * mebibyte,
    1_024,
    8_192 * mebibyte,
    "The largest file that callers may upload, in bytes.",
  ),
  accountFileBytesMax: integerSetting(
    "ACCOUNT_FILE_BYTES_MAX",
    10_240 * mebibyte,
    0,
    2 ** 50,
    "Bytes of all files of one account, at most.",
  ),
  accountFilesMax: integerSetting(
    "ACCOUNT_FILES_MAX",
    10_000,
    0,
    1_000_000,
    "The number of files of one account, at most.",
  ),
  s3Bucket: textSetting(
    "S3_BUCKET",
    "",
    "The bucket for files, of S3 or a server with the same protocol, in place of FILES_DIRECTORY.",
    "the name of a bucket",
    /^([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])?$/,
  ),
  s3Prefix: textSetting(
    "S3_PREFIX",
    "",
    "The beginning of the names of objects, such as sluice/.",
    "a path",
    /^[\w./-]*$/,
  ),
  s3Region: textSetting("S3_REGION", "us-east-1", "The region of the bucket.", "the name of a region", /^[a-z0-9-]+$/),
  s3Endpoint: addressSetting(
    "S3_ENDPOINT",
    "The address of a server with S3's protocol, such as https://minio.example.com. Without it, Amazon's.",
    "http:// or https:// and a host",
    /^(https?:\/\/\S+)?$/,
  ),
  s3AccessKeyId: textSetting("S3_ACCESS_KEY_ID", "", "The id of S3_SECRET_ACCESS_KEY.", "an id", /^\S*$/),
  s3SecretAccessKey: secretSetting(
    "S3_SECRET_ACCESS_KEY",
    "The key for the bucket. Without it, the chain of Amazon's SDK finds credentials.",
  ),
  ingressUrl: addressSetting(
    "INGRESS_URL",
    "Where control sends the requests of batches: the address of ingresses, such as http://ingress:8080. Without it, or without INTERNAL_SECRET, callers cannot create batches.",
    "http:// or https:// and a host",
    /^(https?:\/\/[^\s?#]+)?$/,
  ),
  batchConcurrency: integerSetting(
    "BATCH_CONCURRENCY",
    64,
    1,
    10_000,
    "Requests of batches that one control process has under way at most. It sends fewer while ingresses are busy.",
  ),
  vendorBatchPollSeconds: integerSetting(
    "VENDOR_BATCH_POLL_SECONDS",
    60,
    1,
    3_600,
    "How often the state of a vendor's batch is asked for, at upstreams with `batchApi`.",
  ),
  batchLinesMax: integerSetting(
    "BATCH_LINES_MAX",
    0,
    0,
    1_000_000,
    "Requests of one batch, at most. With 0 as many as its vendor allows: 50,000 for OpenAI's batches, 100,000 for Anthropic's and Gemini's.",
  ),
  accountBatchesMax: integerSetting(
    "ACCOUNT_BATCHES_MAX",
    100,
    0,
    100_000,
    "Batches of one account that are not over, at most. Further ones get a 429.",
  ),
  accountBatchTokensMax: integerSetting(
    "ACCOUNT_BATCH_TOKENS_MAX",
    1_000_000_000,
    0,
    1_000_000_000_000,
    "Estimated input tokens of all batches of one account that are not over, at most. A batch that exceeds it fails with `token_limit_exceeded`, or gets a 429.",
  ),
  callsPerMinute: integerSetting(
    "CONTROL_CALLS_PER_MINUTE",
    1_200,
    60,
    1_000_000,
    "How many calls of the API one person or token may make in a minute; an IP address may make four times as many. An API key may make as many requests for files.",
  ),
  authSecret: secretSetting(
    "AUTH_SECRET",
    "Signs cookies and encrypts second factors. Without it, control keeps a random one in its database.",
    madeUpSecret,
  ),
  credentialsSecrets: credentialsSecretSetting,
  catalogueReadOnly: textSetting(
    "CATALOGUE_READ_ONLY",
    "false",
    "Refuses changes of the catalogue by the API and the console, where its file is kept with Git.",
    "true or false",
    /^(true|false)$/,
  ),
  databaseUrl: secretSetting(
    "DATABASE_URL",
    "The Postgres server (15 or newer), such as postgres://user:password@host/database. Without it, control uses an embedded database.",
    { form: "postgres:// or postgresql:// and an address", pattern: /^postgres(ql)?:\/\// },
  ),
  databaseDirectory: textSetting(
    "DATABASE_DIRECTORY",
    ".sluice/database",
    "The directory of the embedded database. Only one control process may use it.",
    "a path",
  ),
  operatorToken: rotatingSecret(
    "OPERATOR_TOKEN",
    "A token with all rights of an operator, for the command line and for the first steps. Without it, the API accepts only tokens and people of its database.",
    madeUpToken,
  ),
};

/** All of them, for the reference. */
export const controlSettings = { ...startSettings, ...installationSettings };

export type ControlConfig = ReturnType<typeof controlConfigOf>;

export const controlConfigOf = (environment: Environment) => readSettings(startSettings, environment);
