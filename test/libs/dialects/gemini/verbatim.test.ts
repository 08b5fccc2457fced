import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import type { Framing } from "#dialects/codec.ts";
import { gemini } from "#dialects/gemini/codec.ts";
import { wrappedSignatureOf } from "#dialects/neutral/wrapped-signature.ts";
import { targetOf } from "../../../support/target.ts";

type Json = Record<string, unknown>;
const { verbatim } = gemini;
const target = targetOf("gemini", "gemini-3-pro");

/** The texts that a caller gets for these events, by event, and for the end if it is reached. */
function relayed(events: (string | Json)[], framing: Framing = "sse", requestBody: Json = {}) {
  const stream = verbatim.stream(Buffer.from(JSON.stringify(requestBody)), framing, { id: "abc123", model: "mine" });
  const texts = events.map((event) => {
    const out: Buffer[] = [];
    stream.push(
      { event: undefined, data: Buffer.from(typeof event === "string" ? event : JSON.stringify(event)) },
      out,
    );
    return Buffer.concat(out).toString();
  });
  const out: Buffer[] = [];
  if (stream.finished) stream.end(out);
  return { stream, texts, end: Buffer.concat(out).toString() };
}
const response = (parts: Json[], finishReason?: string, more: Json = {}) => ({
  candidates: [{ content: { parts, role: "model" }, ...(finishReason !== undefined && { finishReason }) }],
  modelVersion: "theirs",
  ...more,
});
const shown = (event: object) => `data: ${JSON.stringify(event).replaceAll('"theirs"', '"mine"')}\n\n`;

test("a request keeps every byte; the model and the framing are in the path", () => {
  const text =
    '\n{ "contents" : [{"parts":[{"text":"é"}]}],\t"big":12345678901234567890, "model":"theirs","new_field":{"x":1.0} }\n';
  for (const [framing, path] of [
    ["whole", "/models/gemini-3-pro:generateContent"],
    ["sse", "/models/gemini-3-pro:streamGenerateContent?alt=sse"],
    ["array", "/models/gemini-3-pro:streamGenerateContent?alt=sse"],
  ] as const) {
    const request = verbatim.request(Buffer.from(text), framing, target);
    assert.equal(request?.path, path);
    assert.equal(request?.body.toString(), text);
  }
  for (const broken of ["", "[]", '{"contents":'])
    assert.equal(verbatim.request(Buffer.from(broken), "sse", target), undefined);
});

test("another dialect's reasoning is removed from a request, and its calls get the documented bypass value", () => {
  const envelope = wrappedSignatureOf({ dialect: "openai-responses", data: "x" }, "t");
  const call = { functionCall: { name: "f" } };
  const body = {
    contents: [
      {
        role: "model",
        parts: [
          { text: "a", thoughtSignature: envelope },
          { ...call, thought_signature: envelope },
          { ...call, thoughtSignature: "b3du" },
        ],
      },
      { role: "model", parts: [{ text: "", thoughtSignature: envelope }] },
      {
        role: "model",
        parts: [{ text: "b", thoughtSignature: wrappedSignatureOf({ dialect: "gemini", data: "b3du" }) }],
      },
    ],
    other: 1,
  };
  const sent = (model: string) =>
    JSON.parse(
      verbatim.request(Buffer.from(JSON.stringify(body)), "whole", targetOf("gemini", model))?.body.toString() ?? "",
    );
  const last = { role: "model", parts: [{ text: "b", thoughtSignature: "b3du" }] };
  const own = { ...call, thoughtSignature: "b3du" };
  assert.deepEqual(sent("gemini-3-pro"), {
    contents: [
      {
        role: "model",
        parts: [{ text: "a" }, { ...call, thought_signature: "skip_thought_signature_validator" }, own],
      },
      last,
    ],
    other: 1,
  });
  assert.deepEqual(sent("gemini-2.5-pro").contents[0].parts, [{ text: "a" }, call, own]);
});

test("the first unsigned call of a model's turn gets the documented bypass value, and every other byte stays", () => {
  const bypass = "skip_thought_signature_validator";
  const call = '{ "functionCall":{"name":"f","args":{"n":12345678901234567890}} }';
  const turn = (role: string, ...parts: string[]) => `{"role":"${role}", "parts":[ ${parts.join(" ,")}]}`;
  const sent = (text: string, model: string) =>
    verbatim.request(Buffer.from(text), "whole", targetOf("gemini", model))?.body.toString();
  const signed = (part: string) => part.replace(/ }$/, ` ,"thoughtSignature":"${bypass}"}`);
  const own = '{"functionCall":{"name":"f"},"thoughtSignature":"b3du"}';
  const empty = '{"thought_signature":"","function_call":{"name":"f"}}';
  const text = (first: string, second: string, other: string) =>
    `{"contents" : [${turn("user", '{"text":"x"}')}, ${turn("model", '{"text":"a"}', first, call)},${turn("user", call)},${turn("model", own, call)},${turn("model", second)},{"role":"model","parts":${other}}],"x":1.0}`;
  const before = text(call, empty, call);
  const after = text(signed(call), empty.replace('""', `"${bypass}"`), signed(call));
  assert.equal(sent(before, "gemini-3-pro"), after);
  assert.equal(sent(after, "gemini-3-pro"), after);
  assert.equal(sent(before, "gemini-2.5-pro"), before);
  for (const odd of [
    '{"contents":"functionCall"}',
    '{"functionCall":1}',
    '{"contents":[{"role":"model","parts":"functionCall"},"functionCall"]}',
  ])
    assert.equal(sent(odd, "gemini-3-pro"), odd);
});

test("every byte of an answer except the model's name is relayed, starting with the first content", () => {
  const opening = response([{ text: "" }]);
  const text =
    '{ "modelVersion" : "theirs",  "big":12345678901234567890, "candidates":[{"content":{"parts":[{"text":"x","modelVersion":"theirs"}]},"new":1.0}]}';
  const last = response([{ text: "", thoughtSignature: "U2ln" }], "STOP", {
    usageMetadata: { promptTokenCount: 7, candidatesTokenCount: 3, thoughtsTokenCount: 2 },
  });
  const { stream, texts, end } = relayed([opening, text, last, "[DONE]"]);
  assert.deepEqual(texts, [
    "",
    `${shown(opening)}data: ${text.replace('"modelVersion" : "theirs"', '"modelVersion" : "mine"')}\n\n`,
    shown(last),
    "",
  ]);
  assert.equal(end, "");
  assert.equal(stream.malformedEvents, 0);
  assert.deepEqual(stream.usage, {
    inputTokens: 7,
    cachedInputTokens: 0,
    cacheWriteTokens: 0,
    outputTokens: 5,
    reasoningTokens: 2,
  });
});

test("a caller of the list framing gets valid JSON with empty lines between elements", () => {
  const events = [response([{ text: "a" }]), response([{ text: "b" }]), response([], "STOP")];
  const { texts, end } = relayed(events, "array");
  const mine = JSON.parse(JSON.stringify(events).replaceAll("theirs", "mine"));
  assert.deepEqual(texts, [
    `[${JSON.stringify(mine[0])}\n\n`,
    `,${JSON.stringify(mine[1])}\n\n`,
    `,${JSON.stringify(mine[2])}\n\n`,
  ]);
  assert.deepEqual(JSON.parse(texts.join("") + end), mine);
  assert.equal(end, "]");
});

test("calls, images, code, signatures, finish reasons and a blocked prompt count as content; opening events do not", () => {
  const contents = [
    { functionCall: { name: "f" } },
    { inlineData: { data: "" } },
    { executableCode: {} },
    { text: "", thoughtSignature: "x" },
    { text: "t", thought: true },
    { soon: 1 },
  ];
  for (const part of contents) assert.equal(relayed([response([part])]).stream.committed, true, JSON.stringify(part));
  for (const part of [{ text: "" }, { text: "", thought: true }, {}])
    assert.equal(relayed([response([part])]).stream.committed, false, JSON.stringify(part));
  assert.equal(relayed([response([], "SAFETY")]).stream.committed, true);
  const blocked = relayed([{ promptFeedback: { blockReason: "SAFETY" } }]).stream;
  assert.deepEqual([blocked.committed, blocked.finished], [true, true]);
});

test("an answer is finished when all its candidates are", () => {
  const candidate = (index: number, finishReason?: string) => ({
    candidates: [{ index, content: { parts: [{ text: "x" }] }, ...(finishReason && { finishReason }) }],
  });
  assert.equal(relayed([response([{ text: '"finishReason":"STOP"' }])]).stream.finished, false);
  assert.equal(relayed([response([{ text: "a" }], "FINISH_REASON_UNSPECIFIED")]).stream.finished, false);
  for (const requestBody of [
    { generationConfig: { candidateCount: 2 } },
    { generation_config: { candidate_count: 2 } },
  ]) {
    const events = [candidate(0), candidate(1), candidate(0, "STOP")];
    assert.equal(relayed(events, "sse", requestBody).stream.finished, false);
    assert.equal(relayed([...events, candidate(1, "MAX_TOKENS")], "sse", requestBody).stream.finished, true);
  }
});

test("continuation tokens are removed, and the caller sees a truncated answer", () => {
  const event = {
    ...response([{ text: "a" }]),
    candidates: [{ content: { parts: [{ text: "a" }] }, finishReason: "CONTINUATION", continuationToken: "t" }],
  };
  const { texts, stream } = relayed([event]);
  assert.deepEqual(JSON.parse((texts[0] as string).slice(6)).candidates, [
    { content: { parts: [{ text: "a" }] }, finishReason: "MAX_TOKENS" },
  ]);
  assert.equal(stream.finished, true);
  const spoken = response([{ text: 'about the "continuationToken"' }], "STOP");
  assert.equal(relayed([spoken]).texts[0], shown(spoken));
  const whole = verbatim.answer(Buffer.from(JSON.stringify(event)), { id: "abc123", model: "mine" });
  assert.ok(whole.kind === "answer" && !whole.body.includes("continuationToken") && whole.body.includes("MAX_TOKENS"));
});

test("an event is one line, without characters that some readers take for a line end", () => {
  const [event] = relayed(['{"candidates":[{"content":\n{"parts":[{"text":"a\u2028b\u2029c"}]}}]}']).texts;
  assert.equal(event, 'data: {"candidates":[{"content": {"parts":[{"text":"a\\u2028b\\u2029c"}]}}]}\n\n');
});

test("an error or an event that is not a JSON object ends the stream", () => {
  const { stream, texts } = relayed([
    response([{ text: "a" }]),
    "",
    { error: { code: 503, message: "busy", status: "UNAVAILABLE" } },
    response([], "STOP"),
  ]);
  assert.deepEqual(texts.slice(1), ["", "", ""]);
  assert.deepEqual([stream.malformedEvents, stream.error?.status, stream.error?.message], [0, 503, "busy"]);
  for (const broken of ['{"cand', "hello", "7"])
    assert.equal(relayed([response([{ text: "a" }]), broken, response([], "STOP")]).stream.error?.status, 502);
});

test("a whole answer keeps every byte except the model's name, and its usage is read", () => {
  const text =
    '{"candidates":[{"content":{"parts":[{"text":"a\u2028"}]}}], "modelVersion":"theirs","usageMetadata":{"promptTokenCount":3},"big":12345678901234567890}\n';
  const answer = verbatim.answer(Buffer.from(text), { id: "abc123", model: "mine" });
  assert.ok(answer.kind === "answer");
  assert.equal(answer.body.toString(), text.replace("theirs", "mine"));
  assert.equal(answer.usage?.inputTokens, 3);
  for (const broken of ["", "[]", "{}", text.slice(0, 60)])
    assert.equal(verbatim.answer(Buffer.from(broken), { id: "abc123", model: "mine" }).kind, "malformed");
  assert.equal(
    verbatim.answer(Buffer.from('{"error":{"message":"no"}}'), { id: "abc123", model: "mine" }).kind,
    "error",
  );
});

test("no bytes make the relay throw", () => {
  const any = fc.oneof(
    fc.json(),
    fc.string(),
    fc
      .record({
        candidates: fc.oneof(
          fc.jsonValue(),
          fc.array(fc.record({ content: fc.jsonValue(), finishReason: fc.jsonValue(), index: fc.jsonValue() })),
        ),
        promptFeedback: fc.jsonValue(),
        usageMetadata: fc.jsonValue(),
        continuationToken: fc.jsonValue(),
      })
      .map((value) => JSON.stringify(value)),
  );
  fc.assert(
    fc.property(
      fc.array(any),
      fc.constantFrom<Framing>("sse", "array"),
      fc.jsonValue(),
      (events, framing, generationConfig) => {
        relayed(events, framing, { generationConfig });
        for (const text of events) verbatim.answer(Buffer.from(text), { id: "abc123", model: "mine" });
      },
    ),
  );
  const envelope = wrappedSignatureOf({ dialect: "openai-chat", data: "x" });
  const request = fc.record({
    contents: fc.oneof(
      fc.jsonValue(),
      fc.array(fc.record({ parts: fc.array(fc.record({ thoughtSignature: fc.constantFrom(envelope, 1) })) })),
    ),
    x: fc.constant(envelope),
  });
  fc.assert(fc.property(request, (body) => void verbatim.request(Buffer.from(JSON.stringify(body)), "sse", target)));
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 80 }), (bytes) => void verbatim.request(Buffer.from(bytes), "sse", target)),
  );
});
