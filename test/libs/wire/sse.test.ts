import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { type SseEvent, SseEventTooLarge, SseReader } from "#wire/sse.ts";

const bytesMax = 1 << 20;

/** The events of bytes that arrive in these chunks, and of their end. */
function eventsOf(chunks: Iterable<Buffer>): { event: string | undefined; data: string }[] {
  const reader = new SseReader(bytesMax);
  const events: SseEvent[] = [];
  for (const chunk of chunks) events.push(...reader.push(chunk));
  events.push(...reader.end());
  return events.map(({ event, data }) => ({ event, data: data.toString("latin1") }));
}

/**
 * The same by the specification's words, on the whole text at once; but for its end, which
 * completes the last event, for an object without a blank line after it, and for `error`.
 */
function expectedEventsOf(bytes: Buffer): { event: string | undefined; data: string }[] {
  const events: { event: string | undefined; data: string }[] = [];
  let data: string[] = [];
  let event: string | undefined;
  const text = bytes.toString("latin1").replace(/^\xef\xbb\xbf/, "");
  for (const line of [...text.split(/\r\n|\r|\n/), "", ""]) {
    if (line === "") {
      if (data.length > 0) events.push({ event, data: data.join("\n") });
      data = [];
      event = undefined;
      continue;
    }
    const [, field, value] = /^([^:]*):? ?([\s\S]*)$/.exec(line) ?? [];
    if (field === "data" || line.startsWith("error:")) {
      if (data.length === 1 && data[0] === "{}" && event === undefined) events.push({ event, data: data.pop() ?? "" });
      data.push(value ?? "");
      if (field === "error") event = "error";
    }
    if (field === "event") event = Buffer.from(value ?? "", "latin1").toString("utf8");
  }
  return events;
}

function* cutAt(bytes: Buffer, cuts: number[]): Generator<Buffer> {
  let from = 0;
  for (const cut of [...cuts.map((cut) => cut % (bytes.length + 1)), bytes.length].toSorted(
    (left, right) => left - right,
  )) {
    yield Buffer.from(bytes.subarray(from, cut));
    from = cut;
  }
}

const lines = fc.constantFrom(
  "data: {}",
  "data:x",
  "data",
  "data:  two",
  "datax: y",
  ": comment",
  ":",
  "event: error",
  "event:ping",
  "error: x",
  "error",
  "id: 7",
  "",
  "\uFEFFdata: é😀",
  "x:",
);
const endings = fc.constantFrom("\n", "\r", "\r\n", "\n\n", "\r\r", "\r\n\r\n", "\n\r\n", "");
const streams = fc.oneof(
  fc.array(fc.tuple(lines, endings), { maxLength: 30 }).map((parts) => Buffer.from(parts.flat().join(""))),
  fc.uint8Array({ maxLength: 200 }).map((bytes) => Buffer.from(bytes)),
  fc
    .array(fc.constantFrom(..."\r\n: dateuvn\uFEFF"), { maxLength: 100 })
    .map((characters) => Buffer.from(characters.join(""))),
);

test("any bytes give the events of the specification, however they are split", () => {
  fc.assert(
    fc.property(streams, fc.array(fc.nat(), { maxLength: 20 }), (bytes, cuts) => {
      const expected = expectedEventsOf(bytes);
      assert.deepEqual(eventsOf([bytes]), expected);
      assert.deepEqual(eventsOf(cutAt(bytes, cuts)), expected);
    }),
    { numRuns: 2_000 },
  );
});

test("bytes that arrive one by one give the same events", () => {
  fc.assert(
    fc.property(streams, (bytes) =>
      assert.deepEqual(eventsOf([...bytes].map((byte) => Buffer.from([byte]))), expectedEventsOf(bytes)),
    ),
  );
});

test("an event is complete with its blank line, without waiting for more bytes", () => {
  const reader = new SseReader(bytesMax);
  assert.deepEqual(reader.push(Buffer.from("data: 1\n")), []);
  assert.equal(reader.push(Buffer.from("\n")).length, 1);
  assert.equal(reader.push(Buffer.from("data: 2\r\r")).length, 1);
  assert.deepEqual(reader.push(Buffer.from("\n")), []);
  assert.deepEqual(reader.end(), []);
});

test("objects without a blank line between them are events, an object over several lines is one, and a field named error is an event of that name", () => {
  const read = (text: string) => eventsOf([Buffer.from(text)]).map(({ event, data }) => [event, data]);
  assert.deepEqual(read('data: {"a":1}\ndata: {"b":2}\ndata:{"c":3}\ndata: [DONE]\n'), [
    [undefined, '{"a":1}'],
    [undefined, '{"b":2}'],
    [undefined, '{"c":3}'],
    [undefined, "[DONE]"],
  ]);
  assert.deepEqual(read('data: {"a":{}\ndata: }\n\ndata: {\ndata: "b": {}\ndata: }\n\n'), [
    [undefined, '{"a":{}\n}'],
    [undefined, '{\n"b": {}\n}'],
  ]);
  assert.deepEqual(read('data: {"a":1}\n\nerror: {"code":400}\n\ndata: [DONE]\n\n'), [
    [undefined, '{"a":1}'],
    ["error", '{"code":400}'],
    [undefined, "[DONE]"],
  ]);
});

test("an event above the size bound is rejected, however it is split into lines and chunks", () => {
  const chunk = Buffer.alloc(1_000, "x");
  const feed = (prefix: string, suffix: string) => () => {
    const reader = new SseReader(10_000);
    for (let count = 0; count < 12; count++)
      reader.push(Buffer.concat([Buffer.from(prefix), chunk, Buffer.from(suffix)]));
  };
  assert.throws(feed("", ""), SseEventTooLarge);
  assert.throws(feed("data: ", "\n"), SseEventTooLarge);
  assert.throws(() => new SseReader(10_000).push(Buffer.from(`data: ${"x".repeat(10_001)}\n\n`)), SseEventTooLarge);
  assert.doesNotThrow(feed("data: ", "\n\n"));
  assert.doesNotThrow(feed(": ", "\n"));
});

test("an event of a million empty data lines is rejected, in one chunk or many; as many one-line events are accepted", () => {
  const lines = Buffer.from("data:\n".repeat(1_000_000));
  for (const chunkBytes of [lines.length, 65_536, 7]) {
    const reader = new SseReader(32 << 20);
    assert.throws(() => {
      for (let at = 0; at < lines.length; at += chunkBytes) reader.push(lines.subarray(at, at + chunkBytes));
    }, SseEventTooLarge);
  }
  assert.equal(new SseReader(bytesMax).push(Buffer.from("data:\n\n".repeat(100_000))).length, 100_000);
  const [long] = new SseReader(bytesMax).push(Buffer.from(`${"data: x\n".repeat(10_000)}\n`));
  assert.equal(long?.data.toString(), Array(10_000).fill("x").join("\n"));
});

test("a line that arrives byte by byte takes about as much memory as it has bytes", () => {
  const reader = new SseReader(32 << 20);
  const byte = Buffer.from("x");
  reader.push(Buffer.from("data: "));
  const usedBefore = process.memoryUsage();
  for (let count = 0; count < 2_000_000; count++) reader.push(byte.subarray(0));
  const used = process.memoryUsage();
  const grown = used.heapUsed - usedBefore.heapUsed + used.external - usedBefore.external;
  assert.ok(grown < 60 << 20, `${grown} bytes`);
  assert.equal(reader.push(Buffer.from("\n\n"))[0]?.data.length, 2_000_000);
});
