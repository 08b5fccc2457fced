/** The pages that an answer cites, from every upstream to every caller, whole and streamed. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import type { AnswerContext } from "#dialects/codec.ts";
import { codecs } from "#dialects/codecs.ts";
import { type ConversationDialect, conversationDialects } from "#dialects/dialect.ts";
import { TextPlaces } from "#dialects/neutral/citations.ts";
import { TranslatedStream } from "#dialects/relay/translated.ts";
import { wholeOf } from "#operations/answer/exchange.ts";
import { type JsonObject, listOf, objectOf, parsedObject } from "#wire/json/parse.ts";
import { SseReader } from "#wire/sse.ts";
import { targetOf } from "../../support/target.ts";
import { workMsOf } from "../../support/time.ts";

const contextOf = (framing: "whole" | "sse"): AnswerContext => ({
  id: "a",
  model: "mine",
  createdAt: 1,
  framing,
  request: { system: [], messages: [], tools: [], settings: {} },
  body: { stream: framing === "sse" },
});

/** The upstream's whole answer, for a caller. */
function whole(from: ConversationDialect, to: ConversationDialect, body: JsonObject): JsonObject {
  const answer = wholeOf(codecs[to].decodeAnswer(body), from, contextOf("whole"));
  assert.ok(answer.kind === "answer", `${to} for ${from}`);
  return parsedObject(answer.body) as JsonObject;
}

const sse = (events: readonly object[]) =>
  events.map((event) => `event: ${objectOf(event).type ?? ""}\ndata: ${JSON.stringify(event)}\n\n`).join("");

const dataIn = (text: string): JsonObject[] =>
  new SseReader(1_000_000).push(Buffer.from(text)).map(({ data }) => objectOf(parsedObject(data)));

/** The upstream's stream, as the data of the caller's events. */
function streamed(from: ConversationDialect, to: ConversationDialect, events: readonly object[]): JsonObject[] {
  const relay = new TranslatedStream(codecs[to].streamDecoder(), codecs[from].streamEncoder(contextOf("sse")));
  const out: Buffer[] = [];
  for (const event of new SseReader(1_000_000).push(Buffer.from(sse(events)))) relay.push(event, out);
  relay.end(out);
  assert.equal(relay.error, undefined, `${to} for ${from}`);
  return dataIn(Buffer.concat(out).toString());
}

/** A citation as a caller reads it: the page, and the text that it is about. */
type Read = [url: unknown, title: unknown, about: string];

const pointsOf = (text: string, from: unknown, to: unknown) => [...text].slice(from as number, to as number).join("");
const inOpenAi = (text: string, annotations: unknown): Read[] =>
  listOf(annotations)
    .map(objectOf)
    .map((value) => {
      assert.equal(value.type, "url_citation");
      const { url, title, start_index: start, end_index: end } = objectOf(value.url_citation ?? value);
      return [url, title, pointsOf(text, start, end)];
    });

/** How callers read the citations of a whole answer. */
const readOf: Record<ConversationDialect, (body: JsonObject) => Read[]> = {
  "openai-chat": ({ choices }) => {
    const { content, annotations } = objectOf(objectOf(listOf(choices)[0]).message);
    return inOpenAi(String(content), annotations);
  },
  "openai-responses": ({ output }) =>
    listOf(output)
      .flatMap((item) => listOf(objectOf(item).content).map(objectOf))
      .flatMap(({ text, annotations }) => inOpenAi(String(text), annotations)),
  "anthropic-messages": ({ content }) =>
    listOf(content)
      .map(objectOf)
      .flatMap(({ text, citations }) =>
        listOf(citations)
          .map(objectOf)
          .map(({ type, url, title }): Read => {
            assert.equal(type, "web_search_result_location");
            return [url, title, String(text)];
          }),
      ),
  gemini: ({ candidates }) => {
    const { content, groundingMetadata } = objectOf(listOf(candidates)[0]);
    const text = Buffer.from(
      listOf(objectOf(content).parts)
        .map((part) => objectOf(part).text)
        .join(""),
    );
    const { groundingChunks, groundingSupports } = objectOf(groundingMetadata);
    return listOf(groundingSupports)
      .map(objectOf)
      .flatMap(({ segment, groundingChunkIndices }) =>
        listOf(groundingChunkIndices).map((index): Read => {
          const { uri, title } = objectOf(objectOf(listOf(groundingChunks)[Number(index)]).web);
          const { startIndex, endIndex } = objectOf(segment);
          return [uri, title, text.subarray(startIndex as number, endIndex as number).toString()];
        }),
      );
  },
};

/** The whole answer that a stream amounts to, as an official client puts it together. */
const assembled: Record<ConversationDialect, (events: JsonObject[]) => JsonObject> = {
  "openai-chat": (events) => {
    const deltas = events.map(({ choices }) => objectOf(objectOf(listOf(choices)[0]).delta));
    const cited = deltas.filter(({ annotations }) => annotations !== undefined);
    assert.ok(cited.length <= 1, "a client overwrites a list without indexes");
    const content = deltas.map((delta) => delta.content ?? "").join("");
    return { choices: [{ message: { content, annotations: cited[0]?.annotations } }] };
  },
  "openai-responses": (events) => {
    const added = events.filter(({ type }) => type === "response.output_text.annotation.added");
    const last = objectOf(events.at(-1)?.response);
    const annotations = listOf(last.output).flatMap((item) =>
      listOf(objectOf(item).content).flatMap((part) => listOf(objectOf(part).annotations)),
    );
    assert.deepEqual(
      added.map(({ annotation }) => annotation),
      annotations,
    );
    const indexes = new Map<unknown, number>();
    for (const { item_id: id, annotation_index: index } of added) {
      assert.equal(index, indexes.get(id) ?? 0);
      indexes.set(id, Number(index) + 1);
    }
    const types = events.map(({ type }) => type);
    if (added.length > 0)
      assert.ok(
        types.lastIndexOf("response.output_text.annotation.added") < types.lastIndexOf("response.output_text.done"),
      );
    return last;
  },
  "anthropic-messages": (events) => {
    const content: { text: string; citations: unknown[] }[] = [];
    for (const { type, index, delta } of events) {
      if (type === "content_block_start") content.push({ text: "", citations: [] });
      if (type !== "content_block_delta") continue;
      assert.equal(index, content.length - 1);
      const block = content.at(-1) as (typeof content)[number];
      const { text = "", citation } = objectOf(delta);
      block.text += text;
      if (citation !== undefined) block.citations.push(citation);
    }
    return { content };
  },
  gemini: (events) => ({
    candidates: [
      {
        content: {
          parts: events.flatMap(({ candidates }) => listOf(objectOf(objectOf(listOf(candidates)[0]).content).parts)),
        },
        groundingMetadata: events
          .map(({ candidates }) => objectOf(listOf(candidates)[0]).groundingMetadata)
          .find((metadata) => metadata !== undefined),
      },
    ],
  }),
};

const before = "Über 🦊: ";
const about = "the sky is 蓝 today";
const text = `${before}${about}.`;
const start = [...before].length;
const end = start + [...about].length;
const [url, title] = ["https://a.example/s?q=1", "The sky"];
const segment = {
  startIndex: Buffer.byteLength(before),
  endIndex: Buffer.byteLength(before + about),
  text: about,
};
/** In three parts, none of which ends where the cited text does. */
const parts = [text.slice(0, 4), text.slice(4, 15), text.slice(15)];

interface Upstream {
  dialect: ConversationDialect;
  whole: JsonObject;
  events: object[];
  /** Undefined where the upstream says no place: then all of the text is cited. */
  about: string;
  title?: string;
}

const chunk = (delta: object, finish: string | null = null, more: object = {}) => ({
  choices: [{ index: 0, delta, finish_reason: finish }],
  ...more,
});
const chatOf = (cited: object, more: object, place: Pick<Upstream, "about" | "title">): Upstream => ({
  dialect: "openai-chat",
  whole: { choices: [{ index: 0, message: { content: text, ...cited }, finish_reason: "stop" }], ...more },
  events: [...parts.map((content) => chunk({ content }, null, more)), chunk(cited), chunk({}, "stop")],
  ...place,
});
const annotation = { url, title, start_index: start, end_index: end };
const annotations = [{ type: "url_citation", url_citation: annotation }];
const page = { groundingChunks: [{ web: { uri: url, title } }] };
const grounding = { ...page, groundingSupports: [{ segment, groundingChunkIndices: [0] }] };
const candidate = (more: JsonObject, ...all: object[]) => ({
  candidates: [{ content: { role: "model", parts: all }, index: 0, ...more }],
});
const item = (own: object[]) => ({
  type: "message",
  id: "msg_1",
  content: [{ type: "output_text", text, annotations: own }],
});
const responsesOf = (own: object[], added: object[]): Upstream => ({
  dialect: "openai-responses",
  whole: { status: "completed", output: [item(own)] },
  events: [
    { type: "response.output_item.added", output_index: 0, item: { type: "message", id: "msg_1", content: [] } },
    ...parts.map((delta) => ({
      type: "response.output_text.delta",
      ...{ output_index: 0, item_id: "msg_1", content_index: 0, delta },
    })),
    ...added.map((one) => ({
      type: "response.output_text.annotation.added",
      ...{ output_index: 0, item_id: "msg_1", content_index: 0, annotation_index: 0, annotation: one },
    })),
    { type: "response.output_item.done", output_index: 0, item: item(own) },
    { type: "response.completed", response: { status: "completed", output: [item(own)] } },
  ],
  about,
});
const claudeCitation = {
  type: "web_search_result_location",
  ...{ url, title, encrypted_index: "E", cited_text: "The sky was blue." },
};
const upstreams: Record<string, Upstream> = {
  "OpenAI's annotations": chatOf({ annotations }, {}, { about }),
  "OpenRouter's annotations without a place": chatOf(
    {
      annotations: [
        { type: "url_citation", url_citation: { ...annotation, content: "…", start_index: 0, end_index: 0 } },
      ],
    },
    {},
    { about: text },
  ),
  "Perplexity's results": chatOf(
    {},
    { search_results: [{ title, url, date: "2026-01-01" }], citations: [url] },
    { about: text },
  ),
  "xAI's citations": chatOf({}, { citations: [url] }, { about: text, title: "" }),
  "Responses' annotations": responsesOf(
    [{ type: "url_citation", ...annotation }],
    [{ type: "url_citation", ...annotation }],
  ),
  "Responses' annotations in the whole item alone": responsesOf([{ type: "url_citation", ...annotation }], []),
  "Claude's search": {
    dialect: "anthropic-messages",
    whole: {
      type: "message",
      content: [
        { type: "text", text: before },
        { type: "text", text: about, citations: [claudeCitation] },
        { type: "text", text: "." },
      ],
      stop_reason: "end_turn",
    },
    events: [
      { type: "message_start", message: {} },
      ...[before, about, "."].flatMap((words, index) => [
        { type: "content_block_start", index, content_block: { type: "text", text: "", citations: [] } },
        ...(words === about
          ? [{ type: "content_block_delta", index, delta: { type: "citations_delta", citation: claudeCitation } }]
          : []),
        { type: "content_block_delta", index, delta: { type: "text_delta", text: words } },
        { type: "content_block_stop", index },
      ]),
      { type: "message_delta", delta: { stop_reason: "end_turn" } },
      { type: "message_stop" },
    ],
    about,
  },
  "Google's grounding": {
    dialect: "gemini",
    whole: candidate({ finishReason: "STOP", groundingMetadata: grounding }, { text }),
    events: [
      ...parts.map((words) => candidate({}, { text: words })),
      candidate({ groundingMetadata: grounding }, { text: "" }),
      candidate({ finishReason: "STOP", groundingMetadata: grounding }, { text: "", thoughtSignature: "S" }),
    ],
    about,
  },
  "Google's pages without places": {
    dialect: "gemini",
    whole: candidate({ finishReason: "STOP", groundingMetadata: page }, { text }),
    events: [
      ...parts.map((words) => candidate({}, { text: words })),
      { candidates: [{ finishReason: "STOP", groundingMetadata: page }] },
    ],
    about: text,
  },
};

test("every caller gets the pages that an answer cites, at the same place of the text", () => {
  for (const [name, upstream] of Object.entries(upstreams))
    for (const caller of conversationDialects) {
      if (caller === upstream.dialect) continue;
      const place = `${name}, for ${caller}`;
      // Anthropic's citations are about whole blocks.
      const isBlock = caller === "anthropic-messages";
      const expected: Read[] = [[url, upstream.title ?? title, isBlock ? text : upstream.about]];
      const read = (body: JsonObject): Read[] =>
        readOf[caller](body).map(([page, named, words]) => [page, named ?? "", words]);
      assert.deepEqual(read(whole(caller, upstream.dialect, upstream.whole)), expected, `${place}, whole`);
      assert.deepEqual(
        read(assembled[caller](streamed(caller, upstream.dialect, upstream.events))),
        expected,
        `${place}, streamed`,
      );
    }
});

test("places in files and documents that only their vendor knows are left out", () => {
  const foreign = [
    { type: "file_citation", file_id: "file_1", filename: "a.pdf", index: 3 },
    { type: "container_file_citation", container_id: "c", file_id: "f", filename: "b", start_index: 0, end_index: 3 },
    { type: "url_citation", url_citation: {} },
    { type: "url_citation", url: 5 },
    null,
  ];
  const location = {
    type: "char_location",
    cited_text: "x",
    document_index: 0,
    start_char_index: 0,
    end_char_index: 1,
  };
  const answers: [ConversationDialect, JsonObject][] = [
    ["openai-chat", chatOf({ annotations: foreign }, {}, { about }).whole],
    ["openai-responses", { status: "completed", output: [item(foreign as object[])] }],
    [
      "anthropic-messages",
      { type: "message", content: [{ type: "text", text, citations: [location, null] }], stop_reason: "end_turn" },
    ],
    [
      "gemini",
      candidate(
        {
          finishReason: "STOP",
          groundingMetadata: {
            groundingChunks: [{ retrievedContext: { title: "x" } }, { web: {} }, null],
            groundingSupports: [{ segment, groundingChunkIndices: [0, 1, 2, 9] }, null],
          },
        },
        { text },
      ),
    ],
  ];
  for (const [dialect, body] of answers)
    for (const caller of conversationDialects)
      if (caller !== dialect)
        assert.deepEqual(readOf[caller](whole(caller, dialect, body)), [], `${dialect} ${caller}`);
});

test("a citation of another vendor does not go back to Anthropic, and its own does", () => {
  const [block] = listOf(
    whole("anthropic-messages", "openai-chat", upstreams["OpenAI's annotations"]?.whole ?? {}).content,
  );
  const own = { type: "text", text: "b", citations: [claudeCitation] };
  const request = {
    model: "m",
    max_tokens: 5,
    messages: [
      { role: "user", content: "hi" },
      { role: "assistant", content: [block, own] },
      { role: "user", content: "on" },
    ],
  };
  const sent = codecs["anthropic-messages"].verbatim.request(
    Buffer.from(JSON.stringify(request)),
    "whole",
    targetOf("anthropic-messages", "claude"),
  );
  assert.deepEqual(objectOf(listOf(parsedObject(sent?.body as Buffer)?.messages)[1]).content, [
    { type: "text", text },
    own,
  ]);
});

test("citations before the text of their block, and sources before a call, are in a stream, too", () => {
  const block = (index: number, content_block: object, ...deltas: object[]) => [
    { type: "content_block_start", index, content_block },
    ...deltas.map((delta) => ({ type: "content_block_delta", index, delta })),
    { type: "content_block_stop", index },
  ];
  const claude = [
    { type: "message_start", message: {} },
    ...block(
      0,
      { type: "text", text: "" },
      { type: "citations_delta", citation: claudeCitation },
      { type: "text_delta", text },
    ),
    { type: "message_delta", delta: { stop_reason: "end_turn" } },
    { type: "message_stop" },
  ];
  const call = { index: 0, id: "c", function: { name: "f", arguments: "{}" } };
  const calling = [
    chunk({ content: text }, null, { citations: [url] }),
    chunk({ tool_calls: [call] }),
    chunk({}, "tool_calls", { citations: [url] }),
  ];
  for (const caller of conversationDialects) {
    const read = (to: ConversationDialect, events: object[]) =>
      readOf[caller](assembled[caller](streamed(caller, to, events))).map(([page, , words]) => [page, words]);
    assert.deepEqual(read("anthropic-messages", claude), [[url, text]], caller);
    assert.deepEqual(read("openai-chat", calling), [[url, text]], caller);
  }
});

test("a place before the text is none", () => {
  for (const place of [
    { start_index: -1, end_index: 3 },
    { start_index: -5, end_index: -2 },
    { start_index: "0", end_index: 1.5 },
  ])
    for (const caller of conversationDialects) {
      if (caller === "openai-chat" || caller === "anthropic-messages") continue;
      const { whole: body } = chatOf(
        { annotations: [{ type: "url_citation", url_citation: { url, ...place } }] },
        {},
        {
          about,
        },
      );
      const [[, , words] = []] = readOf[caller](whole(caller, "openai-chat", body));
      assert.equal(words, place.end_index === 3 ? text.slice(0, 3) : text);
    }
});

test("time is linear in the length of a text and the number of its citations", async () => {
  const [length, count] = [100_000, 4_000];
  const long = "天".repeat(length);
  const many = Array.from({ length: count }, (_, place) => ({
    type: "url_citation",
    url_citation: { url: `${url}${place}`, start_index: place * 20, end_index: place * 20 + 5 },
  }));
  const supports = many.map((_, place) => ({
    segment: { startIndex: place * 60, endIndex: place * 60 + 15 },
    groundingChunkIndices: [place],
  }));
  const pages = many.map(({ url_citation: { url: uri } }) => ({ web: { uri } }));
  const metadata = { groundingChunks: pages, groundingSupports: supports };
  const ms = await workMsOf(() => {
    const chat = { choices: [{ message: { content: long, annotations: many }, finish_reason: "stop" }] };
    assert.equal(readOf.gemini(whole("gemini", "openai-chat", chat)).length, count);
    const google = candidate({ finishReason: "STOP", groundingMetadata: metadata }, { text: long });
    assert.equal(listOf(whole("openai-chat", "gemini", google).choices).length, 1);
    const events = Array.from({ length: length / 5 }, () => candidate({}, { text: "天天天天天" }));
    const end = candidate({ finishReason: "STOP", groundingMetadata: metadata }, { text: "" });
    assert.ok(streamed("openai-chat", "gemini", [...events, end]).length > 0);
  });
  assert.ok(ms < 5_000, `${ms} ms`);
});

test("places in a text are the same in code points and in bytes", () => {
  fc.assert(
    fc.property(fc.array(fc.string({ unit: "grapheme", maxLength: 6 })), fc.constantFrom(1, 300), (some, times) => {
      // The last chunk is longer than the parts that are kept.
      const chunks = [...some, `${some.at(-1) ?? ""}🦊`.repeat(times)];
      const places = new TextPlaces();
      for (const one of chunks) places.add(one);
      const points = [...chunks.join("")];
      assert.equal(places.points, points.length);
      for (let at = 0; at <= points.length; at++) {
        const bytes = Buffer.byteLength(points.slice(0, at).join(""));
        assert.equal(places.bytesAt(at), bytes);
        assert.equal(places.pointsAt(bytes), at);
      }
    }),
  );
});
