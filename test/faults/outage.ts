/**
 * An outage of one of two targets under steady traffic over two workers: its cost, and when the
 * target is used again.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { startGateway } from "../support/gateway.ts";
import { metricsOf } from "../support/metrics.ts";
import { chatCompletion, jsonAnswer, startScriptedUpstream, type UpstreamAnswer } from "../support/upstream.ts";

export const outages = ["nobody listens", "503 to every request", "500 to generations alone"] as const;
export type Outage = (typeof outages)[number];

export interface OutageSeen {
  /** All requests of callers while the target was down or came back. */
  requests: number;
  /** How many of these were not answered. */
  failed: number;
  /**
   * Generations that the target was sent while it was down; connections, where nobody listens, are
   * counted by the worker.
   */
  callsWhileDown: number;
  /** From its return to the first generation that it answered. */
  usedAgainMs: number;
}

/** A request every so often. */
const everyMs = 50;

/**
 * One target at the defaults of a catalogue, down for `downMs`, then back, with a healthy one
 * behind it.
 */
export async function playOutage(outage: Outage, downMs: number): Promise<OutageSeen> {
  let down = false;
  let calls = 0;
  const answer: UpstreamAnswer = (response, { method }) => {
    const isGeneration = method === "POST";
    if (isGeneration) calls++;
    const status = outage === "500 to generations alone" ? (isGeneration ? 500 : 200) : 503;
    jsonAnswer(chatCompletion, down ? status : 200)(response);
  };
  let ill = await startScriptedUpstream(answer);
  await using well = await startScriptedUpstream(jsonAnswer(chatCompletion));
  const upstream = (baseUrl: string) => `{ dialect: openai-chat, baseUrl: "${baseUrl}" }`;
  await using gateway = await startGateway({
    processes: "all",
    workers: ["chat=64", "chat=64"],
    catalogue: `groups: { default: { models: ["*"] } }
upstreams: { ill: ${upstream(ill.url)}, well: ${upstream(well.url)} }
models:
  - { id: m, prices: { inputPerMillion: 1, outputPerMillion: 2 }, route: [{ upstream: ill, model: m }, { upstream: well, model: m }] }
`,
  });
  const seen: OutageSeen = { requests: 0, failed: 0, callsWhileDown: 0, usedAgainMs: 0 };
  const requests: Promise<void>[] = [];
  const ask = async () => {
    seen.requests++;
    const response = await gateway.post({ model: "m", messages: [{ role: "user", content: "hello" }] });
    await response.arrayBuffer();
    if (!response.ok) seen.failed++;
  };
  const askUntil = async (isOver: () => boolean) => {
    while (!isOver()) {
      requests.push(ask());
      await sleep(everyMs);
    }
  };
  const connections = async () => {
    const metrics = await Promise.all(gateway.workers.map(metricsOf));
    const counts = metrics.flatMap((text) => [
      ...text.matchAll(/^sluice_upstream_calls_total\{upstream="ill",[^}]*\} (\d+)$/gm),
    ]);
    return counts.reduce((sum, [, count]) => sum + Number(count), 0);
  };

  await Promise.all(Array.from({ length: 10 }, ask));
  seen.requests = 0;
  down = true;
  if (outage === "nobody listens") await ill[Symbol.asyncDispose]();
  const before = await connections();
  const downUntil = performance.now() + downMs;
  await askUntil(() => performance.now() >= downUntil);
  seen.callsWhileDown = (await connections()) - before;
  down = false;
  calls = 0;
  if (outage === "nobody listens") ill = await startScriptedUpstream(answer, ill.port);
  const backAt = performance.now();
  await askUntil(() => calls > 0 || performance.now() - backAt > 30_000);
  seen.usedAgainMs = performance.now() - backAt;
  await Promise.all(requests);
  await ill[Symbol.asyncDispose]();
  return seen;
}
