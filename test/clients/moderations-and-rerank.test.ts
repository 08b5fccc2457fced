/**
 * Moderation, rankings and variations of images: the official client where it has them, and
 * Cohere's and Jina's formats as their clients send them.
 */
import assert from "node:assert/strict";
import { createReadStream } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import OpenAI from "openai";
import { png } from "../support/png.ts";
import { startClientsGateway } from "./support.ts";

const gateway = await startClientsGateway();
after(() => gateway[Symbol.asyncDispose]());
const client = gateway.client();

test("moderations: a text, several texts, and a text with an image; without a model it is the latest of OpenAI", async () => {
  const one = await client.moderations.create({ model: "moderation", input: "I will kill the process" });
  assert.deepEqual(
    [one.model, one.results.length, one.results[0]?.flagged, one.results[0]?.categories.violence],
    ["moderation", 1, true, true],
  );
  const several = await client.moderations.create({ input: ["good morning", "I hate rain"] });
  assert.deepEqual(
    [several.model, several.results.map(({ flagged }) => flagged)],
    ["omni-moderation-latest", [false, true]],
  );
  const mixed = await client.moderations.create({
    input: [
      { type: "text", text: "what is this?" },
      { type: "image_url", image_url: { url: `data:image/png;base64,${png.toString("base64")}` } },
    ],
  });
  assert.deepEqual(mixed.results[0]?.category_applied_input_types.violence, ["text", "image"]);
});

test("moderations: an unknown model, and a model that does not serve them, are named in the error", async () => {
  for (const [model, status] of [
    ["no-such-model", 404],
    ["gemini-text", 400],
  ] as const)
    await assert.rejects(
      client.moderations.create({ model, input: "a" }),
      (error: InstanceType<typeof OpenAI.APIError>) => error.status === status && error.param === "model",
    );
});

interface Ranking {
  id: string;
  model: string;
  results: { index: number; relevance_score: number; document?: { text: string } }[];
  usage: { total_tokens: number };
  meta: { api_version: { version: string } };
}

async function rank(path: string, model: string, more: object = {}): Promise<Ranking> {
  const response = await fetch(`${gateway.url}${path}`, {
    method: "POST",
    headers: { authorization: `Bearer ${gateway.key}`, "content-type": "application/json" },
    body: JSON.stringify({ model, query: "red apple", documents: ["a green pear", { text: "a red apple" }], ...more }),
  });
  assert.equal(response.status, 200, await response.clone().text());
  return (await response.json()) as Ranking;
}

for (const model of ["reranker", "cohere-reranker"])
  test(`rankings by ${model} have the fields of both formats, and documents as each format has them by default`, async () => {
    const answers = [
      await rank("/v2/rerank", model),
      await rank("/v2/rerank", model, { return_documents: true }),
      await rank("/v1/rerank", model),
      await rank("/v1/rerank", model, { return_documents: false }),
    ];
    for (const { id, model: named, results, usage, meta } of answers) {
      assert.deepEqual(
        results.map(({ index }) => index),
        [1, 0],
      );
      assert.ok((results[0]?.relevance_score ?? 0) > (results[1]?.relevance_score ?? 0));
      assert.deepEqual([named, typeof usage.total_tokens, meta.api_version.version], [model, "number", "2"]);
      assert.notEqual(id, "");
    }
    assert.deepEqual(
      answers.map(({ results }) => results[0]?.document?.text),
      [undefined, "a red apple", "a red apple", undefined],
    );
    assert.equal((await rank("/v2/rerank", model, { top_n: 1 })).results.length, 1);
    // Clients whose base URL has no version.
    assert.deepEqual((await rank("/rerank", model)).results, answers[2]?.results);
  });

test("variations of an image pass to an upstream that has them; OpenAI's retired model is unknown", async () => {
  const image = new File([new Uint8Array(png)], "a.png", { type: "image/png" });
  const varied = await client.images.createVariation({ model: "picture", image });
  assert.equal(
    Buffer.from(varied.data?.[0]?.b64_json ?? "", "base64")
      .subarray(1, 4)
      .toString(),
    "PNG",
  );
  await assert.rejects(client.images.createVariation({ image }), OpenAI.NotFoundError);
  await assert.rejects(client.images.createVariation({ model: "gemini-picture", image }), OpenAI.BadRequestError);
});

test("images without a content type are known by their first bytes or their names", async () => {
  const prompt = "a hat";
  const sent = async (bytes: Buffer, name: string) => {
    const image = new File([new Uint8Array(bytes)], name);
    const { data } = await client.images.edit({ model: "picture", prompt, image: [image, image], mask: image });
    await client.images.createVariation({ model: "picture", image });
    return data?.[0]?.revised_prompt;
  };
  for (const [bytes, name, type] of [
    [png, "o.png", "image/png"],
    [png, "o", "image/png"],
    [Buffer.from([0xff, 0xd8, 0xff]), "o.png", "image/jpeg"],
    [Buffer.from("x"), "o.JPG", "image/jpeg"],
    [Buffer.from("x"), "o.jpeg", "image/jpeg"],
    [Buffer.from("x"), "o.webp", "image/webp"],
  ] as const) {
    const described = await sent(bytes, name);
    assert.equal(described?.split(type).length, 4, described);
  }
  const folder = await mkdtemp(join(tmpdir(), "images-"));
  await writeFile(join(folder, "o.png"), png);
  const image = createReadStream(join(folder, "o.png"));
  assert.ok((await client.images.createVariation({ model: "picture", image })).data?.[0]?.b64_json);
  await rm(folder, { recursive: true });
  await assert.rejects(sent(Buffer.from("x"), "o.txt"), {
    status: 400,
    param: "image[0]",
    message: "400 'image[0]' must be a file whose part of the form has an image's content type, such as image/png.",
  });
});
