import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import OpenAI from "openai";
import OpenAI6 from "openai-6";
import { type Answer, type AnswerEvent, type Block, eventsOf, foldedOf } from "#dialects/neutral/neutral.ts";
import { unwrappedSignature, wrappedSignatureOf } from "#dialects/neutral/wrapped-signature.ts";
import { openaiResponses } from "#dialects/openai-responses/codec.ts";
import { SseReader } from "#wire/sse.ts";

const body = {
  model: "m",
  input: "Hi",
  instructions: "Be brief.",
  temperature: 0.5,
  max_output_tokens: 100,
  metadata: { a: "b" },
  user: "u",
  reasoning: { effort: "low" },
  text: { verbosity: "low" },
  tool_choice: "auto",
  parallel_tool_calls: false,
  store: true,
  tools: [
    { type: "function", name: "weather", parameters: { type: "object", properties: {} } },
    { type: "namespace", name: "agents", tools: [{ type: "function", name: "list" }] },
    { type: "namespace", name: "functions", tools: [{ type: "custom", name: "exec" }] },
  ],
};
const request = openaiResponses.decodeRequest({ body, framing: "sse" });
const context = {
  id: "abc123",
  model: "catalogue/model",
  createdAt: 1_795_000_000,
  framing: "sse" as const,
  request,
  body,
};
const usage = { inputTokens: 10, cachedInputTokens: 4, cacheWriteTokens: 1, outputTokens: 7, reasoningTokens: 2 };
const signature = { dialect: "anthropic-messages", data: "c2ln" } as const;

const everything: Answer = {
  blocks: [
    { kind: "reasoning", text: "Where? ", signature },
    { kind: "text", text: "Ik kijk. \u2028☂️" },
    { kind: "refusal", text: "Nee." },
    { kind: "call", id: "call_1", name: "weather", input: '{"city":"Gent"}' },
    { kind: "call", id: "call_2", name: "agents__list", input: "" },
    { kind: "call", id: "call_3", name: "exec", input: '{"input": "print(\\"é\\")\\n\\ud83d\\ude00"}' },
    { kind: "call", id: "call_4", name: "invented", input: "{}" },
    { kind: "image", mimeType: "image/png", data: "QQ==" },
    { kind: "reasoning", text: "", signature },
  ],
  finish: "calls",
  usage,
};

/** The events with their deltas cut into pieces of at most this many characters. */
const cut = (events: readonly AnswerEvent[], size: number): AnswerEvent[] =>
  events.flatMap((event): AnswerEvent[] => {
    if (event.kind !== "delta") return [event];
    const chunks: AnswerEvent[] = [];
    for (let at = 0; at < event.text.length; at += size)
      chunks.push({ kind: "delta", text: event.text.slice(at, at + size) });
    return chunks;
  });

function streamOf(events: readonly AnswerEvent[]): string {
  const encoder = openaiResponses.streamEncoder(context);
  return events.map((event) => (event.kind === "error" ? "" : encoder.push(event))).join("");
}

interface Sent {
  type: string;
  sequence_number: number;
  [name: string]: unknown;
}

interface Written {
  output: Record<string, unknown>[];
  [name: string]: unknown;
}

const sentOf = (text: string): Sent[] =>
  new SseReader(1 << 20).push(Buffer.from(text)).map(({ event, data }) => {
    const sent = JSON.parse(data.toString()) as Sent;
    assert.equal(event, sent.type);
    return sent;
  });

test("every event has its name and the next number, and an answer has all events of its life cycle", () => {
  const events = sentOf(streamOf(cut(eventsOf(everything), 5)));
  assert.deepEqual(
    events.map((event) => event.sequence_number),
    events.map((_, place) => place),
  );
  assert.deepEqual(
    [events[0]?.type, events[1]?.type, events.at(-1)?.type],
    ["response.created", "response.in_progress", "response.completed"],
  );
  const { output } = (events.at(-1) as Sent).response as { output: object[] };
  const done = events.filter(({ type }) => type === "response.output_item.done");
  assert.deepEqual(
    done.map(({ item }) => item),
    output,
  );
  assert.deepEqual(
    done.map(({ output_index: index }) => index),
    output.map((_, index) => index),
  );
  const deltasOf = (name: string, index: number) =>
    events
      .flatMap(({ type, output_index, delta }) =>
        type === `response.${name}.delta` && output_index === index ? [delta] : [],
      )
      .join("");
  assert.equal(deltasOf("reasoning_summary_text", 0), "Where? ");
  assert.equal(deltasOf("output_text", 1), "Ik kijk. \u2028☂️");
  assert.equal(deltasOf("refusal", 2), "Nee.");
  assert.equal(deltasOf("function_call_arguments", 3), '{"city":"Gent"}');
  assert.equal(deltasOf("function_call_arguments", 4), "{}");
  assert.equal(deltasOf("custom_tool_call_input", 5), 'print("é")\n😀');
});

test("items match what clients expect: namespaces of calls, unwrapped free text, wrapped signatures, image bytes", () => {
  const { output, ...response } = JSON.parse(openaiResponses.encodeAnswer(everything, context)) as Written;
  assert.deepEqual(output, [
    {
      id: "rs_foreign_abc123_0",
      type: "reasoning",
      summary: [{ type: "summary_text", text: "Where? " }],
      encrypted_content: wrappedSignatureOf(signature, "Where? "),
    },
    {
      id: "msg_abc123_1",
      type: "message",
      role: "assistant",
      status: "completed",
      content: [{ type: "output_text", text: "Ik kijk. \u2028☂️", annotations: [], logprobs: [] }],
    },
    {
      id: "msg_abc123_2",
      type: "message",
      role: "assistant",
      status: "completed",
      content: [{ type: "refusal", refusal: "Nee." }],
    },
    {
      id: "fc_abc123_3",
      type: "function_call",
      status: "completed",
      call_id: "call_1",
      name: "weather",
      arguments: '{"city":"Gent"}',
    },
    {
      id: "fc_abc123_4",
      type: "function_call",
      status: "completed",
      call_id: "call_2",
      name: "list",
      namespace: "agents",
      arguments: "{}",
    },
    {
      id: "ctc_abc123_5",
      type: "custom_tool_call",
      status: "completed",
      call_id: "call_3",
      name: "exec",
      input: 'print("é")\n😀',
    },
    {
      id: "fc_abc123_6",
      type: "function_call",
      status: "completed",
      call_id: "call_4",
      name: "invented",
      arguments: "{}",
    },
    { id: "ig_abc123_7", type: "image_generation_call", status: "completed", result: "QQ==", output_format: "png" },
    { id: "rs_foreign_abc123_8", type: "reasoning", summary: [], encrypted_content: wrappedSignatureOf(signature) },
  ]);
  assert.equal(unwrappedSignature(String(output[0]?.encrypted_content))?.text, "Where? ");
  assert.deepEqual(response, {
    id: "resp_abc123",
    object: "response",
    created_at: 1_795_000_000,
    status: "completed",
    background: false,
    error: null,
    incomplete_details: null,
    instructions: "Be brief.",
    max_output_tokens: 100,
    max_tool_calls: null,
    metadata: { a: "b" },
    model: "catalogue/model",
    parallel_tool_calls: false,
    previous_response_id: null,
    prompt_cache_key: null,
    reasoning: { effort: "low", summary: null },
    safety_identifier: null,
    service_tier: "default",
    store: false,
    temperature: 0.5,
    text: { verbosity: "low", format: { type: "text" } },
    tool_choice: "auto",
    tools: body.tools,
    top_logprobs: 0,
    top_p: 1,
    truncation: "disabled",
    usage: {
      input_tokens: 10,
      input_tokens_details: { cached_tokens: 4, cache_write_tokens: 1 },
      output_tokens: 7,
      output_tokens_details: { reasoning_tokens: 2 },
      total_tokens: 17,
    },
    user: "u",
  });
});

test("a call whose tool asks for encrypted arguments says that its own are plain text", () => {
  const message = { type: "string", encrypted: true };
  const tool = (name: string, properties: object) => ({
    type: "function",
    name,
    parameters: { type: "object", properties },
  });
  const tools = [
    { type: "namespace", name: "collaboration", tools: [tool("spawn_agent", { message }), tool("list_agents", {})] },
  ];
  const own = { ...context, request: openaiResponses.decodeRequest({ body: { ...body, tools }, framing: "sse" }) };
  const blocks = ["spawn_agent", "list_agents"].map((name, place) => ({
    kind: "call" as const,
    id: `call_${place}`,
    name: `collaboration__${name}`,
    input: "{}",
  }));
  const answer: Answer = { blocks, finish: "calls" };
  const { output } = JSON.parse(openaiResponses.encodeAnswer(answer, own)) as Written;
  assert.deepEqual(
    output.map((item) => item.encrypted_function_args),
    [[], undefined],
  );
});

test("a truncated answer and its truncated item are both marked incomplete", () => {
  const blocks: Block[] = [
    { kind: "text", text: "First" },
    { kind: "call", id: "call_1", name: "weather", input: '{"ci' },
  ];
  for (const [finish, reason] of [
    ["length", "max_output_tokens"],
    ["context-full", "max_output_tokens"],
    ["content-filter", "content_filter"],
  ] as const) {
    const answer: Answer = { blocks, finish };
    const last = sentOf(streamOf(eventsOf(answer))).at(-1);
    assert.equal(last?.type, "response.incomplete");
    for (const response of [
      last.response as Record<string, unknown>,
      JSON.parse(openaiResponses.encodeAnswer(answer, context)),
    ]) {
      assert.equal(response.status, "incomplete");
      assert.deepEqual(response.incomplete_details, { reason });
      assert.deepEqual(
        (response.output as { status: string }[]).map(({ status }) => status),
        ["completed", "incomplete"],
      );
      assert.equal((response.usage as { total_tokens: number }).total_tokens, 0);
    }
  }
});

test("a tool's free text streams as it arrives, even from malformed JSON", () => {
  const cases: [string, string][] = [
    ['{"input":"a\\nb"}', "a\nb"],
    [' { "input" : "" } ', ""],
    ['{"input":"a\nb\\d\\u00e9"', "a\nb\\dé"],
    ['{"input":"\\ud83d\\ude00 \\\\ud83d"}', "😀 \\ud83d"],
    ['{"why":"x","input":"y"}', "y"],
    ["plain text", "plain text"],
    ["", ""],
  ];
  for (const [input, text] of cases)
    for (const size of [1, 2, 3, 100]) {
      const answer: Answer = { blocks: [{ kind: "call", id: "c", name: "exec", input }], finish: "calls" };
      const events = sentOf(streamOf(cut(eventsOf(answer), size)));
      assert.equal(
        events.flatMap(({ type, delta }) => (type === "response.custom_tool_call_input.delta" ? [delta] : [])).join(""),
        text,
      );
      assert.equal(events.find(({ type }) => type === "response.custom_tool_call_input.done")?.input, text);
      assert.equal(JSON.parse(openaiResponses.encodeAnswer(answer, context)).output[0].input, text);
    }
  const first = openaiResponses.streamEncoder(context);
  first.push({ kind: "block", block: { kind: "call", id: "c", name: "exec" } });
  assert.match(first.push({ kind: "delta", text: '{"input":"abc' }), /"delta":"abc"/);
});

const plain = { noNullPrototype: true };
const block = (name: fc.Arbitrary<string>): fc.Arbitrary<Block> => {
  const input = fc.string().map((text) => JSON.stringify({ input: text }));
  return fc.oneof(
    fc.record(
      {
        kind: fc.constantFrom("text" as const, "refusal" as const),
        text: fc.string({ unit: "grapheme", minLength: 1 }),
      },
      plain,
    ),
    fc.record({ kind: fc.constant("reasoning" as const), text: fc.string({ minLength: 1 }) }, plain),
    fc.record({ kind: fc.constant("call" as const), id: fc.uuid(), name, input }, plain),
    fc.record(
      { kind: fc.constant("image" as const), mimeType: fc.constant("image/png"), data: fc.constant("QQ==") },
      plain,
    ),
  );
};

test("an encoded answer decodes to the same, streamed or whole", () => {
  const answers = fc.record({
    blocks: fc.array(block(fc.constantFrom("weather", "exec", "agents__list")), { maxLength: 5 }),
  });
  // With the service tier that the encoder names.
  const encodedUsage = { ...usage, serviceTier: "default" };
  const neutralNames = (folded: ReturnType<typeof foldedOf>) =>
    JSON.parse(JSON.stringify(folded).replaceAll('"name":"list"', '"name":"agents__list"'));
  fc.assert(
    fc.property(answers, fc.integer({ min: 1, max: 9 }), ({ blocks }, size) => {
      const finish = blocks.some(({ kind }) => kind === "call") ? "calls" : "stop";
      const answer: Answer = { blocks, finish, usage: encodedUsage };
      const decoder = openaiResponses.streamDecoder();
      const events = new SseReader(1 << 20)
        .push(Buffer.from(streamOf(cut(eventsOf(answer), size))))
        .flatMap((event) => decoder.push(event));
      assert.deepEqual(neutralNames(foldedOf(events)), answer);
      assert.deepEqual(
        neutralNames(foldedOf(openaiResponses.decodeAnswer(JSON.parse(openaiResponses.encodeAnswer(answer, context))))),
        answer,
      );
    }),
    { numRuns: 200 },
  );
});

test("the official client's helper, which checks every event, accepts the stream in its current and previous major version", async () => {
  const empty: Answer = { blocks: [], finish: "stop" };
  for (const answer of [everything, empty, { ...everything, finish: "length" as const }]) {
    const text = streamOf(cut(eventsOf(answer), 3));
    const answerWith = async () => new Response(text, { headers: { "content-type": "text/event-stream" } });
    const whole = JSON.parse(openaiResponses.encodeAnswer(answer, context));
    const options = { apiKey: "k", fetch: answerWith };
    const requestBody = { model: "m", input: "Hi" };
    for (const final of [
      await new OpenAI(options).responses.stream(requestBody).finalResponse(),
      await new OpenAI6(options).responses.stream(requestBody).finalResponse(),
    ]) {
      assert.equal(final.status, whole.status);
      assert.equal(final.usage?.total_tokens, whole.usage.total_tokens);
      assert.deepEqual(
        final.output.map(({ type }) => type),
        whole.output.map(({ type }: { type: string }) => type),
      );
      assert.equal(final.output_text, answer.blocks.length === 0 ? "" : "Ik kijk. \u2028☂️");
    }
  }
});
