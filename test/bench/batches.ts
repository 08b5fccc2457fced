/**
 * The figures of docs/batches.md: batches beside the same requests made one by one, what they cost
 * other callers, and the memory of the processes meanwhile, as a plot. Every role is a process, the
 * database is Postgres. `node test/bench/batches.ts [lines] [file of the plot]`.
 */
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import OpenAI, { toFile } from "openai";
import { plotOf } from "../chaos/run/plot.ts";
import { startControlProcess } from "../support/control.ts";
import { startGateway } from "../support/gateway.ts";
import { startPostgres } from "../support/postgres.ts";

const lines = Number(process.argv[2] ?? 20_000);
const plotFile = process.argv[3];
/** Lines of one batch, at most: OpenAI's bound. */
const batchLinesMax = 50_000;
const concurrency = 64;
const singleCalls = 100;
/** Calls of others in a second, begun whether or not those before have ended. */
const callsPerSecond = 5;
const beforeSeconds = Number(process.env.BEFORE_SECONDS ?? 60);

const catalogue = `
groups:
  default: { models: ["*"] }
upstreams:
  simulator: { dialect: anthropic-messages, circuitBreakerFailuresMax: 0, baseUrl: "\${SIMULATOR_URL}/v1" }
models:
  - { id: test/claude, prices: { inputPerMillion: 1, outputPerMillion: 1 }, route: [{ upstream: simulator, model: "sim-fast;head=100;tokens=50" }] }
`;

await using opened = new AsyncDisposableStack();
const directory = await mkdtemp(join(tmpdir(), "sluice-batches-"));
opened.defer(() => rm(directory, { recursive: true, force: true }));
const INTERNAL_SECRET = "the secret of ingress and control in benches";
const address = `unix:${join(directory, "control.sock")}`;
const gateway = opened.use(
  await startGateway({
    catalogue,
    processes: "all",
    environment: { INTERNAL_SECRET, CONTROL_INTERNAL_URL: address },
  }),
);
const postgres = opened.use(await startPostgres());
const control = opened.use(
  await startControlProcess({
    REDIS_URL: gateway.redis.url,
    SLUICE_CATALOGUE: gateway.catalogueFile,
    SIMULATOR_URL: gateway.simulatorUrl,
    DATABASE_URL: await postgres.createDatabase(),
    INTERNAL_SECRET,
    CONTROL_INTERNAL_ADDRESS: address,
    OPERATIONS_PORT: "0",
    FILES_DIRECTORY: join(directory, "files"),
    INGRESS_URL: gateway.url,
    BATCH_CONCURRENCY: String(concurrency),
  }),
);
await control.call("POST", "/accounts", { id: "bench", name: "bench" });
const newKey = async () => {
  const response = await control.call("POST", "/keys", { account: "bench", name: "bench", group: "default" });
  return ((await response.json()) as { key: string }).key;
};
const clientOf = (apiKey: string) => new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey, maxRetries: 3 });
const client = clientOf(await newKey());
const caller = clientOf(await newKey());

const bodyOf = (line: number) => ({
  model: "test/claude",
  messages: [{ role: "user" as const, content: `Summarise document ${line}. ${"word ".repeat(50)}` }],
});

async function rateOneByOne(count: number): Promise<number> {
  const begun = performance.now();
  for (let index = 0; index < count; index++) await caller.chat.completions.create(bodyOf(index));
  return (count / (performance.now() - begun)) * 1_000;
}

/** Calls of others until the signal: how long each took. */
async function callersUntil(signal: AbortSignal): Promise<number[]> {
  const latencies: number[] = [];
  const calls: Promise<void>[] = [];
  for (let index = 0; !signal.aborted; index++) {
    const at = performance.now();
    calls.push(caller.chat.completions.create(bodyOf(index)).then(() => void latencies.push(performance.now() - at)));
    await delay(1_000 / callsPerSecond, undefined, { signal }).catch(() => undefined);
  }
  await Promise.all(calls);
  return latencies;
}

const shareOf = (values: readonly number[], share: number): number =>
  values.toSorted((one, other) => one - other)[Math.floor(values.length * share)] ?? 0;
const describe = (values: readonly number[]) =>
  `median ${shareOf(values, 0.5).toFixed(0)} ms, p99 ${shareOf(values, 0.99).toFixed(0)} ms (${values.length} calls)`;

await rateOneByOne(20);
const singleRate = await rateOneByOne(singleCalls);
const before = await callersUntil(AbortSignal.timeout(beforeSeconds * 1_000));

const pids: Record<string, number | undefined> = {
  ingress: gateway.ingresses[0]?.process.pid,
  worker: gateway.workers[0]?.process.pid,
  control: control.role.process.pid,
};
/** Mebibytes of each process at each second. */
const memory = new Map<string, [second: number, mebibytes: number][]>(Object.keys(pids).map((name) => [name, []]));
const begun = performance.now();
const secondsSince = () => (performance.now() - begun) / 1_000;
async function sampleMemory(): Promise<void> {
  for (const [name, pid] of Object.entries(pids)) {
    const status = await readFile(`/proc/${pid}/status`, "utf8");
    memory.get(name)?.push([secondsSince(), Number(/VmRSS:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1_024]);
  }
}

async function createBatch(from: number, count: number): Promise<string> {
  const input = Array.from({ length: count }, (_, index) =>
    JSON.stringify({
      ...{ custom_id: `line-${from + index}`, method: "POST", url: "/v1/chat/completions" },
      body: bodyOf(from + index),
    }),
  ).join("\n");
  const file = await client.files.create({ file: await toFile(Buffer.from(input), "in.jsonl"), purpose: "batch" });
  const batch = { input_file_id: file.id, endpoint: "/v1/chat/completions", completion_window: "24h" } as const;
  return (await client.batches.create(batch)).id;
}

const ids: string[] = [];
for (let from = 0; from < lines; from += batchLinesMax)
  ids.push(await createBatch(from, Math.min(batchLinesMax, lines - from)));
const running = new AbortController();
const beside = callersUntil(running.signal);
const started = performance.now();
const open = new Set(ids);
let isStopping = false;
process.once("SIGTERM", () => {
  isStopping = true;
});
while (open.size > 0 && !isStopping) {
  await sampleMemory();
  await delay(1_000);
  for (const id of open) {
    const { status } = await client.batches.retrieve(id);
    if (status === "completed") open.delete(id);
  }
}
const seconds = (performance.now() - started) / 1_000;
running.abort();
const during = await beside;
const batches = await Promise.all(ids.map((id) => client.batches.retrieve(id)));
const sumOf = (kind: "completed" | "failed") =>
  batches.reduce((sum, { request_counts: counts }) => sum + (counts?.[kind] ?? 0), 0);
const completed = sumOf("completed");

const places = Array.from({ length: 20 }, (_, step) => step / 20);
process.stdout.write(
  `${[
    `requests: ${completed} of ${lines} completed, ${sumOf("failed")} failed, in ${ids.length} batches`,
    `batches: ${seconds.toFixed(1)} s, ${(completed / seconds).toFixed(1)} requests/s (BATCH_CONCURRENCY=${concurrency})`,
    `one by one: ${singleRate.toFixed(1)} requests/s`,
    `another caller before: ${describe(before)}`,
    `another caller during: ${describe(during)}`,
    `p99 during to p99 before: ${(shareOf(during, 0.99) / shareOf(before, 0.99)).toFixed(2)}`,
    ...[...memory].map(
      ([name, samples]) =>
        `memory of ${name}: ${places.map((place) => samples[Math.floor(place * samples.length)]?.[1].toFixed(0)).join(" ")}; at most ${Math.max(...samples.map(([, mebibytes]) => mebibytes)).toFixed(0)} MiB`,
    ),
  ].join("\n")}\n`,
);
if (plotFile !== undefined) {
  const title = `Memory of each process during ${lines.toLocaleString("en")} requests, MiB`;
  const curves = [...memory].map(([name, points]) => ({ name, points }));
  await writeFile(plotFile, plotOf({ title, lines: curves, marks: [] }));
}
