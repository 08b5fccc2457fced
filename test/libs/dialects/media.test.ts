/**
 * Images, documents, recordings and films between the dialects: what a caller sends in any field,
 * and the images that models make.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { codecs } from "#dialects/codecs.ts";
import { type ConversationDialect, conversationDialects } from "#dialects/dialect.ts";
import { consistent } from "#dialects/neutral/consistent.ts";
import { Refusal } from "#dialects/neutral/field-support.ts";
import { type Answer, eventsOf, foldedOf, type NeutralRequest } from "#dialects/neutral/neutral.ts";
import { targetOf } from "../../support/target.ts";
import { contextOf } from "./support.ts";

type Json = Record<string, unknown>;

const png = Buffer.from("\x89PNG\r\n\x1a\nrest", "latin1").toString("base64");
const pdf = Buffer.from("%PDF-1.4\n%%EOF\n").toString("base64");
const words = Buffer.from("grüße, welt").toString("base64");
const sound = Buffer.from("RIFF0000WAVEfmt ").toString("base64");
const film = Buffer.from("0000ftypisom0000").toString("base64");
const data = (type: string, base64: string) => `data:${type};base64,${base64}`;

const chat = (...content: Json[]): Json => ({ messages: [{ role: "user", content }] });
const responses = (...content: Json[]): Json => ({ input: [{ role: "user", content }] });
const claude = (...content: Json[]): Json => ({ max_tokens: 9, messages: [{ role: "user", content }] });
const google = (...parts: Json[]): Json => ({ contents: [{ role: "user", parts }] });
const imageUrl = (url: string): Json => ({ type: "image_url", image_url: { url } });
const inputAudio = (format: string, value = sound): Json => ({
  type: "input_audio",
  input_audio: { data: value, format },
});

const decoded = (caller: ConversationDialect, body: Json): NeutralRequest =>
  consistent(codecs[caller].decodeRequest({ body: { model: "m", ...body }, framing: "whole" }));
const wireOf = (request: NeutralRequest, upstream: ConversationDialect): Json =>
  JSON.parse(codecs[upstream].encodeRequest(request, "whole", targetOf(upstream, "upstream-name")).body.toString());

type Kind = "image" | "pdf" | "text" | "audio" | "video" | "video at an address";
const address = "https://www.youtube.com/watch?v=1";
/** The part that an upstream must get of each kind; undefined if its vendor has no field for it. */
const wanted: Record<ConversationDialect, Record<Kind, Json | undefined>> = {
  "openai-chat": {
    image: imageUrl(data("image/png", png)),
    pdf: { type: "file", file: { filename: "document.pdf", file_data: data("application/pdf", pdf) } },
    text: { type: "text", text: "grüße, welt" },
    audio: inputAudio("wav"),
    video: { type: "video_url", video_url: { url: data("video/mp4", film) } },
    "video at an address": { type: "video_url", video_url: { url: address } },
  },
  "openai-responses": {
    image: { type: "input_image", image_url: data("image/png", png), detail: "auto" },
    pdf: { type: "input_file", filename: "document.pdf", file_data: data("application/pdf", pdf) },
    text: { type: "input_text", text: "grüße, welt" },
    audio: undefined,
    video: undefined,
    "video at an address": undefined,
  },
  "anthropic-messages": {
    image: { type: "image", source: { type: "base64", media_type: "image/png", data: png } },
    pdf: { type: "document", source: { type: "base64", media_type: "application/pdf", data: pdf } },
    text: { type: "document", source: { type: "text", media_type: "text/plain", data: "grüße, welt" } },
    audio: undefined,
    video: undefined,
    "video at an address": undefined,
  },
  gemini: {
    image: { inlineData: { mimeType: "image/png", data: png } },
    pdf: { inlineData: { mimeType: "application/pdf", data: pdf } },
    text: { inlineData: { mimeType: "text/plain", data: words } },
    audio: { inlineData: { mimeType: "audio/wav", data: sound } },
    video: { inlineData: { mimeType: "video/mp4", data: film } },
    "video at an address": { fileData: { fileUri: address, mimeType: "video/mp4" } },
  },
};

const source = (type: string, media_type: string, value: string): Json => ({
  type,
  source: { type: "base64", media_type, data: value },
});
const inline = (mimeType: string, value: string): Json => ({ inlineData: { mimeType, data: value } });
const sent: [field: string, caller: ConversationDialect, body: Json, kind: Kind][] = [
  ["image_url", "openai-chat", chat(imageUrl(data("image/png", png))), "image"],
  ["image_url with a PDF", "openai-chat", chat(imageUrl(data("application/pdf", pdf))), "pdf"],
  ["image_url with a PDF declared as an image", "openai-chat", chat(imageUrl(data("image/jpeg", pdf))), "pdf"],
  ["image_url with a text", "openai-chat", chat(imageUrl(data("text/markdown", words))), "text"],
  ["image_url with a film", "openai-chat", chat(imageUrl(data("video/mp4", film))), "video"],
  ["file with an image", "openai-chat", chat({ type: "file", file: { file_data: data("image/png", png) } }), "image"],
  [
    "file with JSON",
    "openai-chat",
    chat({ type: "file", file: { file_data: data("application/json", words) } }),
    "text",
  ],
  ["file with sound", "openai-chat", chat({ type: "file", file: { file_data: data("audio/wav", sound) } }), "audio"],
  ["bare file data", "openai-chat", chat({ type: "file", file: { file_data: pdf, filename: "a.pdf" } }), "pdf"],
  ["input_audio", "openai-chat", chat(inputAudio("wav")), "audio"],
  ["input_audio as a data URL", "openai-chat", chat(inputAudio("wav", data("audio/wav", sound))), "audio"],
  ["audio_url", "openai-chat", chat({ type: "audio_url", audio_url: { url: data("audio/wav", sound) } }), "audio"],
  ["video_url", "openai-chat", chat({ type: "video_url", video_url: { url: data("video/mp4", film) } }), "video"],
  ["video_url as a text", "openai-chat", chat({ type: "video_url", video_url: address }), "video at an address"],
  ...(
    [
      // https://github.com/langchain-ai/langchain/pull/37112
      ["image, LangChain", { type: "image", base64: png, mime_type: "image/png" }, "image"],
      ["image by its bytes, LangChain", { type: "image", base64: png }, "image"],
      ["file, LangChain", { type: "file", base64: pdf, mime_type: "application/pdf" }, "pdf"],
      ["file with a text, LangChain", { type: "file", base64: words, mime_type: "text/plain" }, "text"],
      ["audio, LangChain", { type: "audio", base64: sound, mime_type: "audio/wav" }, "audio"],
      ["video, LangChain", { type: "video", base64: film, mime_type: "video/mp4" }, "video"],
      ["video at an address, LangChain", { type: "video", url: address }, "video at an address"],
      // https://github.com/langchain-ai/langchain/pull/30746
      ["image, LangChain 0.3", { type: "image", source_type: "base64", data: png, mime_type: "image/png" }, "image"],
      ["image at a data URL, LangChain", { type: "image", url: data("image/png", png) }, "image"],
      ["image, MCP", { type: "image", data: png, mimeType: "image/png" }, "image"],
    ] satisfies [string, Json, Kind][]
  ).map(([field, part, kind]) => [field, "openai-chat", chat(part), kind] as (typeof sent)[number]),
  ["image_url", "openai-responses", responses(imageUrl(data("image/png", png))), "image"],
  [
    "image_url as a text",
    "openai-responses",
    responses({ type: "image_url", image_url: data("image/png", png) }),
    "image",
  ],
  ["input_image", "openai-responses", responses({ type: "input_image", image_url: data("image/png", png) }), "image"],
  [
    "input_image, PDF",
    "openai-responses",
    responses({ type: "input_image", image_url: data("application/pdf", pdf) }),
    "pdf",
  ],
  [
    "input_file, image",
    "openai-responses",
    responses({ type: "input_file", file_data: data("image/png", png) }),
    "image",
  ],
  [
    "input_file, markdown",
    "openai-responses",
    responses({ type: "input_file", filename: "a.md", file_data: words }),
    "text",
  ],
  ["input_audio", "openai-responses", responses(inputAudio("wav")), "audio"],
  ["input_video", "openai-responses", responses({ type: "input_video", video_url: data("video/mp4", film) }), "video"],
  ["image", "anthropic-messages", claude(source("image", "image/png", png)), "image"],
  ["image, PDF", "anthropic-messages", claude(source("image", "application/pdf", pdf)), "pdf"],
  ["document, image", "anthropic-messages", claude(source("document", "image/png", png)), "image"],
  ["document, text", "anthropic-messages", claude(source("document", "text/csv", words)), "text"],
  ["inlineData, image", "gemini", google(inline("image/png", png)), "image"],
  ["inlineData, PDF", "gemini", google(inline("application/pdf", pdf)), "pdf"],
  ["inlineData, PDF declared as an image", "gemini", google(inline("image/png", pdf)), "pdf"],
  ["inlineData, text", "gemini", google(inline("text/html", words)), "text"],
  ["inlineData, audio", "gemini", google(inline("audio/wav", sound)), "audio"],
  ["inlineData, video", "gemini", google(inline("video/mp4", film)), "video"],
  ["fileData, video", "gemini", google({ fileData: { fileUri: address, mimeType: "video/*" } }), "video at an address"],
];

const contentIn = (body: Json): Json[] => {
  const [turn] = (body.messages ?? body.input ?? body.contents) as Json[];
  const content = turn?.content ?? turn?.parts;
  return typeof content === "string" ? [{ type: "text", text: content }] : (content as Json[]);
};

for (const [field, caller, body, kind] of sent)
  test(`${field} of ${caller} reaches every upstream that takes it as ${kind}`, () => {
    for (const upstream of conversationDialects) {
      const expected = wanted[upstream][kind];
      const encode = () => contentIn(wireOf(decoded(caller, body), upstream));
      if (expected === undefined)
        assert.throws(encode, (error) => error instanceof Refusal && /is (audio|video), which/.test(error.message));
      else {
        const last = encode().at(-1);
        const part = typeof last?.text === "string" ? { ...last, text: last.text.replace(/^a\.md:\n\n/, "") } : last;
        if (kind === "pdf" && upstream === "openai-chat" && part !== undefined)
          assert.equal((part.file as Json).file_data, data("application/pdf", pdf));
        else if (kind === "pdf" && upstream === "anthropic-messages") {
          const { title: _, ...block } = part ?? {};
          assert.deepEqual(block, expected, upstream);
        } else if (upstream === "openai-responses" && kind === "pdf") assert.equal(part?.file_data, expected.file_data);
        else if (upstream === "anthropic-messages" && kind === "text") assert.deepEqual(part?.source, expected.source);
        else assert.deepEqual(part, expected, upstream);
      }
    }
  });

test("recordings of other formats keep their format", () => {
  for (const [type, format] of [
    ["audio/mpeg", "mp3"],
    ["audio/x-wav", "wav"],
    ["audio/ogg", "ogg"],
    ["audio/mp4", "m4a"],
  ] as const)
    assert.deepEqual(contentIn(wireOf(decoded("gemini", google(inline(type, sound))), "openai-chat")), [
      inputAudio(format),
    ]);
});

test("attachments in a tool's result are classified as well", () => {
  const messages = [
    { role: "user", content: "Hi" },
    { role: "assistant", tool_calls: [{ id: "c", type: "function", function: { name: "f", arguments: "{}" } }] },
    { role: "tool", tool_call_id: "c", content: [imageUrl(data("application/pdf", pdf))] },
  ];
  for (const upstream of conversationDialects)
    assert.ok(JSON.stringify(wireOf(decoded("openai-chat", { messages }), upstream)).includes(pdf), upstream);
});

const picture = { kind: "image" as const, mimeType: "image/png", data: png };
const answer: Answer = { blocks: [{ kind: "text", text: "Here:" }, picture], finish: "stop" };
const upstreamAnswers: [ConversationDialect, Json, Json[]][] = [
  [
    "openai-chat",
    {
      choices: [
        {
          message: { role: "assistant", content: "Here:", images: [imageUrl(data("image/png", png))] },
          finish_reason: "stop",
        },
      ],
    },
    [
      { choices: [{ index: 0, delta: { content: "Here:" } }] },
      { choices: [{ index: 0, delta: { content: "", images: [{ index: 0, ...imageUrl(data("image/png", png)) }] } }] },
      { choices: [{ index: 0, delta: {}, finish_reason: "stop" }] },
    ],
  ],
  [
    "gemini",
    {
      candidates: [
        { content: { role: "model", parts: [{ text: "Here:" }, inline("image/png", png)] }, finishReason: "STOP" },
      ],
    },
    [
      { candidates: [{ content: { role: "model", parts: [{ text: "Here:" }] } }] },
      { candidates: [{ content: { role: "model", parts: [inline("image/png", png)] }, finishReason: "STOP" }] },
    ],
  ],
];

for (const [upstream, whole, chunks] of upstreamAnswers)
  test(`images that ${upstream} models make are read, whole and streamed`, () => {
    const decoder = codecs[upstream].streamDecoder();
    const streamed = chunks.flatMap((chunk) =>
      decoder.push({ event: undefined, data: Buffer.from(JSON.stringify(chunk)) }),
    );
    assert.deepEqual(foldedOf(codecs[upstream].decodeAnswer(whole)), answer);
    assert.deepEqual(foldedOf([...streamed, ...decoder.end()]), answer);
  });

test("an image at an address becomes a link", () => {
  const message = { role: "assistant", content: null, images: [imageUrl("https://a.example/b.png")] };
  const read = foldedOf(codecs["openai-chat"].decodeAnswer({ choices: [{ message, finish_reason: "stop" }] }));
  assert.deepEqual(read && "blocks" in read && read.blocks, [
    { kind: "text", text: "![image](https://a.example/b.png)" },
  ]);
});

const shown: Record<ConversationDialect, string> = {
  "openai-chat": `"images":[{"type":"image_url","image_url":{"url":"${data("image/png", png)}"}}]`,
  "openai-responses": `"result":"${png}"`,
  "anthropic-messages": "made an image (image/png), which this API cannot show",
  gemini: `"inlineData":{"mimeType":"image/png","data":"${png}"}`,
};

for (const caller of conversationDialects)
  test(`a caller of ${caller} is shown a model's image or told of it, whole and streamed`, () => {
    const request: NeutralRequest = { system: [], messages: [], tools: [], settings: {} };
    for (const blocks of [answer.blocks, [picture]]) {
      const of = contextOf(request);
      const encoder = codecs[caller].streamEncoder(of);
      const events = eventsOf({ ...answer, blocks }).filter((event) => event.kind !== "error");
      const streamed = events.map((event) => encoder.push(event)).join("");
      assert.ok(codecs[caller].encodeAnswer({ ...answer, blocks }, of).includes(shown[caller]));
      assert.ok(streamed.includes(shown[caller]));
    }
  });

const question = { role: "user", content: "Draw." };
const replays: [ConversationDialect, Json][] = [
  [
    "openai-chat",
    {
      messages: [
        question,
        { role: "assistant", content: "Here:", images: [imageUrl(data("image/png", png))] },
        { role: "user", content: "Redder." },
      ],
    },
  ],
  [
    "openai-responses",
    {
      input: [
        question,
        { type: "message", role: "assistant", content: [{ type: "output_text", text: "Here:" }] },
        { type: "image_generation_call", id: "ig_1_1", status: "completed", result: png, output_format: "png" },
        { role: "user", content: "Redder." },
      ],
    },
  ],
  [
    "gemini",
    {
      contents: [
        { role: "user", parts: [{ text: "Draw." }] },
        { role: "model", parts: [{ text: "Here:" }, { ...inline("image/png", png), thoughtSignature: "U2ln" }] },
        { role: "user", parts: [{ text: "Redder." }] },
      ],
    },
  ],
];

for (const [caller, body] of replays)
  test(`a model's image in the history of ${caller} goes back to every upstream`, () => {
    const turnsOf = (upstream: ConversationDialect): Json[] => {
      const { messages, input, contents } = wireOf(decoded(caller, body), upstream);
      return (messages ?? input ?? contents) as Json[];
    };
    const [, drawn] = turnsOf("gemini");
    assert.equal(drawn?.role, "model");
    const signed = caller === "gemini" && { thoughtSignature: "U2ln" };
    assert.deepEqual(drawn?.parts, [{ text: "Here:" }, { ...inline("image/png", png), ...signed }]);
    for (const upstream of ["openai-chat", "openai-responses", "anthropic-messages"] as const) {
      const turns = turnsOf(upstream);
      const after = turns.slice(turns.findIndex(({ role }) => role === "assistant") + 1);
      assert.ok(after.every(({ role }) => role === "user"));
      const text = JSON.stringify(after);
      assert.ok(text.includes(png) && text.includes("Redder."), upstream);
    }
  });

test("a request for images reaches the models that make them", () => {
  const forms: [ConversationDialect, Json][] = [
    ["openai-chat", { messages: [question], modalities: ["image", "text"] }],
    [
      "gemini",
      { contents: google({ text: "Draw." }).contents, generationConfig: { responseModalities: ["TEXT", "IMAGE"] } },
    ],
  ];
  for (const [caller, body] of forms) {
    const request = decoded(caller, body);
    assert.deepEqual([...((wireOf(request, "openai-chat").modalities ?? []) as string[])].sort(), ["image", "text"]);
    const { responseModalities } = wireOf(request, "gemini").generationConfig as { responseModalities: string[] };
    assert.deepEqual([...responseModalities].sort(), ["IMAGE", "TEXT"]);
    assert.deepEqual(wireOf(request, "openai-responses").tools, [{ type: "image_generation" }]);
    assert.equal(wireOf(request, "anthropic-messages").modalities, undefined);
  }
  const forced = { input: "Draw.", tools: [{ type: "image_generation" }], tool_choice: { type: "image_generation" } };
  assert.throws(() => decoded("openai-responses", forced), /tool_choice requires "image_generation"/);
  const imageOnly = decoded("openai-chat", { messages: [question], modalities: ["image"] });
  assert.deepEqual(wireOf(imageOnly, "openai-responses").tool_choice, { type: "image_generation" });
  assert.throws(() => wireOf(imageOnly, "anthropic-messages"), /modalities is not supported/);
  assert.throws(() => decoded("openai-chat", { messages: [question], modalities: ["text", "audio"] }), /modalities/);
});

test("a document's name reaches every upstream, in a message and in a tool's result", () => {
  const document = (title: string, source: Json): Json => ({ type: "document", title, source });
  const text = document("notes.md", { type: "text", media_type: "text/plain", data: "grüße" });
  const paper = document("paper.pdf", { type: "base64", media_type: "application/pdf", data: pdf });
  const upstreamName: Partial<Record<ConversationDialect, string>> = { gemini: "gemini-2.5-flash" };
  const use = { type: "tool_use", id: "t", name: "read", input: {} };
  const result = { type: "tool_result", tool_use_id: "t", content: [text, paper] };
  const question = { role: "user", content: "x" };
  for (const messages of [
    [{ role: "user", content: [text, paper] }],
    [question, { role: "assistant", content: [use] }, { role: "user", content: [result] }],
  ])
    for (const upstream of conversationDialects) {
      const request = decoded("anthropic-messages", { max_tokens: 9, messages });
      const target = targetOf(upstream, upstreamName[upstream] ?? "upstream-name");
      const sent = codecs[upstream].encodeRequest(request, "whole", target).body.toString();
      for (const name of ["notes.md", "paper.pdf"])
        assert.equal(sent.split(name).length, 2, `${upstream}, ${name}: ${sent}`);
    }
});

test("a text without a name is sent as it is", () => {
  const source = { type: "text", media_type: "text/plain", data: "grüße" };
  const request = decoded("anthropic-messages", claude({ type: "document", source }));
  assert.deepEqual(wireOf(request, "openai-chat").messages, [
    { role: "user", content: [{ type: "text", text: "grüße" }] },
  ]);
});
