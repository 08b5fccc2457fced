/**
 * Answers that fail, break or are empty although their status is 200: in every dialect, streamed or
 * whole, verbatim or translated.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { AnswerContext, StreamRelay, WholeAnswer } from "#dialects/codec.ts";
import { codecs } from "#dialects/codecs.ts";
import { type ConversationDialect, conversationDialects } from "#dialects/dialect.ts";
import { type ErrorCode, failureOf, type UpstreamError } from "#dialects/errors.ts";
import { type AnswerEvent, type Finish, foldedOf } from "#dialects/neutral/neutral.ts";
import { TranslatedStream } from "#dialects/relay/translated.ts";
import { upstreamErrorOf } from "#dialects/upstream-errors/upstream-errors.ts";
import { SseReader } from "#wire/sse.ts";

const context: AnswerContext = {
  id: "a1",
  model: "mine",
  createdAt: 1,
  framing: "sse",
  request: { system: [], messages: [], tools: [], settings: {} },
  body: { stream: true },
};

/** The dialect of the caller of a translated answer. */
const otherThan = (dialect: ConversationDialect): ConversationDialect =>
  dialect === "openai-chat" ? "anthropic-messages" : "openai-chat";

/** A dialect's answer in pieces. */
interface Wire {
  opening: string;
  /** A call to transfer 1000 to /srv/data/tmp, in three events. */
  call: [string, string, string];
  text: string;
  ending(reason?: string): string;
  /** The text that ends an answer without a word of its content. */
  terminator: string;
  /** The ending's usage in an event of its own, where there is one. */
  usage: string;
  whole(content: string | undefined, reason: string | undefined): string;
  /** Whole answers in which there is nothing. */
  empty: string[];
  /** Reasons that say that an answer failed. */
  failures: string[];
  /** Known reasons, and what each means. */
  reasons: Record<string, Finish>;
  /**
   * Reasons that are not known to end an answer well: a caller of another dialect is not told that
   * it stopped.
   */
  unknown: string[];
}

const data = (value: unknown, name?: string) =>
  `${name === undefined ? "" : `event: ${name}\n`}data: ${JSON.stringify(value)}\n\n`;
const named = (value: { type: string } & Record<string, unknown>) => data(value, value.type);

const chunk = (delta: object, reason: string | null = null, more: object = {}) =>
  data({ id: "c", model: "theirs", choices: [{ index: 0, delta, finish_reason: reason, ...more }] });
const called = (input: string, more: object = {}) =>
  chunk({ tool_calls: [{ index: 0, function: { arguments: input }, ...more }] });
const [callStart, callMiddle, callEnd] = ['{"path":"/srv/da', 'ta/tmp","amount":100', "0}"];

const itemEvent = (type: string, more: object) => named({ type: `response.${type}`, output_index: 0, ...more });
const ended = (status: string, more: object = {}) =>
  named({ type: "response.completed", response: { id: "r", status, output: [], ...more } });
const part = (parts: object[], finishReason?: string) =>
  data({ candidates: [{ content: { role: "model", parts }, ...(finishReason !== undefined && { finishReason }) }] });

const commonFailures = ["error", "abort", "network_error", "insufficient_system_resource", "cancelled"];

const wires: Record<ConversationDialect, Wire> = {
  "openai-chat": {
    opening: chunk({ role: "assistant", content: "" }),
    call: [
      called(callStart, { id: "c1", type: "function", function: { name: "move", arguments: callStart } }),
      called(callMiddle),
      called(callEnd),
    ],
    text: chunk({ content: "Hi" }),
    ending: (reason = "stop") => chunk({}, reason),
    terminator: "data: [DONE]\n\n",
    usage: data({ choices: [], usage: { prompt_tokens: 1, completion_tokens: 1 } }),
    whole: (content, reason) =>
      JSON.stringify({ choices: [{ index: 0, message: { role: "assistant", content }, finish_reason: reason }] }),
    empty: [
      '{"choices":[]}',
      '{"choices":null}',
      '{"choices":[{"index":0,"message":{"role":"assistant","content":""},"finish_reason":null}]}',
      '{"choices":[{}]}',
    ],
    failures: [...commonFailures, "function_call_filter: MALFORMED_FUNCTION_CALL"],
    reasons: {
      stop: "stop",
      eos: "stop",
      eos_token: "stop",
      end_turn: "stop",
      STOP: "stop",
      stop_sequence: "stop-sequence",
      length: "length",
      max_tokens: "length",
      MAX_TOKENS: "length",
      model_length: "length",
      repetition: "length",
      model_context_window_exceeded: "context-full",
      content_filter: "content-filter",
      "content_filter: RECITATION": "content-filter",
      sensitive: "content-filter",
      tool_calls: "stop",
      tool_use: "stop",
      function_call: "stop",
    },
    unknown: ["load", "other", "something_new"],
  },
  "openai-responses": {
    opening: named({ type: "response.created", response: { id: "r", model: "theirs", status: "in_progress" } }),
    call: [
      itemEvent("output_item.added", { item: { type: "function_call", call_id: "c1", name: "move", arguments: "" } }) +
        itemEvent("function_call_arguments.delta", { delta: callStart }),
      itemEvent("function_call_arguments.delta", { delta: callMiddle }),
      itemEvent("function_call_arguments.delta", { delta: callEnd }),
    ],
    text: itemEvent("output_text.delta", { content_index: 0, delta: "Hi" }),
    ending: (status = "completed") => ended(status),
    terminator: "data: [DONE]\n\n",
    usage: "",
    whole: (content, status) =>
      JSON.stringify({ status, output: [{ type: "message", content: [{ type: "output_text", text: content }] }] }),
    empty: [
      '{"output":[]}',
      '{"output":null,"status":"completed"}',
      '{"output":[],"status":"in_progress"}',
      '{"output":[],"status":"queued"}',
    ],
    failures: ["failed", "cancelled"],
    reasons: { completed: "stop", incomplete: "length" },
    unknown: [],
  },
  "anthropic-messages": {
    opening: named({ type: "message_start", message: { model: "theirs", usage: { input_tokens: 1 } } }),
    call: [
      named({
        type: "content_block_start",
        index: 0,
        content_block: { type: "tool_use", id: "c1", name: "move", input: {} },
      }) +
        named({ type: "content_block_delta", index: 0, delta: { type: "input_json_delta", partial_json: callStart } }),
      named({ type: "content_block_delta", index: 0, delta: { type: "input_json_delta", partial_json: callMiddle } }),
      named({ type: "content_block_delta", index: 0, delta: { type: "input_json_delta", partial_json: callEnd } }),
    ],
    text:
      named({ type: "content_block_start", index: 0, content_block: { type: "text", text: "" } }) +
      named({ type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "Hi" } }),
    ending: (reason = "end_turn") => named({ type: "message_delta", delta: { stop_reason: reason } }),
    terminator: named({ type: "message_stop" }),
    usage: named({ type: "message_delta", delta: {}, usage: { output_tokens: 1 } }),
    whole: (content, reason) =>
      JSON.stringify({ type: "message", content: [{ type: "text", text: content }], stop_reason: reason }),
    empty: [
      '{"type":"message","content":[]}',
      '{"type":"message","content":[],"stop_reason":null}',
      '{"type":"message","content":null}',
    ],
    failures: commonFailures,
    reasons: {
      end_turn: "stop",
      stop_sequence: "stop-sequence",
      max_tokens: "length",
      pause_turn: "paused",
      model_context_window_exceeded: "context-full",
      refusal: "content-filter",
      tool_use: "stop",
    },
    unknown: ["something_new"],
  },
  gemini: {
    opening: part([{ text: "" }]),
    call: [
      part([{ text: "I move " }]),
      part([{ functionCall: { name: "move", args: { path: "/srv/data/tmp", amount: 1000 } } }]),
      part([{ text: "it." }]),
    ],
    text: part([{ text: "Hi" }]),
    ending: (reason = "STOP") => part([], reason),
    terminator: "data: [DONE]\n\n",
    usage: data({ usageMetadata: { promptTokenCount: 1 } }),
    whole: (content, finishReason) =>
      JSON.stringify({ candidates: [{ content: { parts: [{ text: content }] }, finishReason }] }),
    empty: [
      '{"candidates":[]}',
      '{"candidates":null}',
      '{"candidates":[{"index":0}]}',
      '{"candidates":[{"content":{"parts":[]}}]}',
      '{"promptFeedback":{"safetyRatings":[]}}',
    ],
    failures: ["ERROR", "CANCELLED"],
    reasons: {
      STOP: "stop",
      MAX_TOKENS: "length",
      SAFETY: "content-filter",
      LANGUAGE: "content-filter",
      SPII: "content-filter",
    },
    unknown: ["OTHER", "NO_IMAGE", "IMAGE_OTHER", "SOMETHING_NEW"],
  },
};

type Route = "verbatim" | "translated" | "folded";
const routes: Route[] = ["verbatim", "translated", "folded"];

interface Seen {
  /** The caller's answer, as text; all events of a folded answer. */
  text: string;
  outcome: "complete" | "failed" | "broken";
  /** Content was delivered before the failure. */
  committed: boolean;
  malformedEvents: number;
  message: string | undefined;
  /** The code of a failure that the upstream reported. */
  code: ErrorCode | undefined;
}

const codeOf = (error: UpstreamError): ErrorCode => failureOf(error.status ?? 502, error).code;

/** Plays a stream to its end, as the worker does. */
function play(dialect: ConversationDialect, route: Route, stream: string): Seen {
  const reader = new SseReader(1 << 20);
  const events = [...reader.push(Buffer.from(stream)), ...reader.end()];
  if (route === "folded") {
    const decoder = codecs[dialect].streamDecoder();
    const decoded: AnswerEvent[] = [...events.flatMap((event) => decoder.push(event)), ...decoder.end()];
    const answer = foldedOf(decoded);
    const failed = answer === undefined || "error" in answer;
    return {
      text: JSON.stringify(answer),
      outcome: failed ? "failed" : "complete",
      committed: !failed,
      malformedEvents: decoder.malformedEvents,
      message: answer !== undefined && "error" in answer ? answer.error.message : undefined,
      code: answer !== undefined && "error" in answer ? codeOf(answer.error) : undefined,
    };
  }
  const from = codecs[otherThan(dialect)];
  const relay: StreamRelay =
    route === "verbatim"
      ? codecs[dialect].verbatim.stream(Buffer.from("{}"), "sse", { id: "abc123", model: "mine" })
      : new TranslatedStream(codecs[dialect].streamDecoder(), from.streamEncoder(context), undefined);
  const out: Buffer[] = [];
  for (const event of events) {
    relay.push(event, out);
    if (relay.error === undefined && relay.complete) relay.end(out);
  }
  if (relay.error === undefined && relay.finished) relay.end(out);
  const failed = relay.error !== undefined || !relay.ended;
  return {
    text: Buffer.concat(out).toString(),
    outcome: failed ? (relay.committed ? "broken" : "failed") : "complete",
    committed: relay.committed,
    malformedEvents: relay.malformedEvents,
    message: relay.error?.message,
    code: relay.error && codeOf(relay.error),
  };
}

const all = (check: (dialect: ConversationDialect, wire: Wire, route: Route) => void): void => {
  for (const dialect of conversationDialects) for (const route of routes) check(dialect, wires[dialect], route);
};

/** The data of the events as a proxy may break it. */
const breakages: [string, (event: string) => string][] = [
  ["cut in a text", (event) => event.replace(/^data: (.*)$/m, (line) => line.slice(0, -8))],
  ["cut at its end", (event) => event.replace(/\}$/m, "")],
  ["a quote inside of a text", (event) => event.replace(/^data: \{/m, 'data: {"note":"say "hi" now",')],
  ["NaN", (event) => event.replace(/^data: \{/m, 'data: {"note":NaN,')],
  ["a list", (event) => event.replace(/^data: (.*)$/m, "data: [$1]")],
  ["a number", (event) => event.replace(/^data: .*$/m, "data: 7")],
  [
    "a text",
    (event) => event.replace(/^data: .*$/m, "data: upstream connect error or disconnect/reset before headers"),
  ],
];

test("an answer with an unreadable event is never complete: a tool call without its middle is not executed", () => {
  all((dialect, { opening, call: [first, middle, last], ending, terminator }, route) => {
    const whole = play(dialect, route, opening + first + middle + last + ending() + terminator);
    assert.equal(whole.outcome, "complete", `${dialect} ${route}`);
    for (const [name, breakIt] of breakages) {
      const what = `${dialect}, ${route}, ${name}`;
      const after = play(dialect, route, opening + first + breakIt(middle) + last + ending() + terminator);
      assert.equal(after.outcome, route === "folded" ? "failed" : "broken", what);
      assert.match(after.message ?? "", /not in its format/, what);
      assert.equal(after.malformedEvents, 1, what);
      assert.doesNotMatch(after.text, /\[DONE\]|message_stop|response\.completed|"STOP"/, what);
      const before = play(dialect, route, opening + breakIt(middle) + ending() + terminator);
      assert.equal(before.outcome, "failed", what);
      if (route !== "folded") assert.equal(before.text, "", what);
    }
  });
});

test("keep-alives, alternative terminators and events after the last content do not fail an answer", () => {
  const idle = [
    ": OPENROUTER PROCESSING\n\n",
    "data:\n\n",
    "data: \n\n",
    "data: ping\n\n",
    "data: null\n\n",
    "data: : keep-alive\n\n",
    "data: [heartbeat]\n\n",
    "event: ping\ndata: {\n\n",
  ];
  all((dialect, { opening, text, ending, usage, terminator }, route) => {
    const plain = play(dialect, route, opening + text + ending() + usage + terminator);
    assert.equal(plain.outcome, "complete", `${dialect} ${route}`);
    for (const sign of idle) {
      const seen = play(dialect, route, sign + opening + sign + text + sign + ending() + usage + terminator);
      assert.deepEqual([seen.outcome, seen.malformedEvents], ["complete", 0], `${dialect}, ${route}, ${sign}`);
    }
    if (dialect === "openai-chat")
      for (const done of [
        "data: [DONE] \n\n",
        "data:  [DONE]\n\n",
        "data: [done]\n\n",
        'data: "[DONE]"\n\n',
        "data: [DONE]",
      ])
        assert.equal(play(dialect, route, opening + text + ending() + done).outcome, "complete", `${route}, ${done}`);
    if (usage !== "") {
      const seen = play(dialect, route, opening + text + ending() + usage.replace(/\}$/m, "") + terminator);
      assert.deepEqual([seen.outcome, seen.malformedEvents], ["complete", 1], `${dialect}, ${route}`);
    }
  });
});

test("an unreadable event may contain a missing choice, so it fails the answer", () => {
  const { text, ending } = wires.gemini;
  const stream = codecs.gemini.verbatim.stream(Buffer.from('{"generationConfig":{"candidateCount":2}}'), "sse", {
    id: "abc123",
    model: "mine",
  });
  for (const event of new SseReader(1 << 20).push(Buffer.from(`${text}${ending()}data: {"candidates":[{"index":1\n\n`)))
    stream.push(event, []);
  assert.match(stream.error?.message ?? "", /not in its format/);
});

test("a finish reason that means failure fails the answer, before and after content", () => {
  all((dialect, { opening, text, ending, terminator, failures }, route) => {
    for (const reason of failures) {
      const what = `${dialect}, ${route}, ${reason}`;
      assert.equal(play(dialect, route, opening + ending(reason) + terminator).outcome, "failed", what);
      const after = play(dialect, route, opening + text + ending(reason) + terminator);
      assert.equal(after.outcome, route === "folded" ? "failed" : "broken", what);
      assert.doesNotMatch(after.text, /\[DONE\]|message_stop|response\.completed/, what);
    }
  });
});

test("an answer without content fails unless it has a good finish reason", () => {
  all((dialect, { opening, ending, usage, terminator }, route) => {
    for (const stream of ["", terminator, opening + terminator, terminator + terminator, usage + terminator])
      assert.equal(play(dialect, route, stream).outcome, "failed", `${dialect}, ${route}, ${stream}`);
    assert.equal(play(dialect, route, opening + ending() + terminator).outcome, "complete", `${dialect}, ${route}`);
  });
  // More events than are held back, without content: the answer is committed, and a terminator
  // alone still does not end it.
  const chunks = 'data: {"choices":[]}\n\n'.repeat(40);
  assert.equal(play("openai-chat", "verbatim", `${chunks}data: [DONE]\n\n`).outcome, "broken");
});

const wholeOf = (dialect: ConversationDialect, text: string): WholeAnswer =>
  codecs[dialect].verbatim.answer(Buffer.from(text), { id: "abc123", model: "mine" });
const decodedOf = (dialect: ConversationDialect, text: string) =>
  foldedOf(codecs[dialect].decodeAnswer(JSON.parse(text)));

test("whole answers that are empty, failed or unfinished are failures", () => {
  for (const dialect of conversationDialects) {
    const { empty, whole, failures } = wires[dialect];
    for (const text of [...empty, ...failures.map((reason) => whole("Hi", reason))]) {
      assert.notEqual(wholeOf(dialect, text).kind, "answer", `${dialect}, ${text}`);
      const decoded = decodedOf(dialect, text);
      assert.ok(decoded !== undefined && "error" in decoded, `${dialect}, ${text}`);
    }
    const good = whole("Hi", dialect === "gemini" ? "STOP" : dialect === "openai-responses" ? "completed" : "stop");
    assert.equal(wholeOf(dialect, good).kind, "answer", good);
    assert.equal(wholeOf(dialect, good.replace('"Hi"', '"say "hi" now"')).kind, "malformed");
    assert.equal(wholeOf(dialect, good.slice(0, -1)).kind, "malformed");
  }
});

test("known finish reasons are mapped; an unknown one ends an answer with content, and fails one without for callers of other dialects", () => {
  for (const dialect of conversationDialects) {
    const { opening, text, ending, terminator, whole, reasons, unknown } = wires[dialect];
    for (const [reason, finish] of Object.entries(reasons)) {
      const streamed = JSON.parse(play(dialect, "folded", opening + text + ending(reason) + terminator).text);
      assert.equal(streamed.finish, finish, `${dialect}, ${reason}`);
      const folded = decodedOf(dialect, whole("Hi", reason));
      assert.equal(folded !== undefined && "finish" in folded && folded.finish, finish, `${dialect}, ${reason}`);
    }
    for (const reason of unknown) {
      const stream = opening + text + ending(reason) + terminator;
      for (const route of routes)
        assert.equal(play(dialect, route, stream).outcome, "complete", `${dialect}, ${route}, ${reason}`);
      const empty = opening + ending(reason) + terminator;
      assert.equal(play(dialect, "translated", empty).outcome, "failed", `${dialect}, ${reason}`);
      assert.equal(play(dialect, "folded", empty).outcome, "failed", `${dialect}, ${reason}`);
      assert.equal(play(dialect, "verbatim", empty).outcome, "complete", `${dialect}, ${reason}`);
      const folded = decodedOf(dialect, whole("Hi", reason));
      assert.ok(folded !== undefined && "finish" in folded && folded.finish === "stop", `${dialect}, ${reason}`);
      const nothing = decodedOf(dialect, whole("", reason));
      assert.ok(nothing !== undefined && "error" in nothing && nothing.error.status === 502, `${dialect}, ${reason}`);
      assert.equal(wholeOf(dialect, whole("Hi", reason)).kind, "answer", `${dialect}, ${reason}`);
    }
  }
});

/** https://openrouter.ai/docs/api/reference/errors-and-debugging */
const routerError = { code: 502, message: "Provider disconnected", metadata: { provider_name: "x" } };

test("an error within a choice fails the answer, with its status and message", () => {
  const { opening, text } = wires["openai-chat"];
  const failing = chunk({ role: "assistant", content: "" }, "error", {
    native_finish_reason: null,
    error: { ...routerError, code: 429 },
  });
  for (const route of routes) {
    const before = play("openai-chat", route, opening + failing);
    assert.deepEqual([before.outcome, before.message], ["failed", "Provider disconnected"]);
    const after = play("openai-chat", route, opening + text + failing);
    assert.deepEqual(
      [after.outcome, after.message],
      [route === "folded" ? "failed" : "broken", "Provider disconnected"],
    );
  }
  const whole = JSON.stringify({
    choices: [{ finish_reason: "error", message: { role: "assistant", content: "Hal" }, error: routerError }],
  });
  const answer = wholeOf("openai-chat", whole);
  assert.ok(answer.kind === "error" && answer.error.status === 502 && answer.error.message === "Provider disconnected");
  assert.equal(
    decodedOf("openai-chat", whole) !== undefined &&
      JSON.stringify(decodedOf("openai-chat", whole)).includes("Provider disconnected"),
    true,
  );
});

/** Each with the code that a caller gets. */
const bareErrors: [string, object, ErrorCode][] = [
  [
    "vLLM",
    {
      object: "error",
      message: "This model's maximum context length is 8 tokens.",
      type: "BadRequestError",
      code: 400,
    },
    "context_too_long",
  ],
  ["FastChat", { text: "**NETWORK ERROR**", error_code: 50004 }, "upstream_failed"],
  ["Z.ai", { code: 500, msg: "404 NOT_FOUND", success: false }, "upstream_failed"],
  ["a proxy", { status: "429", msg: "Slow down" }, "rate_limited"],
  ["DashScope", { code: "InvalidParameter", message: "Bad", request_id: "r" }, "upstream_failed"],
  ["TGI", { error: { message: "Input validation error: bad", http_status_code: 422 } }, "unprocessable"],
  // https://platform.minimax.io/docs/api-reference/errorcode
  ...(
    [
      [1000, "unknown error", "upstream_failed"],
      [1002, "rate limit", "rate_limited"],
      [1004, "login fail", "upstream_failed"],
      [1026, "input new_sensitive", "content_filter"],
      [2013, "invalid params", "invalid_request"],
    ] as const
  ).map(([code, message, expected]): [string, object, ErrorCode] => [
    `MiniMax ${code}`,
    { id: "m", base_resp: { status_code: code, status_msg: message } },
    expected,
  ]),
];

test("an error in a body or an event without a member error fails the answer, before and after content, with what it means", () => {
  all((dialect, { opening, text, terminator }, route) => {
    for (const [name, error, code] of bareErrors) {
      const what = `${dialect}, ${route}, ${name}`;
      const before = play(dialect, route, opening + data(error) + terminator);
      assert.deepEqual([before.outcome, before.code], ["failed", code], what);
      const after = play(dialect, route, opening + text + data(error) + terminator);
      assert.deepEqual([after.outcome, after.code], [route === "folded" ? "failed" : "broken", code], what);
      assert.doesNotMatch(after.text, /\[DONE\]|message_stop|response\.completed|"STOP"/, what);
      const body = JSON.stringify(error);
      const whole = wholeOf(dialect, body);
      assert.equal(whole.kind === "error" && codeOf(whole.error), code, what);
      const decoded = decodedOf(dialect, body);
      assert.equal(decoded !== undefined && "error" in decoded && codeOf(decoded.error), code, what);
    }
  });
});

test("MiniMax's codes tell what fails of the operator's account, and its success is none", () => {
  const faultOf = (code: number) => failureOf(502, upstreamErrorOf({ base_resp: { status_code: code } })).operatorFault;
  assert.deepEqual([1004, 2049, 1008, 1002].map(faultOf), ["credential", "credential", "quota", undefined]);
  const whole = `${wires["openai-chat"].whole("Hi", "stop").slice(0, -1)},"base_resp":{"status_code":0,"status_msg":""}}`;
  assert.equal(wholeOf("openai-chat", whole).kind, "answer");
  for (const quiet of [{ type: "ping" }, { code: 0, message: "ok" }, { status: "in_progress", message: "Searching" }])
    for (const route of routes) {
      const { opening, text, ending, terminator } = wires["openai-chat"];
      const { outcome } = play("openai-chat", route, opening + data(quiet) + text + ending() + terminator);
      assert.equal(outcome, "complete", `${route}, ${JSON.stringify(quiet)}`);
    }
});

test("a response that completes with an error failed, whatever its event is called", () => {
  const { opening, text } = wires["openai-responses"];
  const error = { code: "server_error", message: "oops" };
  for (const ending of [
    ended("completed", { error }),
    ended("failed", { error }),
    named({ type: "response.cancelled", response: { status: "cancelled", error } }),
  ])
    for (const route of routes) {
      const { outcome, message } = play("openai-responses", route, opening + text + ending);
      assert.deepEqual([outcome, message], [route === "folded" ? "failed" : "broken", "oops"], `${route}, ${ending}`);
    }
});

/** https://github.com/decolua/9router/pull/2142 */
test("a response may end with response.done, and callers get the end that they know", () => {
  const { opening, text } = wires["openai-responses"];
  for (const [status, outcome, shown] of [
    ["completed", "complete", "response.completed"],
    ["incomplete", "complete", "response.incomplete"],
    ["failed", "broken", undefined],
  ] as const)
    for (const route of routes) {
      const end = named({ type: "response.done", response: { id: "r", status, output: [] } });
      const seen = play("openai-responses", route, opening + text + end);
      assert.equal(
        seen.outcome,
        route === "folded" && outcome === "broken" ? "failed" : outcome,
        `${route}, ${status}`,
      );
      if (route !== "verbatim" || shown === undefined) continue;
      const [name, data = ""] = seen.text.trim().split("\n").slice(-2);
      assert.deepEqual([name, JSON.parse(data.slice(6)).type], [`event: ${shown}`, shown]);
    }
});

test("a message without a finish reason is complete if it has content", () => {
  const { opening, text, terminator } = wires["anthropic-messages"];
  for (const route of routes)
    assert.equal(play("anthropic-messages", route, opening + text + terminator).outcome, "complete", route);
});

test("a finish reason with the text null is none, and the answer continues", () => {
  const { opening, ending } = wires["openai-chat"];
  for (const route of routes) {
    const begun = opening + chunk({ content: "a" }, "null") + chunk({ content: "b" }, "null");
    assert.equal(play("openai-chat", route, begun).outcome, route === "folded" ? "failed" : "broken", route);
    assert.equal(play("openai-chat", route, `${begun}${ending()}data: [DONE]\n\n`).outcome, "complete", route);
  }
});

test("a terminator without a finish reason ends an answer with content, unless a call is incomplete", () => {
  const { opening } = wires["openai-chat"];
  const done = "data: [DONE]\n\n";
  const called = (args: string) =>
    chunk({ tool_calls: [{ index: 0, id: "a", type: "function", function: { name: "f", arguments: args } }] });
  const answers: [string, string, string | undefined][] = [
    ["text", opening + chunk({ content: "Hi" }), "stop"],
    ["reasoning", opening + chunk({ reasoning_content: "Hm" }), "stop"],
    [
      "a call",
      opening + called('{"x":') + chunk({ tool_calls: [{ index: 0, function: { arguments: "1}" } }] }),
      "calls",
    ],
    ["a call without arguments", opening + called(""), "calls"],
    ["an incomplete call", opening + called('{"x":'), undefined],
    ["an incomplete call among others", opening + called("{}") + called('{"y":').replace('"a"', '"b"'), undefined],
    ["nothing", opening, undefined],
  ];
  for (const [what, stream, finish] of answers)
    for (const route of routes) {
      const { outcome, text } = play("openai-chat", route, stream + done);
      assert.equal(outcome === "complete", finish !== undefined, `${what}, ${route}`);
      if (route === "folded" && finish !== undefined) assert.equal(JSON.parse(text).finish, finish);
    }
});
