/** `sluice batches`: the batches of all accounts, at the control of this directory or elsewhere. */
import { createWriteStream } from "node:fs";
import { pipeline } from "node:stream/promises";
import { parseArgs } from "node:util";
import type { batchOperations } from "#api/batches.ts";
import type { AnswerOf } from "#api/operation.ts";
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
import { callControl, controlOf, readControl } from "./control-address.ts";

const usage = `Usage:
  sluice batches list [--account <id>] [--limit <count>]   the newest batches
  sluice batches show <id>                                 one batch, with its faults
  sluice batches cancel <id>                               finish running requests, execute no others
  sluice batches results <id> [--kind output|error]        the results of one that is over, as JSON lines;
                              [--to <file>]                without --kind the answers first, then the errors

--json prints the answer of control. The command calls the control of the gateway that runs in this directory, or the
one at SLUICE_CONTROL_URL with OPERATOR_TOKEN.
`;

type ApiBatch = AnswerOf<(typeof batchOperations)["getBatch"]>;

/** Resolves to the exit code: 1 for a failed command, 2 for invalid arguments. */
export async function batchesCommand(
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
        limit: { type: "string" },
        kind: { type: "string" },
        to: { type: "string" },
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
    if (!isValid || !["list", "show", "cancel", "results"].includes(action ?? "")) {
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
    if (action === "results") {
      const { kind, to } = values;
      if (kind !== undefined && kind !== "output" && kind !== "error")
        throw new CommandFault("--kind must be output or error");
      const results = await readControl(control, "downloadResults", {
        params: { batch: id },
        query: kind ? { kind } : {},
      });
      if (to !== undefined)
        await pipeline(results, createWriteStream(to, { flags: "wx", mode: 0o600 })).catch((error: Error) => {
          throw new CommandFault(`the results were not stored: ${error.message}`);
        });
      else {
        const decoder = new TextDecoder();
        for await (const bytes of results) out(decoder.decode(bytes, { stream: true }));
      }
      return 0;
    }
    const name = action === "cancel" ? "cancelBatch" : "getBatch";
    const batch = await callControl(control, name, { params: { batch: id } });
    out(values.json ? jsonOf(batch) : detailsOf(batch));
    return 0;
  } catch (error) {
    return exitCodeOf("sluice batches", error, { err });
  }
}

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
