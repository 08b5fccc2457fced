/** Embeddings as the official client sees them. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { ask, startSimulator } from "../support.ts";

const path = "/v1/embeddings";
const lengthOf = (vector: number[]) => Math.hypot(...vector);

test("a text has the same unit vector in both encodings and each time", async (t) => {
  const { openai } = await startSimulator(t);
  const otherwise = await openai.embeddings.create({ model: "sim-embedding", input: "a cat" });
  const vector = otherwise.data[0]?.embedding ?? [];
  assert.equal(vector.length, 1_536);
  assert.ok(Math.abs(lengthOf(vector) - 1) < 1e-6);
  const floats = await openai.embeddings.create({ model: "sim-embedding", input: "a cat", encoding_format: "float" });
  assert.deepEqual(Float32Array.from(floats.data[0]?.embedding ?? []), Float32Array.from(vector));
  const bytes = await openai.embeddings.create({ model: "sim-embedding", input: "a cat", encoding_format: "base64" });
  assert.equal(Buffer.from(String(bytes.data[0]?.embedding), "base64").readFloatLE(4), vector[1]);
  assert.deepEqual(
    [otherwise.object, otherwise.model, otherwise.usage],
    ["list", "sim-embedding", { prompt_tokens: 2, total_tokens: 2 }],
  );
});

test("texts and tokens are accepted singly and in lists", async (t) => {
  const { openai } = await startSimulator(t);
  const vectorsOf = async (input: string | string[] | number[] | number[][], dimensions?: number) => {
    const { data, usage } = await openai.embeddings.create({ model: "m", input, ...(dimensions && { dimensions }) });
    assert.ok(data.every(({ index }, place) => index === place));
    return { vectors: data.map(({ embedding }) => embedding), tokens: usage.prompt_tokens };
  };
  const texts = await vectorsOf(["a cat", "a dog"]);
  assert.deepEqual(texts.vectors[0], (await vectorsOf("a cat")).vectors[0]);
  assert.notDeepEqual(texts.vectors[0], texts.vectors[1]);
  const tokens = await vectorsOf([1, 2, 3]);
  assert.deepEqual([tokens.vectors.length, tokens.tokens], [1, 3]);
  const lists = await vectorsOf([[1, 2, 3], [4]]);
  assert.deepEqual([lists.vectors.length, lists.tokens, lists.vectors[0]], [2, 4, tokens.vectors[0]]);
  const [short = []] = (await vectorsOf("a cat", 3)).vectors;
  const ratios = short.map((value, index) => value / (texts.vectors[0]?.[index] ?? 0));
  assert.ok(
    short.length === 3 &&
      Math.abs(lengthOf(short) - 1) < 1e-6 &&
      ratios.every((ratio) => Math.abs(ratio / (ratios[0] ?? 0) - 1) < 1e-5),
  );
});

test("invalid input is rejected with the name of the field, and faults apply", async (t) => {
  const { url } = await startSimulator(t);
  const cases: [object, string][] = [
    [{ model: "m" }, "input"],
    [{ input: "x" }, "model"],
    [{ model: "m", input: "" }, "input"],
    [{ model: "m", input: [] }, "input"],
    [{ model: "m", input: ["x", ""] }, "input[1]"],
    [{ model: "m", input: [1.5] }, "input[0]"],
    [{ model: "m", input: Array(2_049).fill("x") }, "input"],
    [{ model: "m", input: Array(2_048).fill("x"), dimensions: 4_096 }, "input"],
    [{ model: "m", input: "x", dimensions: 0 }, "dimensions"],
    [{ model: "m", input: "x", encoding_format: "text" }, "encoding_format"],
  ];
  for (const [body, param] of cases) {
    const heard = await ask({ url, path, body });
    assert.deepEqual([heard.status, JSON.parse(heard.text).error?.param], [400, param], heard.text.slice(0, 200));
  }
  assert.equal((await ask({ url, path, body: { model: "m;status=429", input: "x" } })).status, 429);
  assert.equal((await ask({ url, path, body: { model: "m;reset=0", input: "x" } })).ended, "ECONNRESET");
});
