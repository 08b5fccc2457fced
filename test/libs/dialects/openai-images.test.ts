import assert from "node:assert/strict";
import { test } from "node:test";
import { Compile } from "typebox/compile";
import type { WholeAnswer } from "#dialects/codec.ts";
import { emptyAnswer } from "#dialects/neutral/finish.ts";
import { geminiImageAnswerOf, geminiImageRequestOf } from "#dialects/openai-images/gemini.ts";
import { imageRequestSchema } from "#dialects/openai-images/schema.ts";
import { imageAnswerOf, imageEventsOf, imageStreamOf } from "#dialects/openai-images/verbatim.ts";
import { plainUsageOf } from "#dialects/usage.ts";

const imageSettings = { size: undefined, quality: undefined };

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
    assert.notEqual(imageAnswerOf(bytes, imageSettings).kind, "answer", data);
    assert.notEqual(imageEventsOf(bytes, "image_generation", imageSettings).kind, "answer", data);
  }
  for (const data of ['[{"b64_json":"AAAA"}]', '[{"url":"https://x/y"},{"b64_json":"AAAA","url":null}]']) {
    const bytes = Buffer.from(`{"created":1,"data":${data}}`);
    const answer = imageAnswerOf(bytes, imageSettings);
    assert.deepEqual(answer.kind === "answer" && answer.body, bytes, data);
  }
});

test("images reach the caller beside the errors of others, and only they are counted", () => {
  const failed = '{"error":{"code":"OutputImageSensitiveContentDetected","message":"The output may be sensitive."}}';
  for (const [data, count, message] of [
    [`[{"url":"https://x/y"},${failed}]`, 1],
    [`[${failed},{"b64_json":"AAAA","error":null},{"b64_json":"AAAA"}]`, 2],
    [`[${failed}]`, undefined, "The output may be sensitive."],
    [`[{"url":"https://x/y"},{}]`, undefined, emptyAnswer.message],
  ] as const) {
    const bytes = Buffer.from(`{"created":1,"data":${data}}`);
    const answer = imageAnswerOf(bytes, imageSettings);
    if (answer.kind === "answer") assert.deepEqual([answer.body, answer.usage?.images?.count], [bytes, count], data);
    else assert.equal(answer.kind === "error" && answer.error.message, message, data);
    const streamed = imageEventsOf(bytes, "image_generation", imageSettings);
    const events = streamed.kind === "answer" ? streamed.body.toString().match(/^data: /gm)?.length : undefined;
    assert.equal(events, count, data);
  }
});

test("a stream goes on after an image that failed, and counts the images that were made", () => {
  const stream = imageStreamOf(1, imageSettings);
  const out: Buffer[] = [];
  const events = [
    { type: "image_generation.partial_succeeded", image_index: 0, url: "https://x/0" },
    { type: "image_generation.partial_failed", image_index: 1, error: { code: "x", message: "sensitive" } },
    { type: "image_generation.partial_succeeded", image_index: 2, url: "https://x/2" },
    { type: "image_generation.completed", usage: { generated_images: 2, output_tokens: 100, total_tokens: 100 } },
  ];
  const sent = events.map((event) => JSON.stringify(event));
  for (const data of sent) stream.push({ event: undefined, data: Buffer.from(data) }, out);
  assert.equal(Buffer.concat(out).toString(), sent.map((data) => `data: ${data}\n\n`).join(""));
  assert.deepEqual([stream.error, stream.finished, stream.usage?.images], [undefined, true, { count: 2 }]);
});

test("sizes of every vendor are accepted, and Gemini gets their ratio or their name", async () => {
  const schema = Compile(imageRequestSchema);
  for (const [size, imageConfig] of [
    ["auto", undefined],
    ["adaptive", undefined],
    ["1024x1024", { aspectRatio: "1:1" }],
    ["1792x1024", { aspectRatio: "16:9" }],
    ["1024*1792", { aspectRatio: "9:16" }],
    ["1024X1024", { aspectRatio: "1:1" }],
    ["16:9", { aspectRatio: "16:9" }],
    ["2K", { imageSize: "2K" }],
    ["1.5K", "refused"],
    ["big", "refused"],
    ["0x0", "refused"],
  ] as const) {
    const values = { model: "m", prompt: "a cat", size };
    assert.ok(schema.Check(values), size);
    if (imageConfig === "refused") {
      await assert.rejects(geminiImageRequestOf(values, undefined, new Map(), "m"), /size must be such as/);
      continue;
    }
    const { body } = await geminiImageRequestOf(values, undefined, new Map(), "m");
    assert.deepEqual(JSON.parse(body.toString()).generationConfig.imageConfig, imageConfig, size);
  }
  for (const size of ["", "a b", "x".repeat(33), '"'])
    assert.ok(!schema.Check({ model: "m", prompt: "a cat", size }), size);
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
    const stream = imageStreamOf(count, imageSettings);
    for (const event of [completed, broken]) stream.push(event, []);
    assert.equal(stream.error?.message, message);
  }
});

test("the images of an answer are counted, with the size and the quality of the answer or else of the request", () => {
  const usageOf = (answer: WholeAnswer) => (answer.kind === "answer" ? answer.usage : undefined);
  const answerOf = (more: string) => Buffer.from(`{"data":[{"b64_json":"AA=="},{"url":"https://x/y"}]${more}}`);
  assert.deepEqual(usageOf(imageAnswerOf(answerOf(""), { size: "1024x1792", quality: "hd" }))?.images, {
    count: 2,
    size: "1024x1792",
    quality: "hd",
  });
  const reported = answerOf(',"size":"1024x1024","quality":"low","usage":{"input_tokens":5,"output_tokens":544}');
  assert.deepEqual(usageOf(imageAnswerOf(reported, { size: "auto", quality: "auto" })), {
    ...plainUsageOf(5, 544),
    units: { imageOutputTokens: 544 },
    images: { count: 2, size: "1024x1024", quality: "low" },
  });
  const unknown = imageEventsOf(answerOf(""), "image_edit", { size: "auto", quality: "<any>" });
  assert.deepEqual(usageOf(unknown)?.images, { count: 2 });
});

test("the images of a stream are counted as they are completed", () => {
  const stream = imageStreamOf(3, { size: "auto", quality: "high" });
  const push = (type: string, more: string) =>
    stream.push({ event: type, data: Buffer.from(`{"type":"${type}","b64_json":"AA=="${more}}`) }, []);
  push("image_generation.partial_image", ',"size":"1024x1024"');
  assert.equal(stream.usage?.images, undefined);
  for (let image = 0; image < 2; image++) push("image_generation.completed", ',"size":"1024x1024"');
  assert.deepEqual(stream.usage?.images, { count: 2, size: "1024x1024", quality: "high" });
});

test("an image that Gemini made is counted too", () => {
  const answer = {
    candidates: [
      { content: { parts: [{ inlineData: { mimeType: "image/png", data: "AA==" } }] }, finishReason: "STOP" },
    ],
    usageMetadata: {
      promptTokenCount: 261,
      candidatesTokenCount: 1290,
      promptTokensDetails: [{ modality: "IMAGE", tokenCount: 258 }],
    },
  };
  const read = geminiImageAnswerOf(answer, 0, undefined, { size: "1024x1024", quality: undefined });
  assert.deepEqual(read.kind === "answer" && read.usage, {
    ...plainUsageOf(261, 1290),
    units: { imageInputTokens: 258 },
    images: { count: 1, size: "1024x1024" },
  });
  const { usage } = JSON.parse(read.kind === "answer" ? read.body.toString() : "{}");
  assert.deepEqual(usage.input_tokens_details, { text_tokens: 3, image_tokens: 258 });
});
