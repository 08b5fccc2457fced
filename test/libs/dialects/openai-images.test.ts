import assert from "node:assert/strict";
import { test } from "node:test";
import { imageAnswerOf, imageEventsOf, imageStreamOf } from "#dialects/openai-images/verbatim.ts";

test("an answer without an image is a failure, whole or streamed", () => {
  for (const data of [
    "[]",
    "null",
    '""',
    "[null]",
    "[{}]",
    '[{"b64_json":null}]',
    '[{"b64_json":"AAAA"},{"url":null}]',
  ]) {
    const bytes = Buffer.from(`{"created":1,"data":${data}}`);
    assert.notEqual(imageAnswerOf(bytes).kind, "answer", data);
    assert.notEqual(imageEventsOf(bytes, "image_generation").kind, "answer", data);
  }
  for (const data of ['[{"b64_json":"AAAA"}]', '[{"url":"https://x/y"},{"b64_json":"AAAA","url":null}]']) {
    const bytes = Buffer.from(`{"created":1,"data":${data}}`);
    assert.deepEqual(imageAnswerOf(bytes), { kind: "answer", body: bytes, usage: undefined }, data);
  }
});

test("an unreadable event fails a stream unless all images arrived", () => {
  const completed = {
    event: "image_generation.completed",
    data: Buffer.from('{"type":"image_generation.completed","b64_json":"AAAA"}'),
  };
  const broken = { event: undefined, data: Buffer.from('{"type":"image_generation.compl') };
  for (const [count, message] of [
    [1, undefined],
    [2, "The upstream of this model sent an event that is not in its format, so its answer may be incomplete."],
  ] as const) {
    const stream = imageStreamOf(count);
    for (const event of [completed, broken]) stream.push(event, []);
    assert.equal(stream.error?.message, message);
  }
});
