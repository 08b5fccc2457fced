/**
 * The figures of docs/batches.md: a batch beside the same requests made one by one, and the memory
 * of the processes meanwhile. `node test/bench/batches.ts [lines]`.
 */
import { readFile } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";
import OpenAI, { toFile } from "openai";
import { startFilesGateway } from "../support/files.ts";
import { until } from "../support/time.ts";

const lines = Number(process.argv[2] ?? 20_000);
const concurrency = 64;
const singleCalls = 100;

const catalogue = `
groups:
  default: { models: ["*"] }
upstreams:
  simulator: { dialect: anthropic-messages, circuitBreakerFailuresMax: 0, baseUrl: "\${SIMULATOR_URL}/v1" }
models:
  - { id: test/claude, prices: { inputPerMillion: 1, outputPerMillion: 1 }, route: [{ upstream: simulator, model: "sim-fast;head=100;tokens=50" }] }
`;

await using setup = await startFilesGateway({
  catalogue,
  processes: "all",
  withBatches: true,
  control: { BATCH_CONCURRENCY: String(concurrency), BATCH_LINES_MAX: "1000000" },
});
const { gateway, addAccount } = setup;
const client = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: await addAccount("bench"), maxRetries: 3 });
const bodyOf = (line: number) => ({
  model: "test/claude",
  messages: [{ role: "user" as const, content: `Summarise document ${line}. ${"word ".repeat(50)}` }],
});

const latencies: number[] = [];
async function callOneByOne(count: number): Promise<number> {
  const begun = performance.now();
  for (let index = 0; index < count; index++) {
    const at = performance.now();
    await client.chat.completions.create(bodyOf(index));
    latencies.push(performance.now() - at);
  }
  return (count / (performance.now() - begun)) * 1_000;
}

const p99Of = (values: readonly number[]): number =>
  values.toSorted((one, other) => one - other)[Math.floor(values.length * 0.99)] ?? 0;

await callOneByOne(20);
latencies.length = 0;
const singleRate = await callOneByOne(singleCalls);
const p99Before = p99Of(latencies.splice(0));

const pids = {
  ingress: gateway.ingresses[0]?.process.pid,
  worker: gateway.workers[0]?.process.pid,
  control: process.pid,
};
const peaks = new Map<string, number>();
async function sampleMemory(): Promise<void> {
  for (const [name, pid] of Object.entries(pids)) {
    const status = await readFile(`/proc/${pid}/status`, "utf8");
    const mebibytes = Number(/VmRSS:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1_024;
    peaks.set(name, Math.max(peaks.get(name) ?? 0, mebibytes));
  }
}

const input = Array.from({ length: lines }, (_, line) =>
  JSON.stringify({ custom_id: `line-${line}`, method: "POST", url: "/v1/chat/completions", body: bodyOf(line) }),
).join("\n");
const file = await client.files.create({ file: await toFile(Buffer.from(input), "in.jsonl"), purpose: "batch" });
const begun = performance.now();
const { id } = await client.batches.create({
  input_file_id: file.id,
  endpoint: "/v1/chat/completions",
  completion_window: "24h",
});
let checkedMs = 0;
let isOver = false;
const calling = (async () => {
  while (!isOver) {
    await callOneByOne(1);
    await delay(200);
  }
})();
await until(
  "the end of the batch",
  async () => {
    const { status } = await client.batches.retrieve(id);
    if (status === "in_progress") checkedMs ||= performance.now() - begun;
    await sampleMemory();
    await delay(500);
    return status === "completed";
  },
  3_600_000,
);
const seconds = (performance.now() - begun) / 1_000;
isOver = true;
await calling;
const batch = await client.batches.retrieve(id);
process.stdout.write(
  `${[
    `requests: ${batch.request_counts?.completed} of ${lines} completed, ${batch.request_counts?.failed} failed`,
    `input: ${(input.length / 2 ** 20).toFixed(1)} MiB, checked after ${(checkedMs / 1_000).toFixed(1)} s at most`,
    `batch: ${seconds.toFixed(1)} s, ${(lines / seconds).toFixed(1)} requests/s (BATCH_CONCURRENCY=${concurrency})`,
    `one by one: ${singleRate.toFixed(1)} requests/s`,
    `p99 of a single call: ${p99Before.toFixed(0)} ms before, ${p99Of(latencies).toFixed(0)} ms during the batch (${latencies.length} calls)`,
    ...[...peaks].map(([name, peak]) => `peak memory of ${name}: ${peak.toFixed(0)} MiB`),
  ].join("\n")}\n`,
);
