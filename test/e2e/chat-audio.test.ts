/**
 * Speech in conversations, as OpenAI's and Google's clients ask for it: both ways unchanged, whole
 * and streamed.
 */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { GoogleGenAI } from "@google/genai";
import { startGateway } from "../support/gateway.ts";
import { chatChunk, dataEvent, jsonAnswer, startScriptedUpstream, streamAnswer } from "../support/upstream.ts";
import { modelLine } from "./support.ts";

const upstream = await startScriptedUpstream();
const gateway = await startGateway({
  catalogue: `groups: { default: { models: ["*"] } }
upstreams:
  chat: { dialect: openai-chat, circuitBreakerFailuresMax: 0, baseUrl: "${upstream.url}" }
  gemini: { dialect: gemini, circuitBreakerFailuresMax: 0, baseUrl: "${upstream.url}beta" }
  messages: { dialect: anthropic-messages, circuitBreakerFailuresMax: 0, baseUrl: "${upstream.url}" }
models:
${modelLine({ id: "gpt-audio", upstream: "chat", model: "theirs" })}${modelLine({ id: "gemini-tts", upstream: "gemini", model: "their-tts" })}${modelLine({ id: "claude", upstream: "messages", model: "theirs" })}`,
});
after(async () => {
  await gateway[Symbol.asyncDispose]();
  await upstream[Symbol.asyncDispose]();
});
const client = gateway.client();
const google = new GoogleGenAI({ apiKey: gateway.key, httpOptions: { baseUrl: gateway.url } });

const lastRequest = () => upstream.last().json;

const conversation = {
  modalities: ["text", "audio"] as ("text" | "audio")[],
  audio: { voice: "alloy", format: "pcm16" as const },
  messages: [
    {
      role: "user" as const,
      content: [
        { type: "text" as const, text: "what is this?" },
        { type: "input_audio" as const, input_audio: { data: "UklGRg==", format: "wav" as const } },
      ],
    },
    { role: "assistant" as const, content: "a sound" },
    { role: "user" as const, content: "again" },
  ],
};

test("a chat completion with speech in and out passes unchanged", async () => {
  const audio = { id: "audio_1", data: "SUQz", expires_at: 1_900_000_000, transcript: "hello" };
  upstream.answerWith(
    jsonAnswer({
      id: "chatcmpl-1",
      object: "chat.completion",
      created: 1,
      model: "theirs",
      choices: [
        { index: 0, message: { role: "assistant", content: null, refusal: null, audio }, finish_reason: "stop" },
      ],
      usage: { prompt_tokens: 3, completion_tokens: 12, total_tokens: 15 },
    }),
  );
  const answer = await client.chat.completions.create({ model: "gpt-audio", ...conversation });
  assert.deepEqual([answer.model, answer.choices[0]?.message.audio], ["gpt-audio", audio]);
  assert.deepEqual(lastRequest(), { model: "theirs", ...conversation });
});

test("a streamed chat completion with speech passes unchanged, and the client puts it together", async () => {
  const deltas = [
    { role: "assistant", content: null, refusal: null },
    { audio: { id: "audio_1", transcript: "hel" } },
    { audio: { data: "AAAA" } },
    { audio: { transcript: "lo" } },
    { audio: { data: "BBBB" } },
    { audio: { expires_at: 1_900_000_000 } },
  ];
  const usage = { prompt_tokens: 3, completion_tokens: 12, total_tokens: 15 };
  upstream.answerWith(
    streamAnswer(
      deltas.map((delta) => chatChunk(delta)).join("") +
        chatChunk({}, "stop") +
        dataEvent({
          id: "c",
          object: "chat.completion.chunk",
          created: 1,
          model: "theirs",
          choices: [],
          usage,
        }),
    ),
  );
  const whole = await client.chat.completions.stream({ model: "gpt-audio", ...conversation }).finalChatCompletion();
  assert.deepEqual(whole.choices[0]?.message.audio, {
    id: "audio_1",
    transcript: "hello",
    data: "AAAABBBB",
    expires_at: 1_900_000_000,
  });
});

test("a reference to an earlier spoken answer is refused with what to send instead", async () => {
  for (const model of ["gpt-audio", "claude"])
    await assert.rejects(
      client.chat.completions.create({
        model,
        messages: [
          { role: "user", content: "hi" },
          { role: "assistant", audio: { id: "audio_1" } },
        ],
      }),
      (error: { status?: number; param?: string; message?: string }) => {
        assert.deepEqual([error.status, error.param], [400, "messages[1].audio.id"]);
        assert.match(String(error.message), /send the transcript of that answer as the message's content\.$/);
        return true;
      },
    );
});

test("an upstream without speech refuses it by the field's name", async () => {
  await assert.rejects(
    client.chat.completions.create({ model: "claude", ...conversation }),
    (error: { status?: number; param?: string }) => error.status === 400 && error.param === "audio",
  );
});

const speech = {
  candidates: [
    {
      content: {
        role: "model",
        parts: [{ inlineData: { mimeType: "audio/L16;codec=pcm;rate=24000", data: "AAAA" } }],
      },
      finishReason: "STOP",
      index: 0,
    },
  ],
  usageMetadata: {
    promptTokenCount: 3,
    candidatesTokenCount: 20,
    totalTokenCount: 23,
    candidatesTokensDetails: [{ modality: "AUDIO", tokenCount: 20 }],
  },
  modelVersion: "their-tts",
};
const voice = (voiceName: string) => ({ voiceConfig: { prebuiltVoiceConfig: { voiceName } } });

test("Gemini's speech of one voice passes unchanged, whole", async () => {
  upstream.answerWith(jsonAnswer(speech));
  const config = { responseModalities: ["AUDIO"], speechConfig: voice("Kore") };
  const answer = await google.models.generateContent({ model: "gemini-tts", contents: "say hi", config });
  assert.equal(answer.data, "AAAA");
  assert.deepEqual(answer.candidates?.[0]?.content, speech.candidates[0]?.content);
  assert.deepEqual(answer.usageMetadata?.candidatesTokensDetails, speech.usageMetadata.candidatesTokensDetails);
  assert.match(upstream.last().path, /\/models\/their-tts:generateContent$/);
  assert.deepEqual(lastRequest(), {
    contents: [{ parts: [{ text: "say hi" }], role: "user" }],
    generationConfig: config,
  });
});

test("Gemini's speech of several voices passes unchanged, streamed", async () => {
  upstream.answerWith(
    streamAnswer(
      dataEvent({ ...speech, candidates: [{ ...speech.candidates[0], finishReason: undefined }] }) + dataEvent(speech),
    ),
  );
  const speakerVoiceConfigs = [
    { speaker: "A", ...voice("Kore") },
    { speaker: "B", ...voice("Puck") },
  ];
  const config = { responseModalities: ["AUDIO"], speechConfig: { multiSpeakerVoiceConfig: { speakerVoiceConfigs } } };
  const parts: unknown[] = [];
  for await (const chunk of await google.models.generateContentStream({
    model: "gemini-tts",
    contents: "A: hi B: hello",
    config,
  }))
    parts.push(chunk.candidates?.[0]?.content?.parts?.[0]?.inlineData?.data);
  assert.deepEqual(parts, ["AAAA", "AAAA"]);
  assert.deepEqual(lastRequest().generationConfig, config);
});
