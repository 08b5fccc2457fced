import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { catalogueOf, type Gateway, startGateway, until } from "../support/gateway.ts";

const serviceMs = 150;
const places = 6;
const messages = [{ role: "user", content: "hello" }];
let gateway: Gateway;
let heavyKey: string;

before(async () => {
  const catalogue = catalogueOf(
    [
      { id: "work", model: `sim-text;rate=0;first=${serviceMs};tokens=8` },
      { id: "stuck", model: "sim-text", lane: "stuck" },
    ],
    "lanes:\n  stuck: { waitingMax: 3, waitMs: 60000 }\n",
  ).replace("  narrow:", '  heavy: { models: ["*"], weight: 3 }\n  narrow:');
  gateway = await startGateway({ ingresses: 2, workers: ["chat=2", "chat=2", "chat=2"], catalogue });
  heavyKey = await knownKey("heavy");
});
after(() => gateway[Symbol.asyncDispose]());

const urls = () => gateway.ingresses.map((role) => role.urls.api as string);

/** A key that both ingresses have heard of. */
async function knownKey(group: string): Promise<string> {
  const key = await gateway.createKey(group);
  for (const url of urls()) await until("the key is known", async () => (await fetch(`${url}/v1/models`, { headers: { authorization: `Bearer ${key}` } })).ok);
  return key;
}

/** A request to one of the ingresses in turn; settles with how long its answer took. */
async function ask(index: number, key: string): Promise<number> {
  const startedAt = performance.now();
  const response = await gateway.post({ model: "work", messages }, { key, url: urls()[index % 2] as string });
  assert.equal(response.status, 200);
  await response.text();
  return performance.now() - startedAt;
}

async function total(metric: RegExp): Promise<number> {
  const texts = await Promise.all(gateway.ingresses.map(async ({ urls }) => (await fetch(`${urls.operations}/metrics`)).text()));
  return texts.reduce((sum, text) => sum + Number(metric.exec(text)?.[1] ?? 0), 0);
}
const waitingTotal = () => total(/sluice_generations\{lane="chat",state="waiting"\} (\d+)/);
const heldTotal = () => total(/sluice_held_generations\{lane="chat"\} (\d+)/);

test("a key that sends 200 at once delays another key's single request by about one service time", async (context) => {
  await Promise.all([ask(0, gateway.key), ask(1, gateway.key)]);
  const other = await knownKey("default");
  const startedAt = performance.now();
  const burst = Promise.all(Array.from({ length: 200 }, (_, index) => ask(index, gateway.key)));
  await until("most wait", async () => (await waitingTotal()) > 150);
  assert.ok((await heldTotal()) > 140, "few are on the lane");
  const singles: number[] = [];
  for (let index = 0; index < 8; index++) {
    singles.push(await ask(index, other));
    await new Promise((resolve) => setTimeout(resolve, index * 17));
  }
  await burst;
  const burstMs = performance.now() - startedAt;
  const least = (200 / places) * serviceMs;
  context.diagnostic(`200 took ${burstMs.toFixed(0)} ms (at least ${least.toFixed(0)}); singles beside them ${singles.map((ms) => ms.toFixed(0)).join(", ")}`);
  for (const ms of singles) assert.ok(ms < 3 * serviceMs, `${ms} ms`);
  assert.ok(burstMs < least * 1.3 + 500, `the workers were kept busy: ${burstMs} ms, ${least} at least`);
  assert.equal(await waitingTotal(), 0);
});

test("groups share a busy lane by weight", async (context) => {
  const done: string[] = [];
  const send = (name: string, key: string) => Array.from({ length: 45 }, (_, index) => ask(index, key).then(() => void done.push(name)));
  const light = send("light", gateway.key);
  await until("they wait", async () => (await waitingTotal()) > 30);
  await Promise.all([...light, ...send("heavy", heavyKey)]);
  const middle = done.slice(10, 50);
  const heavy = middle.filter((name) => name === "heavy").length;
  context.diagnostic(`of ${middle.length} answers ${heavy} were the group's with weight 3 against 1`);
  assert.ok(heavy >= 26 && heavy <= 34, `${heavy} of 40`);
});

test("a request that is held back costs nothing once its caller has left", async () => {
  const controller = new AbortController();
  const left = Array.from({ length: 50 }, () => gateway.post({ model: "work", messages }, { signal: controller.signal }).catch(() => undefined));
  await until("they wait", async () => (await waitingTotal()) > 30);
  controller.abort();
  await Promise.all(left);
  await until("none waits", async () => (await waitingTotal()) === 0 && (await heldTotal()) === 0, 1_000);
  assert.ok((await ask(0, gateway.key)) < 3 * serviceMs);
});

test("a caller's own wait ends when it says, with a Retry-After, and can't be longer than the lane's", async () => {
  const stuck = (wait: string) => gateway.post({ model: "stuck", messages }, { headers: { "x-sluice-max-wait": wait } });
  const startedAt = performance.now();
  const responses = await Promise.all(["300", "350", "400", "999999999"].map(stuck));
  const ms = performance.now() - startedAt;
  assert.ok(ms >= 300 && ms < 1_000, `${ms} ms`);
  for (const response of responses) {
    assert.equal(response.status, 503);
    assert.match(response.headers.get("retry-after") ?? "", /^[1-9]$/);
    assert.match(await response.text(), /"code":"server_is_overloaded"/);
  }
  for (const wait of ["0", "soon", "1.5", "-1"]) {
    const response = await stuck(wait);
    assert.equal(response.status, 400, wait);
    assert.match(await response.text(), /x-sluice-max-wait/);
  }
});
