import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { catalogueOf, type Gateway, startGateway } from "../support/gateway.ts";
import { metricsOf } from "../support/metrics.ts";
import { until } from "../support/time.ts";
import { chatCompletion, jsonAnswer, startScriptedUpstream } from "../support/upstream.ts";
import { modelLine } from "./support.ts";

const serviceMs = 150;
const places = 5;
const upstream = await startScriptedUpstream();
let gateway: Gateway;
let heavyKey: string;

/** The words of the upstream's requests, in order; and how many of these it has not answered. */
const arrived: string[] = [];
let open = 0;
/** The answers that are held, while any are. */
let waiting: (() => void)[] | undefined;
/** Is answered even then. */
const atOnce = "at once";

upstream.answerWith((response, { json }) => {
  const words: string = json.messages[0].content;
  arrived.push(words);
  open++;
  response.once("close", () => open--);
  const answer = () => jsonAnswer(chatCompletion)(response);
  setTimeout(() => (waiting === undefined || words === atOnce ? answer() : waiting.push(answer)), serviceMs);
});
const hold = () => {
  waiting ??= [];
};
const goOn = () => {
  const answers = waiting ?? [];
  waiting = undefined;
  for (const answer of answers) answer();
};

before(async () => {
  const catalogue = catalogueOf(
    [
      { id: "stuck", model: "sim-text", queue: "stuck" },
      { id: "brief", model: "sim-text", queue: "brief" },
    ],
    `  scripted: { dialect: openai-chat, baseUrl: "${upstream.url}" }\nqueues:\n  stuck: { waitMs: 60000 }\n  roomy: { waitMs: 60000 }\n  brief: { waitMs: 500 }\n`,
  ).replace("  narrow:", '  heavy: { models: ["*"], weight: 3 }\n  narrow:');
  gateway = await startGateway({
    ingresses: 2,
    workers: ["chat=2", "chat=2", "chat=1,roomy=12"],
    catalogue: `${catalogue}${modelLine({ id: "work", model: "theirs", upstream: "scripted" })}${modelLine({ id: "roomy", model: "theirs", upstream: "scripted", queue: "roomy" })}`,
  });
  heavyKey = await gateway.createKey("heavy");
});
after(async () => {
  await gateway[Symbol.asyncDispose]();
  await upstream[Symbol.asyncDispose]();
});

const urls = () => gateway.ingresses.map((role) => role.urls.api as string);
const saying = (content: string, model = "work") => ({ model, messages: [{ role: "user", content }] });

/** A request to one of the ingresses in turn. */
async function ask(index: number, key: string, words: string): Promise<void> {
  const response = await gateway.post(saying(words), { key, url: urls()[index % 2] as string });
  assert.equal(response.status, 200);
  await response.text();
}

async function total(metric: RegExp): Promise<number> {
  const texts = await Promise.all(gateway.ingresses.map(metricsOf));
  return texts.reduce((sum, text) => sum + Number(metric.exec(text)?.[1] ?? 0), 0);
}
const waitingTotal = () => total(/sluice_generations\{queue="chat",state="waiting"\} (\d+)/);
const heldTotal = () => total(/sluice_queued_generations\{queue="chat"\} (\d+)/);
/** While answers are held nothing moves any more, once all places are taken and all others wait. */
const settled = (count: number) =>
  until(
    "all places are taken, and all others wait",
    async () => open === places && (await waitingTotal()) === count - arrived.length,
  );

test("a key that sends 200 at once delays another key's single request by about one service time", async (context) => {
  await Promise.all([ask(0, gateway.key, "first"), ask(1, gateway.key, "first")]);
  const other = await gateway.createKey("default");
  hold();
  let expected = arrived.length + 200;
  const answers = Array.from({ length: 200 }, (_, index) => ask(index, gateway.key, "burst"));
  await settled(expected);
  assert.ok((await heldTotal()) > 140, "few are on the queue");
  const preceding: number[] = [];
  for (let index = 0; index < 8; index++) {
    answers.push(ask(index, other, "single"));
    await settled(++expected);
    const from = arrived.length;
    goOn();
    await until("it is its turn", () => arrived.includes("single", from));
    hold();
    preceding.push(arrived.indexOf("single", from) - from);
    await settled(expected);
  }
  goOn();
  await Promise.all(answers);
  context.diagnostic(`before each single request so many of the 200 had their turn: ${preceding.join(", ")}`);
  // Requests that stood on the queue, and requests that went there beside it.
  for (const count of preceding) assert.ok(count <= 3 * places, `${count} went before`);
  await until("none waits", async () => (await waitingTotal()) === 0);
});

test("a key with long requests leaves slots for another key", async () => {
  const queueOf = async (name: string) => {
    const status = (await (await fetch(`${gateway.ingresses[0]?.urls.operations}/status`)).json()) as {
      queues: { queue: string; slots?: number; running: number; waiting: number }[];
    };
    return status.queues.find(({ queue }) => queue === name);
  };
  const askRoomy = (key: string) => gateway.post(saying("roomy", "roomy"), { key });
  await until("the ingress knows the queue's slots", async () => (await queueOf("roomy"))?.slots === 12);
  const other = await gateway.createKey("default");
  hold();
  const answers = Array.from({ length: 40 }, () => askRoomy(gateway.key));
  await until("the key has its share", async () => {
    const { running, waiting } = (await queueOf("roomy")) ?? {};
    return running === 10 && waiting === 30;
  });
  answers.push(askRoomy(other), askRoomy(other));
  await until("the other key's requests run", async () => (await queueOf("roomy"))?.running === 12);
  goOn();
  for (const answer of answers) assert.equal((await answer).status, 200);
});

test("groups share a busy queue by weight", async (context) => {
  hold();
  const from = arrived.length;
  const send = (name: string, key: string) => Array.from({ length: 45 }, (_, index) => ask(index, key, name));
  const light = send("light", gateway.key);
  await settled(from + 45);
  const all = [...light, ...send("heavy", heavyKey)];
  await settled(from + 90);
  goOn();
  await Promise.all(all);
  // The ingresses tell each other what they served, so the weights hold for both together.
  const middle = arrived.slice(from).slice(20, 68);
  const heavy = middle.filter((words) => words === "heavy").length;
  context.diagnostic(`of ${middle.length} requests ${heavy} were the group's with weight 3 against 1`);
  // Three workers fetch side by side, so what is near the ends of the slice may be in it or not.
  assert.ok(heavy >= 29 && heavy <= 43, `${heavy} of 48`);
});

test("a queued request whose caller left costs nothing", async () => {
  hold();
  const controller = new AbortController();
  const expected = arrived.length + 50;
  const left = Array.from({ length: 50 }, () =>
    gateway.post(saying("left"), { signal: controller.signal }).catch(() => undefined),
  );
  await settled(expected);
  controller.abort();
  await Promise.all(left);
  await until("none waits", async () => (await waitingTotal()) === 0 && (await heldTotal()) === 0);
  await ask(0, gateway.key, atOnce);
  goOn();
});

test("x-sluice-max-wait ends the wait with a Retry-After, and cannot exceed the queue's", async () => {
  const stuck = async (wait: string, model = "stuck") => {
    const startedAt = performance.now();
    const response = await gateway.post(saying("hello", model), { headers: { "x-sluice-max-wait": wait } });
    return { response, ms: performance.now() - startedAt };
  };
  const waits = [["300"], ["350"], ["400"], ["999999999", "brief"]] as const;
  for (const [index, { response, ms }] of (
    await Promise.all(waits.map(([wait, model]) => stuck(wait, model)))
  ).entries()) {
    assert.ok(ms >= ([300, 350, 400, 500][index] as number) && ms < 20_000, `${waits[index]}: ${ms} ms`);
    assert.equal(response.status, 503);
    assert.match(response.headers.get("retry-after") ?? "", /^([1-9]|[1-5]\d|60)$/);
    assert.match(await response.text(), /"code":"server_is_overloaded"/);
  }
  for (const wait of ["0", "soon", "1.5", "-1"]) {
    const { response } = await stuck(wait);
    assert.equal(response.status, 400, wait);
    assert.match(await response.text(), /x-sluice-max-wait/);
  }
});
