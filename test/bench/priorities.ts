/**
 * Overload with mixed priorities on the real gateway: three ingresses and three workers with 60
 * slots, a Redis, and the simulator, whose answers take one, two or three seconds. Prints, for each
 * load, the part of the requests that was served and the times of those from arrival to end:
 * `node test/bench/priorities.ts [seconds]`. test/libs/relay/overload.ts simulates the same.
 */
import { setTimeout as delay } from "node:timers/promises";
import { startGateway } from "../support/gateway.ts";
import { randomFrom } from "../support/random.ts";

const names = ["interactive", "normal", "background"] as const;
type Name = (typeof names)[number];
/** The part of the requests that has each priority. */
const mix: Record<Name, number> = { interactive: 0.1, normal: 0.3, background: 0.6 };
const keysOfEach = 5;
const [slots, meanSeconds] = [60, 2];
const loads = [0.5, 1, 2, 5, 10];
/** Each load lasts so long, and its first third is not counted. */
const seconds = Number(process.argv[2] ?? 60);
const warmShare = 1 / 3;

const model = (id: string, ms: number) =>
  `  - { id: ${id}, retries: 0, prices: { inputPerMillion: 1, outputPerMillion: 1 }, route: [{ upstream: simulator, model: "sim-text;rate=0;first=${ms};tokens=20" }] }\n`;
const gateway = await startGateway({
  ingresses: 3,
  workers: Array(3).fill(`chat=${slots / 3}`),
  processes: "all",
  catalogue: `groups:
  interactive: { models: ["*"], priority: interactive }
  normal: { models: ["*"] }
  background: { models: ["*"], priority: background }
  default: { models: ["*"] }
queues:
  chat: { maxWaitMs: 1000 }
upstreams:
  simulator: { dialect: openai-chat, baseUrl: "\${SIMULATOR_URL}/v1" }
models:
${[1, 2, 3].map((count) => model(`takes-${count}`, count * 1_000)).join("")}`,
});
const keys = new Map<Name, string[]>();
for (const name of names)
  keys.set(name, await Promise.all(Array.from({ length: keysOfEach }, () => gateway.createKey(name))));

interface Sent {
  name: Name;
  isServed: boolean;
  ms: number;
  /** Seconds that its upstream took. */
  work: number;
}

const percentile = (values: number[], part: number): number =>
  values.toSorted((a, b) => a - b)[Math.min(values.length - 1, Math.floor(values.length * part))] ?? Number.NaN;

/** Requests that arrive as a Poisson process. */
async function run(load: number): Promise<void> {
  const random = randomFrom(7);
  const perSecond = (load * slots) / meanSeconds;
  const sent: Promise<Sent>[] = [];
  const begin = performance.now();
  for (let at = 0; ; ) {
    at += (-Math.log(1 - random()) / perSecond) * 1_000;
    if (at > seconds * 1_000) break;
    await delay(Math.max(0, begin + at - performance.now()));
    const draw = random();
    const name = draw < mix.interactive ? "interactive" : draw < mix.interactive + mix.normal ? "normal" : "background";
    const [work, key, ingress] = [1, keysOfEach, 3].map((_, index) =>
      Math.floor(random() * [3, keysOfEach, 3][index]!),
    );
    const counts = at > seconds * 1_000 * warmShare;
    const answer = send(name, { work: (work as number) + 1, key: key as number, ingress: ingress as number });
    if (counts) sent.push(answer);
  }
  const all = await Promise.all(sent);
  const work = all.reduce((sum, { isServed, work: own }) => sum + (isServed ? own : 0), 0);
  const cells = names.map((name) => {
    const own = all.filter((each) => each.name === name);
    const times = own.filter(({ isServed }) => isServed).map(({ ms }) => ms);
    const served = Math.round((100 * times.length) / own.length);
    return `${served} %, ${(percentile(times, 0.5) / 1_000).toFixed(2)} s, ${(percentile(times, 0.99) / 1_000).toFixed(2)} s`;
  });
  console.log(
    `| ${load} | ${all.length} | ${Math.round((100 * work) / (slots * seconds * (1 - warmShare)))} % | ${cells.join(" | ")} |`,
  );
}

async function send(name: Name, { work, key, ingress }: { work: number; key: number; ingress: number }): Promise<Sent> {
  const begin = performance.now();
  const body = { model: `takes-${work}`, messages: [{ role: "user", content: "hello" }] };
  const response = await gateway.post(body, {
    url: gateway.ingresses[ingress]?.urls.api as string,
    key: keys.get(name)?.[key] as string,
  });
  await response.text();
  return { name, isServed: response.status === 200, ms: performance.now() - begin, work };
}

console.log("| load | requests | served work, of the capacity | interactive: served, p50, p99 | normal | background |");
for (const load of loads) {
  await run(load);
  await delay(3_000);
}
await gateway[Symbol.asyncDispose]();
