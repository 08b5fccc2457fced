/** Credentials in an address would reach people and logs, and clients leave them out. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Settings } from "#service/config.ts";
import { StartupFault } from "#service/startup.ts";
import { tracingSettings } from "#tracing/config.ts";
import { controlOf } from "../../../apps/cli/control-address.ts";
import { controlSettings } from "../../../apps/control/config.ts";
import { ingressSettings } from "../../../apps/ingress/common/config.ts";
import { workerSettings } from "../../../apps/worker/config.ts";

/** Their clients log in with them. */
const own = ["REDIS_URL", "DATABASE_URL", "SMTP_URL"];

const settings = Object.values<Settings[string]>({
  ...controlSettings,
  ...ingressSettings,
  ...workerSettings,
  ...tracingSettings,
}).filter(({ variable, bounds }) => /_(?:URL|ENDPOINT|ISSUER)$/.test(variable) || bounds.includes("://"));

test("an address has credentials only where its client uses them, and a fault does not show them", () => {
  const variables = settings.map(({ variable }) => variable);
  for (const variable of ["ALERT_WEBHOOK_URL", "GATEWAY_URL", "OIDC_ISSUER", "S3_ENDPOINT", "CONTROL_INTERNAL_URL"])
    assert.ok(variables.includes(variable), variable);
  for (const { variable, read } of settings.filter(({ variable }) => !own.includes(variable))) {
    read({ [variable]: "http://host.example" });
    for (const credentials of ["name:pa55@", ":pa55@", "pa55@"])
      for (const rest of ["", "/path", " with a space"])
        assert.throws(
          () => read({ [variable]: `http://${credentials}host.example${rest}` }),
          (error) => error instanceof StartupFault && error.message.includes(variable) && !/pa55/.test(error.message),
          variable,
        );
  }
});

test("the command line refuses credentials in the address of control, and does not show them", () => {
  const environment = { SLUICE_CONTROL_URL: "https://name:pa55@host.example", OPERATOR_TOKEN: "t".repeat(32) };
  assert.throws(() => controlOf(environment), /^(?!.*pa55).*SLUICE_CONTROL_URL must be http/);
});
