/**
 * An outage of one of two targets under steady traffic over two workers: its cost, and when the
 * target is used again.
 */
import { once } from "node:events";
import { createServer, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { startGateway } from "../support/gateway.ts";
import { chatCompletion } from "../support/upstream.ts";

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
  const reply = (response: ServerResponse, status: number) =>
    void response.writeHead(status, { "content-type": "application/json" }).end(chatCompletion);
  const ill = createServer((request, response) => {
    request.resume();
    const generates = request.method === "POST";
    if (generates) calls++;
    if (!down) reply(response, 200);
    else if (outage === "500 to generations alone") reply(response, generates ? 500 : 200);
    else reply(response, 503);
  });
  const well = createServer((request, response) => {
    request.resume();
    reply(response, 200);
  });
  const [illPort, wellPort] = [await listening(ill, 0), await listening(well, 0)];
  const upstream = (port: number) => `{ dialect: openai-chat, baseUrl: "http://127.0.0.1:${port}/v1" }`;
  await using gateway = await startGateway({
    processes: "all",
    workers: ["chat=64", "chat=64"],
    catalogue: `groups: { default: { models: ["*"] } }
upstreams: { ill: ${upstream(illPort)}, well: ${upstream(wellPort)} }
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
    const metrics = await Promise.all(
      gateway.workers.map(async ({ urls }) => (await fetch(`${urls.operations}/metrics`)).text()),
    );
    const counts = metrics.flatMap((text) => [
      ...text.matchAll(/^sluice_upstream_calls_total\{upstream="ill",[^}]*\} (\d+)$/gm),
    ]);
    return counts.reduce((sum, [, count]) => sum + Number(count), 0);
  };

  await Promise.all(Array.from({ length: 10 }, ask));
  seen.requests = 0;
  down = true;
  if (outage === "nobody listens") await closed(ill);
  const before = await connections();
  const downUntil = performance.now() + downMs;
  await askUntil(() => performance.now() >= downUntil);
  seen.callsWhileDown = (await connections()) - before;
  down = false;
  calls = 0;
  if (outage === "nobody listens") await listening(ill, illPort);
  const backAt = performance.now();
  await askUntil(() => calls > 0 || performance.now() - backAt > 30_000);
  seen.usedAgainMs = performance.now() - backAt;
  await Promise.all(requests);
  await Promise.all([closed(ill), closed(well)]);
  return seen;
}

async function listening(server: Server, port: number): Promise<number> {
  server.listen(port, "127.0.0.1");
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
}

async function closed(server: Server): Promise<void> {
  const over = once(server, "close");
  server.close();
  server.closeAllConnections();
  await over;
}
