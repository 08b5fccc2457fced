import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import type { CatalogueUpstream } from "#catalogue/catalogue.ts";
import { Upstreams } from "../../../apps/worker/upstream/upstreams.ts";
import { until } from "../../support/time.ts";

/** An upstream that answers when the test says so, and the calls to it. */
async function startUpstream() {
  const asked: ServerResponse[] = [];
  const server = createServer((_request, response) => void asked.push(response)).listen(0, "127.0.0.1");
  await once(server, "listening");
  const upstreams = new Upstreams(() => Promise.resolve({}));
  const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const outcomes: string[] = [];
  return {
    asked,
    upstreams,
    outcomes,
    upstreamOf: (connectionsMax: number) =>
      ({
        name: "theirs",
        baseUrl,
        headers: {},
        connectionsMax,
        timeouts: { connectTimeoutMs: 5_000 },
      }) as CatalogueUpstream,
    call: (upstream: CatalogueUpstream) =>
      upstreams.call(
        upstream,
        undefined,
        { path: "/x", headers: {}, body: Buffer.from("{}") },
        {
          head: () => undefined,
          data: () => undefined,
          end: () => void outcomes.push("answered"),
          failed: (_failure, cause) => void outcomes.push(cause),
        },
      ),
    /** Answers until this many calls are over. */
    answer: (count: number) =>
      until(`${count} calls are over`, () => {
        for (const response of asked.splice(0)) response.end();
        return outcomes.length === count;
      }),
    connections: () => new Promise<number>((resolve) => server.getConnections((_error, count) => resolve(count))),
    async [Symbol.asyncDispose]() {
      await upstreams.close();
      server.closeAllConnections();
      server.close();
    },
  };
}

test("calls that wait when an upstream's limits change are answered, and then the old connections close", async () => {
  await using theirs = await startUpstream();
  const [before, after] = [theirs.upstreamOf(2), theirs.upstreamOf(1)];
  for (let call = 0; call < 5; call++) theirs.call(before);
  await until("two are asked", () => theirs.asked.length === 2);
  theirs.upstreams.retain(new Map([["theirs", after]]));
  theirs.call(after);
  await until("the new limits have a connection of their own", () => theirs.asked.length === 3);
  await theirs.answer(6);
  assert.deepEqual(theirs.outcomes, Array(6).fill("answered"));
  await until("only the new connection is left", async () => (await theirs.connections()) === 1);
});

test("calls that wait when an upstream leaves the catalogue are answered unless aborted, and then its connections close", async () => {
  await using theirs = await startUpstream();
  const upstream = theirs.upstreamOf(1);
  theirs.call(upstream);
  theirs.call(upstream);
  const last = theirs.call(upstream);
  theirs.upstreams.retain(new Map());
  await until("one is asked", () => theirs.asked.length === 1);
  last.abort();
  await theirs.answer(2);
  assert.deepEqual(theirs.outcomes, ["answered", "answered"]);
  await until("no connection is left", async () => (await theirs.connections()) === 0);
});

test("an idle upstream's connections close as soon as it leaves the catalogue", async () => {
  await using theirs = await startUpstream();
  theirs.call(theirs.upstreamOf(1));
  await theirs.answer(1);
  assert.equal(await theirs.connections(), 1);
  theirs.upstreams.retain(new Map());
  await until("no connection is left", async () => (await theirs.connections()) === 0);
});

test("a worker that stops also closes connections to upstreams that left the catalogue", async () => {
  await using theirs = await startUpstream();
  theirs.call(theirs.upstreamOf(1));
  await until("one is asked", () => theirs.asked.length === 1);
  theirs.upstreams.retain(new Map());
  await theirs.upstreams.close();
  await until("no connection is left", async () => (await theirs.connections()) === 0);
});
