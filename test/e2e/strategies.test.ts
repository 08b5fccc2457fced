/** A route's strategy, over three workers that each see a part of the calls. */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { startGateway } from "../support/gateway.ts";
import { until } from "../support/time.ts";

/** By model: the settings of its targets at the simulator. */
const targets = {
  latency: ["sim-near;tokens=2;first=10", "sim-far;tokens=2;first=150"],
  busy: ["sim-brief;tokens=2;first=10", "sim-long;tokens=2;first=200"],
  cheap: ["sim-dear;tokens=2", "sim-cheap;tokens=2"],
  session: ["sim-one;tokens=2;first=5", "sim-two;tokens=2;first=5"],
} as const;
const prices = (input: number) => `prices: { inputPerMillion: ${input}, outputPerMillion: ${2 * input} }`;
const model = (id: keyof typeof targets, strategy: string, more = "") =>
  `  - { id: ${id}, strategy: ${strategy}, ${more}${prices(5)}, route: [${targets[id]
    .map((name, index) => `{ upstream: simulator, model: "${name}", weight: 1, ${prices(3 - index)} }`)
    .join(", ")}] }\n`;
const gateway = await startGateway({
  workers: ["chat=32", "chat=32", "chat=32"],
  catalogue: `groups: { default: { models: ["*"] } }
upstreams:
  simulator: { dialect: openai-chat, baseUrl: "\${SIMULATOR_URL}/v1" }
models:
${model("latency", "lowestLatency", "affinity: off, ")}${model("busy", "leastBusy", "affinity: off, ")}${model("cheap", "cheapest", "affinity: off, ")}${model("session", "leastBusy")}`,
});
after(() => gateway[Symbol.asyncDispose]());

let calls = 0;
async function call(id: keyof typeof targets, headers: Record<string, string> = {}): Promise<void> {
  const messages = [{ role: "user", content: `Question ${calls++}` }];
  const response = await gateway.post({ model: id, messages, stream: true }, { headers });
  assert.equal(response.status, 200);
  await response.text();
}
/** So many requests, some of them at once. */
const callOften = (id: keyof typeof targets, count: number, atOnce: number) =>
  Promise.all(
    Array.from({ length: atOnce }, async () => {
      for (let index = 0; index < count / atOnce; index++) await call(id);
    }),
  );
const countsOf = async (id: keyof typeof targets) =>
  Promise.all(targets[id].map(async (name) => (await gateway.seen(name)).length));

test("lowestLatency: after the first calls, nearly all go to the target that begins soonest", async () => {
  await callOften("latency", 12, 3);
  const [, before = 0] = await countsOf("latency");
  assert.ok(before > 0, "both were tried");
  await callOften("latency", 120, 3);
  const [near = 0, far = 0] = await countsOf("latency");
  assert.ok(far - before <= 12, `${far - before} of 120 calls went to the slow target`);
  assert.equal(near + far, 132);
});

test("leastBusy: the targets have as many calls at once, so the faster one has more in all", async () => {
  await callOften("busy", 180, 12);
  const [brief = 0, long = 0] = await countsOf("busy");
  // By chance, each has half of them. A busy machine adds as much to brief calls as to long ones.
  assert.ok(brief > 1.5 * long, `${brief} brief calls and ${long} long ones`);
  assert.ok(long >= 12, "the slow one is not left out");
});

test("cheapest: all calls go to the target that costs the operator least", async () => {
  await callOften("cheap", 30, 3);
  assert.deepEqual(await countsOf("cheap"), [0, 30]);
});

test("a session stays at the target that served it, which it shares with no hash", async () => {
  const sessions = Array.from({ length: 8 }, (_, index) => ({ "x-sluice-session": `session ${index}` }));
  const [first, second] = targets.session;
  const placeOf = async (turns: () => Promise<unknown>) => {
    const before = await countsOf("session");
    await turns();
    const [one = 0, two = 0] = (await countsOf("session")).map((count, index) => count - (before[index] ?? 0));
    assert.equal(one * two, 0, "one target served all of its turns");
    return one > 0 ? first : second;
  };
  const places: string[] = [];
  for (const headers of sessions) {
    places.push(await placeOf(() => call("session", headers)));
    const bound = async () =>
      Promise.all(
        gateway.workers.map(async ({ urls }) => {
          const status = (await (await fetch(`${urls.operations}/status`)).json()) as { boundSessions: number };
          return status.boundSessions;
        }),
      );
    await until("all workers know its place", async () => (await bound()).every((count) => count === places.length));
  }
  assert.equal(new Set(places).size, 2, "sessions spread over the targets");
  for (const [index, headers] of sessions.entries())
    assert.equal(
      await placeOf(async () => {
        for (let turn = 0; turn < 4; turn++) await call("session", headers);
      }),
      places[index],
    );
});
