import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { after, test } from "node:test";
import { Refusal } from "#wire/carry.ts";
import type { RemoteSource } from "#wire/sources.ts";
import { createSourceFetcher, inlineSources, isReachable, networksOf } from "../../apps/worker/remote-sources.ts";

const png = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==", "base64");

const answers: Record<string, (response: ServerResponse) => void> = {
  "/png": (response) => response.writeHead(200, { "content-type": "text/html" }).end(png),
  "/lies": (response) => response.writeHead(200, { "content-type": "image/png" }).end("<html>"),
  "/text": (response) => response.writeHead(200, { "content-type": "text/plain; charset=utf-8" }).end("hello"),
  "/pdf": (response) => response.writeHead(200).end("%PDF-1.7 …"),
  "/gone": (response) => response.writeHead(404).end("a secret page"),
  "/there": (response) => response.writeHead(302, { location: "/png" }).end(),
  "/round": (response) => response.writeHead(302, { location: "/round" }).end(),
  "/metadata": (response) => response.writeHead(302, { location: "http://169.254.169.254/latest/meta-data" }).end(),
  "/file": (response) => response.writeHead(302, { location: "file:///etc/passwd" }).end(),
  "/endless": (response) => {
    const more = () => {
      while (!response.destroyed && response.write(Buffer.alloc(1 << 20)));
    };
    response.writeHead(200).on("drain", more);
    more();
  },
};
const silentAsked = Promise.withResolvers<void>();
answers["/silent"] = () => silentAsked.resolve();
let requests = 0;
const server = createServer((request, response) => {
  requests++;
  (answers[request.url as string] as (response: ServerResponse) => void)(response);
});
server.listen(0, "127.0.0.1");
await once(server, "listening");
const { port } = server.address() as AddressInfo;
const here = `http://127.0.0.1:${port}`;

const open = createSourceFetcher(networksOf("127.0.0.0/8, ::1/128"));
const closed = createSourceFetcher([]);
after(async () => {
  await Promise.all([open.close(), closed.close()]);
  server.closeAllConnections();
  server.close();
});

const sourceOf = (url: string, part: "image" | "file" = "image"): RemoteSource => ({ url, part, path: "messages[0].content[1]", replace: () => undefined });

const never = new AbortController().signal;

const refusalOf = async (fetched: Promise<unknown>): Promise<string> => {
  const error = await fetched.then(
    () => assert.fail("was fetched"),
    (failure: unknown) => failure,
  );
  assert.ok(error instanceof Refusal);
  assert.equal(error.param, "messages[0].content[1]");
  return error.message;
};

test("only public addresses are reachable, in whatever way they are written", () => {
  for (const address of ["8.8.8.8", "1.1.1.1", "2606:4700:4700::1111"]) assert.ok(isReachable(address, []), address);
  for (const address of [
    "127.0.0.1",
    "10.1.2.3",
    "172.16.0.1",
    "192.168.1.1",
    "169.254.169.254",
    "100.64.0.1",
    "0.0.0.0",
    "224.0.0.1",
    "255.255.255.255",
    "192.0.2.1",
    "198.18.0.1",
    "::1",
    "::",
    "fd00::1",
    "fe80::1",
    "ff02::1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "64:ff9b::7f00:1",
    "2002:7f00:1::",
    "::2",
    "168.63.129.16",
    "not an address",
  ])
    assert.ok(!isReachable(address, []), address);
  assert.ok(isReachable("10.1.2.3", networksOf("10.0.0.0/8")));
  assert.ok(isReachable("::ffff:10.1.2.3", networksOf("10.0.0.0/8")));
  assert.throws(() => networksOf("10.0.0.0/8,intranet"));
});

test("a private address is refused before a request is made: literal, by name, odd spellings, and behind a redirect", async () => {
  const before = requests;
  for (const host of ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "127.1", "0x7f000001", "2130706433", "0177.0.0.1"])
    assert.match(await refusalOf(closed.fetch(sourceOf(`http://${host}:${port}/png`), 1e9, never)), /not a public one/, host);
  assert.equal(requests, before);
  assert.match(await refusalOf(open.fetch(sourceOf(`${here}/metadata`), 1e9, never)), /not a public one/);
});

test("what was fetched is what its bytes say, whatever its sender says", async () => {
  assert.deepEqual(await open.fetch(sourceOf(`${here}/png`), 1e9, never), { kind: "data", mimeType: "image/png", data: png.toString("base64") });
  assert.deepEqual(await open.fetch(sourceOf(`${here}/there`), 1e9, never), { kind: "data", mimeType: "image/png", data: png.toString("base64") });
  assert.equal((await open.fetch(sourceOf(`${here}/text`, "file"), 1e9, never)).mimeType, "text/plain");
  assert.equal((await open.fetch(sourceOf(`${here}/pdf`, "file"), 1e9, never)).mimeType, "application/pdf");
  for (const [path, part] of [
    ["/lies", "image"],
    ["/pdf", "image"],
    ["/text", "image"],
    ["/png", "file"],
  ] as const)
    assert.match(await refusalOf(open.fetch(sourceOf(`${here}${path}`, part), 1e9, never)), /it is none of/, path);
});

test("what can't be fetched is told with its field, and with nothing that its server said", async () => {
  for (const [url, why] of [
    [`${here}/gone`, /its server answered 404/],
    [`${here}/round`, /redirects too often/],
    [`${here}/file`, /not an http\(s\) address/],
    [`http://user:secret@127.0.0.1:${port}/png`, /may not hold a name or password/],
    ["http://127.0.0.1:1/", /could not be reached/],
    [`${here}/endless`, /more than 3000000 bytes/],
  ] as const) {
    const message = await refusalOf(open.fetch(sourceOf(url), 3_000_000, never));
    assert.match(message, why);
    assert.doesNotMatch(message, /secret/);
  }
});

test("what is fetched for a caller who has left is given up", async () => {
  const left = new AbortController();
  const fetching = inlineSources([sourceOf(`${here}/silent`)], open.fetch, left.signal);
  await silentAsked.promise;
  left.abort();
  assert.match(await refusalOf(fetching), /did not arrive in time/);
});

test("an address that is named twice is fetched once, and there may be only so many", async () => {
  const before = requests;
  const put: unknown[] = [];
  const source = { ...sourceOf(`${here}/png`), replace: (value: unknown) => void put.push(value) };
  await inlineSources([source, source], open.fetch, never);
  assert.equal(requests, before + 1);
  assert.equal(put.length, 2);
  await assert.rejects(
    inlineSources(
      Array.from({ length: 33 }, () => source),
      open.fetch,
      never,
    ),
    /32 addresses at most/,
  );
});
