import assert from "node:assert/strict";
import { after, test } from "node:test";
import { codecs } from "#dialects/codecs.ts";
import { conversationDialects } from "#dialects/dialect.ts";
import type { AttachmentAddress } from "#dialects/neutral/attachments.ts";
import { translatedAnswerOf } from "#operations/answer/exchange.ts";
import type { PreparationTask } from "#operations/exchange.ts";
import { prepare } from "#operations/exchanges.ts";
import { parseExact } from "#wire/json/parse.ts";
import { Preparation, PreparationThread } from "../../../apps/worker/preparation/preparation.ts";
import { translatedTask, verbatimTask } from "../../../apps/worker/preparation/whole.ts";
import { words } from "../../e2e/bad-input/raw.ts";
import { targetOf } from "../../support/target.ts";

const thread = new PreparationThread();
after(() => thread.close());

const never = new AbortController().signal;
const target = targetOf("openai-chat", "theirs");
const common = {
  framing: "sse" as const,
  headers: {},
  contentType: "application/json",
  model: "mine",
  createdAt: 1,
  target,
  resumes: false,
  countsTokens: true,
};
const long = "x".repeat(200_000);

const data = { kind: "data", mimeType: "image/png", data: "bWFyaw==" } as const;
const fetched = (seen: AttachmentAddress[]) => async (addresses: readonly AttachmentAddress[]) => {
  seen.push(...addresses);
  return addresses.map(() => data);
};

const addresses: Record<keyof typeof words, string> = {
  "openai-chat": '{"type":"image_url","image_url":{"url":"https://example.com/a.png"}}',
  "openai-responses": '{"type":"input_image","image_url":"https://example.com/a.png"}',
  "anthropic-messages": '{"type":"image","source":{"type":"url","url":"https://example.com/a.png"}}',
  gemini: '{"fileData":{"fileUri":"https://example.com/a.png"}}',
};

test("the thread prepares a large request exactly as the main thread does, between all dialects and with attachments", async () => {
  for (const dialect of conversationDialects)
    for (const spoken of conversationDialects)
      for (const resumes of [false, true]) {
        const { ask, text, tools } = words[dialect];
        const body = Buffer.from(
          ask("mine", `${text(long)},${addresses[dialect]}`, tools(["f.g"], '{"type":"object"}')),
        );
        const task: PreparationTask = { ...common, operation: "answer", dialect, spoken, resumes, body };
        const [there, here]: AttachmentAddress[][] = [[], []];
        const prepared = await new Preparation(thread, "k").prepare(task, fetched(there as AttachmentAddress[]), never);
        const plain = await prepare(task, fetched(here as AttachmentAddress[]));
        const what = `${dialect} ${spoken} ${resumes}`;
        assert.ok(prepared.kind === "conversation" && plain.kind === "conversation", what);
        assert.equal(prepared.request.body.toString(), plain.request.body.toString(), what);
        assert.deepEqual({ ...prepared.request, body: 0 }, { ...plain.request, body: 0 }, what);
        assert.ok(prepared.request.body.includes(data.data), what);
        assert.deepEqual(there, here, what);
        assert.equal(prepared.resumes, plain.resumes, what);
        if (plain.decoded !== undefined) {
          assert.deepEqual(
            prepared.decoded?.request.tools.map(({ name, callerName }) => [name, callerName]),
            plain.decoded.request.tools.map(({ name, callerName }) => [name, callerName]),
            what,
          );
          assert.ok(JSON.stringify(prepared.decoded).length < 2_000, what);
        } else {
          const settings = JSON.parse(String(prepared.settings));
          assert.deepEqual(settings.tools, JSON.parse(body.toString()).tools, what);
          assert.deepEqual(codecs[dialect].decodeRequest({ body: settings, framing: "sse" }).tools.length, 1, what);
        }
      }
});

test("the thread refuses the same requests as the main thread, and requests with too many addresses", async () => {
  const { ask, text } = words["openai-chat"];
  const task = (parts: string, more = ""): PreparationTask => ({
    ...common,
    operation: "answer",
    dialect: "openai-chat",
    spoken: "gemini",
    body: Buffer.from(ask("mine", parts, more)),
  });
  for (const [refused, param] of [
    [task(text(long), ',"logit_bias":{"1":1}'), "logit_bias"],
    [
      task(`${text(long)},${new Array(4_097).fill(addresses["openai-chat"]).join(",")}`),
      "messages[0].content[4097].image_url.url",
    ],
  ] as const) {
    const prepared = await new Preparation(thread, "k").prepare(refused, fetched([]), never);
    assert.ok(prepared.kind === "refused");
    assert.equal(prepared.failure.param, param);
  }
});

test("a prepared request is reused for a target that gets the same request, until content arrives", async () => {
  const { ask, text } = words["openai-chat"];
  const preparation = new Preparation(thread, "k");
  const task: PreparationTask = {
    ...common,
    operation: "answer",
    dialect: "openai-chat",
    spoken: "gemini",
    body: Buffer.from(ask("mine", text(long))),
  };
  const one = await preparation.prepare(task, fetched([]), never);
  assert.equal(await preparation.prepare({ ...task }, fetched([]), never), one);
  const other = await preparation.prepare({ ...task, target: { ...target, model: "other" } }, fetched([]), never);
  assert.notEqual(other, one);
  preparation.forget();
  const again = await preparation.prepare({ ...task, target: { ...target, model: "other" } }, fetched([]), never);
  assert.ok(again !== other && again.kind === "conversation" && other.kind === "conversation");
  assert.deepEqual(again.request, other.request);

  const named: PreparationTask = {
    ...task,
    body: Buffer.from(ask("mine", `${text(long)},${addresses["openai-chat"]}`)),
  };
  const preparing = new Preparation(thread, "k");
  const seen: AttachmentAddress[] = [];
  await preparing.prepare(named, fetched(seen), never);
  await preparing.prepare(named, fetched(seen), never);
  assert.equal(seen.length, 2);
});

test("the thread prepares token counts, embeddings and forms exactly as the main thread does", async () => {
  const { ask, text } = words["anthropic-messages"];
  const form = new FormData();
  form.set("prompt", "a hat");
  form.set("model", "mine");
  form.set("image", new Blob([Buffer.alloc(200_000, 1)], { type: "image/png" }), "a.png");
  const edit = new Response(form);
  const contentType = edit.headers.get("content-type") as string;
  const bytes = Buffer.from(await edit.arrayBuffer());
  for (const [more, kind] of [
    [
      {
        operation: "token-count",
        dialect: "anthropic-messages",
        spoken: "openai-responses",
        body: Buffer.from(ask("mine", text(long))),
      },
      "call",
    ],
    [
      {
        operation: "token-count",
        dialect: "anthropic-messages",
        spoken: "openai-chat",
        body: Buffer.from(ask("mine", text(long))),
      },
      "answered",
    ],
    [
      {
        operation: "embedding",
        dialect: "openai-chat",
        spoken: "gemini",
        body: Buffer.from(JSON.stringify({ model: "m", input: [long, "b"] })),
      },
      "call",
    ],
    [{ operation: "image-edit", dialect: "openai-chat", spoken: "openai-images", body: bytes, contentType }, "call"],
  ] as const) {
    const task: PreparationTask = { ...common, framing: "whole", ...more };
    const prepared = await new Preparation(thread, "k").prepare(task, fetched([]), never);
    const plain = await prepare(task, fetched([]));
    assert.equal(prepared.kind, kind);
    if (prepared.kind !== "call" || plain.kind !== "call") {
      assert.deepEqual(prepared, plain);
      continue;
    }
    assert.deepEqual(prepared.context, plain.context);
    // Each form gets a boundary of its own.
    if (more.operation === "image-edit") assert.ok(prepared.request.body.includes("theirs"));
    else assert.ok(prepared.request.body.equals(plain.request.body));
  }
});

test("settings of a large request that its answer repeats keep the caller's number format", async () => {
  const body = Buffer.from(
    `{"model":"m","input":"${long}","metadata":{"id":12345678901234567890},"instructions":"short","prompt_cache_key":"${long}${long}"}`,
  );
  const task: PreparationTask = {
    ...common,
    operation: "answer",
    dialect: "openai-responses",
    spoken: "openai-chat",
    body,
  };
  const preparation = new Preparation(thread, "k");
  const prepared = await preparation.prepare(task, fetched([]), never);
  assert.ok(prepared.kind === "conversation" && prepared.decoded !== undefined);
  assert.equal(
    JSON.stringify(prepared.decoded.body),
    '{"model":"m","input":[],"metadata":{"id":12345678901234567890},"instructions":"short"}',
  );
});

test("the thread reads a large answer exactly as the main thread does", async () => {
  const preparation = new Preparation(thread, "k");
  const request = {
    system: [],
    messages: [],
    tools: [{ name: "f_g", callerName: "f.g", path: "tools[0]", parameters: { const: 1 } }],
    settings: {},
  };
  const body = { metadata: parseExact('{"id":12345678901234567890}') };
  for (const from of conversationDialects)
    for (const to of conversationDialects) {
      const context = { id: "a1", model: "m", createdAt: 1, framing: "whole" as const, request, body };
      const answer = {
        blocks: [
          { kind: "text" as const, text: long },
          { kind: "call" as const, id: "c", name: "f_g", input: "{}" },
        ],
        finish: "calls" as const,
      };
      const sent = Buffer.from(codecs[to].encodeAnswer(answer, { ...context, request: { ...request, tools: [] } }));
      const task = () => translatedTask(from, to, context);
      const read = await preparation.read(task, Buffer.from(sent));
      const plain = translatedAnswerOf(sent, from, to, context);
      assert.ok(read.kind === "answer" && plain.kind === "answer");
      assert.equal(read.body.toString(), plain.body.toString());
      assert.deepEqual(read.usage, plain.usage);
    }
  assert.deepEqual(
    await preparation.read(() => verbatimTask("gemini", { id: "abc123", model: "m" }), Buffer.alloc(200_000)),
    {
      kind: "malformed",
    },
  );
});

test("a preparation whose caller leaves ends at once, without waiting for the thread", async () => {
  const leaving = new AbortController();
  const { ask, text } = words["openai-chat"];
  const task: PreparationTask = {
    ...common,
    operation: "answer",
    dialect: "openai-chat",
    spoken: "gemini",
    body: Buffer.from(ask("mine", text(long))),
  };
  const prepared = new Preparation(thread, "k").prepare(task, fetched([]), leaving.signal);
  leaving.abort(new Error("left"));
  await assert.rejects(prepared, /left/);
});

test("a large request keeps what its answer needs of its tools: item types, names of arguments, and free text", async () => {
  const input = `${long} Go`;
  const prepared = async (spoken: (typeof conversationDialects)[number], tools: object[]) => {
    const body = Buffer.from(JSON.stringify({ model: "mine", input, tools }));
    const task: PreparationTask = { ...common, operation: "answer", dialect: "openai-responses", spoken, body };
    const result = await new Preparation(thread, "k").prepare(task, fetched([]), never);
    assert.ok(result.kind === "conversation");
    return result;
  };
  const parameters = { type: "object", properties: { "file path": { type: "string" } } };
  const { decoded } = await prepared("gemini", [
    { type: "shell" },
    { type: "function", name: "read", parameters },
    { type: "custom", name: "patch" },
  ]);
  assert.ok(decoded !== undefined);
  const context = { id: "1", model: "mine", createdAt: 1, framing: "whole" as const, ...decoded };
  const parts = [
    { functionCall: { name: "shell", args: { commands: ["ls"] } } },
    { functionCall: { name: "read", args: { file_path: "a" } } },
    { functionCall: { name: "patch", args: { input: "x" } } },
  ];
  const answer = Buffer.from(JSON.stringify({ candidates: [{ content: { parts }, finishReason: "STOP" }] }));
  const [here, there] = await Promise.all([
    translatedAnswerOf(answer, "openai-responses", "gemini", context),
    thread.read(translatedTask("openai-responses", "gemini", context), answer, "k"),
  ]);
  for (const whole of [here, there]) {
    assert.ok(whole.kind === "answer");
    const { output } = JSON.parse(whole.body.toString()) as { output: Record<string, unknown>[] };
    assert.deepEqual(
      output.map(({ type, action, arguments: args, input: text }) => [type, action ?? args ?? text]),
      [
        ["shell_call", { commands: ["ls"], timeout_ms: null, max_output_length: null }],
        ["function_call", '{"file path":"a"}'],
        ["custom_tool_call", "x"],
      ],
    );
  }
  const { customNames } = await prepared("openai-responses", [{ type: "custom", name: "patch" }]);
  assert.deepEqual(customNames, new Set(["patch"]));
});
