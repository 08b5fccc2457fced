/**
 * The effect of one hostile key on another tenant at the default limits: only a short delay. Every
 * attack runs alone, then all together, beside a client that sends twenty small requests a second.
 * The attacker and its upstream have a low priority, because in reality they are on other machines.
 */
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { setPriority } from "node:os";
import { after, before, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { type Gateway, type Role, startGateway, startRole } from "../support/gateway.ts";
import { attacks } from "./attacks.ts";

const latencyMsMax = 500;
const requestsPerSecond = 20;
const aloneMs = 10_000;
const togetherMs = 30_000;
const lowPriority = 10;

let gateway: Gateway;
let neighbours: Role;
let attacker: ChildProcess;
let hostileKey: string;

before(async () => {
  neighbours = await startRole("simulator", [], {});
  const theirs = ["chat", "messages"].map(
    (kind) =>
      `  their-${kind}: { dialect: ${kind === "chat" ? "openai-chat" : "anthropic-messages"}, baseUrl: "\${SIMULATOR_URL}/v1" }`,
  );
  const model = (id: string, upstream: string, name: string) =>
    `  - { id: ${id}, prices: { inputPerMillion: 1, outputPerMillion: 2 }, route: [{ upstream: ${upstream}, model: "${name}" }] }`;
  gateway = await startGateway({
    processes: "all",
    workers: ["chat=512,image=8"],
    environment: { ATTACHMENT_NETWORKS: "127.0.0.0/8" },
    catalogue: `groups: { default: { models: ["*"] } }
upstreams:
  own: { dialect: openai-chat, baseUrl: "${neighbours.urls.simulator}/v1" }
${theirs.join("\n")}
models:
${model("own", "own", "sim-text;tokens=8")}
${model("their-chat", "their-chat", "sim-text;tokens=8")}
${model("their-messages", "their-messages", "sim-text;tokens=8")}
${model("their-slow", "their-chat", "sim-text;tokens=60;rate=1")}
${model("their-large", "their-chat", "sim-text;tokens=100;size=9000")}
`,
  });
  hostileKey = await gateway.createKey("default");
  attacker = spawn(process.execPath, [`${import.meta.dirname}/attacker.ts`], {
    stdio: ["ignore", "inherit", "inherit", "ipc"],
  });
  await once(attacker, "message");
  setPriority(attacker.pid as number, lowPriority);
});
after(async () => {
  attacker.kill("SIGKILL");
  await gateway[Symbol.asyncDispose]();
  await neighbours.kill();
});

/** One small request, streamed or whole; its time, or what was wrong with it. */
async function ask(streams: boolean): Promise<{ ms: number; fault: string | undefined }> {
  const startedAt = performance.now();
  try {
    const response = await gateway.post(
      { model: "own", stream: streams, messages: [{ role: "user", content: "Hello" }] },
      { signal: AbortSignal.timeout(20_000) },
    );
    const text = await response.text();
    const isWhole =
      response.status === 200 &&
      (streams ? text.endsWith("data: [DONE]\n\n") : text.includes('"finish_reason":"stop"'));
    return {
      ms: performance.now() - startedAt,
      fault: isWhole ? undefined : `${response.status} ${text.slice(0, 200)}`,
    };
  } catch (error) {
    return { ms: performance.now() - startedAt, fault: String(error) };
  }
}

async function neighbourDuring(
  names: string[],
  forMs: number,
): Promise<{ p50: number; p99: number; worst: number; faults: string[] }> {
  attacker.send({ url: gateway.url, key: hostileKey, names });
  const requests: ReturnType<typeof ask>[] = [];
  const until = performance.now() + forMs;
  while (performance.now() < until) {
    requests.push(ask(requests.length % 2 === 0));
    await delay(1_000 / requestsPerSecond);
  }
  const answers = await Promise.all(requests);
  const times = answers.map(({ ms }) => ms).sort((one, other) => one - other);
  const at = (part: number) => Math.round(times[Math.min(times.length - 1, Math.floor(part * times.length))] as number);
  return { p50: at(0.5), p99: at(0.99), worst: at(1), faults: answers.flatMap(({ fault }) => fault ?? []) };
}

const names = Object.keys(attacks);
for (const [what, playing, forMs] of [
  ["nothing", [], aloneMs],
  ...names.map((name) => [name, [name], aloneMs] as const),
  ["all attacks together", names, togetherMs],
  ["nothing, afterwards", [], aloneMs],
] as const)
  test(`beside ${what} a neighbour's requests succeed within ${latencyMsMax} ms`, {
    timeout: 120_000,
  }, async (context) => {
    const { p50, p99, worst, faults } = await neighbourDuring([...playing], forMs);
    context.diagnostic(`p50 ${p50} ms, p99 ${p99} ms, worst ${worst} ms, ${faults.length} errors`);
    assert.deepEqual(faults, []);
    assert.ok(p99 <= latencyMsMax, `p99 ${p99} ms`);
  });
