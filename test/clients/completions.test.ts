/**
 * Legacy completions through the official client: unchanged from an upstream that has them, and as
 * conversations from upstreams of every dialect.
 */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import OpenAI from "openai";
import { conversationDialects } from "#dialects/dialect.ts";
import { greeting, modelOf, startClientsGateway } from "./support.ts";

const gateway = await startClientsGateway();
after(() => gateway[Symbol.asyncDispose]());
const client = gateway.client();
const prompt = "hello there";

for (const model of ["completing", ...conversationDialects.map((upstream) => modelOf(upstream))])
  test(`completions of ${model}: whole and streamed, with their usage`, async () => {
    const whole = await client.completions.create({ model, prompt });
    assert.deepEqual(
      [whole.object, whole.model, whole.choices],
      ["text_completion", model, [{ text: greeting, index: 0, logprobs: null, finish_reason: "stop" }]],
    );
    assert.match(whole.id, /^cmpl-/);
    assert.ok((whole.usage?.prompt_tokens ?? 0) > 0 && (whole.usage?.completion_tokens ?? 0) > 0);
    const parts: OpenAI.Completion[] = [];
    for await (const part of await client.completions.create({
      model,
      prompt: [prompt],
      stream: true,
      stream_options: { include_usage: true },
    }))
      parts.push(part);
    assert.equal(parts.map(({ choices }) => choices[0]?.text ?? "").join(""), greeting);
    assert.deepEqual(
      [parts.at(-2)?.choices[0]?.finish_reason, parts.at(-1)?.choices, parts.at(-1)?.usage?.total_tokens],
      ["stop", [], whole.usage?.total_tokens],
    );
    assert.ok(parts.every(({ object, id }) => object === "text_completion" && id === parts[0]?.id));
    let text = "";
    for await (const { choices, usage } of await client.completions.create({ model, prompt, stream: true })) {
      text += choices[0]?.text ?? "";
      assert.ok(usage === undefined || usage === null, "usage that was not asked for");
    }
    assert.equal(text, greeting);
    const short = await client.completions.create({ model, prompt, max_tokens: 2 });
    assert.equal(short.choices[0]?.finish_reason, "length");
  });

test("an upstream with completions gets every field: several prompts, token ids, echo, suffix and log probabilities", async () => {
  const model = "completing";
  const several = await client.completions.create({ model, prompt: ["one", "two"], n: 2 });
  assert.deepEqual(
    several.choices.map(({ index }) => index),
    [0, 1, 2, 3],
  );
  let finished = 0;
  for await (const { choices } of await client.completions.create({
    model,
    prompt: ["one", "two"],
    n: 2,
    stream: true,
  }))
    finished += choices.filter(({ finish_reason }) => finish_reason !== null).length;
  assert.equal(finished, 4);
  const rich = await client.completions.create({ model, prompt, echo: true, suffix: "end", logprobs: 1, best_of: 2 });
  assert.match(rich.choices[0]?.text ?? "", /^hello there … end/);
  assert.equal(rich.choices[0]?.logprobs?.tokens?.length, 1);
  const [ids] = (await client.completions.create({ model, prompt: [1, 2, 3] })).choices;
  assert.match(ids?.text ?? "", /tokens 1 2 3/);
});

test("what a conversation can't express is a 400 that names the field, with upstreams of every dialect", async () => {
  const cases: [string, Partial<OpenAI.CompletionCreateParamsNonStreaming>][] = [
    ["suffix", { suffix: "end" }],
    ["echo", { echo: true }],
    ["logprobs", { logprobs: 0 }],
    ["best_of", { best_of: 2 }],
    ["n", { n: 2 }],
    ["prompt", { prompt: ["one", "two"] }],
    ["prompt", { prompt: [1, 2, 3] }],
    ["prompt", { prompt: "" }],
    ["max_tokens", { max_tokens: 0 }],
  ];
  for (const upstream of conversationDialects)
    for (const [param, fields] of cases)
      await assert.rejects(
        client.completions.create({ model: modelOf(upstream), prompt, ...fields }),
        (error: InstanceType<typeof OpenAI.APIError>) => {
          assert.deepEqual([error.status, error.param], [400, param], error.message);
          return true;
        },
      );
});

test("a completion that fails raises the client's errors, before and inside a stream", async () => {
  for (const upstream of conversationDialects) {
    await assert.rejects(
      client.completions.create({ model: modelOf(upstream, "failing"), prompt }),
      OpenAI.InternalServerError,
    );
    const broken = await client.completions.create({ model: modelOf(upstream, "breaking"), prompt, stream: true });
    await assert.rejects(async () => {
      for await (const _ of broken);
    }, OpenAI.APIError);
  }
});
