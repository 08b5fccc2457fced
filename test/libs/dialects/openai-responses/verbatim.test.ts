import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import fc from "fast-check";
import { wrappedSignatureOf } from "#dialects/neutral/wrapped-signature.ts";
import { openaiResponses } from "#dialects/openai-responses/codec.ts";
import { SseReader } from "#wire/sse.ts";
import { targetOf } from "../../../support/target.ts";
import { typedEvent } from "../../../support/upstream.ts";

const { verbatim } = openaiResponses;
const golden = readFileSync(join(import.meta.dirname, "../../../fixtures/wire/openai-responses.sse"));
const target = targetOf("openai-responses", "upstream-name");
const sent = (text: string, framing: "whole" | "sse" = "whole") =>
  verbatim.request(Buffer.from(text), framing, target)?.body.toString();

test("a request keeps every byte except the model's name and the fields about storing and streaming", () => {
  const text =
    '\n{ "x" : 12345678901234567890,\t"model":"mine", "y":{"model":"inner","store":true}, "é":"\\u00e9 " }\n';
  assert.equal(sent(text), text.replace('"mine"', '"upstream-name"').replace(" }\n", ' ,"store":false}\n'));
  assert.equal(sent('{"store":true,"model":"a","input":[]}'), '{"store":false,"model":"upstream-name","input":[]}');
  assert.equal(
    sent('{"model":"a","store":null,"\\u006dodel":"b","stream":true}', "sse"),
    '{"model":"upstream-name","store":false,"\\u006dodel":"upstream-name","stream":true}',
  );
  assert.equal(sent('{"model":"a"}', "sse"), '{"model":"upstream-name","store":false,"stream":true}');
  assert.equal(
    sent('{"model":"a","stream":null,"store":false}'),
    '{"model":"upstream-name","stream":false,"store":false}',
  );
});

test("bytes that are not an object with a model are rejected and never throw", () => {
  for (const text of ["", "[]", "{}", '{"model":', '{"models":"m"}']) assert.equal(sent(text), undefined);
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 80 }), (bytes) => void verbatim.request(Buffer.from(bytes), "sse", target)),
  );
});

test("reasoning of other dialects is removed, this dialect's own is unwrapped, and all other bytes stay", () => {
  const foreign = {
    type: "reasoning",
    id: "rs_1",
    summary: [],
    encrypted_content: wrappedSignatureOf({ dialect: "gemini", data: "x" }),
  };
  const unsigned = { type: "reasoning", id: "rs_foreign_abc_0", summary: [] };
  const wrapped = {
    ...foreign,
    encrypted_content: wrappedSignatureOf({ dialect: "openai-responses", data: "ENC", itemId: "rs_own" }),
  };
  const own = { type: "reasoning", id: "rs_2", summary: [], encrypted_content: "ENC2" };
  const input = [{ role: "user", content: "Hi" }, foreign, unsigned, wrapped, own];
  const body = sent(`{"model":"a", "big":12345678901234567890,"input":${JSON.stringify(input)} ,"store":false}`);
  const kept = [input[0], { type: "reasoning", id: "rs_own", summary: [], encrypted_content: "ENC" }, own];
  assert.equal(
    body,
    `{"model":"upstream-name", "big":12345678901234567890,"input":${JSON.stringify(kept)} ,"store":false}`,
  );
  const { id: _id, ...nameless } = wrapped;
  const named = { type: "reasoning", summary: [], encrypted_content: "ENC", id: "rs_own" };
  assert.equal(
    sent(JSON.stringify({ model: "a", input: [nameless], store: false })),
    JSON.stringify({ model: "upstream-name", input: [named], store: false }),
  );
});

const encrypted = "reasoning.encrypted_content";
const sentTo = (model: string, reasons: boolean | undefined, body: object) =>
  JSON.parse(
    String(
      verbatim.request(
        Buffer.from(JSON.stringify({ model: "a", ...body })),
        "whole",
        targetOf("openai-responses", model, { reasons }),
      )?.body,
    ),
  );

test("encrypted reasoning is requested only if the catalogue, the request or the model's name says that the model reasons", () => {
  for (const [model, reasons, body, expected] of [
    ["deployment", true, {}, [encrypted]],
    ["deployment", true, { include: [] }, [encrypted]],
    ["deployment", true, { include: null }, [encrypted]],
    ["deployment", true, { include: ["message.output_text.logprobs"] }, ["message.output_text.logprobs", encrypted]],
    ["deployment", true, { include: [encrypted] }, [encrypted]],
    ["deployment", true, { reasoning: { effort: "none" } }, undefined],
    ["gpt-5.2", undefined, {}, [encrypted]],
    ["openai/o4-mini", undefined, {}, [encrypted]],
    ["gpt-5-chat-latest", undefined, {}, undefined],
    ["gpt-5.2", false, {}, undefined],
    ["gpt-4o", undefined, { include: [] }, []],
    ["gpt-4o", undefined, { reasoning: { effort: null, summary: null } }, undefined],
    ["deployment", undefined, { reasoning: { effort: "low" } }, [encrypted]],
    ["deployment", undefined, { reasoning: { summary: "auto" } }, [encrypted]],
  ] as const)
    assert.deepEqual(sentTo(model, reasons, body).include, expected, `${model} ${JSON.stringify(body)}`);
});

test("reasoning that no upstream can resolve is removed, with the ids of the items that belong to it", () => {
  const call =
    '{"type":"function_call","id":"fc_1", "call_id":"c","name":"f","arguments":"{}","n":12345678901234567890}';
  const message = '{"id":"msg_1","type":"message","role":"assistant","content":[]}';
  const result = '{"type":"function_call_output","id":"fco_1","call_id":"c","output":"x"}';
  const user = '{"type":"message","id":"msg_2","role":"user","content":"Hi"}';
  const open = '{"type":"reasoning","id":"rs_2","summary":[],"content":[{"type":"reasoning_text","text":"hm"}]}';
  const lost = (id: string) =>
    `{"type":"reasoning","id":"${id}","summary":[{"type":"summary_text","text":"hm"}],"encrypted_content":null}`;
  const body = sent(
    `{"model":"a","input":[ ${user} ,${lost("rs_1")}, ${call},${message},${result},${message},${open},${message},${lost("rs_3")}]}`,
  );
  const bare = [call.replace('"id":"fc_1",', ""), message.replace('"id":"msg_1",', "")];
  assert.equal(
    body,
    `{"model":"upstream-name","input":[ ${user} , ${[...bare, result, message, open, message].join(",")}],"store":false}`,
  );
  const resolvable = `{"model":"a","input":[ ${user} , ${open} ,${message}],"store":false}`;
  assert.equal(sent(resolvable), resolvable.replace('"a"', '"upstream-name"'));
  const counted = openaiResponses.tokenCount
    ?.requestOf({ input: [JSON.parse(lost("rs_1")), JSON.parse(user)] }, target)
    .body.toString();
  assert.equal(counted, `{"model":"upstream-name","input":[${user}]}`);
});

interface Relayed {
  text: string;
  stream: ReturnType<typeof verbatim.stream>;
  /** How many events had been read when the first byte came out. */
  heldEvents: number;
}

function relayed(bytes: Buffer): Relayed {
  const stream = verbatim.stream(Buffer.from("{}"), "sse", { id: "abc123", model: "mine" });
  const out: Buffer[] = [];
  let heldEvents = 0;
  for (const event of new SseReader(1 << 20).push(bytes)) {
    stream.push(event, out);
    if (out.length === 0) heldEvents++;
  }
  return { text: Buffer.concat(out).toString(), stream, heldEvents };
}

/** An answer with the caller's id and model name in place of the upstream's. */
const identified = (text: string) =>
  text.replaceAll('"id":"resp_f1"', '"id":"resp_abc123"').replaceAll('"model":"upstream-name"', '"model":"mine"');

test("a stream keeps every byte except the response's id and the model's name; its usage and end are detected", () => {
  const { text, stream, heldEvents } = relayed(golden);
  assert.equal(text, identified(golden.toString()));
  assert.equal(heldEvents, 5);
  assert.deepEqual(stream.usage, {
    inputTokens: 10,
    cachedInputTokens: 4,
    cacheWriteTokens: 1,
    outputTokens: 7,
    reasoningTokens: 2,
  });
  assert.deepEqual([stream.finished, stream.complete, stream.ended, stream.malformedEvents], [true, true, true, 0]);
});

test("events without a name are identified by their type", () => {
  const unnamed = golden.toString().replaceAll(/^event: .*\n/gm, "");
  const { text, stream, heldEvents } = relayed(Buffer.from(unnamed));
  assert.equal(text, identified(unnamed));
  assert.deepEqual([heldEvents, stream.ended], [5, true]);
  assert.equal(
    relayed(Buffer.from('data: {"response":{"id":"r"},"type":"response.completed"}\n\n')).stream.ended,
    true,
  );
});

test("an answer begins with its first content, not with the events that announce it", () => {
  const createdEvent = typedEvent("response.created", { response: { id: "r", model: "u" } });
  const committed = (...events: string[]) => relayed(Buffer.from(createdEvent + events.join(""))).stream.committed;
  const added = (type: string) => typedEvent("response.output_item.added", { output_index: 0, item: { type } });
  assert.equal(
    committed(
      typedEvent("response.queued"),
      typedEvent("response.in_progress"),
      added("message"),
      typedEvent("response.content_part.added"),
      typedEvent("keepalive"),
    ),
    false,
  );
  for (const content of [
    typedEvent("response.output_text.delta", { delta: "a" }),
    typedEvent("response.refusal.delta"),
    added("function_call"),
    added("web_search_call"),
    typedEvent("response.output_item.done"),
    typedEvent("response.incomplete"),
  ])
    assert.equal(committed(content), true, content);
});

test("errors are detected at any position; a truncated stream is not finished", () => {
  for (const content of ["", typedEvent("response.output_text.delta", { delta: "a" })])
    for (const [failure, status] of [
      [typedEvent("error", { code: "rate_limit_exceeded", message: "m", param: null }), 429],
      [
        typedEvent("response.failed", {
          response: { status: "failed", error: { code: "server_error", message: "m" } },
        }),
        500,
      ],
      ['data: {"error":{"message":"m","code":"x"}}\n\n', undefined],
    ] as const) {
      const { stream, text } = relayed(Buffer.from(content + failure + typedEvent("response.completed")));
      assert.equal(stream.error?.message, "m");
      assert.equal(stream.error?.status, status);
      assert.deepEqual([stream.ended, text], [false, content]);
    }
  const { stream } = relayed(
    Buffer.from(
      `${typedEvent("response.output_text.delta", { delta: "a" })}data: [DONE]\n\ndata: {"type":"response.output_text.delta"\n\n`,
    ),
  );
  assert.deepEqual([stream.committed, stream.finished, stream.ended, stream.malformedEvents], [true, false, false, 1]);
});

test("no bytes throw, however they are split", () => {
  const line = fc.oneof(
    fc.constantFrom(
      "event: response.created",
      "event: response.output_item.added",
      "event: error",
      "data: {}",
      'data: {"response":{"model":1}}',
      "data: [",
      "",
    ),
    fc.string({ maxLength: 20 }),
  );
  fc.assert(fc.property(fc.array(line, { maxLength: 20 }), (lines) => void relayed(Buffer.from(lines.join("\n")))));
  fc.assert(fc.property(fc.uint8Array({ maxLength: 100 }), (bytes) => void relayed(Buffer.from(bytes))));
});

test("a whole answer keeps every byte except the response's id and the model's name; failures and bodies that are not answers are distinguished", () => {
  const text =
    ' {"model" : "u","id": "resp_theirs","big":12345678901234567890,"error":null,"status":"incomplete","output":[{"model":"inner"}],"usage":{"input_tokens":3,"input_tokens_details":{"cached_tokens":0},"output_tokens_details":{"reasoning_tokens":0}}}';
  const answer = verbatim.answer(Buffer.from(text), { id: "abc123", model: "mine" });
  assert.ok(answer.kind === "answer");
  assert.equal(answer.body.toString(), text.replace('"u"', '"mine"').replace("resp_theirs", "resp_abc123"));
  assert.equal(answer.usage?.inputTokens, 3);
  const kindOf = (body: unknown) =>
    verbatim.answer(Buffer.from(JSON.stringify(body)), { id: "abc123", model: "mine" }).kind;
  assert.equal(kindOf({ error: { message: "m" } }), "error");
  assert.equal(kindOf({ status: "failed", output: [] }), "error");
  for (const body of [{}, [], { status: "in_progress", output: [] }, { choices: [] }])
    assert.equal(kindOf(body), "malformed");
});

test("an answer has the counts that clients read without a check", () => {
  const cached = { cached_tokens: 2, image_tokens: 1 };
  const reasoning = { reasoning_tokens: 0 };
  const counted = { input_tokens: 3, output_tokens: 4, total_tokens: 7 };
  const plain = { ...counted, input_tokens_details: { cached_tokens: 0 }, output_tokens_details: reasoning };
  const shownUsage = (usage: unknown) => {
    const response = { id: "r", status: "completed", output: [], usage };
    const delta = typedEvent("response.output_text.delta", { delta: "four tokens of text" });
    const { text } = relayed(Buffer.from(delta + typedEvent("response.completed", { response })));
    const streamed = JSON.parse(text.trim().split("\ndata: ").at(-1) as string).response.usage;
    const whole = verbatim.answer(Buffer.from(JSON.stringify(response)), { id: "abc123", model: "mine" });
    assert.ok(whole.kind === "answer");
    return [streamed, JSON.parse(whole.body.toString()).usage];
  };
  for (const [usage, expected] of [
    // https://github.com/smallmain/vscode-unify-chat-provider/issues/275
    [counted, plain],
    [{ ...counted, input_tokens_details: null }, plain],
    [
      { ...counted, input_tokens_details: cached },
      { ...plain, input_tokens_details: cached },
    ],
    [
      { ...counted, input_tokens_details: {}, output_tokens_details: reasoning, other: 1 },
      { ...plain, other: 1 },
    ],
    [plain, plain],
  ])
    assert.deepEqual(shownUsage(usage), [expected, expected]);
  // https://github.com/router-for-me/CLIProxyAPI/issues/1681
  for (const none of [undefined, null]) {
    const [streamed, whole] = shownUsage(none);
    assert.deepEqual([streamed.input_tokens, streamed.total_tokens > 0, whole], [0, true, none]);
    assert.deepEqual(streamed.output_tokens_details, reasoning);
  }
});

test("an answer says what the gateway stores of it, in place of what the upstream says or beside it", () => {
  const storage = { store: true, previous_response_id: "resp_before", conversation: { id: "conv_1" } };
  const identity = { id: "abc123", model: "mine", storage };
  const shown =
    '{"id":"resp_abc123","store":true,"output":[{"id":"m","store":0}],"\\u0073tore":true,"usage":{"input_tokens_details":{"cached_tokens":0},"output_tokens_details":{"reasoning_tokens":0}},"model":"mine","previous_response_id":"resp_before","conversation":{"id":"conv_1"}}';
  const upstreamBody =
    '{"id":7,"store":false,"output":[{"id":"m","store":0}],"\\u0073tore":null,"usage":{"input_tokens_details":{"cached_tokens":0},"output_tokens_details":{"reasoning_tokens":0}}}';
  const whole = verbatim.answer(Buffer.from(upstreamBody), identity);
  assert.equal(whole.kind === "answer" && whole.body.toString(), shown);
  const stream = verbatim.stream(Buffer.from("{}"), "sse", identity);
  const out: Buffer[] = [];
  const delta = typedEvent("response.output_text.delta", { delta: "a", response: { store: false } });
  const completed = (response: string) => `data: {"type":"response.completed","response":${response}}\n\n`;
  const created = (response: string) => `data: {"response": ${response} ,"type":"response.created"}\n\n`;
  for (const one of new SseReader(1 << 20).push(Buffer.from(created("{}") + delta + completed(upstreamBody))))
    stream.push(one, out);
  const [, ...others] = shown.match(/.*?"model".*?,(.*)\}/) ?? [];
  const begun = `{"id":"resp_abc123","model":"mine","store":true,${others[0]}}`;
  assert.equal(Buffer.concat(out).toString(), created(begun) + delta + completed(shown));
});

test("items have a status, and calls their name, without which clients see no call", () => {
  const named = { type: "function_call", id: "fc_1", call_id: "c", name: "f", arguments: "{}" };
  const completed = { status: "completed" };
  for (const [begun, done, expected] of [
    // https://github.com/router-for-me/CLIProxyAPI/issues/5851
    [named, named, { ...named, ...completed }],
    // https://github.com/router-for-me/CLIProxyAPI/issues/1004
    [named, { ...named, name: "", ...completed }, { ...named, ...completed }],
    [named, { ...named, status: "incomplete" }, { ...named, status: "incomplete" }],
    [
      { type: "message", id: "msg_1", role: "assistant", content: [] },
      { type: "message", id: "msg_1", role: "assistant", content: [], status: null },
      { type: "message", id: "msg_1", role: "assistant", content: [], ...completed },
    ],
    [
      { type: "reasoning", id: "rs_1" },
      { type: "reasoning", id: "rs_1" },
      { type: "reasoning", id: "rs_1" },
    ],
  ] as const) {
    const output = [done.type === "function_call" && done.name === "" ? named : done];
    const response = { id: "r", object: "response", model: "m", status: "completed", output };
    const events = [
      { type: "response.created", response: { ...response, output: [] } },
      { type: "response.output_item.added", output_index: 0, item: begun },
      { type: "response.output_item.done", output_index: 0, item: done },
      { type: "response.completed", response },
    ];
    const { text } = relayed(Buffer.from(events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join("")));
    const [, added, ended, last] = text
      .split("\n")
      .flatMap((line) => (line.startsWith("data: ") ? [JSON.parse(line.slice("data: ".length))] : []));
    const isStated = begun.type !== "reasoning";
    assert.deepEqual(added.item, isStated ? { ...begun, status: "in_progress" } : begun);
    assert.deepEqual(ended.item, expected);
    assert.deepEqual(last.response.output, [expected]);
    const whole = verbatim.answer(Buffer.from(JSON.stringify(response)), { id: "1", model: "m" });
    assert.ok(whole.kind === "answer");
    assert.deepEqual(JSON.parse(whole.body.toString()).output, [expected]);
  }
});
