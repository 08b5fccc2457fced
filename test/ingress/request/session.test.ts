/** Which session a request belongs to. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { labelsOf } from "../../../apps/ingress/common/labels.ts";
import { openerToKeep, sessionOf } from "../../../apps/ingress/request/session.ts";

const scope = { keyId: "key_1", model: "m" };
const chat = { messages: [{ role: "user", content: "hello" }] };
const of = (headers: Record<string, string>, body: object = chat, conversationId?: string) =>
  sessionOf(labelsOf({}, headers, { ...body }).session, { body: { ...body }, expansion: { conversationId } }, scope)
    ?.id;

const names: [source: string, headers: Record<string, string>, body: object, conversationId?: string][] = [
  ["x-sluice-session", { "x-sluice-session": "s" }, chat],
  ["x-session-affinity", { "x-session-affinity": "s" }, chat],
  ["Claude Code's header", { "x-claude-code-session-id": "s" }, chat],
  ["Codex's older header", { session_id: "s" }, chat],
  ["Codex's header", { "session-id": "s" }, chat],
  ["prompt_cache_key", {}, { ...chat, prompt_cache_key: "s" }],
  ["metadata.user_id", {}, { ...chat, metadata: { user_id: "s" } }],
  ["the conversation", {}, chat, "s"],
];

test("the first of these sources names the session, whichever it is", () => {
  const [first] = names;
  assert.ok(first);
  for (const [source, headers, body, conversationId] of names)
    assert.equal(of(headers, body, conversationId), of(first[1], first[2]), source);
  for (const [index, [source, headers, body, conversationId]] of names.entries()) {
    const later = names.slice(index + 1).map(([, others, otherBody]) => ({ others, otherBody }));
    const all = Object.fromEntries(later.flatMap(({ others }) => Object.keys(others).map((name) => [name, "other"])));
    const full = index < 5 ? { ...chat, prompt_cache_key: "other", metadata: { user_id: "other" } } : body;
    const named = index === 5 ? { ...body, metadata: { user_id: "other" } } : full;
    assert.equal(of({ ...all, ...headers }, named, conversationId ?? "other"), of(first[1]), source);
  }
});

test("a name is a hash, for one key and one model only", () => {
  const session = of({ "x-sluice-session": "ada@example.com" });
  assert.match(String(session), /^[0-9A-Za-z_-]{22}$/);
  const ofOther = (other: Partial<typeof scope>) =>
    sessionOf("ada@example.com", { body: chat }, { ...scope, ...other })?.id;
  assert.equal(ofOther({}), session);
  assert.notEqual(ofOther({ keyId: "key_2" }), session);
  assert.notEqual(ofOther({ model: "n" }), session);
});

test("a name of 255 characters counts, and an empty or a longer one does not", () => {
  assert.notEqual(of({ "x-sluice-session": "s".repeat(255) }), of({}));
  for (const name of ["", "s".repeat(256)]) assert.equal(of({ "x-sluice-session": name }), of({}), `${name.length}`);
});

test("a name in a header is read as UTF-8, and is the one that a body may have", () => {
  const inHeader = (name: string, encoding: BufferEncoding) =>
    of({ "x-sluice-session": Buffer.from(name, encoding).toString("latin1") });
  for (const name of ["会话", "会".repeat(255), "é"])
    assert.equal(inHeader(name, "utf8"), of({}, { ...chat, prompt_cache_key: name }), name);
  assert.equal(inHeader("é", "latin1"), of({}, { ...chat, prompt_cache_key: "é" }));
  assert.equal(inHeader("会".repeat(256), "utf8"), of({}));
});

const text = (value: string) => [{ type: "text", text: value, cache_control: { type: "ephemeral" } }];
/** The first and a later turn of the same conversation, in each form. */
const conversations: [dialect: string, first: object, later: object, other: object][] = [
  [
    "chat",
    {
      messages: [
        { role: "system", content: "be brief" },
        { role: "user", content: text("hello") },
      ],
    },
    {
      messages: [
        { role: "system", content: "be brief" },
        { role: "user", content: "hello" },
        { role: "assistant", content: "hi" },
        { role: "user", content: text("more") },
      ],
    },
    {
      messages: [
        { role: "system", content: "be brief" },
        { role: "user", content: "hey" },
      ],
    },
  ],
  [
    "Messages, with a first block that changes",
    {
      system: [{ type: "text", text: "x-anthropic-billing-header: cch=1" }, ...text("you are")],
      messages: [{ role: "user", content: text("hello") }],
    },
    {
      system: [{ type: "text", text: "x-anthropic-billing-header: cch=2" }, ...text("you are")],
      messages: [
        { role: "user", content: "hello" },
        { role: "assistant", content: "hi" },
        { role: "user", content: "more" },
      ],
    },
    { system: text("you were"), messages: [{ role: "user", content: "hello" }] },
  ],
  [
    "Responses",
    { instructions: "be brief", input: [{ role: "user", content: "hello" }] },
    {
      instructions: "be brief",
      input: [
        { type: "message", role: "user", content: "hello" },
        { role: "user", content: "x" },
      ],
    },
    { instructions: "be long", input: [{ role: "user", content: "hello" }] },
  ],
  [
    "Gemini",
    { systemInstruction: { parts: [{ text: "be brief" }] }, contents: [{ parts: [{ text: "hello" }] }] },
    {
      systemInstruction: { parts: [{ text: "be brief" }] },
      contents: [
        { role: "user", parts: [{ text: "hello" }] },
        { role: "model", parts: [{ text: "hi" }] },
      ],
    },
    { contents: [{ parts: [{ text: "hello" }] }] },
  ],
  [
    "tools",
    { ...chat, tools: [{ type: "function", function: { name: "look" } }] },
    {
      messages: [...chat.messages, { role: "assistant", content: "hi" }],
      tools: [{ type: "function", function: { name: "look" } }],
    },
    { ...chat, tools: [{ type: "function", function: { name: "find" } }] },
  ],
];

for (const [dialect, first, later, other] of conversations)
  test(`without a name the beginning of the conversation is the session: ${dialect}`, () => {
    assert.equal(of({}, later), of({}, first));
    assert.notEqual(of({}, other), of({}, first));
    const large = sessionOf(null, { body: {}, opener: openerToKeep({ ...later }) }, scope);
    assert.equal(large?.id, of({}, first), "of a large body, whose opener its thread keeps");
    assert.deepEqual(
      [sessionOf(null, { body: { ...first } }, scope)?.isAssumed, large?.isAssumed],
      [true, false],
      "it is assumed until a turn follows",
    );
  });

test("a text is a session's opener, and nothing is none", () => {
  assert.equal(of({}, { input: "hello" }), of({}, { input: "hello" }));
  assert.notEqual(of({}, { prompt: "hello" }), undefined);
  assert.equal(of({}, {}), undefined);
  assert.equal(openerToKeep({ ...chat, prompt_cache_key: "s" }), undefined);
});
