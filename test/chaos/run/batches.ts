/**
 * Batches beside the callers of a chaos run. Whatever faults strike, each batch ends, with one
 * result for each line in the order of the file, and the ledger has each line once.
 */
import { setTimeout as delay } from "node:timers/promises";
import OpenAI, { toFile } from "openai";
import type { Batch } from "openai/resources/batches";
import type { Violation } from "./checks.ts";
import { addKey, isKnown, type Stack } from "./stack.ts";

const lines = 150;
const pauseMs = 3_000;
const batchMsMax = 180_000;
const endStates = ["completed", "failed", "expired", "cancelled"];
const endpoint = "/v1/chat/completions";

export interface BatchLoad {
  /** Creates no further batch, and waits for the ends of all. */
  end(): Promise<{ batches: number; violations: Violation[] }>;
}

export async function startBatches(stack: Stack, seed: number): Promise<BatchLoad> {
  const key = await addKey(stack.control(), "batches", {});
  const [url = ""] = stack.urls;
  await eventually("the key is known", async () => (await isKnown(url, key)) || undefined);
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: key, maxRetries: 5, timeout: 20_000 });
  let isOver = false;
  const promptOf = (batch: number, line: number) => `Line ${line} of batch ${batch} of the run with seed ${seed}.`;
  const inputOf = (batch: number) =>
    Array.from({ length: lines }, (_, line) => {
      const messages = [{ role: "user", content: promptOf(batch, line) }];
      const body = { model: line % 10 === 0 ? "paced-openai-chat" : "fast", messages };
      return JSON.stringify({ custom_id: promptOf(batch, line), method: "POST", url: endpoint, body });
    }).join("\n");
  const creating = (async () => {
    for (let number = 0; !isOver; number++) {
      // A fault may strike: the next one is tried.
      await create(client, inputOf(number)).catch(() => undefined);
      await delay(pauseMs);
    }
  })();
  return {
    async end() {
      isOver = true;
      await creating;
      const violations: Violation[] = [];
      const batches = await eventually("all batches are over", async () => {
        const all = await Array.fromAsync(client.batches.list({ limit: 100 }));
        return all.every(({ status }) => endStates.includes(status)) ? all : undefined;
      }).catch((error: Error) => void violations.push(error.message));
      for (const batch of batches ?? []) violations.push(...(await violationsOf(client, batch)));
      return { batches: batches?.length ?? 0, violations };
    },
  };
}

async function create(client: OpenAI, input: string): Promise<void> {
  const file = await client.files.create({ file: await toFile(Buffer.from(input), "in.jsonl"), purpose: "batch" });
  await client.batches.create({ input_file_id: file.id, endpoint, completion_window: "24h" });
}

interface ResultLine {
  custom_id: string;
  response: { status_code: number; body: { choices: { message: { content: string } }[] } } | null;
}

async function violationsOf(client: OpenAI, batch: Batch): Promise<Violation[]> {
  const { id, status, request_counts: counts } = batch;
  const says = (what: string): Violation => `batch ${id} ${what}`;
  if (status !== "completed" || counts?.total !== lines) return [says(`is ${status} with ${counts?.total} lines`)];
  const read = async (file: string | null | undefined): Promise<ResultLine[]> => {
    if (!file) return [];
    const text = await eventually("a file of results is read", async () => (await client.files.content(file)).text());
    return text
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
  };
  const [output, errors] = [await read(batch.output_file_id), await read(batch.error_file_id)];
  const violations: Violation[] = [];
  const placeOf = ({ custom_id }: ResultLine) => Number(/^Line (\d+)/.exec(custom_id)?.[1]);
  const places = [...output, ...errors].map(placeOf);
  if (new Set(places).size !== lines || places.length !== lines)
    violations.push(says(`has ${places.length} results for ${new Set(places).size} lines`));
  for (const results of [output, errors])
    if (results.some((result, index) => index > 0 && placeOf(result) <= placeOf(results[index - 1] as ResultLine)))
      violations.push(says("has results in another order than its lines"));
  for (const { custom_id, response } of output)
    if (!response?.body.choices[0]?.message.content.includes(custom_id))
      violations.push(says(`has another line's answer for "${custom_id}"`));
  for (const { custom_id, response } of errors)
    if (response !== null && response.status_code < 500)
      violations.push(says(`has status ${response.status_code} for "${custom_id}"`));
  if (batch.usage === undefined || output.length !== counts.completed)
    violations.push(says(`counts ${counts.completed} of ${output.length} answers`));
  return violations;
}

/** Asks again while faults are in the way. */
async function eventually<Value>(what: string, ask: () => Promise<Value | undefined>): Promise<Value> {
  for (const deadline = performance.now() + batchMsMax; performance.now() < deadline; await delay(500)) {
    const value = await ask().catch(() => undefined);
    if (value !== undefined) return value;
  }
  throw new Error(`not within ${batchMsMax / 1_000} s: ${what}`);
}
