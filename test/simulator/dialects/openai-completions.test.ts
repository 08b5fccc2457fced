/** Simulated completions, moderation and rankings as clients see them. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { startSimulator } from "../support.ts";

test("completions have a choice for each prompt and each of `n`, whole and streamed", async (t) => {
  const { openai } = await startSimulator(t);
  const completionRequest = { model: "sim-text;tokens=3", prompt: ["one", "two"], n: 2, max_tokens: 2 };
  const whole = await openai.completions.create(completionRequest);
  assert.deepEqual(
    [whole.choices.map(({ finish_reason }) => finish_reason), whole.usage?.completion_tokens],
    [["length", "length", "length", "length"], 8],
  );
  const texts = ["", "", "", ""];
  for await (const { choices } of await openai.completions.create({ ...completionRequest, stream: true }))
    for (const { index, text } of choices) texts[index] += text;
  assert.deepEqual(
    texts,
    whole.choices.map(({ text }) => text),
  );
});

test("more stop sequences than OpenAI takes are refused in its words", async (t) => {
  const { openai } = await startSimulator(t);
  const stop = ["a", "b", "c", "d", "e"];
  const words =
    /Invalid 'stop': array too long\. Expected an array with maximum length 4, but got an array with length 5/;
  await assert.rejects(openai.completions.create({ model: "sim-text", prompt: "x", stop }), words);
  const messages = [{ role: "user" as const, content: "x" }];
  await assert.rejects(openai.chat.completions.create({ model: "sim-text", messages, stop }), words);
});

test("moderation has a result for each text, and one for a text with an image", async (t) => {
  const { openai } = await startSimulator(t);
  const several = await openai.moderations.create({ input: ["I hate rain", "good morning"] });
  assert.deepEqual(
    several.results.map(({ flagged, categories }) => [flagged, categories.hate]),
    [
      [true, true],
      [false, false],
    ],
  );
  const mixed = await openai.moderations.create({
    input: [
      { type: "text", text: "a" },
      { type: "image_url", image_url: { url: "data:image/png;base64,AAAA" } },
    ],
  });
  assert.equal(mixed.results.length, 1);
});

test("rankings are sorted, in Jina's and in Cohere's format", async (t) => {
  const { url } = await startSimulator(t);
  const rank = async (path: string) =>
    (await (
      await fetch(`${url}${path}`, {
        method: "POST",
        body: JSON.stringify({ model: "sim-rerank", query: "a b", documents: ["b", "c", "a b"], top_n: 2 }),
      })
    ).json()) as { results: { index: number; document?: { text: string } }[]; usage?: object; meta?: object };
  const [jina, cohere] = [await rank("/v1/rerank"), await rank("/v2/rerank")];
  for (const { results } of [jina, cohere])
    assert.deepEqual(
      results.map(({ index }) => index),
      [2, 0],
    );
  assert.deepEqual([jina.results[0]?.document?.text, jina.meta], ["a b", undefined]);
  assert.deepEqual([cohere.results[0]?.document, cohere.usage], [undefined, undefined]);
});
