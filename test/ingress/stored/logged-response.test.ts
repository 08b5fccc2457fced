import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { after, test } from "node:test";
import type { LogWriter } from "../../../apps/ingress/stored/answer-log.ts";
import { LoggedResponse } from "../../../apps/ingress/stored/logged-response.ts";

/** A log that keeps nothing. */
const log = {
  nextEvent: 0,
  isFull: false,
  head: () => {},
  event: (event: Buffer) => event,
  end: async () => {},
  abandon: () => {},
} as unknown as LogWriter;

const endings: Record<string, (response: LoggedResponse) => void> = {
  "/end": (response) => response.end(),
  "/leave": (response) => response.leave(false),
  "/destroy": (response) => response.destroy(),
};

const server = createServer((request, live) => {
  const response = new LoggedResponse({ log, live, ended: () => {} });
  response.writeHead(200, { "content-type": "text/event-stream" });
  response.write(Buffer.from("data: one\n\n"), () => endings[request.url as string]?.(response));
}).listen(0, "127.0.0.1");
await once(server, "listening");
after(() => server.close());
const ask = (path: string) => fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}${path}`);

test("a caller of an answer that ended reads it to its end", async () => {
  assert.equal(await (await ask("/end")).text(), "data: one\n\n");
});

for (const path of ["/leave", "/destroy"])
  test(`a caller of an answer that broke off notices (${path.slice(1)})`, async () => {
    await assert.rejects(ask(path).then((response) => response.text()));
  });
