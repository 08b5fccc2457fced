import assert from "node:assert/strict";
import { EventEmitter } from "node:events";
import { test } from "node:test";
import { Capacity } from "../../../apps/ingress/common/capacity.ts";
import { Refusal } from "../../../apps/ingress/common/refusal.ts";
import { readOllamaRequest } from "../../../apps/ingress/request/ollama.ts";
import { OllamaAnswer, ollamaTranslationOf } from "../../../apps/ingress/response/ollama-answer.ts";
import { responseFor } from "../../../apps/ingress/response/response-for.ts";

/** A response that remembers what it was told. */
class Told extends EventEmitter {
  headersSent = false;
  closed = false;
  status = 0;
  headers: Record<string, unknown> = {};
  text = "";
  writeHead(status: number, headers: Record<string, unknown>) {
    Object.assign(this, { status, headers, headersSent: true });
  }
  write(chunk: string | Buffer) {
    this.text += chunk;
    return false;
  }
  end(chunk: string | Buffer = "") {
    this.text += chunk;
    this.closed = true;
  }
  destroy() {
    this.closed = true;
    this.emit("close");
  }
}

const capacity = new Capacity(1_000);

function responding(streams: boolean) {
  let ms = 0;
  const answer = new OllamaAnswer({
    path: "/api/chat",
    model: "m",
    showsThinking: true,
    now: () => (ms += 2),
    epoch: () => 0,
  });
  const told = new Told();
  const translation = { translation: ollamaTranslationOf(answer), streams, claim: capacity.claim("key") };
  return { told, response: responseFor({ sink: told, translation }) };
}

const head = { "content-type": "text/event-stream", "x-request-id": "req_1" };
const chunk = (delta: object, more: object = {}) => `data: ${JSON.stringify({ choices: [{ delta, ...more }] })}\n\n`;
const linesIn = ({ text }: Told) =>
  text
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));

test("log probabilities are asked for, and stand beside the text they belong to", () => {
  const requestBody = { model: "m", messages: [], prompt: "hello", logprobs: true, top_logprobs: 1 };
  for (const [more, expected] of [
    [{}, { logprobs: true, top_logprobs: 1 }],
    [{ top_logprobs: null }, { logprobs: true, top_logprobs: undefined }],
    [
      { logprobs: false, top_logprobs: 0 },
      { logprobs: undefined, top_logprobs: undefined },
    ],
  ] as const) {
    const read = readOllamaRequest("/api/generate", Buffer.from(JSON.stringify({ ...requestBody, ...more })));
    const { logprobs, top_logprobs } = JSON.parse(String(!(read instanceof Refusal) && read.bytes));
    assert.deepEqual({ logprobs, top_logprobs }, expected);
  }
  const logprobs = { content: [{ token: "a", logprob: -0.1, bytes: [97], top_logprobs: [] }] };
  const streamed = responding(true);
  streamed.response.writeHead(200, head);
  streamed.response.end(
    `${chunk({ content: "a" }, { logprobs })}${chunk({ content: "b" }, { logprobs: null })}data: [DONE]\n\n`,
  );
  assert.deepEqual(
    linesIn(streamed.told).map((line) => line.logprobs),
    [logprobs.content, undefined, undefined],
  );
  const whole = responding(false);
  whole.response.writeHead(200, {});
  whole.response.end(JSON.stringify({ choices: [{ message: { content: "a" }, logprobs }] }));
  assert.deepEqual(JSON.parse(whole.told.text).logprobs, logprobs.content);
});

test("a stream becomes lines, whatever its chunks, and a keep-alive is a line without content", () => {
  const { told, response } = responding(true);
  response.writeHead(200, head);
  assert.deepEqual(told.headers, { "content-type": "application/x-ndjson", "x-request-id": "req_1" });
  assert.equal(response.write("\n"), false);
  const bytes = Buffer.from(
    [
      chunk({ role: "assistant", content: "" }),
      chunk({ reasoning_content: "hm" }),
      chunk({ content: "hé" }),
      chunk({ tool_calls: [{ index: 0, id: "a", function: { name: "f", arguments: '{"id":' } }] }),
      chunk({ tool_calls: [{ index: 0, function: { arguments: "12345678901234567890}" } }] }),
      chunk({ tool_calls: [{ index: 1, id: "b", function: { name: "g", arguments: "" } }] }),
      chunk({}, { finish_reason: "tool_calls" }),
      `data: ${JSON.stringify({ choices: [], usage: { prompt_tokens: 3, completion_tokens: 2 } })}\n\n`,
      "data: [DONE]\n\n",
    ].join(""),
  );
  for (const byte of bytes) response.write(Buffer.from([byte]));
  response.end();
  assert.match(told.text, /"arguments":\{"id":12345678901234567890\}/);
  const [alive, thinking, content, calls, last, ...rest] = linesIn(told);
  assert.deepEqual(rest, []);
  const line = { model: "m", created_at: "1970-01-01T00:00:00.000Z", done: false };
  assert.deepEqual(alive, { ...line, message: { role: "assistant", content: "" } });
  assert.deepEqual(thinking, { ...line, message: { role: "assistant", content: "", thinking: "hm" } });
  assert.deepEqual(content, { ...line, message: { role: "assistant", content: "hé" } });
  assert.deepEqual(
    calls.message.tool_calls.map((call: { function: { name: string } }) => call.function.name),
    ["f", "g"],
  );
  assert.deepEqual(last.message, { role: "assistant", content: "" });
  const { done, done_reason, prompt_eval_count, eval_count, total_duration, eval_duration } = last;
  assert.deepEqual([done, done_reason, prompt_eval_count, eval_count], [true, "stop", 3, 2]);
  assert.ok(eval_duration > 0 && eval_duration < total_duration && total_duration % 1_000_000 === 0);
});

test("an error in the middle of a stream is the last line, and nothing is done", () => {
  const { told, response } = responding(true);
  response.writeHead(200, head);
  response.write(Buffer.from(chunk({ content: "a" })));
  response.end('data: {"error":{"message":"lost","type":"server_error"}}\n\n');
  assert.deepEqual(linesIn(told).at(-1), { error: "lost" });
  assert.ok(linesIn(told).every(({ done }) => done !== true));
});

test("calls with too many bytes end in an error", () => {
  const { told, response } = responding(true);
  response.writeHead(200, head);
  const part = chunk({ tool_calls: [{ index: 0, function: { name: "f", arguments: "x".repeat(1 << 20) } }] });
  for (let count = 0; count < 9; count++) response.write(Buffer.from(part));
  assert.match(told.text, /^\{"error":"[^"]+"\}\n$/);
});

test("a whole answer that does not fit in memory breaks the connection", () => {
  const { told, response } = responding(false);
  response.writeHead(200, { "content-type": "application/json" });
  for (let count = 0; count < 20; count++) response.write(Buffer.alloc(100));
  assert.deepEqual([told.closed, told.text, capacity.used], [true, "", 0]);
});

test("an error response keeps its status and headers", () => {
  const { told, response } = responding(true);
  response.writeHead(429, { "retry-after": "3", "content-length": 99 });
  response.end('{"error":{"message":"slow down"}}');
  assert.deepEqual([told.status, told.text], [429, '{"error":"slow down"}']);
  assert.deepEqual([told.headers["retry-after"], told.headers["content-length"]], ["3", 21]);
});

test("results of tools belong to the calls before them, by name and then by order", () => {
  const call = (name: string) => ({ function: { name, arguments: { a: 1 } } });
  const result = (name?: string) => ({ role: "tool", content: "r", ...(name && { tool_name: name }) });
  const messages = [
    result("early"),
    { role: "assistant", content: "", tool_calls: [call("f"), call("g"), call("g")] },
    result("g"),
    result(),
    result("g"),
    { role: "assistant", tool_calls: [call("f")] },
    result("f"),
  ];
  const read = readOllamaRequest("/api/chat", Buffer.from(JSON.stringify({ model: "m:latest", messages })));
  assert.ok(!(read instanceof Refusal) && read.bytes !== undefined);
  const body = JSON.parse(read.bytes.toString());
  assert.deepEqual(
    body.messages.map(({ tool_call_id }: { tool_call_id?: string }) => tool_call_id),
    [undefined, undefined, "call_1", "call_0", "call_2", undefined, "call_3"],
  );
  assert.deepEqual([body.model, body.stream], ["m", true]);
  assert.equal(body.messages[1].tool_calls[0].function.arguments, '{"a":1}');
});

test("images get their type from their first bytes", () => {
  const images = ["/9j/AAAA", "R0lGODAA", "UklGRAAA", "iVBORw0K", "data:image/x;base64,AA"];
  const read = readOllamaRequest("/api/generate", Buffer.from(JSON.stringify({ model: "m", prompt: "p", images })));
  assert.ok(!(read instanceof Refusal) && read.bytes !== undefined);
  const [{ content }] = JSON.parse(read.bytes.toString()).messages;
  assert.deepEqual(
    content.slice(1).map(({ image_url: { url } }: { image_url: { url: string } }) => url.split(";")[0]),
    ["data:image/jpeg", "data:image/gif", "data:image/webp", "data:image/png", "data:image/x"],
  );
});
