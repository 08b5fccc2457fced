import assert from "node:assert/strict";
import { test } from "node:test";
import { UsageReader } from "#dialects/anthropic-messages/answer.ts";
import { codecs } from "#dialects/codecs.ts";
import { usageOf as googleUsageOf } from "#dialects/gemini/answer.ts";
import { audioUsageOf } from "#dialects/openai/audio.ts";
import { usageOf as chatUsageOf } from "#dialects/openai-chat/answer.ts";
import { usageOf as responsesUsageOf } from "#dialects/openai-responses/answer.ts";
import { plainUsageOf, type Usage } from "#dialects/usage.ts";
import { jsonBytesOf } from "#wire/json/parse.ts";

function anthropicUsageOf(value: unknown): Usage | undefined {
  const reader = new UsageReader();
  reader.read(value);
  return reader.usage;
}

const reports: [
  name: string,
  read: (value: unknown) => Usage | undefined,
  report: (input: unknown, output: unknown) => object,
][] = [
  [
    "openai-chat",
    (usage) => chatUsageOf({ usage }),
    (prompt_tokens, completion_tokens) => ({ prompt_tokens, completion_tokens }),
  ],
  [
    "openai-responses",
    (usage) => responsesUsageOf({ usage }),
    (input_tokens, output_tokens) => ({ input_tokens, output_tokens }),
  ],
  ["anthropic-messages", anthropicUsageOf, (input_tokens, output_tokens) => ({ input_tokens, output_tokens })],
  ["gemini", googleUsageOf, (promptTokenCount, candidatesTokenCount) => ({ promptTokenCount, candidatesTokenCount })],
];

test("an impossible counter is capped and marked; a plausible one stays unchanged", () => {
  for (const [name, read, report] of reports) {
    for (const much of [9e15, 1e300, 100_000_001]) {
      const usage = read(report(much, 5));
      assert.deepEqual([usage?.inputTokens, usage?.outputTokens, usage?.isCapped], [100_000_000, 5, true], name);
      assert.deepEqual(
        [read(report(5, much))?.outputTokens, read(report(5, much))?.isCapped],
        [100_000_000, true],
        name,
      );
    }
    for (const none of [-1, 0, 1.5, "7", null, Number.POSITIVE_INFINITY]) {
      const usage = read(report(none, 5));
      assert.deepEqual([usage?.inputTokens, usage?.outputTokens, usage?.isCapped], [0, 5, undefined], name);
    }
    assert.deepEqual(read(report(100_000_000, 7)), {
      inputTokens: 100_000_000,
      cachedInputTokens: 0,
      cacheWriteTokens: 0,
      outputTokens: 7,
      reasoningTokens: 0,
    });
  }
});

// https://github.com/router-for-me/CLIProxyAPI/issues/4053
test("a report that counts nothing is none, and takes no other's place", () => {
  for (const [name, read, report] of reports)
    for (const none of [0, -1, 1.5, "7", null, undefined]) assert.equal(read(report(none, none)), undefined, name);
  const chunk = (usage: unknown, choices: object[] = []) => ({
    event: undefined,
    data: jsonBytesOf({ choices, usage }),
  });
  const zeros = { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 };
  const counts = { prompt_tokens: 100, completion_tokens: 50, total_tokens: 150 };
  const text = [{ index: 0, delta: { content: "hello" }, finish_reason: null }];
  const end = [{ index: 0, delta: {}, finish_reason: "stop" }];
  for (const chunks of [
    [chunk(zeros, text), chunk(null, end), chunk(counts)],
    [chunk(null, text), chunk(counts, end), chunk(zeros)],
  ]) {
    const decoder = codecs["openai-chat"].streamDecoder();
    for (const one of chunks) decoder.push(one);
    const relay = codecs["openai-chat"].verbatim.stream(Buffer.from("{}"), "sse", { id: "1", model: "m" });
    const shown: Buffer[] = [];
    for (const one of chunks) relay.push(one, shown);
    for (const { usage } of [decoder, relay]) assert.deepEqual(usage, plainUsageOf(100, 50));
    assert.equal(relay.complete, true);
    assert.doesNotMatch(Buffer.concat(shown).toString(), /"choices":\[\]/, "the caller did not ask for it");
  }
});

test("a report without input after one that has some leaves it as it is", () => {
  const cached = { cached_tokens: 60, audio_tokens: 5, image_tokens: 4 };
  const chunk = (usage: object) => ({
    event: undefined,
    data: jsonBytesOf({ choices: [{ index: 0, delta: { content: "hi" }, finish_reason: "stop" }], usage }),
  });
  const reports = [
    chunk({ prompt_tokens: 100, completion_tokens: 0, prompt_tokens_details: cached }),
    chunk({ prompt_tokens: 0, completion_tokens: 50, total_tokens: 50 }),
  ];
  const decoder = codecs["openai-chat"].streamDecoder();
  const relay = codecs["openai-chat"].verbatim.stream(Buffer.from("{}"), "sse", { id: "1", model: "m" });
  for (const one of reports) {
    decoder.push(one);
    relay.push(one, []);
  }
  const whole = {
    ...plainUsageOf(100, 50),
    cachedInputTokens: 60,
    audioInputTokens: 5,
    units: { imageInputTokens: 4 },
  };
  for (const { usage } of [decoder, relay]) assert.deepEqual(usage, whole);
});

test("a report without output after one that has some leaves it as it is", () => {
  const answered = { index: 0, delta: { content: "hi" }, finish_reason: "stop" };
  const chat = (usage: object) => ({ choices: [answered], usage });
  const parts = { index: 0, content: { role: "model", parts: [{ text: "hi" }] }, finishReason: "STOP" };
  const gemini = (usageMetadata: object) => ({ candidates: [parts], usageMetadata });
  const whole = { ...plainUsageOf(110, 50), reasoningTokens: 20, audioOutputTokens: 5 };
  const cases = [
    {
      dialect: "openai-chat",
      reports: [
        chat({
          prompt_tokens: 100,
          completion_tokens: 50,
          completion_tokens_details: { reasoning_tokens: 20, audio_tokens: 5 },
        }),
        chat({ prompt_tokens: 110 }),
      ],
      usage: whole,
    },
    {
      dialect: "gemini",
      reports: [
        gemini({
          promptTokenCount: 100,
          candidatesTokenCount: 30,
          thoughtsTokenCount: 20,
          totalTokenCount: 150,
          candidatesTokensDetails: [
            { modality: "AUDIO", tokenCount: 5 },
            { modality: "IMAGE", tokenCount: 4 },
          ],
        }),
        gemini({ promptTokenCount: 110, totalTokenCount: 110 }),
      ],
      usage: { ...whole, units: { imageOutputTokens: 4 } },
    },
  ] as const;
  for (const { dialect, reports, usage } of cases) {
    const codec = codecs[dialect];
    const decoder = codec.streamDecoder();
    const relay = codec.verbatim.stream(Buffer.from("{}"), "sse", { id: "1", model: "m" });
    for (const report of reports) {
      const event = { event: undefined, data: jsonBytesOf(report) };
      decoder.push(event);
      relay.push(event, []);
    }
    for (const read of [decoder, relay]) assert.deepEqual(read.usage, usage, dialect);
  }
});

test("no part of a count exceeds the whole", () => {
  const usage = chatUsageOf({
    usage: {
      prompt_tokens: 10,
      completion_tokens: 5,
      prompt_tokens_details: { cached_tokens: 8, cache_write_tokens: 7, audio_tokens: 4 },
      completion_tokens_details: { reasoning_tokens: 9, audio_tokens: 1 },
    },
  });
  assert.deepEqual(usage, {
    inputTokens: 10,
    cachedInputTokens: 8,
    cacheWriteTokens: 2,
    outputTokens: 5,
    reasoningTokens: 5,
  });
});

test("audio tokens are read from every dialect that has them, without those of the cache", () => {
  const details = {
    in: { cached_tokens: 30, audio_tokens: 50, text_tokens: 50, cached_tokens_details: { audio_tokens: 10 } },
    out: { reasoning_tokens: 5, audio_tokens: 15, text_tokens: 0 },
  };
  const modality = (audio: number) => [
    { modality: "TEXT", tokenCount: 7 },
    { modality: "AUDIO", tokenCount: audio },
  ];
  const wanted = {
    inputTokens: 100,
    cachedInputTokens: 30,
    cacheWriteTokens: 0,
    outputTokens: 20,
    reasoningTokens: 5,
    audioInputTokens: 40,
    audioOutputTokens: 15,
    units: { cachedAudioTokens: 10 },
  };
  assert.deepEqual(
    chatUsageOf({
      usage: {
        prompt_tokens: 100,
        completion_tokens: 20,
        prompt_tokens_details: details.in,
        completion_tokens_details: details.out,
      },
    }),
    wanted,
  );
  assert.deepEqual(
    responsesUsageOf({
      usage: {
        input_tokens: 100,
        output_tokens: 20,
        input_tokens_details: details.in,
        output_tokens_details: details.out,
      },
    }),
    wanted,
  );
  assert.deepEqual(
    googleUsageOf({
      promptTokenCount: 90,
      toolUsePromptTokenCount: 10,
      cachedContentTokenCount: 30,
      candidatesTokenCount: 15,
      thoughtsTokenCount: 5,
      promptTokensDetails: modality(48),
      toolUsePromptTokensDetails: modality(2),
      cacheTokensDetails: modality(10),
      candidatesTokensDetails: modality(15),
    }),
    wanted,
  );
  assert.deepEqual(audioUsageOf({ input_tokens: 14, output_tokens: 45, input_token_details: { audio_tokens: 12 } }), {
    ...plainUsageOf(14, 45),
    audioInputTokens: 12,
  });
  for (const odd of [null, "x", [], {}, [{ modality: "AUDIO", tokenCount: -1 }], [{ modality: "AUDIO" }], [null]])
    assert.equal(googleUsageOf({ promptTokenCount: 9, promptTokensDetails: odd })?.audioInputTokens, undefined);
});

test("the service tier is the one that the answer names, if it is a plain name", () => {
  for (const [tier, read] of [
    ["flex", "flex"],
    [null, undefined],
    [7, undefined],
    ["x".repeat(21), undefined],
    ["<b>", undefined],
  ]) {
    assert.equal(chatUsageOf({ usage: { prompt_tokens: 1 }, service_tier: tier })?.serviceTier, read);
    assert.equal(responsesUsageOf({ usage: { input_tokens: 1 }, service_tier: tier })?.serviceTier, read);
    assert.equal(anthropicUsageOf({ input_tokens: 1, service_tier: tier })?.serviceTier, read);
    assert.equal(googleUsageOf({ promptTokenCount: 1, serviceTier: tier })?.serviceTier, read);
  }
  const reader = new UsageReader();
  reader.read({ input_tokens: 5, service_tier: "priority" });
  reader.read({ output_tokens: 7 });
  assert.deepEqual([reader.usage?.serviceTier, reader.usage?.outputTokens], ["priority", 7]);
});
