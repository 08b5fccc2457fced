import assert from "node:assert/strict";
import { test } from "node:test";
import { consistent } from "#dialects/consistent.ts";
import { Refusal } from "#dialects/field-support.ts";
import type { Attachment, FilePart, ImagePart, Message, NeutralRequest, Part } from "#dialects/neutral.ts";
import { namedTools } from "#dialects/tools.ts";
import { workMsOf } from "../../support/time.ts";

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

test("calls and results must match within a turn of the assistant and the next user turn", () => {
  const hi = user(text("hi"));
  for (const [messages, field] of [
    [[hi, assistant(call("a"), call("b")), user(result("b"), result("a"))], undefined],
    [
      [
        hi,
        assistant(call("a")),
        system,
        assistant(call("b")),
        user(result("a")),
        system,
        user(text("and"), result("b")),
      ],
      undefined,
    ],
    [[hi, assistant(call("a"))], "call a"],
    [[hi, assistant(call("a")), user(text("well?"))], "call a"],
    [[hi, assistant(call("a")), user(text("well?")), assistant(text("so")), user(result("a"))], "call a"],
    [[hi, user(result("a"))], "result a"],
    [[hi, assistant(call("a")), user(result("a"), result("a", "again"))], "again"],
    [[hi, assistant(call("a")), user(result("b"))], "result b"],
  ] as [Message[], string | undefined][])
    assert.equal(refusedField(requestOf(messages)), field);
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

test("the type of an image comes from its bytes, and documents must have their declared type", () => {
  const data = (mimeType: string, bytes: string | Buffer): Attachment => ({
    kind: "data",
    mimeType,
    data: Buffer.from(bytes).toString("base64"),
  });
  const png = Buffer.from("\x89PNG\r\n\x1a\n", "latin1");
  const typeOf = (kind: "image" | "file", source: Attachment): string | undefined => {
    const part: ImagePart | FilePart = { kind, source, path: "part" };
    const field = refusedField(requestOf([user(text("look"), part)]));
    if (field !== undefined) return undefined;
    return part.source.kind === "data" ? part.source.mimeType : "address";
  };
  assert.equal(typeOf("image", data("image/jpeg", png)), "image/png");
  assert.equal(typeOf("image", data("text/html", png)), "image/png");
  const page = "<!doctype html><title>Not found</title><p>There is nothing under this address.</p>";
  assert.equal(typeOf("image", data("image/png", page)), undefined);
  assert.equal(typeOf("image", data("image/png", Buffer.alloc(100))), "image/png");
  assert.equal(typeOf("image", data("image/png", "%PDF-1.4")), undefined);
  assert.equal(typeOf("image", data("image/heic", "....ftypheic")), "image/heic");
  assert.equal(typeOf("image", { kind: "url", url: "https://example.com" }), "address");
  assert.equal(typeOf("file", data("application/pdf", "%PDF-1.4")), "application/pdf");
  assert.equal(typeOf("file", data("application/pdf", `junk first${"\n".repeat(500)}%PDF-1.4`)), "application/pdf");
  assert.equal(typeOf("file", data("application/octet-stream", "%PDF-1.4")), "application/pdf");
  assert.equal(typeOf("file", data("application/pdf", page)), undefined);
  assert.equal(typeOf("file", data("application/pdf", png)), undefined);
  assert.equal(typeOf("file", data("text/plain", "grüße")), "text/plain");
  assert.equal(typeOf("file", data("text/plain", Buffer.from([0xff, 0xfe, 0]))), undefined);
  const inResult: ImagePart = { kind: "image", source: data("image/gif", png), path: "part" };
  consistent(
    requestOf([user(text("hi")), assistant(call("a")), user({ ...result("a"), content: [inResult] } as Part)]),
  );
  assert.deepEqual(inResult.source, data("image/png", png));
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
