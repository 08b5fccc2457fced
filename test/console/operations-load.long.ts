/**
 * The page on operations with the state of a large gateway: 3 ingresses, 8 workers, 20 queues, 60
 * targets, 5,000 requests per second and 9,000 running generations. The processes are played;
 * Redis, control and the browser are real.
 */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { type GenerationCommand, listenForCommands, type RunningGeneration } from "#service/generation-commands.ts";
import { keyspaceOf } from "#service/keyspace.ts";
import { connectRedis, type Redis } from "#service/redis.ts";
import { buildConsole } from "../../apps/console/build.ts";
import { launchBrowser } from "../support/browser.ts";
import { startControlProcess } from "../support/control.ts";
import { embeddedDirectory } from "../support/embedded.ts";
import { startRedis } from "../support/redis.ts";
import { until } from "../support/time.ts";

const seconds = 30;
const requestsPerSecond = 5_000;
const queues = Array.from({ length: 20 }, (_, index) => `queue-${index}`);
const targets = Array.from({ length: 60 }, (_, index) => `upstream/vendor-model-${index}`);
const ingresses = ["ingress-a", "ingress-b", "ingress-c"];
const workers = Array.from({ length: 8 }, (_, index) => `worker-${index}`);
const keyspace = keyspaceOf("sluice");

const catalogue = `groups: { default: { models: ["*"] } }
upstreams: { upstream: { dialect: openai-chat, baseUrl: "http://127.0.0.1:1" } }
queues: { ${queues.map((name) => `${name}: {}`).join(", ")} }
models:
${targets
  .map(
    (target, index) =>
      `  - { id: model-${index}, queue: ${queues[index % queues.length]}, prices: { inputPerMillion: 1, outputPerMillion: 1 }, route: [{ upstream: upstream, model: ${target.split("/")[1]} }] }`,
  )
  .join("\n")}
`;

test("it stays smooth with the state of a large gateway", async (t) => {
  await using opened = new AsyncDisposableStack();
  const directory = await mkdtemp(join(tmpdir(), "sluice-load-"));
  opened.defer(() => rm(directory, { recursive: true, force: true }));
  const catalogueFile = join(directory, "catalogue.yaml");
  await writeFile(catalogueFile, catalogue);
  const consoleDirectory = join(directory, "console");
  await buildConsole(consoleDirectory);
  const server = opened.use(await startRedis());
  const redis = await connectRedis(server.url, "request");
  opened.defer(() => redis.disconnect());
  const subscriber = await connectRedis(server.url, "patient");
  opened.defer(() => subscriber.disconnect());
  const control = opened.use(
    await startControlProcess({
      REDIS_URL: server.url,
      SLUICE_CATALOGUE: catalogueFile,
      DATABASE_DIRECTORY: await embeddedDirectory(join(directory, "database")),
      CONSOLE_DIRECTORY: consoleDirectory,
    }),
  );
  for (const self of ingresses)
    opened.defer(await listenForCommands({ redis, subscriber, keyspace, self, obey: obeyWith(generationsOf(self)) }));
  const timer = setInterval(() => void report(redis).catch(() => undefined), 1_000);
  opened.defer(() => clearInterval(timer));
  await report(redis);

  const browser = await launchBrowser();
  opened.defer(() => browser.close());
  const context = await browser.newContext({ locale: "en-US", viewport: { width: 1440, height: 1000 } });
  const link = (await (await control.call("POST", "/sign-in-links", {})).json()) as { url: string };
  await context.request.get(link.url);
  const idle = await coresOf(control.role.process.pid as number, 5);
  const page = await context.newPage();
  const bytes: number[] = [];
  page.on("websocket", (socket) => socket.on("framereceived", ({ payload }) => bytes.push(Buffer.byteLength(payload))));
  await page.goto(`${control.url}/operations`);
  await page.getByText("The oldest 100 of 9,000").waitFor();
  await until("the rates are known", async () => bytes.length > 3);
  await browser.startTracing(page, { categories: ["toplevel"] });
  const from = bytes.length;
  const busy = await coresOf(control.role.process.pid as number, seconds);
  const tasks = taskMsOf(await browser.stopTracing());
  const work = tasks.reduce((sum, ms) => sum + ms, 0) / 1_000;
  const updates = bytes.slice(from);
  const perUpdate = Math.max(...updates);
  const cpuMs = ((busy - idle) * seconds * 1_000) / updates.length;
  t.diagnostic(
    `${updates.length} updates in ${seconds} s of at most ${perUpdate} bytes; control: ${cpuMs.toFixed(1)} ms of CPU per update with the list; ` +
      `page: ${((work * 1_000) / updates.length).toFixed(0)} ms of work per update, the longest task ${Math.round(Math.max(...tasks))} ms`,
  );
  assert.ok(updates.length >= seconds * 0.9, "an update every second");
  assert.ok(perUpdate < 64 << 10, `${perUpdate} bytes`);
  assert.ok(Math.max(...tasks) < 100, `a task of ${Math.max(...tasks)} ms`);
  assert.ok(work < seconds * 0.25, `${work} s of work`);
});

interface TraceEvent {
  name: string;
  pid: number;
  tid: number;
  /** The processor's time, in microseconds. */
  tdur?: number;
  args: { name?: string };
}

/** The processor's time of each task of the page's thread, in ms: other programs do not count. */
function taskMsOf(trace: Buffer): number[] {
  const { traceEvents } = JSON.parse(trace.toString()) as { traceEvents: TraceEvent[] };
  const main = traceEvents.filter(({ name, args }) => name === "thread_name" && args.name === "CrRendererMain");
  const isOfPage = ({ pid, tid }: TraceEvent) => main.some((thread) => thread.pid === pid && thread.tid === tid);
  return traceEvents
    .filter((event) => event.name.endsWith("RunTask") && isOfPage(event))
    .map(({ tdur = 0 }) => tdur / 1_000);
}

/** The processor's time that a process uses while this one waits, in cores. */
async function coresOf(pid: number, forSeconds: number): Promise<number> {
  const ticks = () => {
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? [];
    return Number(fields[11]) + Number(fields[12]);
  };
  const [since, at] = [ticks(), performance.now()];
  await delay(forSeconds * 1_000);
  return ((ticks() - since) * 10) / (performance.now() - at);
}

const some = (max: number) => Math.floor(Math.random() * max);

let requests = 0;

async function report(redis: Redis): Promise<void> {
  requests += requestsPerSecond / ingresses.length;
  const counts = { requests, failed: requests / 100, refused: requests / 200, chunks: requests * 50 };
  const now = Date.now();
  const common = { version: "0", host: "host", pid: 1, startedAt: now - 3_600_000, at: now };
  const measured = () => ({ memoryBytes: 3e8 + some(1e8), cores: Math.random(), eventLoopDelayMs: some(9) });
  const fields: Record<string, string> = {};
  for (const id of ingresses) {
    const own = queues.map((queue) => ({
      queue,
      slots: 100,
      waiting: some(50),
      admissionQueueSize: some(20),
      running: 150,
      oldestWaitMs: some(900),
      groups: Array.from({ length: 10 }, (_, index) => ({ group: `group-${index}`, waiting: some(9) })),
      otherGroups: some(5),
    }));
    const status = { role: "ingress", catalogue: "1", generations: 3_000, counts, queues: own };
    fields[id] = JSON.stringify({ ...common, ...measured(), id, role: "ingress", status });
  }
  for (const id of workers) {
    const own = queues.map((queue) => ({ queue, capacity: 80, usedSlots: some(80) }));
    const load = targets.map((target) => ({
      target,
      calls: some(900),
      failed: some(9),
      firstTokens: 500,
      firstTokenMs: 150_000 + some(50_000),
    }));
    const status = {
      role: "worker",
      catalogue: "1",
      queues: own,
      targets: targets.slice(0, 5).map((target) => ({ target, state: "open" })),
      targetLoad: load,
      coolingCredentials: [`${targets[7]}: KEY_A`],
    };
    fields[id] = JSON.stringify({ ...common, ...measured(), id, role: "worker", status });
  }
  await redis.hset(keyspace.processes, fields);
}

const generationsOf = (ingress: string): RunningGeneration[] =>
  Array.from({ length: 3_000 }, (_, index) => ({
    id: `gen_${ingress}${index}`.padEnd(36, "0"),
    requestId: `req_${ingress}${index}`.padEnd(36, "0"),
    position: null,
    expectedSeconds: null,
    keyId: `key_${index % 100}`,
    keyName: `key ${index % 100}`,
    account: "account",
    group: "default",
    model: `model-${index % 60}`,
    queue: queues[index % 20] as string,
    operation: "conversation",
    state: "running",
    since: Date.now() - 60_000 + index,
    isStreamed: true,
    outputTokens: index,
    upstream: "upstream",
    target: `vendor-model-${index % 60}`,
    worker: workers[index % 8] as string,
  }));

const obeyWith = (all: RunningGeneration[]) => (command: GenerationCommand) =>
  command.kind === "list" ? { count: all.length, items: all.slice(0, command.limit) } : { count: 0 };
