/** `sluice webhooks`: the webhooks of all accounts, at the control of this directory or another. */
import { parseArgs } from "node:util";
import type { AnswerOf, InputOf } from "#api/operation.ts";
import type { webhookOperations } from "#api/webhooks.ts";
import type { Environment } from "#catalogue/environment.ts";
import {
  CommandFault,
  exitCodeOf,
  jsonOf,
  type Output,
  shortTime,
  standardOutput,
  tableOf,
  withNegativeNumbers,
} from "./command.ts";
import { callControl, controlOf } from "./control-address.ts";

const usage = `Usage:
  sluice webhooks list [--account <id>]                    the newest webhooks
  sluice webhooks create --account <id> --url <url>        get events; prints the secret, once
                         [--name <name>] [--events <event>,<event>]
  sluice webhooks enable|disable|delete|test <id>          change one, or send it an event
  sluice webhooks rotate <id> [--overlap <hours>]          make a new secret; the old one signs too for 24 hours
  sluice webhooks deliveries [--account <id>]              the newest events, and what became of them
  sluice webhooks repeat <delivery>                        send an event again

--json prints the answer of control. The command calls the control of the gateway that runs in this directory, or the
one at SLUICE_CONTROL_URL with OPERATOR_TOKEN.
`;

type Operations = typeof webhookOperations;
type Webhook = AnswerOf<Operations["getWebhook"]>;
type Delivery = AnswerOf<Operations["repeatDelivery"]>;
type Events = InputOf<Operations["createWebhook"]>["body"]["events"];

const defaultEvents = "batch.completed,batch.failed,batch.expired,batch.cancelled";

/** Resolves to the exit code: 1 for a failed command, 2 for invalid arguments. */
export async function webhooksCommand(
  args: string[],
  environment: Environment,
  { out, err }: Output = standardOutput,
): Promise<number> {
  try {
    const { values, positionals } = parseArgs({
      args: withNegativeNumbers(args),
      allowPositionals: true,
      options: {
        account: { type: "string" },
        url: { type: "string" },
        name: { type: "string", default: "webhook" },
        events: { type: "string", default: defaultEvents },
        overlap: { type: "string", default: "24" },
        json: { type: "boolean" },
        help: { type: "boolean", short: "h" },
      },
    });
    const [action = "", id, ...others] = positionals;
    if (values.help) {
      out(usage);
      return 0;
    }
    const { account, url, name, events, overlap } = values;
    const control = controlOf(environment);
    const query = account === undefined ? {} : { account };
    const show = <Value>(value: Value, textOf: (value: Value) => string): number => {
      out(values.json ? jsonOf(value) : textOf(value));
      return 0;
    };
    const params = { webhook: id ?? "" };
    if (others.length === 0 && id === undefined) {
      if (action === "list")
        return show((await callControl(control, "listWebhooks", { query })).items, tableOfWebhooks);
      if (action === "deliveries")
        return show((await callControl(control, "listDeliveries", { query })).items, tableOfDeliveries);
      if (action === "create" && account !== undefined && url !== undefined) {
        const body = { account, url, name, events: events.split(",") as Events };
        return show(await callControl(control, "createWebhook", { body }), secretOf);
      }
    } else if (others.length === 0) {
      if (action === "enable" || action === "disable") {
        const body = { isEnabled: action === "enable" };
        return show([await callControl(control, "updateWebhook", { params, body })], tableOfWebhooks);
      }
      if (action === "delete") {
        await callControl(control, "deleteWebhook", { params });
        return 0;
      }
      if (action === "test") return show([await callControl(control, "testWebhook", { params })], tableOfDeliveries);
      if (action === "rotate") {
        if (!/^\d{1,3}$/.test(overlap)) throw new CommandFault("--overlap must be a number of hours");
        const body = { overlapSeconds: Number(overlap) * 3_600 };
        return show(await callControl(control, "rotateWebhookSecret", { params, body }), secretOf);
      }
      if (action === "repeat") {
        const delivery = { delivery: id ?? "" };
        return show([await callControl(control, "repeatDelivery", { params: delivery })], tableOfDeliveries);
      }
    }
    err(usage);
    return 2;
  } catch (error) {
    return exitCodeOf("sluice webhooks", error, { err });
  }
}

const secretOf = ({ id, secret }: Webhook & { secret: string }): string => `${id}\n${secret}\n`;

const tableOfWebhooks = (webhooks: readonly Webhook[]): string =>
  tableOf([
    ["ID", "ACCOUNT", "NAME", "STATE", "EVENTS", "URL"],
    ...webhooks.map(({ id, account, name, isEnabled, disabledReason, events, url }) => [
      ...[id, account, name, isEnabled ? "enabled" : `disabled (${disabledReason})`, events.join(","), url],
    ]),
  ]);

const tableOfDeliveries = (deliveries: readonly Delivery[]): string =>
  tableOf([
    ["ID", "WEBHOOK", "EVENT", "SUBJECT", "STATE", "ATTEMPTS", "LAST PROBLEM", "NEXT ATTEMPT (UTC)"],
    ...deliveries.map(({ id, webhook, type, subject, state, attempts, nextAttemptAt }) => [
      ...[id, webhook, type, subject, state, String(attempts.length), attempts.at(-1)?.problem ?? ""],
      shortTime(nextAttemptAt),
    ]),
  ]);
