/** `sluice batches`: the batches of all accounts, at the control of this directory or elsewhere. */
import { parseArgs } from "node:util";
import type { batchOperations } from "#api/batches.ts";
import type { AnswerOf } from "#api/operation.ts";
import type { Environment } from "#catalogue/environment.ts";
import { CommandFault, failureOf, standardOutput, tableOf } from "./command.ts";
import { callControl, controlOf } from "./control-address.ts";

const usage = `Usage:
  sluice batches list [--account <id>] [--limit <count>]   the newest batches
  sluice batches show <id>                                 one batch, with its faults
  sluice batches cancel <id>                               finish running requests, execute no others

--json prints the answer of control. The command calls the control of the gateway that runs in this directory, or the
one at SLUICE_CONTROL_URL with OPERATOR_TOKEN.
`;

type ApiBatch = AnswerOf<(typeof batchOperations)["getBatch"]>;

/** Resolves to the exit code: 1 for a failed command, 2 for invalid arguments. */
export async function batchesCommand(args: string[], environment: Environment): Promise<number> {
  const { out, err } = standardOutput;
  try {
    const { values, positionals } = parseArgs({
      args,
      allowPositionals: true,
      options: {
        account: { type: "string" },
        limit: { type: "string" },
        json: { type: "boolean" },
        help: { type: "boolean", short: "h" },
      },
    });
    const [action, id, ...others] = positionals;
    const isValid = others.length === 0 && (action === "list") === (id === undefined);
    if (values.help) {
      out(usage);
      return 0;
    }
    if (!isValid || !["list", "show", "cancel"].includes(action ?? "")) {
      err(usage);
      return 2;
    }
    const control = controlOf(environment);
    if (id === undefined) {
      const { account, limit = "50" } = values;
      if (!/^[1-9]\d{0,2}$/.test(limit)) throw new CommandFault("--limit must be a number from 1 to 500");
      const query = { limit: Number(limit), ...(account !== undefined && { account }) };
      const { items } = await callControl(control, "listBatches", { query });
      out(values.json ? jsonOf(items) : listOf(items));
      return 0;
    }
    const name = action === "cancel" ? "cancelBatch" : "getBatch";
    const batch = await callControl(control, name, { params: { batch: id } });
    out(values.json ? jsonOf(batch) : detailsOf(batch));
    return 0;
  } catch (error) {
    const failure = failureOf(error);
    if (failure === undefined) throw error;
    err(`sluice batches: ${failure.line}\n`);
    return failure.exitCode;
  }
}

const jsonOf = (value: unknown): string => `${JSON.stringify(value, null, 2)}\n`;

const shortTime = (time: string | null): string => time?.slice(0, 16).replace("T", " ") ?? "";

const doneOf = ({ succeeded, errored, cancelled, expired }: ApiBatch) => succeeded + errored + cancelled + expired;

/** One line for each batch, below a header line. */
const listOf = (batches: readonly ApiBatch[]): string =>
  tableOf([
    ["ID", "ACCOUNT", "STATE", "MODEL", "DONE", "TOTAL", "FAILED", "COST", "CREATED (UTC)", "EXPECTED END (UTC)"],
    ...batches.map((batch) => [
      batch.id,
      batch.account,
      batch.state,
      batch.model ?? "several",
      String(doneOf(batch)),
      String(batch.total),
      String(batch.errored),
      batch.cost,
      shortTime(batch.createdAt),
      shortTime(batch.expectedEndAt),
    ]),
  ]);

function detailsOf(batch: ApiBatch): string {
  const rows = [
    ["id", batch.id],
    ["account", batch.account],
    ["key", batch.keyId],
    ["endpoint", batch.endpoint],
    ["model", batch.model ?? "several"],
    ["state", batch.stopReason === null ? batch.state : `${batch.state} (${batch.stopReason})`],
    ["requests", `${doneOf(batch)} of ${batch.total}`],
    ["succeeded", String(batch.succeeded)],
    ["failed", String(batch.errored)],
    ["cancelled", String(batch.cancelled)],
    ["expired", String(batch.expired)],
    ["rate", batch.ratePerSecond === null ? "" : `${batch.ratePerSecond.toFixed(1)} requests/s`],
    ["tokens", `${batch.inputTokens} in, ${batch.outputTokens} out`],
    ["cost", batch.cost],
    ["created", shortTime(batch.createdAt)],
    ["ended", shortTime(batch.endedAt)],
    ["expected end", shortTime(batch.expectedEndAt)],
    ["expires", shortTime(batch.expiresAt)],
  ].filter(([, value]) => value !== "");
  const faults = batch.faults.map(({ line, code, message }) => `line ${line ?? "-"}: ${code}: ${message}\n`);
  return tableOf(rows as string[][]) + faults.join("");
}
