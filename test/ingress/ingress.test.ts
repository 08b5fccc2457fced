import assert from "node:assert/strict";
import { after, test } from "node:test";
import { pino } from "pino";
import type { IngressEvents } from "#events/ingress-events.ts";
import { catalogueOf, startGateway } from "../support/gateway.ts";
import { brokenTextOf } from "../support/stream.ts";
import { until } from "../support/time.ts";
import { createTestIngress, environmentOf, startTestIngress, type TestIngress } from "./support.ts";

const gateway = await startGateway({
  ingresses: 0,
  workers: ["chat=8"],
  catalogue: catalogueOf([
    { id: "short", model: "sim-text;rate=0;first=0;tokens=5" },
    { id: "endless", model: "sim-text;rate=20;tokens=100000" },
    { id: "unserved", model: "sim-text", queue: "image" },
    { id: "silent", model: "sim-text;first=60000", queue: "image" },
  ]),
});
after(() => gateway[Symbol.asyncDispose]());
const environment = environmentOf(gateway);
const messages = [{ role: "user", content: "hello" }];

const kindsOf = ({ events }: TestIngress) => events.map(({ kind }) => kind);
const eventOf = <Kind extends keyof IngressEvents>({ events }: TestIngress, kind: Kind): IngressEvents[Kind] =>
  events.find((event) => event.kind === kind)?.event as IngressEvents[Kind];
const metricsOf = async ({ operations }: TestIngress) => (await fetch(`${operations}/metrics`)).text();
const lineOf = ({ lines }: TestIngress, message: string) => lines.find(({ msg }) => msg === message);

test("a streamed generation emits its events in the order of its path, and ends once", async () => {
  await using ingress = await startTestIngress(environment);
  const response = await gateway.post({ model: "short", messages, stream: true }, { url: ingress.api });
  assert.match(await response.text(), /data: \[DONE\]/);
  await until("the request has ended", () => kindsOf(ingress).includes("requestEnded"));
  assert.deepEqual(
    kindsOf(ingress).filter((kind, index, all) => kind !== all[index - 1]),
    [
      "received",
      "admitted",
      "queued",
      "dispatched",
      "bound",
      "answering",
      "firstContent",
      "chunk",
      "ended",
      "requestEnded",
    ],
  );
  const { generation, outcome, status, modelAnswered, bill } = eventOf(ingress, "ended");
  assert.deepEqual([outcome, status, modelAnswered, generation.queue], ["complete", 200, "short", "chat"]);
  assert.ok((bill?.usage.outputTokens ?? 0) > 0);
  assert.equal(generation.requestId, response.headers.get("x-request-id"));
  for (const { kind, event } of ingress.events)
    if ("generation" in event) assert.equal(event.generation, generation, `${kind} carries the same facts`);
  assert.equal(eventOf(ingress, "requestEnded").outcome, "generation");
  const line = lineOf(ingress, "generation");
  assert.deepEqual([line?.outcome, line?.generation, line?.stream], ["complete", generation.generationId, true]);
  assert.match(await metricsOf(ingress), /^sluice_first_token_seconds_count\{queue="chat"\} 1$/m);
});

test("a caller that leaves a stream ends its generation with the outcome left", async () => {
  await using ingress = await startTestIngress(environment);
  const leaving = new AbortController();
  const response = await gateway.post(
    { model: "endless", messages, stream: true },
    { url: ingress.api, signal: leaving.signal },
  );
  await response.body?.getReader().read();
  leaving.abort();
  await until("the generation has ended", () => kindsOf(ingress).includes("ended"));
  const { outcome, bill } = eventOf(ingress, "ended");
  assert.equal(outcome, "left");
  assert.equal(bill?.usage.isEstimated, true);
  assert.match(await metricsOf(ingress), /^sluice_ended_generations_total\{queue="chat",outcome="left"\} 1$/m);
  await until("no generation is left", async () => {
    const status = (await (await fetch(`${ingress.operations}/status`)).json()) as { generations: number };
    return status.generations === 0;
  });
});

test("a generation that no worker takes in time ends before it is bound", async () => {
  await using ingress = await startTestIngress(environment);
  const response = await gateway.post(
    { model: "unserved", messages },
    { url: ingress.api, headers: { "x-sluice-max-wait": "50" } },
  );
  assert.equal(response.status, 503);
  const ended = eventOf(ingress, "ended");
  assert.deepEqual([ended.outcome, ended.waitedMs, ended.bill], ["overloaded", undefined, undefined]);
  assert.ok(!kindsOf(ingress).includes("bound"));
  assert.match(await metricsOf(ingress), /^sluice_errors_total\{code="overloaded"\} 1$/m);
});

test("two ingresses in one process keep their configurations, events and metrics apart", async () => {
  await using small = await startTestIngress({ ...environment, BODY_BYTES_MAX: "1024" });
  await using large = await startTestIngress(environment);
  const body = { model: "short", messages: [{ role: "user", content: "x".repeat(2_000) }] };
  const statuses = await Promise.all(
    [small, large].map(async ({ api }) => (await gateway.post(body, { url: api })).status),
  );
  assert.deepEqual(statuses, [413, 200]);
  await until("both requests have ended", () =>
    [small, large].every((ingress) => kindsOf(ingress).includes("requestEnded")),
  );
  assert.deepEqual(kindsOf(small), ["requestRefused", "requestEnded"]);
  assert.deepEqual([eventOf(small, "requestEnded").outcome, lineOf(small, "request")?.status], ["answered", 413]);
  assert.match(await metricsOf(small), /^sluice_errors_total\{code="body_too_large"\} 1$/m);
  assert.match(await metricsOf(large), /^sluice_errors_total\{code="body_too_large"\} 0$/m);
});

test("drain refuses new connections and lets a running generation finish; close then has nothing to fail", async () => {
  const ingress = await startTestIngress(environment);
  const response = await gateway.post({ model: "short", messages, stream: true }, { url: ingress.api });
  const drained = ingress.ingress.drain();
  assert.equal((await fetch(`${ingress.operations}/readyz`)).status, 503);
  assert.match(await response.text(), /data: \[DONE\]/);
  await drained;
  await assert.rejects(gateway.post({ model: "short", messages }, { url: ingress.api }));
  await ingress.ingress.close();
  assert.equal(eventOf(ingress, "ended").outcome, "complete");
});

test("close fails a running generation in the caller's dialect", async () => {
  const ingress = await startTestIngress(environment);
  const response = await gateway.post({ model: "endless", messages, stream: true }, { url: ingress.api });
  const text = brokenTextOf(response);
  await until("content has arrived", () => kindsOf(ingress).includes("firstContent"));
  await ingress.ingress.close();
  assert.match(await text, /"message":"The gateway is stopping; send the request again\."/);
  assert.equal(eventOf(ingress, "ended").outcome, "unavailable");
});

test("a generation whose worker is lost before content is dispatched again, with the next attempt", async () => {
  await using ingress = await startTestIngress(environment);
  const lost = await gateway.addWorker("image=1");
  const leaving = new AbortController();
  const response = gateway
    .post({ model: "silent", messages, stream: true }, { url: ingress.api, signal: leaving.signal })
    .catch(() => undefined);
  await until("the first attempt is bound", () => kindsOf(ingress).includes("bound"));
  await lost.kill();
  await gateway.addWorker("image=1");
  await until("the second attempt is bound", () => kindsOf(ingress).filter((kind) => kind === "bound").length === 2);
  leaving.abort();
  await response;
  await until("the generation has ended", () => kindsOf(ingress).includes("ended"));
  const path = ingress.events.flatMap(({ kind, event }) =>
    "generation" in event ? [`${kind}${"attempt" in event ? ` ${event.attempt}` : ""}`] : [],
  );
  assert.deepEqual(path, [
    "received",
    "admitted",
    "queued",
    "dispatched 1",
    "bound 1",
    "restarted",
    "dispatched 2",
    "bound 2",
    "ended 2",
  ]);
  assert.match(await metricsOf(ingress), /^sluice_restarts_total\{queue="image"\} 1$/m);
});

test("an ingress that can't be created releases what it has opened", async () => {
  const log = pino({ level: "silent" });
  await assert.rejects(
    createTestIngress({ ...environment, SLUICE_CATALOGUE: "no-such-file.yaml" }, log),
    /no-such-file/,
  );
});
