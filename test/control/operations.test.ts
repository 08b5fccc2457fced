/**
 * Decisions of operators reach the ingresses and workers: queues, generations and circuit
 * breakers, on a real gateway.
 */
import assert from "node:assert/strict";
import { PassThrough } from "node:stream";
import { after, test } from "node:test";
import { topCommand } from "../../apps/cli/top.ts";
import { startControl } from "../support/control.ts";
import { catalogueOf, startGateway } from "../support/gateway.ts";
import { metricsOf } from "../support/metrics.ts";
import { readStream } from "../support/stream.ts";
import { until, within } from "../support/time.ts";

const catalogue = catalogueOf([
  { id: "fast", model: "sim-text;rate=0;first=0;tokens=4" },
  { id: "slow", model: "sim-text;rate=20;first=0;tokens=4000" },
  { id: "cleared", model: "sim-text;rate=0;first=0;tokens=5" },
  { id: "passed/*", model: "*" },
]);
await using opened = new AsyncDisposableStack();
const gateway = opened.use(await startGateway({ ingresses: 2, workers: ["chat=4"], catalogue }));
const control = opened.use(
  await startControl({
    REDIS_URL: gateway.redis.url,
    SLUICE_CATALOGUE: gateway.catalogueFile,
    SIMULATOR_URL: gateway.simulatorUrl,
  }),
);
const resources = opened.move();
after(() => resources.disposeAsync());

const messages = [{ role: "user", content: "Hello" }];
const ask = (model: string, more: object = {}, request: Parameters<typeof gateway.post>[1] = {}) =>
  gateway.post({ model, messages, ...more }, request);

async function operate(path: string, body?: object, status?: number) {
  const response = await control.call("POST", `/operations/${path}`, body ?? {});
  const text = await response.text();
  if (status === undefined) assert.ok(response.ok, `${path}: ${response.status} ${text}`);
  else assert.equal(response.status, status, text);
  return JSON.parse(text) as Record<string, unknown>;
}

interface State {
  queues: {
    name: string;
    queued: number;
    groups: { group: string; waiting: number }[];
    control: { state: string; reason: string; by: string; until: string | null } | null;
  }[];
  targets: { target: string; state: string; calls: number; firstTokenMs: number | null; control: object | null }[];
  conditions: { kind: string; subject: string | null }[];
}
const state = () => control.get<State>("/operations");
const chat = async () => (await state()).queues.find(({ name }) => name === "chat");

interface Listed {
  items: {
    id: string;
    state: string;
    model: string;
    outputTokens: number | null;
    upstream: string | null;
    worker: string | null;
  }[];
  total: number;
  silent: string[];
}
const generations = (query = "") => control.get<Listed>(`/operations/generations${query}`);

interface Recorded {
  id: string;
  outcome: string;
  errorCode: string | null;
  cost: string;
  tokens: { output: number };
}
const recorded = async (id: string): Promise<Recorded | undefined> => {
  const { items } = await control.get<{ items: Recorded[] }>("/usage/records?limit=500");
  const matches = items.filter((each) => each.id === id);
  assert.ok(matches.length <= 1, "a generation is in the ledger once");
  return matches[0];
};
const generationOf = (response: Response) => (response.headers.get("x-request-id") as string).replace("req_", "gen_");

/** Every ingress obeys within a second. */
const everywhere = (what: string, holds: (response: Response) => boolean) =>
  within(1_500, what, async () => {
    for (const { urls } of gateway.ingresses) {
      const response = await ask("fast", {}, { url: urls.api as string });
      await response.arrayBuffer();
      if (!holds(response)) return false;
    }
    return true;
  });

/** Workers take nothing from the queue. */
const starved = () =>
  within(1_500, "workers take nothing", async () => {
    const response = await ask("fast", {}, { headers: { "x-sluice-max-wait": "200" } });
    await response.arrayBuffer();
    return response.status === 503;
  });

test("a paused queue starts nothing, finishes what runs, and goes on when it is resumed", async () => {
  const running = await ask("slow", { stream: true, max_tokens: 30 });
  await operate("queues/chat/pause", { reason: "the upstream moves" });
  await starved();
  assert.equal((await readStream(running)).done, true);
  const { items } = await control.get<{ items: { action: string; after: { reason: string } }[] }>("/audit");
  assert.equal(items.find(({ action }) => action === "pauseQueue")?.after.reason, "the upstream moves");

  await gateway.addWorker("chat=4");
  await gateway.workers[0]?.stop();
  const waiting = ask("fast");
  await until("the request waits", async () => (await chat())?.queued === 1);
  const paused = await chat();
  assert.deepEqual(paused?.groups, [{ group: "default", waiting: 1 }]);
  assert.equal(paused?.control?.state, "paused");
  assert.equal(paused?.control?.reason, "the upstream moves");
  const expired = await ask("fast", {}, { headers: { "x-sluice-max-wait": "300" } });
  assert.equal(expired.status, 503);
  assert.match(await expired.text(), /paused this model's queue: the upstream moves/);

  await operate("queues/chat/resume");
  const answered = await waiting;
  assert.equal(answered.status, 200);
  await answered.arrayBuffer();
  await until("nothing is decided", async () => (await chat())?.control === null);
});

test("a draining queue refuses new requests in every dialect, with the reason and a true Retry-After, and finishes what it has", async () => {
  const running = await ask("slow", { stream: true, max_tokens: 40 });
  const at = new Date(Date.now() + 90_000).toISOString();
  await operate("queues/chat/drain", { reason: "maintenance", until: at });
  await everywhere("the queue drains", ({ status }) => status === 503);
  const refused = await ask("fast");
  const retryAfter = Number(refused.headers.get("retry-after"));
  assert.ok(retryAfter > 60 && retryAfter <= 90, String(retryAfter));
  const { error } = (await refused.json()) as { error: { message: string; type: string } };
  assert.equal(error.message, "This model accepts no new requests at the moment: maintenance");
  const headers = { authorization: `Bearer ${gateway.key}`, "content-type": "application/json" };
  const anthropic = await fetch(`${gateway.url}/v1/messages`, {
    method: "POST",
    headers,
    body: JSON.stringify({ model: "fast", max_tokens: 10, messages }),
  });
  assert.equal(anthropic.status, 529);
  assert.match(await anthropic.text(), /"type":"overloaded_error","message":"[^"]*: maintenance"/);
  const gemini = await fetch(`${gateway.url}/v1beta/models/fast:generateContent`, {
    method: "POST",
    headers,
    body: JSON.stringify({ contents: [{ role: "user", parts: [{ text: "Hello" }] }] }),
  });
  assert.equal(gemini.status, 503);
  assert.match(await gemini.text(), /: maintenance/);
  const { done, error: failure } = await readStream(running);
  assert.deepEqual([done, failure], [true, undefined]);
  const metrics = await metricsOf(gateway.ingresses[0]);
  assert.match(metrics, /sluice_operator_control\{kind="queue",name="chat",state="draining"\} 1/);
  await operate("queues/chat/resume");
  await everywhere("the queue takes requests again", ({ status }) => status === 200);
  const path = `/usage/records/${refused.headers.get("x-request-id")}`;
  await until("the ledger has the refusal", async () => (await control.call("GET", path)).ok);
  const { outcome, model, queue, dialect } = await control.get<Record<string, unknown>>(path);
  assert.deepEqual([outcome, model, queue, dialect], ["refused", "fast", "chat", "openai-chat"]);
  const { minutes } = await control.get<{ minutes: Record<string, number>[] }>("/operations/last-hour");
  assert.ok(minutes.some(({ refused: count = 0 }) => count > 0));
  assert.ok(minutes.every(({ requests = 0, failed = 0, refused: count = 0 }) => failed + count <= requests));
});

test("a cleared queue ends what waits with the reason, once in the ledger and without cost; its idempotency key is free", async () => {
  await operate("queues/chat/pause", { reason: "stuck" });
  await starved();
  const headers = { "idempotency-key": "cleared-1" };
  const waiting = ask("fast", {}, { headers });
  const streamed = ask("slow", { stream: true });
  await until("both wait", async () => (await generations("?queue=chat")).total === 2);
  assert.deepEqual(
    (await generations("?model=slow")).items.map(({ model, worker }) => [model, worker]),
    [["slow", null]],
  );
  const { ended, silent } = await operate("queues/chat/clear", { reason: "starting over" });
  assert.deepEqual([ended, silent], [2, []]);
  const response = await waiting;
  assert.equal(response.status, 503);
  const { error } = (await response.json()) as { error: { message: string; code: string } };
  assert.equal(error.code, "stopped_by_operator");
  assert.match(error.message, /starting over$/);
  await (await streamed).arrayBuffer();
  await operate("queues/chat/resume");
  const id = generationOf(response);
  await until("the ledger has it", async () => (await recorded(id)) !== undefined);
  const record = await recorded(id);
  assert.deepEqual([record?.errorCode, record?.cost], ["stopped", "0"]);
  const again = await ask("fast", {}, { headers });
  assert.equal(again.status, 200);
  await again.arrayBuffer();
});

test("cleared generations of a caller with limits end once each, and none gets to the workers", async () => {
  const key = await gateway.createKey("default", { limits: { requestsPerMinute: 1_000 } });
  await operate("queues/chat/pause", { reason: "stuck" });
  await starved();
  const lines = async () =>
    (await metricsOf(gateway.ingresses[0]))
      .split("\n")
      .filter((line) => /^sluice_ended_generations_total.*outcome="left"/.test(line));
  const cancellations = await lines();
  const waiting = Array.from({ length: 12 }, () => ask("cleared", {}, { key }));
  await until("all wait", async () => (await generations("?model=cleared")).total === waiting.length);
  assert.equal((await operate("queues/chat/clear", { reason: "starting over" })).ended, waiting.length);
  for (const response of await Promise.all(waiting)) {
    assert.equal(response.status, 503);
    await response.arrayBuffer();
  }
  await operate("queues/chat/resume");
  await everywhere("the queue goes on", ({ status }) => status === 200);
  assert.deepEqual(await lines(), cancellations);
  assert.deepEqual(await gateway.seen("sim-text;rate=0;first=0;tokens=5"), []);
});

test("one generation is listed and stopped: an error event for its caller, the upstream aborted, its tokens in the ledger", async () => {
  const response = await ask("slow", { stream: true });
  const id = generationOf(response);
  const read = readStream(response);
  await until("it has tokens", async () => {
    const { items } = await generations("?model=slow");
    return (items.find((each) => each.id === id)?.outputTokens ?? 0) > 0;
  });
  const [listed] = (await generations()).items;
  assert.deepEqual([listed?.id, listed?.state, listed?.upstream], [id, "running", "simulator"]);
  assert.match(listed?.worker ?? "", /^worker/);
  await operate(`generations/${id}/stop`, { reason: "runs too long" });
  const { error, done } = await read;
  assert.deepEqual([error?.code, done], ["stopped_by_operator", false]);
  assert.match(error?.message ?? "", /runs too long$/);
  await until("the upstream's call is aborted", async () =>
    (await gateway.seen("sim-text;rate=20;first=0;tokens=4000")).every(({ closedAt }) => closedAt !== undefined),
  );
  await until("the ledger has it", async () => (await recorded(id)) !== undefined);
  const record = await recorded(id);
  assert.equal(record?.errorCode, "stopped");
  assert.ok((record?.tokens.output ?? 0) > 0 && Number(record?.cost) > 0);
  assert.equal((await generations()).total, 0);
  await operate(`generations/${id}/stop`, { reason: "again" }, 404);
});

test("several generations are stopped at once, and one that is over is left out", async () => {
  const responses = await Promise.all([1, 2].map(() => ask("slow", { stream: true })));
  const ids = responses.map(generationOf);
  const reads = responses.map((response) => readStream(response));
  await until("both run", async () => (await generations("?model=slow")).total === 2);
  const answer = await operate("generations/stop", { generations: [...ids, "gen_over"], reason: "a loop" });
  assert.deepEqual(answer, { ended: 2, silent: [] });
  for (const { error } of await Promise.all(reads)) assert.match(error?.message ?? "", /a loop$/);
});

test("a circuit breaker that an operator keeps open survives a restart of the worker, and closes at once", async () => {
  const target = encodeURIComponent("simulator/sim-text;rate=0;first=0;tokens=4");
  const shown = async () => (await state()).targets.find((each) => encodeURIComponent(each.target) === target);
  await everywhere("it answers", ({ status }) => status === 200);
  await until("its calls are counted", async () => ((await shown())?.calls ?? 0) > 0);
  await operate(`targets/${target}/open`, { reason: "wrong answers", minutes: 5 });
  await everywhere("it is not called", ({ status }) => status === 503);
  await gateway.addWorker("chat=4");
  await gateway.workers.find(({ hasEnded }) => !hasEnded)?.stop();
  assert.equal((await ask("fast")).status, 503);
  await until("it is shown open", async () => (await shown())?.control !== null);
  assert.equal((await shown())?.state, "open");
  assert.ok((await state()).conditions.some(({ kind }) => kind === "circuitBreakerOpen"));
  await operate(`targets/${target}/close`);
  await everywhere("it is called again", ({ status }) => status === 200);
  await until("it is shown closed", async () => (await shown())?.state === "closed");
});

test("bad input is refused with its field, and unknown names are not found", async () => {
  for (const [path, body, status, field] of [
    ["queues/chat/pause", { reason: "" }, 400, "reason"],
    ["queues/chat/pause", { reason: "x".repeat(101) }, 400, "reason"],
    ["queues/chat/drain", { reason: "x", until: "2020-01-01T00:00:00Z" }, 400, "until"],
    ["queues/chat/drain", { reason: "x", until: "soon" }, 400, "until"],
    ["queues/none/drain", { reason: "x" }, 404, undefined],
    ["queues/none/clear", { reason: "x" }, 404, undefined],
    ["targets/none/open", { reason: "x", minutes: 5 }, 404, undefined],
    ["targets/none/open", { reason: "x", minutes: 0 }, 400, "minutes"],
    ["targets/none/open", { reason: "x", minutes: 1_441 }, 400, "minutes"],
  ] as const)
    assert.equal((await operate(path, body, status)).field, field, `${path} ${JSON.stringify(body)}`);
  assert.equal((await chat())?.control, null);
});

test("an operator closes all models that a wildcard passes through", async () => {
  const target = encodeURIComponent("simulator/*");
  await operate(`targets/${target}/open`, { reason: "wrong answers", minutes: 5 });
  const isRefused = async () => {
    const answer = await gateway.post({ model: "passed/sim-text", messages: [{ role: "user", content: "hello" }] });
    await answer.arrayBuffer();
    return !answer.ok;
  };
  await until("requests are refused", isRefused);
  await operate(`targets/${target}/close`);
  await until("requests are answered", async () => !(await isRefused()));
});

test("sluice top prints the live state", async () => {
  await operate("queues/chat/pause", { reason: "seen in a terminal" });
  await until("it is shown", async () => (await chat())?.control !== null);
  const environment = { SLUICE_CONTROL_URL: control.url, OPERATOR_TOKEN: control.token };
  const [input, output, errors] = [new PassThrough(), new PassThrough(), new PassThrough()];
  assert.equal(await topCommand(["--once"], environment, { input, output, errors }), 0);
  const written = String(output.read());
  assert.equal(errors.read(), null);
  assert.match(written, /^requests \d+\.\d\/s /m);
  assert.match(written, /^chat .+ paused: seen in a terminal$/m);
  assert.match(written, /^simulator\/sim-text;rate=0;first=0;tokens=4 +closed /m);
  assert.match(written, /^control-\w+ +ready /m);
  await operate("queues/chat/resume");
});
