import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { appendFile } from "node:fs/promises";
import { join } from "node:path";
import { after, test } from "node:test";
import { connectRedis } from "#service/redis.ts";
import { catalogueOf, startGateway, startRole } from "../support/gateway.ts";
import { metricsOf } from "../support/metrics.ts";
import { sharedPostgres } from "../support/postgres.ts";
import { readStream } from "../support/stream.ts";
import { until } from "../support/time.ts";
import { contentsOf } from "./support.ts";

const root = join(import.meta.dirname, "..", "..");
const gateway = await startGateway({
  workers: [],
  catalogue: catalogueOf([
    { id: "sim", model: "sim-text;rate=200;tokens=20" },
    { id: "failing", model: "sim-text;status=400" },
    { id: "dying", model: "sim-text;reset=3;rate=50" },
    { id: "silent", model: "sim-text;first=60000" },
    { id: "unserved", model: "sim-text", queue: "image" },
  ]),
});
const redis = await connectRedis(gateway.redis.url, "request");
const password = "a password of the operator's";

interface LoggedRole {
  urls: Record<string, string>;
  process: ChildProcess;
  /** Whole lines. */
  log(): string;
}

/** A role as its operator runs it, with everything it can say on stdout. */
async function startLogged(role: string, args: string[], environment: Record<string, string>): Promise<LoggedRole> {
  const child = spawn(process.execPath, [`apps/${role}/main.ts`, ...args], {
    cwd: root,
    env: {
      PATH: process.env.PATH,
      LOG_LEVEL: "trace",
      REDIS_URL: gateway.redis.url,
      SLUICE_CATALOGUE: gateway.catalogueFile,
      SIMULATOR_URL: gateway.simulatorUrl,
      PORT: "0",
      ...environment,
    },
    stdio: ["ignore", "pipe", "pipe", "ipc"],
  });
  let log = "";
  for (const stream of [child.stdout, child.stderr]) stream?.on("data", (chunk: Buffer) => (log += chunk.toString()));
  const [message] = (await once(child, "message")) as [{ urls: Record<string, string> }];
  return { urls: message.urls, process: child, log: () => log.slice(0, log.lastIndexOf("\n") + 1) };
}

const [ingress, worker] = await Promise.all([
  startLogged("ingress", [], { OPERATOR_PASSWORD: password }),
  startLogged("worker", ["--queues", "chat=8"], {}),
]);
after(async () => {
  redis.disconnect();
  for (const role of [ingress, worker]) {
    role.process.kill("SIGKILL");
    await once(role.process, "close");
  }
  await gateway[Symbol.asyncDispose]();
});
const url = ingress.urls.api as string;
const textAt = async (address: string | undefined) => (await fetch(address ?? "")).text();

/** A caller's words, in a request and so in the simulator's answer too. */
const words = "Zanzibarine-Wortlaut-4711";
const messages = [{ role: "user" as const, content: words }];
const requestIds: string[] = [];
let [inputTokens, outputTokens] = [0, 0];

async function ask(body: object, key = gateway.key, query = ""): Promise<{ status: number; text: string }> {
  const response = await fetch(`${url}/v1/chat/completions${query}`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  requestIds.push(response.headers.get("x-request-id") ?? "");
  const { text } = await readStream(response);
  const usage = /"usage":(\{"prompt_tokens":.*?\}\})/.exec(text)?.[1];
  if (usage !== undefined) {
    inputTokens += JSON.parse(usage).prompt_tokens;
    outputTokens += JSON.parse(usage).completion_tokens;
  }
  return { status: response.status, text };
}

let trafficBeganAt = 0;
/** Nothing can have taken longer than that since the traffic began. */
const secondsSince = () => (performance.now() - trafficBeganAt) / 1_000;

test("a port in use is named with the setting of its role", async () => {
  const database = await (await sharedPostgres()).createTables();
  const { port } = new URL(gateway.simulatorUrl);
  const environment = {
    REDIS_URL: gateway.redis.url,
    SLUICE_CATALOGUE: gateway.catalogueFile,
    SIMULATOR_URL: gateway.simulatorUrl,
    DATABASE_URL: database,
    INTERNAL_SECRET: "a secret of ingresses and control in this test",
    ...{ PORT: "0", CONTROL_PORT: "0", CONTROL_INTERNAL_ADDRESS: "127.0.0.1:0" },
  };
  const settings: [role: string, setting: string, value?: string][] = [
    ["ingress", "PORT"],
    ["ingress", "OPERATIONS_PORT"],
    ["worker", "OPERATIONS_PORT"],
    ["control", "CONTROL_PORT"],
    ["control", "CONTROL_INTERNAL_ADDRESS", `127.0.0.1:${port}`],
    ["control", "OPERATIONS_PORT"],
    ["simulator", "SIMULATOR_PORT"],
  ];
  await Promise.all(
    settings.map(([role, setting, value = port]) =>
      assert.rejects(startRole(role, [], { ...environment, [setting]: value }), {
        message: `${role} ended with 78: sluice ${role}: port ${port} on 127.0.0.1 is already in use; set ${setting} to another port\n`,
      }),
    ),
  );
});

test("traffic of every kind", async () => {
  trafficBeganAt = performance.now();
  const stream_options = { include_usage: true };
  const answers = await Promise.all([
    ask({ model: "sim", messages }),
    ask({ model: "sim", messages, stream: true, stream_options }),
    ask({ model: "sim", messages, stream: true, stream_options }, gateway.key, `?key=${gateway.key}`),
    ask({ model: "failing", messages }),
    ask({ model: "dying", messages, stream: true }),
    ask({ model: words, messages }),
    ask({ model: "sim", messages: words }),
    ask({ model: "sim", messages }, gateway.key.slice(0, -1)),
  ]);
  assert.deepEqual(
    answers.map(({ status }) => status),
    [200, 200, 200, 400, 200, 404, 400, 401],
  );
  assert.ok(answers[0]?.text.includes(words));
  const controller = new AbortController();
  const leaving = gateway
    .post({ model: "silent", messages, stream: true }, { url, signal: controller.signal })
    .catch(() => undefined);
  await until("the upstream was asked", async () => (await gateway.seen("sim-text;first=60000")).length === 1);
  controller.abort();
  await leaving;
});

test("every process reports that it is alive and ready", async () => {
  for (const role of [ingress, worker]) {
    assert.equal(await textAt(`${role.urls.operations}/healthz`), '{"status":"ok"}');
    assert.equal(await textAt(`${role.urls.operations}/readyz`), '{"status":"ready"}');
  }
});

const numberIn = (metrics: string, series: string): number => {
  const line = metrics.split("\n").find((candidate) => candidate.startsWith(`${series} `));
  assert.ok(line, `there is no ${series}`);
  return Number(line.slice(series.length));
};

test("an ingress reports its metrics in Prometheus' format", async () => {
  const response = await fetch(`${ingress.urls.operations}/metrics`);
  assert.match(response.headers.get("content-type") ?? "", /^text\/plain; version=0\.0\.4/);
  const path = 'path="/v1/chat/completions"';
  const settled = [
    'sluice_ended_generations_total{queue="chat",outcome="left"} 1',
    `sluice_request_seconds_count{${path}} 9`,
    'sluice_queue_jobs{queue="chat",state="active"} 0',
    "sluice_bodies_bytes 0",
  ];
  let metrics = "";
  await until("all are counted, and their jobs taken off the queue", async () => {
    metrics = await metricsOf(ingress);
    return settled.every((line) => metrics.includes(`\n${line}\n`));
  });
  const number = (series: string) => numberIn(metrics, series);
  assert.equal(number(`sluice_requests_total{${path},status="200"}`), 4);
  assert.equal(number(`sluice_requests_total{${path},status="400"}`), 2);
  assert.equal(number(`sluice_requests_total{${path},status="401"}`), 1);
  assert.equal(number(`sluice_requests_total{${path},status="404"}`), 1);
  assert.equal(number(`sluice_requests_total{${path},status="499"}`), 1);
  assert.equal(number(`sluice_request_seconds_count{${path}}`), 9);
  for (const code of ["upstream_failed", "model_not_found", "invalid_key"])
    assert.equal(number(`sluice_errors_total{code="${code}"}`), 1);
  assert.equal(number('sluice_errors_total{code="invalid_request"}'), 2);
  for (const queue of ["chat", "image"]) {
    for (const state of ["waiting", "running"])
      assert.equal(number(`sluice_generations{queue="${queue}",state="${state}"}`), 0);
    for (const state of ["waiting", "active"])
      assert.equal(number(`sluice_queue_jobs{queue="${queue}",state="${state}"}`), 0);
    assert.equal(number(`sluice_oldest_wait_seconds{queue="${queue}"}`), 0);
  }
  assert.equal(number('sluice_first_token_seconds_count{queue="chat"}'), 4);
  // A busy process sends several chunks together.
  assert.ok(number('sluice_gap_seconds_count{queue="chat"}') > 3);
  assert.ok(number('sluice_gap_seconds_sum{queue="chat"}') < 3 * secondsSince());
  assert.ok(number("sluice_frames_received_total") > 12);
  assert.ok(number("sluice_frames_sent_total") > 0);
  assert.equal(number("sluice_publish_failures_total"), 0);
  assert.ok(
    number("sluice_redis_round_trip_seconds") > 0 && number("sluice_redis_round_trip_seconds") < secondsSince(),
  );
  assert.equal(number("sluice_relay_connected"), 1);
  assert.equal(number("sluice_keys"), 1);
  assert.equal(number("sluice_bodies_bytes"), 0);
  assert.ok(number("nodejs_eventloop_lag_p99_seconds") > 0);
  assert.ok(number("process_resident_memory_bytes") > 1e7);
});

test("a worker reports its metrics, and its token counts equal the callers'", async () => {
  await until(
    "all is over",
    async () => numberIn(await metricsOf(worker), 'sluice_worker_generations{queue="chat"}') === 0,
  );
  const metrics = await metricsOf(worker);
  const number = (series: string) => numberIn(metrics, series);
  assert.equal(number('sluice_worker_capacity{queue="chat"}'), 8);
  assert.equal(number('sluice_queue_wait_seconds_count{queue="chat"}'), 6);
  assert.ok(number('sluice_queue_wait_seconds_sum{queue="chat"}') < 6 * secondsSince());
  assert.equal(number('sluice_upstream_first_token_seconds_count{upstream="simulator"}'), 4);
  // A busy process reads several chunks together.
  assert.ok(number('sluice_upstream_gap_seconds_count{upstream="simulator"}') > 3);
  assert.ok(inputTokens > 0 && outputTokens === 60);
  assert.equal(number('sluice_tokens_total{model="sim",kind="input"}'), inputTokens);
  assert.equal(number('sluice_tokens_total{model="sim",kind="output"}'), outputTokens);
  assert.equal(number('sluice_upstream_errors_total{upstream="simulator",code="invalid_request",status="400"}'), 1);
  assert.equal(number('sluice_upstream_errors_total{upstream="simulator",code="upstream_failed",status="200"}'), 1);
  assert.equal(number('sluice_worker_generations_total{queue="chat",outcome="cancelled"}'), 1);
  assert.equal(number('sluice_worker_generations_total{queue="chat",outcome="done"}'), 3);
  assert.equal(number('sluice_worker_generations_total{queue="chat",outcome="failed"}'), 2);
  assert.ok(number("sluice_frames_resent_total") >= 0);
  assert.ok(number("sluice_frames_sent_total") > 12);
});

test("logs are JSON lines, one for each answer with the request id that its caller got", async () => {
  const lines = () =>
    ingress
      .log()
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as Record<string, unknown>);
  await until("every request is logged", () =>
    requestIds.every((id) => lines().some(({ requestId }) => requestId === id)),
  );
  const answered = lines().filter(({ msg }) => msg === "request");
  for (const { status, method, path, durationMs, role } of answered) {
    assert.ok(Number(status) >= 200 && Number(durationMs) >= 0);
    assert.deepEqual([method, path, role], ["POST", "/v1/chat/completions", "ingress"]);
  }
  const workerLines = worker
    .log()
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Record<string, unknown>);
  for (const { role } of workerLines) assert.equal(role, "worker");
  const failedCalls = workerLines.filter(({ next }) => next !== undefined);
  assert.deepEqual(failedCalls.map(({ level, failure, next }) => [level, failure, next]).sort(), [
    [30, "invalid_request", "failure"],
    [30, "upstream_failed", "failure"],
  ]);
  for (const { requestId, target } of failedCalls) {
    assert.ok(requestIds.includes(String(requestId)));
    assert.match(String(target), /^simulator\//);
  }
});

test("no key and no content of a caller is in any log, in any metric, or left in Redis", async () => {
  await until("Redis holds nothing", async () => !(await contentsOf(redis)).includes(words));
  const places = {
    ingress: ingress.log(),
    worker: worker.log(),
    "an ingress's metrics": await metricsOf(ingress),
    "a worker's metrics": await metricsOf(worker),
    Redis: await contentsOf(redis),
  };
  const secret = gateway.key.slice("sk-sluice-".length, -6);
  for (const [name, text] of Object.entries(places)) {
    assert.ok(text.length > 100, name);
    assert.ok(!text.includes(secret), `a key is in ${name}`);
    assert.ok(!text.includes(words), `a caller's words are in ${name}`);
    assert.ok(!text.includes(password), `a password is in ${name}`);
  }
});

test("jobs cannot be inspected unless the operator set a password", async () => {
  for (const path of ["/queues", "/queues/", "/queues/api/queues"])
    assert.equal((await fetch(`${gateway.ingresses[0]?.urls.operations}${path}`)).status, 404);
  for (const path of ["/healthz", "/metrics", "/queues"])
    assert.equal((await fetch(`${url}${path}`)).status, 401, "nothing of it is on the callers' port");
});

test("with a password jobs can be inspected but not changed, and callers' content is not shown", async () => {
  const operations = ingress.urls.operations as string;
  const ask = (path: string, secret?: string, method = "GET") =>
    fetch(`${operations}${path}`, {
      method,
      ...(secret !== undefined && {
        headers: { authorization: `Basic ${Buffer.from(`operator:${secret}`).toString("base64")}` },
      }),
    });
  for (const path of ["/queues", "/queues/", "/queues/api/queues", "/queues/static/none"]) {
    for (const secret of [undefined, "", "wrong", `${password} `]) {
      const refused = await ask(path, secret);
      assert.equal(refused.status, 401, `${path} with ${secret}`);
      await refused.arrayBuffer();
    }
  }
  assert.match((await ask("/queues")).headers.get("www-authenticate") ?? "", /^Basic realm/);
  for (const path of ["/queues", "/queues/api/queues"]) {
    const { headers } = await ask(path, password);
    assert.match(headers.get("content-security-policy") ?? "", /^default-src 'self'.*frame-ancestors 'none'/);
  }
  const board = await ask("/queues", password);
  assert.equal(board.status, 200);
  assert.match(await board.text(), /<html/i);
  await appendFile(gateway.catalogueFile, "queues: { added: {} }\n");
  await until("a queue that is new is shown", async () =>
    (await (await ask("/queues/api/queues", password)).text()).includes('"name":"added"'),
  );

  const controller = new AbortController();
  const waiting = gateway
    .post({ model: "unserved", messages }, { url, signal: controller.signal })
    .catch(() => undefined);
  const listing = "/queues/api/queues?activeQueue=image&status=prioritized&page=1";
  let shown = "";
  await until("the job waits", async () => {
    shown = await (await ask(listing, password)).text();
    return shown.includes('"model":"unserved"');
  });
  assert.match(shown, /characters, not shown/);
  const jobId = /"id":"(gen_[^"]+)"/.exec(shown)?.[1] ?? "";
  const one = await (await ask(`/queues/api/queues/image/${jobId}`, password)).text();
  assert.match(one, /characters, not shown/);
  for (const text of [shown, one]) assert.ok(!text.includes(words) && !text.includes(gateway.key));
  for (const [method, action] of [
    ["PUT", "clean"],
    ["PUT", "promote"],
    ["PUT", "retry"],
    ["PATCH", "update-data"],
  ] as const)
    assert.notEqual((await ask(`/queues/api/queues/image/${jobId}/${action}`, password, method)).status, 200, action);
  assert.notEqual((await ask("/queues/api/queues/image/pause", password, "PUT")).status, 200);
  assert.match(await (await ask(listing, password)).text(), /characters, not shown/);
  controller.abort();
  await waiting;
});

test("who guesses the password of the inspection waits, and others do not", async () => {
  const board = new URL("/queues", ingress.urls.operations as string);
  const ask = async (secret: string) => {
    const authorization = `Basic ${Buffer.from(`operator:${secret}`).toString("base64")}`;
    const response = await fetch(board, { headers: { authorization } });
    await response.arrayBuffer();
    return response;
  };
  for (let times = 0; times < 30; times++) assert.equal((await ask(password)).status, 200);
  const statuses: number[] = [];
  for (let times = 0; times < 25; times++) statuses.push((await ask("wrong")).status);
  assert.deepEqual([statuses.at(0), statuses.at(-1)], [401, 429]);
  const refused = await ask(password);
  assert.equal(refused.status, 429);
  assert.ok(Number(refused.headers.get("retry-after")) > 0);
});
