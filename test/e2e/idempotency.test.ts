import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { catalogueOf, type Gateway, startGateway, until } from "../support/gateway.ts";

const models = {
  whole: "sim-text;rate=0;first=400;tokens=8",
  streamed: "sim-text;rate=20;first=100;tokens=12",
  failing: "sim-text;status=400",
  large: "sim-text;rate=0;first=0;tokens=400;size=4000",
  silent: "sim-text;rate=0;first=60000;tokens=8",
};
type Model = keyof typeof models;
let gateway: Gateway;

before(async () => {
  gateway = await startGateway({ ingresses: 2, catalogue: catalogueOf(Object.entries(models).map(([id, model]) => ({ id, model }))) });
});
after(() => gateway[Symbol.asyncDispose]());

interface Sending {
  stream?: boolean;
  at?: number;
  words?: string;
  key?: string;
  signal?: AbortSignal;
}

function send(name: string, model: Model, { stream = false, at = 0, words = "hello", key, signal }: Sending = {}) {
  const url = gateway.ingresses[at]?.urls.api as string;
  const body = { model, stream, messages: [{ role: "user", content: words }] };
  return gateway.post(body, { url, headers: { "idempotency-key": name }, ...(key && { key }), ...(signal && { signal }) });
}

async function told(answer: Promise<Response>) {
  const response = await answer;
  return {
    status: response.status,
    type: response.headers.get("content-type"),
    replayed: response.headers.get("idempotent-replayed"),
    id: response.headers.get("x-request-id"),
    text: await response.text(),
  };
}

const runs = async (model: Model) => (await gateway.seen(models[model])).length;

for (const [model, stream] of [
  ["whole", false],
  ["streamed", true],
] as const)
  test(`the same request sent again is run once, whether its answer is whole or streamed (${model})`, async () => {
    const before = await runs(model);
    const first = told(send(`again-${model}`, model, { stream }));
    await until("it runs", async () => (await runs(model)) === before + 1);
    const beside = [0, 0, 1].map((at) => told(send(`again-${model}`, model, { stream, at })));
    const given = await first;
    const others = [...(await Promise.all(beside)), ...(await Promise.all([0, 1].map((at) => told(send(`again-${model}`, model, { stream, at })))))];
    assert.equal(given.status, 200);
    assert.equal(given.replayed, null);
    for (const other of others) {
      assert.deepEqual({ ...other, id: given.id }, { ...given, replayed: "true" });
      assert.notEqual(other.id, given.id);
    }
    if (stream) assert.match(given.text, /data: \[DONE\]\n\n$/);
    assert.equal(await runs(model), before + 1);
  });

test("ten at once at two ingresses are run once", async () => {
  const before = await runs("whole");
  const answers = await Promise.all(Array.from({ length: 10 }, (_, index) => told(send("ten", "whole", { at: index % 2 }))));
  assert.deepEqual(new Set(answers.map(({ status, text }) => `${status} ${text}`)).size, 1);
  assert.equal(answers.filter(({ replayed }) => replayed === null).length, 1);
  assert.equal(await runs("whole"), before + 1);
});

test("the same Idempotency-Key with another body is refused, with another caller's key it is another", async () => {
  assert.equal((await send("twice", "whole")).status, 200);
  for (const at of [0, 1]) {
    const other = await told(send("twice", "whole", { words: "good bye", at }));
    assert.equal(other.status, 422);
    assert.match(other.text, /idempotency-key/);
  }
  const key = await gateway.createKey("default");
  await until("the key is known", async () => (await fetch(`${gateway.url}/v1/models`, { headers: { authorization: `Bearer ${key}` } })).ok);
  const theirs = await told(send("twice", "whole", { words: "good bye", key }));
  assert.deepEqual([theirs.status, theirs.replayed], [200, null]);
  assert.equal((await send("x".repeat(300), "whole")).status, 400);
});

test("what failed, what its caller left and what is too large is not stored", async () => {
  for (const attempt of [1, 2]) {
    assert.equal((await send("failing", "failing")).status, 400);
    assert.equal(await runs("failing"), attempt);
  }
  for (const attempt of [1, 2]) {
    const answer = await told(send("large", "large"));
    assert.equal(answer.status, 200);
    assert.ok(answer.text.length > 1 << 20);
    assert.equal(await runs("large"), attempt);
  }
  const controller = new AbortController();
  const left = send("silent", "silent", { signal: controller.signal }).catch(() => undefined);
  await until("it runs", async () => (await runs("silent")) === 1);
  controller.abort();
  await left;
  await until("the upstream call ends", async () => (await gateway.seen(models.silent))[0]?.outcome === "client-closed", 1_000);
  assert.equal((await send("silent", "whole")).status, 200, "the key is free");
});

test("who joined still gets the answer when the first caller leaves", async () => {
  const before = await runs("streamed");
  const controller = new AbortController();
  const first = send("leaving", "streamed", { stream: true, signal: controller.signal }).then((response) => response.text());
  first.catch(() => undefined);
  await until("it runs", async () => (await runs("streamed")) === before + 1);
  const joined = await send("leaving", "streamed", { stream: true });
  controller.abort();
  assert.match(await joined.text(), /data: \[DONE\]\n\n$/);
  assert.equal(await runs("streamed"), before + 1);
});

test("nothing of it is counted as held once it is over", async () => {
  for (const { urls } of gateway.ingresses)
    await until("no bytes are held", async () => /sluice_bodies_bytes 0\n/.test(await (await fetch(`${urls.operations}/metrics`)).text()), 2_000);
});
