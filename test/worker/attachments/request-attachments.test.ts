import assert from "node:assert/strict";
import { after, test } from "node:test";
import type { Data } from "#dialects/neutral/attachments.ts";
import { Refusal } from "#dialects/neutral/field-support.ts";
import { networksOf } from "#service/public-agent.ts";
import { AttachmentBudget } from "../../../apps/worker/attachments/attachment-budget.ts";
import { createAttachmentFetcher } from "../../../apps/worker/attachments/attachment-fetcher.ts";
import { AttachmentsBusy, RequestAttachments } from "../../../apps/worker/attachments/request-attachments.ts";
import { bodyAnswer, startScriptedUpstream } from "../../support/upstream.ts";

const mebibyte = 1 << 20;
const pngStart = Buffer.from("\x89PNG\r\n\x1a\n", "latin1");
const imageOf = (bytes: number) => Buffer.concat([pngStart, Buffer.alloc(bytes - pngStart.length, "picture")]);

/**
 * Serves `/<bytes>` as an image of that size: with `?chunked` without its length, with `?head` only
 * its length and no body.
 */
const urls: string[] = [];
const server = await startScriptedUpstream((response, { path }) => {
  const { pathname, search } = new URL(path, "http://here");
  const bytes = Number(pathname.slice(1));
  urls.push(pathname);
  if (pathname === "/text") bodyAnswer("a text", "text/plain")(response);
  else if (search === "?head") response.writeHead(200, { "content-length": bytes }).flushHeaders();
  else if (search === "?chunked") response.writeHead(200).end(imageOf(bytes));
  else response.writeHead(200, { "content-length": bytes }).end(imageOf(bytes));
});
const fetcher = createAttachmentFetcher(networksOf("127.0.0.0/8"));
after(async () => {
  await fetcher.close();
  await server[Symbol.asyncDispose]();
});

const never = new AbortController().signal;

/** A request that names these addresses in order. */
function requestWith(attachments: RequestAttachments, paths: string[], part: "image" | "file" = "image") {
  const data: string[] = [];
  const replace = (place: number) => (attachment: Data) => {
    data[place] = attachment.data;
  };
  return {
    inline: (waitMs = 60_000, signal = never) =>
      attachments.inline(
        paths.map((path, place) => ({
          part,
          url: `${server.origin}/${path}`,
          path: `input[${place}]`,
          replace: replace(place),
        })),
        waitMs,
        signal,
      ),
    body: () => attachments.filled(Buffer.from(JSON.stringify({ data }))),
  };
}
/** The bytes that the upstream gets. */
const sent = async (body: ReturnType<RequestAttachments["filled"]>) =>
  (Buffer.isBuffer(body) ? body : Buffer.concat(await Array.fromAsync(body))).toString();
const jsonWith = (...images: Buffer[]) => JSON.stringify({ data: images.map((image) => image.toString("base64")) });

test("a request is sent with its fetched attachments, and reserves nothing afterwards", async () => {
  const budget = new AttachmentBudget(64 * mebibyte);
  const request = requestWith(new RequestAttachments(fetcher, budget, "key"), ["100001", "2000000?chunked", "100001"]);
  await request.inline();
  assert.equal(budget.reservedBytes, (3 + 41) * 65_536);
  const body = request.body();
  assert.ok(!Buffer.isBuffer(body));
  const expected = jsonWith(imageOf(100_001), imageOf(2_000_000), imageOf(100_001));
  assert.equal(body.byteLength, expected.length);
  assert.ok((await sent(body)) === expected);
  assert.equal(budget.reservedBytes, 0);
});

test("a text attachment becomes part of the request; a request without attachments stays unchanged", async () => {
  const attachments = new RequestAttachments(fetcher, new AttachmentBudget(mebibyte), "key");
  const none = Buffer.from("{}");
  assert.equal(attachments.filled(none), none);
  const request = requestWith(attachments, ["text"], "file");
  await request.inline();
  assert.equal(await sent(request.body()), jsonWith(Buffer.from("a text")));
});

test("a retry before the request was sent reuses the fetched attachments, and a later one fetches them again", async () => {
  const budget = new AttachmentBudget(64 * mebibyte);
  const request = requestWith(new RequestAttachments(fetcher, budget, "key"), ["300"]);
  const before = urls.length;
  await request.inline();
  const first = request.body();
  await request.inline();
  const second = request.body();
  assert.equal(urls.length, before + 1);
  assert.ok(!Buffer.isBuffer(first));
  // The first body stops while it is sent, as for an upstream that answers early; the second body
  // is complete.
  const reader = first[Symbol.asyncIterator]();
  await reader.next();
  await reader.return?.();
  assert.equal(await sent(second), jsonWith(imageOf(300)));
  assert.equal(budget.reservedBytes, 0);
  await request.inline();
  assert.equal(urls.length, before + 2);
  assert.equal(await sent(request.body()), jsonWith(imageOf(300)));
});

test("a request that is over reserves nothing, whether or not it was sent", async () => {
  const budget = new AttachmentBudget(64 * mebibyte);
  const attachments = new RequestAttachments(fetcher, budget, "key");
  const request = requestWith(attachments, ["300"]);
  await request.inline();
  request.body();
  assert.equal(budget.reservedBytes, 65_536);
  attachments.release();
  assert.equal(budget.reservedBytes, 0);
});

test("requests that together exceed the budget are served one after the other, and none fails", async () => {
  const budget = new AttachmentBudget(5 * mebibyte);
  let heldMost = 0;
  const served = await Promise.all(
    Array.from({ length: 6 }, async (_, place) => {
      const request = requestWith(new RequestAttachments(fetcher, budget, `key ${place}`), [
        "1500000",
        place % 2 === 0 ? "1000003" : "1000000?chunked",
      ]);
      await request.inline();
      heldMost = Math.max(heldMost, budget.reservedBytes);
      return (await sent(request.body())).length;
    }),
  );
  assert.deepEqual(
    served,
    [0, 1, 2, 3, 4, 5].map(
      (place) => jsonWith(imageOf(1_500_000), imageOf(place % 2 === 0 ? 1_000_003 : 1_000_000)).length,
    ),
  );
  assert.ok(heldMost <= 5 * mebibyte);
  assert.deepEqual([budget.reservedBytes, budget.waiting], [0, 0]);
});

test("a request that waits too long gets a Retry-After, and one whose caller leaves reserves nothing", async () => {
  const budget = new AttachmentBudget(5 * mebibyte);
  const holder = requestWith(new RequestAttachments(fetcher, budget, "holder"), ["3000000"]);
  await holder.inline();
  const late = requestWith(new RequestAttachments(fetcher, budget, "late"), ["2000000"]);
  await assert.rejects(
    late.inline(1),
    (error) => error instanceof AttachmentsBusy && error.failure.code === "overloaded",
  );
  const left = new AbortController();
  const leaving = late.inline(60_000, left.signal);
  left.abort();
  await assert.rejects(leaving, Refusal);
  assert.deepEqual([budget.reservedBytes, budget.waiting], [62 * 65_536, 0]);
  holder.body();
});

test("an attachment that exceeds the budget is refused by its field before it is read", async () => {
  const refused = (paths: string[], budget: number) =>
    requestWith(new RequestAttachments(fetcher, new AttachmentBudget(budget), "key"), paths).inline();
  await assert.rejects(
    refused(["2000000?head"], 2 * mebibyte),
    (error) => error instanceof Refusal && error.param === "input[0]" && /held at once/.test(error.message),
  );
  await assert.rejects(refused(["2000000?chunked"], 2 * mebibyte), /held at once/);
  // An attachment that is named three times counts three times.
  await assert.rejects(
    refused(["20000000?head", "20000000?head", "20000000?head"], 512 * mebibyte),
    /more than 52428800 bytes/,
  );
});

test("sent bytes do not change when their blocks are reused", async () => {
  const budget = new AttachmentBudget(64 * mebibyte);
  // Another reservation keeps the pool's blocks.
  const other = requestWith(new RequestAttachments(fetcher, budget, "other"), ["300"]);
  await other.inline();
  const first = requestWith(new RequestAttachments(fetcher, budget, "key"), ["300001"]);
  await first.inline();
  const chunks = await Array.fromAsync(first.body() as AsyncIterable<Buffer>);
  const second = requestWith(new RequestAttachments(fetcher, budget, "key"), ["text"], "file");
  await second.inline();
  const third = requestWith(new RequestAttachments(fetcher, budget, "key"), ["400000"]);
  await third.inline();
  assert.ok(Buffer.concat(chunks).toString() === jsonWith(imageOf(300_001)));
  assert.ok((await sent(third.body())) === jsonWith(imageOf(400_000)));
});

test("a body whose request is over ends at once", async () => {
  const attachments = new RequestAttachments(fetcher, new AttachmentBudget(64 * mebibyte), "key");
  const request = requestWith(attachments, ["300001"]);
  await request.inline();
  const reader = (request.body() as AsyncIterable<Buffer>)[Symbol.asyncIterator]();
  await reader.next();
  await reader.next();
  attachments.release();
  const rest = await Array.fromAsync({ [Symbol.asyncIterator]: () => reader });
  assert.deepEqual(rest.map(String), ['"]}']);
});
