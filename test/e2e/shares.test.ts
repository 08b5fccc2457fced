/**
 * Shared capacities of an ingress: a key that takes its maximum leaves a share to every other, and
 * all of it is released.
 */
import assert from "node:assert/strict";
import { connect } from "node:net";
import { after, test } from "node:test";
import { type Role, startGateway } from "../support/gateway.ts";
import { metricsOf } from "../support/metrics.ts";
import { until } from "../support/time.ts";
import { chatCompletion, jsonAnswer, startScriptedUpstream } from "../support/upstream.ts";
import { Bare, socketCatalogue } from "./socket-support.ts";
import { modelLine } from "./support.ts";

const upstream = await startScriptedUpstream();
/** The words of the upstream's requests, in order. */
const arrived: string[] = [];
const waiting: (() => void)[] = [];
upstream.answerWith((response, { json }) => {
  arrived.push(json.messages[0].content);
  waiting.push(() => jsonAnswer(chatCompletion)(response));
});
const answerNext = () => waiting.shift()?.();

const silent = "sim-text;first=60000";
const brief = "sim-text;rate=0;first=500";
const gateway = await startGateway({
  workers: ["chat=64,narrow=1"],
  catalogue: socketCatalogue(
    { sim: "sim-text;rate=0;first=0", silent, brief },
    `  scripted: { dialect: openai-chat, circuitBreakerFailuresMax: 0, baseUrl: "${upstream.url}" }\n`,
    modelLine({ id: "narrow", model: "theirs", upstream: "scripted", queue: "narrow" }),
  ).replace(
    "models:\n",
    "queues:\n  chat: { waitingMax: 1000 }\n  narrow: { waitingMax: 10, waitMs: 60000 }\nmodels:\n",
  ),
  environment: { UPLOAD_GRACE_MS: "60000" },
});
after(async () => {
  for (const answer of waiting) answer();
  await gateway[Symbol.asyncDispose]();
  await upstream[Symbol.asyncDispose]();
});
const [bodies, few, kept] = (await Promise.all([
  gateway.addIngress({ BODIES_BYTES_MAX: String(4 << 20), BODY_BYTES_MAX: String(1 << 20) }),
  gateway.addIngress({ GENERATIONS_MAX: "10", SOCKETS_MAX: "10" }),
  gateway.addIngress({ KEPT_BYTES_MAX: "100000" }),
])) as [Role, Role, Role];
const apiOf = ({ urls }: Role) => urls.api as string;
const [greedy, other] = [gateway.key, await gateway.createKey("default")];

const numberOf = async (role: Role, name: string) =>
  Number(new RegExp(`^${name.replace(/[{}"]/g, "\\$&")} (\\S+)$`, "m").exec(await metricsOf(role))?.[1] ?? Number.NaN);
const usedOf = (role: Role, limit: string, queue = "") =>
  numberOf(role, `sluice_capacity_used{limit="${limit}",queue="${queue}"}`);
const refusalsOf = (role: Role, limit: string) =>
  numberOf(role, `sluice_limit_refusals_total{limit="${limit}",scope="key"}`);
const saying = (content: string, model = "sim") => ({ model, messages: [{ role: "user", content }] });
const errorOf = async (response: Response) =>
  ((await response.json()) as { error: { code: string; message: string } }).error;

/** A sender on a connection of its own, which sends what it is told to and no more. */
class Sender implements Disposable {
  text = "";
  closed = false;
  readonly #socket;

  constructor(role: Role, key: string, lines: string[], path = "/v1/chat/completions") {
    const { hostname, port } = new URL(apiOf(role));
    this.#socket = connect({ port: Number(port), host: hostname, allowHalfOpen: true });
    this.#socket.on("data", (chunk) => {
      this.text += chunk.toString("latin1");
    });
    this.#socket.on("error", () => undefined);
    this.#socket.on("close", () => {
      this.closed = true;
    });
    this.send(
      `${[`POST ${path} HTTP/1.1`, "Host: x", `Authorization: Bearer ${key}`, "Content-Type: application/json", ...lines].join("\r\n")}\r\n\r\n`,
    );
  }

  get status(): number {
    return Number(/^HTTP\/1.1 (\d+)/.exec(this.text.replace("HTTP/1.1 100 Continue\r\n\r\n", ""))?.[1] ?? 0);
  }

  send(bytes: string): void {
    this.#socket.write(bytes);
  }

  [Symbol.dispose](): void {
    this.#socket.destroy();
  }
}

test("stalled senders of one key leave memory for small and large requests of another", async () => {
  const announced = 500_000;
  const senders = Array.from(
    { length: 17 },
    () => new Sender(bodies, greedy, [`Content-Length: ${announced}`, "Expect: 100-continue"]),
  );
  await until("all were heard", () => senders.every(({ text }) => text !== ""));
  for (const sender of senders) if (sender.status === 0) sender.send("{".padEnd(announced / 4));
  const stalled = () => senders.filter(({ status }) => status === 0).length;
  await until(
    "what is not refused has arrived",
    async () => (await numberOf(bodies, "sluice_bodies_bytes")) === stalled() * announced,
  );
  const refused = senders.find(({ status }) => status !== 0);
  assert.match(
    refused?.text ?? "",
    /^(HTTP\/1.1 100 Continue\r\n\r\n)?HTTP\/1.1 503 [\s\S]*retry-after: 1\r\n[\s\S]*This API key/,
  );
  for (const size of [10, 60_000, 300_000]) {
    const response = await gateway.post(saying("x".repeat(size)), { key: other, url: apiOf(bodies) });
    assert.equal(response.status, 200, `${size}: ${await response.text()}`);
  }
  assert.ok((await refusalsOf(bodies, "bodies")) > 0);
  for (const sender of senders) sender[Symbol.dispose]();
  await until("nothing is held", async () => (await usedOf(bodies, "bodies")) === 0);
});

test("stalled large bodies of many keys leave memory for small ones", async () => {
  const keys = await Promise.all(Array.from({ length: 6 }, () => gateway.createKey("default")));
  const announced = 400_000;
  const senders = keys.flatMap((key) =>
    Array.from({ length: 8 }, () => new Sender(bodies, key, [`Content-Length: ${announced}`, "Expect: 100-continue"])),
  );
  await until("all were heard", () => senders.every(({ text }) => text !== ""));
  for (const sender of senders) if (sender.status === 0) sender.send("{".padEnd(announced / 4));
  const stalled = () => senders.filter(({ status }) => status === 0).length;
  await until(
    "what is not refused has arrived",
    async () => (await numberOf(bodies, "sluice_bodies_bytes")) === stalled() * announced,
  );
  assert.ok(stalled() >= 6, `${stalled()} were taken`);
  for (const key of [other, greedy]) {
    const response = await gateway.post(saying("x".repeat(50_000)), { key, url: apiOf(bodies) });
    assert.equal(response.status, 200, await response.text());
  }
  for (const sender of senders) sender[Symbol.dispose]();
  await until("nothing is held", async () => (await usedOf(bodies, "bodies")) === 0);
});

test("one key that fills a queue is refused before another, which is queued and answered in turn", async () => {
  const answers: Promise<Response>[] = [];
  const statuses: number[] = [];
  const ask = (key: string, words: string) => {
    const answer = gateway.post(saying(words, "narrow"), { key });
    answers.push(answer);
    void answer.then(({ status }) => statuses.push(status));
    return answer;
  };
  ask(greedy, "running");
  await until("one runs", () => arrived.length === 1);
  const responses = Array.from({ length: 20 }, () => ask(greedy, "waiting"));
  await until("the others are refused", () => statuses.length === 12);
  const refused = (await Promise.race(responses)) as Response;
  assert.equal(refused.status, 503);
  assert.match(refused.headers.get("retry-after") ?? "", /^\d+$/);
  const { code, message } = await errorOf(refused);
  assert.equal(code, "server_is_overloaded");
  assert.match(message, /^This API key .*wait/);
  ask(other, "another's");
  const ingress = gateway.ingresses[0] as Role;
  // The queue is full for everybody else, but a key that has nothing in it has a place of its own.
  for (const key of await Promise.all([1, 2, 3].map(() => gateway.createKey("default")))) ask(key, "last");
  await until("they wait", async () => (await usedOf(ingress, "waiting", "narrow")) === 12);
  assert.equal(await refusalsOf(ingress, "waiting"), 12);
  for (let count = 2; count <= 13; count++) {
    answerNext();
    await until("the next one is asked", () => arrived.length === count);
  }
  answerNext();
  await Promise.all(answers);
  assert.deepEqual([...new Set(statuses)].toSorted(), [200, 503]);
  assert.equal(statuses.filter((status) => status === 200).length, 13);
  assert.ok(arrived.indexOf("another's") <= 3, String(arrived));
  assert.equal(await usedOf(ingress, "waiting", "narrow"), 0);
});

test("one key with its maximum of generations leaves some to others", async () => {
  const controller = new AbortController();
  const responses = Array.from({ length: 8 }, () =>
    gateway
      .post({ ...saying("x", "silent"), stream: true }, { url: apiOf(few), signal: controller.signal })
      .catch(() => undefined),
  );
  await until("all are under way", async () => (await usedOf(few, "generations")) === 8);
  const refused = await gateway.post(saying("x"), { url: apiOf(few) });
  assert.equal(refused.status, 503);
  assert.match((await errorOf(refused)).message, /^This API key .*running requests/);
  assert.equal(await refusalsOf(few, "generations"), 1);
  const response = await gateway.post(saying("x"), { url: apiOf(few), key: other });
  assert.equal(response.status, 200, await response.text());
  controller.abort();
  await Promise.all(responses);
  await until("none is left", async () => (await usedOf(few, "generations")) === 0);
});

test("requests that wait for another's answer by Idempotency-Key count among their key's generations", async () => {
  const statuses: number[] = [];
  const responses = Array.from({ length: 20 }, async () => {
    const { status } = await gateway.post(saying("once", "narrow"), {
      url: apiOf(few),
      headers: { "idempotency-key": "one" },
    });
    statuses.push(status);
  });
  await until(
    "those above the share are refused",
    async () => statuses.length === 12 && (await usedOf(few, "generations")) === 8,
  );
  const response = await gateway.post(saying("x"), {
    url: apiOf(few),
    key: other,
    headers: { "idempotency-key": "one" },
  });
  assert.equal(response.status, 200, await response.text());
  await until("it runs", () => arrived.includes("once"));
  answerNext();
  await Promise.all(responses);
  assert.deepEqual(statuses, [...Array.from({ length: 12 }, () => 503), ...Array.from({ length: 8 }, () => 200)]);
});

test("one key with its maximum of WebSockets leaves some to others", async () => {
  const sockets = await Promise.all(Array.from({ length: 8 }, () => Bare.open(apiOf(few), greedy)));
  const { response, body } = await Bare.open(apiOf(few), greedy).then(
    () => assert.fail("it was opened"),
    (reason: { response: { statusCode: number }; body: string }) => reason,
  );
  assert.equal(response.statusCode, 503);
  assert.match(JSON.parse(body).error.message, /^This API key .*WebSockets/);
  assert.equal(await refusalsOf(few, "websockets"), 1);
  {
    using opened = await Bare.open(apiOf(few), other);
    assert.equal((await opened.turn({ model: "sim", input: "x" })).type, "response.completed");
  }
  for (const socket of sockets) socket[Symbol.dispose]();
  await until("there is room again", async () => (await usedOf(few, "websockets")) === 0);
});

test("one key whose conversations fill their memory leaves some to another", async () => {
  const open = (key: string) => Bare.open(apiOf(kept), key);
  const [one, two, three] = [await open(greedy), await open(greedy), await open(other)];
  const goesOn = async (socket: Bare, size: number) => {
    const { response } = await socket.turn({ model: "sim", store: false, input: "x".repeat(size) });
    return (
      (await socket.turn({ model: "sim", input: "On.", previous_response_id: response.id })).type ===
      "response.completed"
    );
  };
  assert.deepEqual(
    [await goesOn(one, 70_000), await goesOn(two, 20_000), await goesOn(three, 10_000)],
    [true, false, true],
  );
  for (const socket of [one, two, three]) socket[Symbol.dispose]();
  await until("nothing is kept", async () => (await usedOf(kept, "conversations")) === 0);
});

test("however requests and WebSockets end, all capacity of their key is released", async () => {
  const url = apiOf(few);
  const options = { url, key: other };
  const post = (body: object | string, more: object = {}) =>
    gateway.post(body, { ...options, ...more }).then((response) => response.text());
  const aborted = async (body: object, model = silent, more: object = {}) => {
    const controller = new AbortController();
    const before = (await gateway.seen(model)).length;
    const response = gateway.post(body, { ...options, ...more, signal: controller.signal }).catch(() => undefined);
    await until("it runs", async () => (await gateway.seen(model)).length > before);
    controller.abort();
    await response;
  };
  const large = "x".repeat(200_000);
  await post(saying("finished"));
  await post(saying(large));
  await post(saying("stored"), { headers: { "idempotency-key": "two" } });
  await post(saying("stored"), { headers: { "idempotency-key": "two" } });
  await post(saying("another"), { headers: { "idempotency-key": "two" } });
  await post(`{${large}`);
  await post({ model: "unknown", messages: [] });
  await post(saying(large, "unknown"), { headers: { "idempotency-key": "three" } });
  await post(saying("timed out", "narrow"), { headers: { "x-sluice-max-wait": "1" } });
  await aborted(saying("x", "silent"));
  await aborted({ ...saying(large, "silent"), stream: true });
  await aborted(saying("x", "brief"), brief, { headers: { "idempotency-key": "four" } });
  using left = new Sender(few, other, ["Content-Length: 300000"]);
  left.send(`{"messages":"${large}`);
  using chunked = new Sender(few, other, ["Transfer-Encoding: chunked"]);
  chunked.send("ffff\r\n{");
  await until("some of it is held", async () => (await usedOf(few, "bodies")) > 200_000);
  left[Symbol.dispose]();
  chunked[Symbol.dispose]();
  using socket = await Bare.open(url, other);
  await socket.turn({ model: "sim", input: "x" });
  await socket.turn({ model: "sim", input: large });
  await socket.turn({ model: "unknown", input: "x" });
  await socket.turn({ model: 1, input: large });
  socket.create({ model: "silent", input: "x" });
  socket.socket.send("x".repeat(50_000), { fin: false });
  await until("a turn runs", async () => (await gateway.seen(silent)).at(-1)?.outcome === "running");
  using broken = await Bare.open(url, other);
  broken.send("{");
  await broken.until("error");
  broken.create({ model: "sim", input: large });
  socket.socket.terminate();
  broken.socket.terminate();
  for (const role of gateway.ingresses)
    await until("all is given back", async () =>
      [...(await metricsOf(role)).matchAll(/^sluice_capacity_used\{.*\} (\S+)$/gm)].every(([, used]) => used === "0"),
    );
  const limits = new Set(
    [...(await metricsOf(few)).matchAll(/^sluice_capacity_used\{limit="(\w+)"/gm)].map(([, limit]) => limit),
  );
  assert.deepEqual([...limits].toSorted(), [
    "answers",
    "bodies",
    "conversations",
    "files",
    "followers",
    "generations",
    "recorded",
    "waiting",
    "websockets",
  ]);
});
