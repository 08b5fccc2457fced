/**
 * The cases of the conformance matrix: the question, the settings of the simulated upstream, and
 * what every caller must read from every upstream's answer.
 */
import assert from "node:assert/strict";
import type { ConversationDialect } from "#dialects/dialect.ts";
import { pngBase64 as png } from "../support/png.ts";
import type { Ask, Observed, ToolResult } from "./ask.ts";

export interface Case {
  name: string;
  ask: Ask;
  /** Settings of the simulator, in its model's name. */
  settings?: string;
  /** Asked again with these results of the calls that came. */
  results?: ToolResult[];
  /** Checks the last answer. `upstream` is its dialect. */
  expect(answer: Observed, upstream: ConversationDialect, caller: ConversationDialect): void;
  /** Pairs that are not supported: the caller must get a 400 that names a field. */
  refused?(caller: ConversationDialect, upstream: ConversationDialect): boolean;
  /** Callers whose dialect cannot express the case. */
  unsaid?: readonly ConversationDialect[];
  /** Only for streams. */
  streamOnly?: true;
  /** Its bytes are kept in golden files. */
  golden?: true;
}

const greeting = "You said: hello there\nThis is the simulator: the same words always get the same answer.";
const asking = (text: string, more: Partial<Ask> = {}): Ask => ({ turns: [{ role: "user", text }], ...more });

const weather = {
  name: "get_weather",
  description: "Says the weather of a city.",
  parameters: {
    type: "object",
    properties: { city: { type: "string" } },
    required: ["city"],
    additionalProperties: false,
  },
};
const clock = { name: "get_time", description: "Says the time." };
const pdf = Buffer.from("%PDF-1.4\n%%EOF\n").toString("base64");

function complete({ faults, error, finish, usage }: Observed, wanted: Observed["finish"] = "stop"): void {
  assert.equal(error, undefined);
  assert.deepEqual(faults, []);
  assert.equal(finish, wanted);
  assert.ok(usage !== undefined && usage.input > 0, "the usage is told");
}

function saying(text: string | RegExp): Case["expect"] {
  return (answer) => {
    complete(answer);
    if (typeof text === "string") assert.equal(answer.text, text);
    else assert.match(answer.text, text);
    assert.deepEqual(answer.calls, []);
  };
}

function failing(message: RegExp, status?: number): Case["expect"] {
  return (answer) => {
    assert.ok(answer.error, "an error");
    assert.match(answer.error.message, message);
    assert.equal(answer.error.status, status);
    assert.deepEqual(answer.faults, []);
  };
}

/** `address` serves images. */
export const casesOf = (address: string): Case[] => [
  { name: "text", ask: asking("hello there"), expect: saying(greeting), golden: true },
  {
    name: "unicode",
    ask: asking('naïve 漢字 👩‍👩‍👧 \u2028 \u0000 \\u0041 "quoted" </script>'),
    expect: saying(
      'You said: naïve 漢字 👩‍👩‍👧 \u2028 \u0000 \\u0041 "quoted" </script>\nThis is the simulator: the same words always get the same answer.',
    ),
  },
  {
    name: "system prompt",
    ask: asking("hello there", { system: "Be brief.\n\nVery." }),
    expect: saying(greeting),
    golden: true,
  },
  {
    name: "multi-turn",
    ask: {
      turns: [
        { role: "user", text: "first" },
        { role: "assistant", text: "the answer" },
        { role: "user", text: "hello there" },
      ],
    },
    expect: saying(greeting),
    golden: true,
  },
  {
    name: "settings",
    ask: asking("hello there", { temperature: 0.5, outputTokensMax: 500 }),
    expect: saying(greeting),
  },
  {
    name: "tool call",
    ask: asking('Use get_weather for "Paris".', { tools: [weather, clock] }),
    expect(answer) {
      complete(answer, "calls");
      assert.deepEqual(
        answer.calls.map(({ name, input }) => ({ name, input })),
        [{ name: "get_weather", input: { city: "Paris" } }],
      );
    },
    golden: true,
  },
  {
    name: "parallel calls",
    ask: asking('Use get_weather twice, for "Paris" and "Rome".', { tools: [weather] }),
    expect(answer) {
      complete(answer, "calls");
      assert.deepEqual(
        answer.calls.map(({ name, input }) => ({ name, input })),
        ["Paris", "Rome"].map((city) => ({ name: "get_weather", input: { city } })),
      );
      assert.equal(new Set(answer.calls.map(({ id }) => id)).size, 2);
    },
  },
  {
    name: "call without arguments",
    ask: asking("Use get_time.", { tools: [weather, clock] }),
    expect(answer) {
      complete(answer, "calls");
      assert.deepEqual(
        answer.calls.map(({ name, input }) => ({ name, input })),
        [{ name: "get_time", input: {} }],
      );
    },
  },
  {
    name: "tool results",
    ask: asking('Use get_weather twice, for "Paris" and "Rome".', { tools: [weather] }),
    results: [{ text: "It rains." }, { text: '{"sky":"clear"}' }],
    expect(answer) {
      complete(answer);
      assert.match(answer.text, /The tool get_weather returned: .*It rains\./);
      assert.match(answer.text, /The tool get_weather returned: .*clear/);
    },
    golden: true,
  },
  {
    name: "tool error",
    ask: asking('Use get_weather for "Paris".', { tools: [weather] }),
    results: [{ text: "No such city.", isError: true }],
    expect: saying(/The tool get_weather (failed|returned): .*No such city\./),
  },
  {
    name: "tools not to be called",
    ask: asking("Use get_time.", { tools: [clock], toolChoice: "none" }),
    expect: saying(/^You said: Use get_time\./),
  },
  {
    name: "a tool demanded",
    ask: asking("hello there", { tools: [weather, clock], toolChoice: { name: "get_time" } }),
    expect(answer) {
      complete(answer, "calls");
      assert.deepEqual(
        answer.calls.map(({ name }) => name),
        ["get_time"],
      );
    },
  },
  {
    name: "one call at a time",
    ask: asking('Use get_weather twice, for "Paris" and "Rome".', { tools: [weather], parallelCalls: false }),
    expect(answer, _upstream, caller) {
      complete(answer, "calls");
      // A caller of Gemini's format cannot ask for it.
      assert.equal(answer.calls.length, caller === "gemini" ? 2 : 1);
    },
  },
  {
    name: "image, data",
    ask: asking("hello there", { attachments: [{ kind: "image", mimeType: "image/png", data: png }] }),
    expect: saying(/^I see 1 image \(image\/png, 70 bytes\)\.\nYou said: hello there/),
  },
  {
    name: "image, address",
    ask: asking("hello there", { attachments: [{ kind: "image", mimeType: "image/png", url: `${address}/a.png` }] }),
    expect: saying(
      /^I see 1 image \((image\/png, 70 bytes|at http:.*\/a\.png.*|.*a\.png.*)\)\.\nYou said: hello there/,
    ),
  },
  {
    name: "document",
    ask: asking("hello there", { attachments: [{ kind: "document", mimeType: "application/pdf", data: pdf }] }),
    expect: saying(/^I read 1 document \(application\/pdf, 15 bytes\)\.\nYou said: (?:a\.pdf:\s*)?hello there/),
  },
  {
    name: "structured output",
    ask: asking("Describe it.", {
      schema: {
        type: "object",
        properties: { color: { type: "string", enum: ["red", "green"] }, count: { type: "integer" } },
        required: ["color", "count"],
        additionalProperties: false,
      },
    }),
    expect(answer) {
      complete(answer);
      const value = JSON.parse(answer.text) as { color: string; count: number };
      assert.ok(["red", "green"].includes(value.color) && Number.isInteger(value.count), answer.text);
    },
  },
  {
    name: "thinking",
    ask: asking("hello there", { effort: "low" }),
    expect(answer, upstream, caller) {
      complete(answer);
      assert.equal(answer.text, greeting);
      assert.ok((answer.usage?.thinking ?? 0) > 0, "the thinking is counted");
      // Callers of chat completions can't ask to be shown it.
      if (caller !== "openai-chat" || (upstream !== "openai-responses" && upstream !== "gemini"))
        assert.notEqual(answer.thinking, "");
    },
    golden: true,
  },
  {
    name: "thinking, sent back with results",
    ask: asking('Use get_weather for "Paris".', { effort: "high", tools: [weather] }),
    results: [{ text: "It rains." }],
    expect: saying(/The tool get_weather returned: .*It rains\./),
    golden: true,
  },
  // Only chat completions have these forms; upstreams of other dialects ignore the settings.
  ...["content", "field", "details", "parts", "call"].map(
    (form): Case => ({
      name: `reasoning that must come back, in the form ${JSON.stringify(form)}`,
      ask: asking('Use get_weather for "Paris".', { effort: "high", tools: [weather] }),
      settings: `reasoning=6;reasoning-form=${form};needs-reasoning`,
      results: [{ text: "It rains." }],
      expect: saying(/The tool get_weather returned: .*It rains\./),
    }),
  ),
  {
    name: "stop sequence",
    ask: asking("hello there", { stop: ["simulator"] }),
    expect: saying("You said: hello there\nThis is the "),
    unsaid: ["openai-responses"],
  },
  {
    name: "length",
    ask: asking("hello there", { outputTokensMax: 16 }),
    settings: "tokens=40",
    expect(answer) {
      complete(answer, "length");
      assert.ok(answer.text.startsWith("You said: hello there"));
    },
  },
  {
    name: "content filter",
    ask: asking("hello there"),
    settings: "filter=3",
    expect(answer) {
      complete(answer, "filtered");
    },
  },
  {
    name: "cached prompt",
    ask: asking("hello there"),
    settings: "cached=4",
    expect(answer) {
      complete(answer);
      assert.equal(answer.usage?.cached, 4);
    },
  },
  { name: "empty answer", ask: asking("hello there"), settings: "tokens=0", expect: saying("") },
  { name: "refused by the upstream", ask: asking("hello there"), settings: "status=400", expect: failing(/./, 400) },
  {
    name: "upstream fails",
    ask: asking("hello there"),
    settings: "status=500",
    expect: failing(/upstream of this model failed/, 502),
  },
  {
    name: "upstream busy",
    ask: asking("hello there"),
    settings: "status=429;retry-after=7",
    expect: failing(/accepts no more requests/, 429),
  },
  {
    name: "error before content",
    ask: asking("hello there"),
    settings: "error=0",
    expect: failing(/./, 502),
    streamOnly: true,
  },
  {
    name: "error in mid-stream",
    ask: asking("hello there"),
    settings: "error=3",
    streamOnly: true,
    expect(answer) {
      failing(/upstream of this model/)(answer, "openai-chat", "openai-chat");
      assert.ok(answer.text.startsWith("You said"), answer.text);
    },
  },
  {
    name: "cut in mid-stream",
    ask: asking("hello there"),
    settings: "cut=3",
    streamOnly: true,
    expect(answer) {
      failing(/ended its answer before it was complete/)(answer, "openai-chat", "openai-chat");
    },
  },
];
