import assert from "node:assert/strict";
import { after, test } from "node:test";
import type { RemoteAttachment } from "#dialects/neutral/attachments.ts";
import { Refusal } from "#dialects/neutral/field-support.ts";
import { isReachable, networksOf } from "#service/public-agent.ts";
import { AttachmentBudget } from "../../../apps/worker/attachments/attachment-budget.ts";
import { createAttachmentFetcher } from "../../../apps/worker/attachments/attachment-fetcher.ts";
import { BlockPool, partsOf } from "../../../apps/worker/attachments/base64.ts";
import { Pace } from "../../../apps/worker/attachments/pace.ts";
import { RequestAttachments } from "../../../apps/worker/attachments/request-attachments.ts";
import { png } from "../../support/png.ts";
import { bodyAnswer, startScriptedUpstream, type UpstreamAnswer } from "../../support/upstream.ts";

const silentRequest = Promise.withResolvers<void>();
const answers: Record<string, UpstreamAnswer> = {
  "/png": bodyAnswer(png, "text/html"),
  "/lies": bodyAnswer("<html>", "image/png"),
  "/text": bodyAnswer("hello", "text/plain; charset=utf-8"),
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
    response.write(png);
    more();
  },
  "/huge": (response) => response.writeHead(200, { "content-length": String(21 << 20) }).flushHeaders(),
  "/book": bodyAnswer("a".repeat((2 << 20) + 1), "text/plain"),
  "/silent": () => silentRequest.resolve(),
};
const server = await startScriptedUpstream((response, request) => answers[request.path]?.(response, request));
const { port, origin: here, requests } = server;

const open = createAttachmentFetcher(networksOf("127.0.0.0/8, ::1/128"));
const closed = createAttachmentFetcher([]);
after(async () => {
  await Promise.all([open.close(), closed.close(), server[Symbol.asyncDispose]()]);
});

const attachmentOf = (url: string, part: "image" | "file" = "image"): RemoteAttachment => ({
  url,
  part,
  path: "messages[0].content[1]",
  replace: () => undefined,
});

const never = new AbortController().signal;
const any = { claim: () => undefined, pool: new BlockPool(), pace: new Pace() };
const dataOf = async (fetching: ReturnType<typeof open.fetch>) => {
  const { mimeType, ...base64 } = await fetching;
  return { mimeType, data: Buffer.concat([...partsOf(base64)]).toString() };
};
/** Attachments of a request of one key, out of a budget of this size. */
const attachmentsWith = (bytesMax = 100 << 20) => new RequestAttachments(open, new AttachmentBudget(bytesMax), "key");

const refusalOf = async (fetched: Promise<unknown>): Promise<string> => {
  const error = await fetched.then(
    () => assert.fail("was fetched"),
    (failure: unknown) => failure,
  );
  assert.ok(error instanceof Refusal);
  assert.equal(error.param, "messages[0].content[1]");
  return error.message;
};

test("only public addresses are reachable, in any notation", () => {
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

test("a private address is refused before a request is made: literal, by name, in odd notations, and behind a redirect", async () => {
  const before = requests.length;
  for (const host of [
    "127.0.0.1",
    "localhost",
    "[::1]",
    "[::ffff:127.0.0.1]",
    "127.1",
    "0x7f000001",
    "2130706433",
    "0177.0.0.1",
  ])
    assert.match(
      await refusalOf(closed.fetch(attachmentOf(`http://${host}:${port}/png`), any, never)),
      /not a public one/,
      host,
    );
  assert.equal(requests.length, before);
  assert.match(await refusalOf(open.fetch(attachmentOf(`${here}/metadata`), any, never)), /not a public one/);
});

test("the content decides an attachment's type, not its server's header", async () => {
  assert.deepEqual(await dataOf(open.fetch(attachmentOf(`${here}/png`), any, never)), {
    mimeType: "image/png",
    data: png.toString("base64"),
  });
  assert.deepEqual(await dataOf(open.fetch(attachmentOf(`${here}/there`), any, never)), {
    mimeType: "image/png",
    data: png.toString("base64"),
  });
  assert.equal((await open.fetch(attachmentOf(`${here}/text`, "file"), any, never)).mimeType, "text/plain");
  assert.equal((await open.fetch(attachmentOf(`${here}/pdf`, "file"), any, never)).mimeType, "application/pdf");
  for (const [path, part] of [
    ["/lies", "image"],
    ["/pdf", "image"],
    ["/text", "image"],
    ["/png", "file"],
  ] as const)
    assert.match(await refusalOf(open.fetch(attachmentOf(`${here}${path}`, part), any, never)), /it is none of/, path);
});

test("a failed fetch names the caller's field and repeats nothing that the server sent", async () => {
  for (const [url, why, part = "image"] of [
    [`${here}/gone`, /its server answered 404/],
    [`${here}/round`, /redirects too often/],
    [`${here}/file`, /not an http\(s\) address/],
    [`http://user:secret@127.0.0.1:${port}/png`, /may not hold a name or password/],
    ["http://127.0.0.1:1/", /could not be reached/],
    ["not an address", /not an http\(s\) address/],
    [`${here}/endless`, /more than 20971520 bytes/],
    [`${here}/huge`, /more than 20971520 bytes/],
    [`${here}/book`, /more than 2097152 bytes/, "file"],
  ] as const) {
    const message = await refusalOf(open.fetch(attachmentOf(url, part), any, never));
    assert.match(message, why);
    assert.doesNotMatch(message, /secret/);
  }
});

test("a fetch ends when its caller leaves", async () => {
  const left = new AbortController();
  const fetching = attachmentsWith().inline([attachmentOf(`${here}/silent`)], 1_000, left.signal);
  await silentRequest.promise;
  left.abort();
  assert.match(await refusalOf(fetching), /its request is over/);
});

test("an address that is named twice is fetched once, and the number of addresses is bounded", async () => {
  const before = requests.length;
  const put: unknown[] = [];
  const attachment = { ...attachmentOf(`${here}/png`), replace: (value: unknown) => void put.push(value) };
  await attachmentsWith().inline([attachment, attachment], 1_000, never);
  assert.equal(requests.length, before + 1);
  assert.equal(put.length, 2);
  await assert.rejects(
    attachmentsWith().inline(
      Array.from({ length: 33 }, () => attachment),
      1_000,
      never,
    ),
    /32 addresses at most/,
  );
});

test("an address that is passed to an upstream is checked like a fetched one, but not called", async () => {
  const before = requests.length;
  for (const url of [
    `${here}/png`,
    `http://localhost:${port}/png`,
    "http://[::ffff:10.0.0.1]/",
    "file:///etc/passwd",
    "http://a:b@8.8.8.8/",
    "http://no-such-host.invalid/",
  ])
    await refusalOf(closed.check(attachmentOf(url)));
  await open.check(attachmentOf(`${here}/png`));
  await closed.check(attachmentOf("https://8.8.8.8/a.png"));
  assert.equal(requests.length, before);
});

test("an upstream is public if all its addresses are; an unresolvable one only if a proxy may resolve it", async () => {
  assert.equal(await open.isPublic("https://8.8.8.8/v1"), true);
  for (const url of [`${here}/v1`, "http://localhost/v1", "http://[fd00::1]/v1", "http://no-such-host.invalid/"])
    assert.equal(await open.isPublic(url), false, url);
  const proxied = createAttachmentFetcher([], true);
  assert.equal(await proxied.isPublic("http://no-such-host.invalid/"), true);
  await proxied.close();
});
