import assert from "node:assert/strict";
import { once } from "node:events";
import { type IncomingMessage, request } from "node:http";
import { after, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { catalogueOf, startGateway } from "../support/gateway.ts";
import { within } from "../support/time.ts";

/** More than sockets hold, and their kernel. */
const large = "sim-text;rate=0;first=0;tokens=2000;size=16000";
const quiet = "sim-text;first=6000;rate=0;tokens=1";
/** A reader that stands still for a moment, because its machine does, has not left yet. */
const sendTimeoutMs = 3_000;
const gateway = await startGateway({
  environment: { SEND_TIMEOUT_MS: String(sendTimeoutMs) },
  catalogue: catalogueOf([
    { id: "large", model: large },
    { id: "quiet", model: quiet },
  ]),
});
after(() => gateway[Symbol.asyncDispose]());

async function ask(model: string): Promise<IncomingMessage> {
  const headers = { authorization: `Bearer ${gateway.key}`, "content-type": "application/json" };
  const asking = request(`${gateway.url}/v1/chat/completions`, { method: "POST", headers });
  asking.end(JSON.stringify({ model, stream: true, messages: [{ role: "user", content: "hello" }] }));
  const [response] = (await once(asking, "response")) as [IncomingMessage];
  return response;
}

async function readSome(response: IncomingMessage): Promise<string> {
  for (;;) {
    const chunk: Buffer | null = response.read();
    if (chunk !== null) return chunk.toString("latin1");
    await once(response, "readable");
  }
}

test("a caller that reads nothing is disconnected, and its upstream call ends", async () => {
  const before = (await gateway.seen(large)).length;
  const response = await ask("large");
  await within(
    1.6 * sendTimeoutMs,
    "the call is closed",
    async () => (await gateway.seen(large))[before]?.outcome === "client-closed",
  );
  await assert.rejects(response.toArray(), { code: "ECONNRESET" });
});

test("a caller that reads slowly gets everything", async () => {
  const response = await ask("large");
  let end = "";
  for (const slowUntil = performance.now() + 1.5 * sendTimeoutMs; performance.now() < slowUntil; await delay(20))
    end = await readSome(response);
  for await (const chunk of response) end = (end + chunk.toString("latin1")).slice(-100);
  assert.match(end, /data: \[DONE\]\n\n$/);
});

test("a silent model does not disconnect its caller", async () => {
  const response = await ask("quiet");
  assert.match(Buffer.concat(await response.toArray()).toString(), /data: \[DONE\]\n\n$/);
});
