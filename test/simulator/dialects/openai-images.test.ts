/**
 * Images as the official client sees them: whole, streamed, and edits of images that come in a
 * form.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { crc32, inflateSync } from "node:zlib";
import OpenAI, { toFile } from "openai";
import { ask, startSimulator } from "../support.ts";

/** Checks every chunk of a PNG and gives its measures. */
function pictureIn(file: Buffer): { width: number; height: number } {
  assert.equal(file.subarray(0, 8).toString("latin1"), "\x89PNG\r\n\x1a\n");
  const data: Buffer[] = [];
  let at = 8;
  let last = "";
  while (at < file.length) {
    const length = file.readUInt32BE(at);
    last = file.toString("latin1", at + 4, at + 8);
    assert.equal(file.readUInt32BE(at + 8 + length), crc32(file.subarray(at + 4, at + 8 + length)), last);
    if (last === "IDAT") data.push(file.subarray(at + 8, at + 8 + length));
    at += 12 + length;
  }
  assert.equal(last, "IEND");
  const [width, height] = [file.readUInt32BE(16), file.readUInt32BE(20)];
  assert.equal(inflateSync(Buffer.concat(data)).length, height * (1 + Math.ceil(width / 8)));
  return { width, height };
}

test("images are valid, small, different from each other, deterministic, and of the requested size", async (t) => {
  const { openai } = await startSimulator(t);
  const answer = await openai.images.generate({ model: "sim-image", prompt: "a cat", n: 2, size: "1536x1024" });
  const files = (answer.data ?? []).map(({ b64_json: data }) => Buffer.from(data ?? "", "base64"));
  assert.equal(files.length, 2);
  for (const file of files) {
    assert.deepEqual(pictureIn(file), { width: 1_536, height: 1_024 });
    assert.ok(file.length < 5_000);
  }
  assert.notDeepEqual(files[0], files[1]);
  const again = await openai.images.generate({ model: "sim-image", prompt: "a cat", n: 2, size: "1536x1024" });
  assert.deepEqual(again.data, answer.data);
  assert.ok(answer.usage && answer.usage.total_tokens === answer.usage.input_tokens + answer.usage.output_tokens);
});

test("an image can be made as large as a test needs, and stays valid", async (t) => {
  const { openai } = await startSimulator(t);
  const answer = await openai.images.generate({ model: "sim-image;image-bytes=3000000", prompt: "a cat" });
  const file = Buffer.from(answer.data?.[0]?.b64_json ?? "", "base64");
  assert.equal(file.length, 3_000_000);
  assert.deepEqual(pictureIn(file), { width: 1_024, height: 1_024 });
});

test("faults apply to images", async (t) => {
  const { url } = await startSimulator(t);
  const heard = await ask({
    url,
    path: "/v1/images/generations",
    body: { model: "sim-image;status=500", prompt: "x" },
  });
  assert.deepEqual([heard.status, JSON.parse(heard.text).error.type], [500, "server_error"]);
  const cut = await ask({ url, path: "/v1/images/generations", body: { model: "sim-image;reset=0", prompt: "x" } });
  assert.equal(cut.status, 0);
});

test("an unsupported request is rejected with the name of the field", async (t) => {
  const { url } = await startSimulator(t);
  const paramOf = async (body: object) =>
    JSON.parse((await ask({ url, path: "/v1/images/generations", body })).text).error.param;
  assert.equal(await paramOf({ model: "m" }), "prompt");
  assert.equal(await paramOf({ prompt: "x", size: "9000x10" }), "size");
  assert.equal(await paramOf({ prompt: "x", stream: "yes" }), "stream");
  assert.equal(await paramOf({ prompt: "x", partial_images: 4 }), "partial_images");
});

/** The events of a stream, with what is in their pictures instead of these. */
async function eventsIn(stream: AsyncIterable<OpenAI.ImageGenStreamEvent | OpenAI.ImageEditStreamEvent>) {
  const events = await Array.fromAsync(stream);
  return events.map(({ b64_json: data, ...event }) => ({ ...event, file: Buffer.from(data, "base64") }));
}

test("a streamed image follows its partial images and equals the whole one", async (t) => {
  const { openai } = await startSimulator(t);
  const request = { model: "sim-image", prompt: "a cat", size: "1024x1536" as const };
  const whole = await openai.images.generate(request);
  const events = await eventsIn(await openai.images.generate({ ...request, stream: true, partial_images: 2 }));
  assert.deepEqual(
    events.map((event) => [event.type, "partial_image_index" in event ? event.partial_image_index : undefined]),
    [
      ["image_generation.partial_image", 0],
      ["image_generation.partial_image", 1],
      ["image_generation.completed", undefined],
    ],
  );
  for (const { file, size } of events)
    assert.deepEqual([pictureIn(file), size], [{ width: 1_024, height: 1_536 }, "1024x1536"]);
  const last = events.at(-1);
  assert.ok(last?.type === "image_generation.completed");
  assert.equal(last.file.toString("base64"), whole.data?.[0]?.b64_json);
  assert.equal(new Set(events.map(({ file }) => file.toString("base64"))).size, 3);
  assert.deepEqual({ ...last.usage }, { ...whole.usage });
});

test("several images are streamed in order, and large ones complete", async (t) => {
  const { openai } = await startSimulator(t);
  const request = { model: "sim-image;image-bytes=2000000", prompt: "a cat", n: 2, stream: true as const };
  const events = await eventsIn(await openai.images.generate({ ...request, partial_images: 1 }));
  const types = ["image_generation.partial_image", "image_generation.completed"];
  assert.deepEqual(
    events.map(({ type }) => type),
    [...types, ...types],
  );
  assert.ok(events.every(({ file }) => file.length === 2_000_000));
  assert.equal(
    (await eventsIn(await openai.images.generate({ model: "sim-image", prompt: "x", stream: true }))).length,
    1,
  );
});

test("an edit reports and counts its images, and they change the result", async (t) => {
  const { openai, simulator } = await startSimulator(t);
  const fileOf = (bytes: number, type = "image/png", name = "a.png") => toFile(Buffer.alloc(bytes, 7), name, { type });
  const request = { model: "sim-image", prompt: "a hat", size: "1024x1024" as const };
  const one = await openai.images.edit({ ...request, image: await fileOf(70) });
  assert.equal(one.data?.[0]?.revised_prompt, "a hat (from a.png, image/png, 70 bytes)");
  const image = [await fileOf(70), await fileOf(90, "image/webp", "b.webp")];
  const two = await openai.images.edit({ ...request, image, mask: await fileOf(10), n: 2 });
  assert.equal(
    two.data?.[1]?.revised_prompt,
    "a hat (from a.png, image/png, 70 bytes; b.webp, image/webp, 90 bytes; with a mask: a.png, image/png, 10 bytes)",
  );
  assert.equal(two.usage?.input_tokens_details.image_tokens, 2 * (one.usage?.input_tokens_details.image_tokens ?? 0));
  assert.notEqual(one.data?.[0]?.b64_json, two.data?.[0]?.b64_json);
  const events = await eventsIn(
    await openai.images.edit({ ...request, image: await fileOf(70), stream: true, partial_images: 1 }),
  );
  assert.deepEqual(
    events.map(({ type }) => type),
    ["image_edit.partial_image", "image_edit.completed"],
  );
  assert.equal(events[1]?.file.toString("base64"), one.data?.[0]?.b64_json);
  assert.equal(simulator.journal.list({ model: "sim-image" }).length, 3);
});

test("an invalid form is rejected with the name of the field", async (t) => {
  const { openai, url } = await startSimulator(t);
  const edit = async (more: object) => {
    const image = await toFile(Buffer.alloc(9), "a.png", { type: "image/png" });
    return openai.images.edit({
      model: "sim-image",
      prompt: "x",
      image,
      ...more,
    } as OpenAI.ImageEditParamsNonStreaming);
  };
  const cases: [object, string, string | null][] = [
    [{ image: undefined }, "image", "missing_required_parameter"],
    [{ image: "a.png" }, "image", null],
    [
      { image: await toFile(Buffer.alloc(9), "a.bin", { type: "application/octet-stream" }) },
      "image",
      "unsupported_file_mimetype",
    ],
    [{ image: await toFile(Buffer.alloc(0), "a.png", { type: "image/png" }) }, "image", "empty_image_file"],
    [{ mask: await toFile(Buffer.alloc(9), "a.gif", { type: "image/gif" }) }, "mask", "unsupported_file_mimetype"],
    [{ prompt: undefined }, "prompt", null],
    [{ n: "many" }, "n", null],
  ];
  for (const [more, param, code] of cases)
    await assert.rejects(
      edit(more),
      (error) => error instanceof OpenAI.BadRequestError && error.param === param && error.code === code,
      JSON.stringify(more),
    );
  const path = "/v1/images/edits";
  const torn = await ask({
    url,
    path,
    body: "--b\r\nnothing",
    headers: { "content-type": "multipart/form-data; boundary=b" },
  });
  assert.match(JSON.parse(torn.text).error.message, /not a form/);
  const json = await ask({
    url,
    path,
    body: { prompt: "x", image: { name: "a.png", type: "image/png", data: "QUJD" } },
  });
  assert.deepEqual([json.status, JSON.parse(json.text).error.param], [400, "image"]);
});

test("faults apply to streamed images after the given tokens", async (t) => {
  const { url, openai } = await startSimulator(t);
  const typesOf = async (settings: string) => {
    const body = { model: `sim-image;${settings}`, prompt: "x", stream: true, partial_images: 1 };
    const { text, ended } = await ask({ url, path: "/v1/images/generations", body });
    return [ended, ...[...text.matchAll(/^event: (.*)\ndata: \{.*\}$/gm)].map((match) => match[1])];
  };
  const [partial, completed] = ["image_generation.partial_image", "image_generation.completed"];
  assert.deepEqual(await typesOf("rate=100000"), ["clean", partial, completed]);
  assert.deepEqual(await typesOf("cut=100"), ["clean"]);
  assert.deepEqual(await typesOf("cut=200"), ["clean", partial]);
  assert.deepEqual(await typesOf("reset=200"), ["ECONNRESET", partial]);
  assert.deepEqual(await typesOf("error=200"), ["clean", partial, "error"]);
  assert.deepEqual(await typesOf("error=0"), ["clean", "error"]);
  assert.deepEqual(await typesOf("malformed=1"), ["clean", completed]);
  assert.deepEqual(await typesOf("no-end"), ["clean", partial]);
  const stream = await openai.images.generate({ model: "sim-image;error=1", prompt: "x", stream: true });
  await assert.rejects(eventsIn(stream), { message: /told to fail/ });
});
