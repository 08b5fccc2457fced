import assert from "node:assert/strict";
import { test } from "node:test";
import { crc32, inflateSync } from "node:zlib";
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

test("images are valid, of the size asked for, small, different from each other and always the same", async (t) => {
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

test("an image can be made as large as a test needs it, and stays valid", async (t) => {
  const { openai } = await startSimulator(t);
  const answer = await openai.images.generate({ model: "sim-image;image-bytes=3000000", prompt: "a cat" });
  const file = Buffer.from(answer.data?.[0]?.b64_json ?? "", "base64");
  assert.equal(file.length, 3_000_000);
  assert.deepEqual(pictureIn(file), { width: 1_024, height: 1_024 });
});

test("the faults strike images too", async (t) => {
  const { url } = await startSimulator(t);
  const heard = await ask({ url, path: "/v1/images/generations", body: { model: "sim-image;status=500", prompt: "x" } });
  assert.deepEqual([heard.status, JSON.parse(heard.text).error.type], [500, "server_error"]);
  const cut = await ask({ url, path: "/v1/images/generations", body: { model: "sim-image;reset=0", prompt: "x" } });
  assert.equal(cut.status, 0);
});

test("what cannot be made is refused with the name of the field", async (t) => {
  const { url } = await startSimulator(t);
  const paramOf = async (body: object) => JSON.parse((await ask({ url, path: "/v1/images/generations", body })).text).error.param;
  assert.equal(await paramOf({ model: "m" }), "prompt");
  assert.equal(await paramOf({ prompt: "x", size: "9000x10" }), "size");
  assert.equal(await paramOf({ prompt: "x", stream: true }), "stream");
});
