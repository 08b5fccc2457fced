/** The operations on settings. */

import type { settingsOperations } from "#api/settings.ts";
import type { Webhook } from "../alerts/webhook.ts";
import { Fault } from "../api/faults.ts";
import type { Handlers } from "../api/handlers.ts";
import { recordChange } from "../database/change.ts";
import type { Mail } from "../sign-in/mail.ts";
import type { OidcTests } from "../sign-in/oidc-tests.ts";
import type { Settings } from "./settings.ts";

export interface SettingsHandlerOptions {
  settings: Settings;
  mail: Mail;
  webhook: Pick<Webhook, "sendTest">;
  oidcTests: OidcTests;
}

export function settingsHandlers({
  settings,
  mail,
  webhook,
  oidcTests,
}: SettingsHandlerOptions): Handlers<typeof settingsOperations> {
  return {
    readSettings: async () => settings.answer,
    updateSettings: ({ body }, context) => settings.change(body, context),
    async startOidcTest({ body }, context) {
      const started = await oidcTests.start(settings.proposed(body), context.actor);
      await recordChange(context, "startOidcTest", { subject: "settings" });
      return { body: started };
    },
    async readOidcTest({ query: { test = "" } }, { actor }) {
      return { body: await oidcTests.result(test, actor) };
    },
    async sendTestMail({ body: { to } }, context) {
      const { name, smtpUrl } = settings.current();
      if (smtpUrl === undefined) throw new Fault("conflict", "There is no mail server yet; save one first.");
      await recordChange(context, "sendTestMail", { subject: "settings" });
      const problem = await mail.deliver(to, `Test mail of ${name}`, "The mail server of this installation works.\n");
      return { body: { problem: problem ?? null } };
    },
    async sendTestAlert(_input, context) {
      if (settings.current().alertWebhookUrl === undefined)
        throw new Fault("conflict", "There is no webhook yet; save its address first.");
      await recordChange(context, "sendTestAlert", { subject: "settings" });
      return { body: { problem: (await webhook.sendTest()) ?? null } };
    },
  };
}
