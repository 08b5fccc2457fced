import assert from "node:assert/strict";
import { test } from "node:test";
import { consistent } from "#dialects/neutral/consistent.ts";
import { Refusal } from "#dialects/neutral/field-support.ts";
import type { Attachment, FilePart, ImagePart, Message, NeutralRequest, Part } from "#dialects/neutral/neutral.ts";
import { namedTools } from "#dialects/neutral/tools.ts";
import { workMsOf } from "../../../support/time.ts";

const text = (value: string): Part => ({ kind: "text", text: value, path: "text" });
const call = (id: string, path = `call ${id}`): Part => ({ kind: "call", id, name: "f", input: "", path });
const result = (callId: string, path = `result ${callId}`): Part => ({
  kind: "result",
  callId,
  name: "f",
  content: [],
  isError: false,
  path,
});
const user = (...parts: Part[]): Message => ({ role: "user", parts, path: "user" });
const assistant = (...parts: Part[]): Message => ({ role: "assistant", parts, path: "assistant" });
const system: Message = { role: "system", parts: [text("mind this")], path: "system" };
const requestOf = (messages: Message[], more: Partial<NeutralRequest> = {}): NeutralRequest => ({
  system: [],
  messages,
  tools: [],
  settings: {},
  ...more,
});

function refusedField(request: NeutralRequest): string | undefined {
  try {
    consistent(request);
    return undefined;
  } catch (error) {
    assert.ok(error instanceof Refusal);
    return error.param;
  }
}

const idsIn = ({ messages }: NeutralRequest) =>
  messages.flatMap(({ parts }) =>
    parts.flatMap((part) => (part.kind === "call" ? [part.id] : part.kind === "result" ? [part.callId] : [])),
  );

/**
 * The parts in short: `*a` is the call a, `a!` its result, `a?` a result that says that the call
 * was interrupted.
 */
const shortOf = ({ messages }: NeutralRequest) =>
  messages.map(({ role, parts }) =>
    [
      role,
      ...parts.map((part) => {
        if (part.kind === "call") return `*${part.id}`;
        if (part.kind === "result")
          return `${part.callId}${part.isError ? "?" : part.path.startsWith("result") ? "!" : ` ${part.path}`}`;
        return part.kind === "text" ? part.text : part.kind;
      }),
    ].join(" "),
  );

const hi = user(text("hi"));
const well = user(text("well?"));
const orphaned = "Result of an earlier call of f, which is not in this conversation:";
const histories: [string, Message[], string[]][] = [
  [
    "right order",
    [hi, assistant(call("a"), call("b")), user(result("b"), result("a"))],
    ["user hi", "assistant *a *b", "user b! a!"],
  ],
  ["a call at the end", [hi, assistant(call("a"))], ["user hi", "assistant *a", "user a?"]],
  ["an interrupted call", [hi, assistant(call("a")), well], ["user hi", "assistant *a", "user a?", "user well?"]],
  [
    "one of two calls interrupted",
    [hi, assistant(call("a"), call("b")), user(result("b"), text("stop"))],
    ["user hi", "assistant *a *b", "user a? b!", "user stop"],
  ],
  [
    "a late result",
    [hi, assistant(call("a")), well, assistant(text("so")), user(result("a"))],
    ["user hi", "assistant *a", "user a!", "user well?", "assistant so"],
  ],
  ["an early result", [hi, user(result("a")), assistant(call("a"))], ["user hi", "assistant *a", "user a!"]],
  ["a result without a call", [hi, user(result("a"))], ["user hi", `user ${orphaned}`]],
  [
    "a call and a result of another",
    [hi, assistant(call("a")), user(result("b"))],
    ["user hi", "assistant *a", "user a?", `user ${orphaned}`],
  ],
  [
    "two results of one call: the last one counts",
    [hi, assistant(call("a")), user(result("a"), result("a", "again"))],
    ["user hi", "assistant *a", "user a again"],
  ],
  [
    "a result again after the next turn",
    [hi, assistant(call("a")), user(result("a")), assistant(text("so")), user(result("a", "again"), text("well?"))],
    ["user hi", "assistant *a", "user a again", "assistant so", "user well?"],
  ],
  [
    "an id that the next turn uses again",
    [hi, assistant(call("a")), well, assistant(call("a")), user(result("a"))],
    ["user hi", "assistant *a", "user a?", "user well?", "assistant *a_2", "user a_2!"],
  ],
  [
    "instructions between a call and its result",
    [hi, assistant(call("a")), system, user(result("a"))],
    ["user hi", "assistant *a", "user a!", "system mind this"],
  ],
  [
    "instructions between calls and between results",
    [hi, assistant(call("a")), system, assistant(call("b")), user(result("a")), system, user(text("and"), result("b"))],
    [
      "user hi",
      "assistant *a",
      "user a!",
      "system mind this",
      "assistant *b",
      "user b!",
      "system mind this",
      "user and",
    ],
  ],
];

for (const [name, messages, expected] of histories)
  test(`calls and results are matched: ${name}`, () => {
    const request = consistent(requestOf(messages));
    assert.deepEqual(shortOf(request), expected);
    assert.deepEqual(shortOf(consistent(request)), expected, "a second time changes nothing");
  });

test("results are matched in linear time", async () => {
  const calls = Array.from({ length: 50_000 }, () => call("a"));
  const results = Array.from({ length: 60_000 }, () => result("a"));
  const cases = [
    [hi, assistant(...calls), user(...results)],
    [user(...results), assistant(...calls)],
    [hi, ...calls.flatMap((one) => [assistant(one), well])],
  ];
  for (const messages of cases) assert.ok((await workMsOf(() => consistent(requestOf(messages)))) < 2_000);
});

test("calls that share an id get unique ids, and their results follow in order", () => {
  const messages = [
    user(text("hi")),
    assistant(call("a"), call("a"), call("a_2")),
    user(result("a"), result("a"), result("a_2")),
    assistant(call("a")),
    user(result("a")),
  ];
  assert.deepEqual(idsIn(consistent(requestOf(messages))), ["a", "a_2", "a_2_2", "a", "a_2", "a_2_2", "a_3", "a_3"]);
  const distinct = requestOf([user(text("hi")), assistant(call("a"), call("b")), user(result("a"), result("b"))]);
  assert.equal(consistent(distinct), distinct);
});

test("a request must have content", () => {
  const thought: Part = { kind: "reasoning", text: "hm", path: "thought" };
  assert.equal(refusedField(requestOf([])), "input");
  assert.equal(refusedField(requestOf([user(text(""))])), "user");
  assert.equal(refusedField(requestOf([assistant(thought)])), "assistant");
  assert.equal(
    refusedField(requestOf([], { system: [{ kind: "text", text: "be brief", path: "system" }] })),
    undefined,
  );
});

test("a tool choice must name offered tools", () => {
  const tools = namedTools([{ callerName: "f", path: "tools[0]" }]);
  const messages = [user(text("hi"))];
  const path = "tool_choice";
  assert.equal(refusedField(requestOf(messages, { toolChoice: { mode: "required", path } })), path);
  assert.equal(refusedField(requestOf(messages, { tools, toolChoice: { mode: "required", only: ["g"], path } })), path);
  assert.equal(
    refusedField(requestOf(messages, { tools, toolChoice: { mode: "required", only: ["f"], path } })),
    undefined,
  );
  assert.equal(refusedField(requestOf(messages, { toolChoice: { mode: "auto", path } })), undefined);
});

test("the type of an attachment comes from its bytes, whatever it was declared as", () => {
  const data = (mimeType: string, bytes: string | Buffer): Attachment => ({
    kind: "data",
    mimeType,
    data: Buffer.from(bytes).toString("base64"),
  });
  const png = Buffer.from("\x89PNG\r\n\x1a\n", "latin1");
  const typeOf = (kind: "image" | "file", source: Attachment): string | undefined => {
    const part: ImagePart | FilePart = { kind, source, path: "part" };
    const request = requestOf([user(text("look"), part)]);
    if (refusedField(request) !== undefined) return undefined;
    const read = request.messages[0]?.parts[1] as ImagePart | FilePart;
    const type = read.source.kind === "data" ? read.source.mimeType : "address";
    return read.kind === kind ? type : `${read.kind}: ${type}`;
  };
  const page = "<!doctype html><title>Not found</title><p>There is nothing under this address.</p>";
  assert.equal(typeOf("image", data("image/jpeg", png)), "image/png");
  assert.equal(typeOf("image", data("text/html", png)), "image/png");
  assert.equal(typeOf("image", data("image/png", page)), undefined);
  assert.equal(typeOf("image", data("image/png", Buffer.alloc(100))), "image/png");
  assert.equal(typeOf("image", data("image/png", "%PDF-1.4")), "file: application/pdf");
  assert.equal(typeOf("image", data("application/pdf", "%PDF-1.4")), "file: application/pdf");
  assert.equal(typeOf("image", data("text/csv", "a,b")), "file: text/plain");
  assert.equal(typeOf("image", data("video/mp4", "....ftypisom")), "video: video/mp4");
  assert.equal(typeOf("file", data("audio/wav", "RIFF....WAVE")), "audio: audio/wav");
  assert.equal(typeOf("image", { kind: "url", url: "https://example.com/a.pdf?b" }), "file: address");
  assert.equal(typeOf("file", { kind: "url", url: "https://example.com/a.PNG" }), "image: address");
  assert.equal(typeOf("file", data("application/octet-stream", `${page}${page}`)), "text/plain");
  assert.equal(typeOf("file", data("application/json", "{}")), "text/plain");
  assert.equal(typeOf("image", data("image/heic", "....ftypheic")), "image/heic");
  assert.equal(typeOf("image", { kind: "url", url: "https://example.com" }), "address");
  assert.equal(typeOf("file", data("application/pdf", "%PDF-1.4")), "application/pdf");
  assert.equal(typeOf("file", data("application/pdf", `junk first${"\n".repeat(500)}%PDF-1.4`)), "application/pdf");
  assert.equal(typeOf("file", data("application/octet-stream", "%PDF-1.4")), "application/pdf");
  assert.equal(typeOf("file", data("application/pdf", page)), undefined);
  assert.equal(typeOf("file", data("application/pdf", png)), "image: image/png");
  assert.equal(typeOf("file", data("text/plain", "grüße")), "text/plain");
  assert.equal(typeOf("file", data("text/plain", Buffer.from([0xff, 0xfe, 0]))), undefined);
  const inResult: ImagePart = { kind: "image", source: data("image/gif", png), path: "part" };
  const { messages } = consistent(
    requestOf([user(text("hi")), assistant(call("a")), user({ ...result("a"), content: [inResult] } as Part)]),
  );
  const [answered] = messages[2]?.parts ?? [];
  assert.deepEqual(answered?.kind === "result" && answered.content, [{ ...inResult, source: data("image/png", png) }]);
});

test("time is linear in a request's length", async () => {
  const count = 50_000;
  const ms = await workMsOf(() => {
    const tools = namedTools(
      Array.from({ length: 4_096 }, (_, place) => ({ callerName: "f", path: `tools[${place}]` })),
    );
    assert.equal(new Set(tools.map(({ name }) => name)).size, 4_096);
    const same = [...Array(count)].map(() => "same");
    const request = requestOf(
      [user(text("hi")), assistant(...same.map((id) => call(id))), user(...same.map((id) => result(id)))],
      { tools },
    );
    assert.equal(new Set(idsIn(consistent(request))).size, count);
  });
  assert.ok(ms < 2_000, `${ms} ms`);
  assert.throws(
    () =>
      namedTools(Array.from({ length: 4_097 }, (_, place) => ({ callerName: `f${place}`, path: `tools[${place}]` }))),
    {
      param: "tools[4096]",
    },
  );
});

test("calls of several tools with one id keep their names, and so do their results", () => {
  const named = <P extends Part>(part: P, name: string): P => ({ ...part, name });
  const { messages } = consistent(
    requestOf([
      hi,
      assistant(named(call("a"), "f"), named(call("a"), "g")),
      user(named(result("a"), "g"), named(result("a"), "g")),
    ]),
  );
  assert.deepEqual(
    messages.flatMap(({ parts }) => parts.flatMap((part) => ("name" in part ? [`${part.kind} ${part.name}`] : []))),
    ["call f", "call g", "result f", "result g"],
  );
});
