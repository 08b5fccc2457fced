import assert from "node:assert/strict";
import { test } from "node:test";
import { codecs } from "#dialects/codecs.ts";
import { conversationDialects } from "#dialects/dialect.ts";
import { upstreamErrorOf } from "#dialects/upstream-errors/upstream-errors.ts";
import { readerOf } from "../../../apps/worker/answer/answer.ts";
import { failedWith } from "../../../apps/worker/answer/answer-reader.ts";

function failureOf(dialect: (typeof conversationDialects)[number], status: number, body: string, type: string) {
  const reader = readerOf(
    { status, headers: { "content-type": type }, arrivedAt: 0 },
    {
      streams: false,
      bytesMax: 1_000,
      contentType: "",
      whole: () => ({ kind: "malformed" }),
      errorOf: codecs[dialect].upstreamErrorOf,
    },
    body.charCodeAt(0),
  );
  for (let at = 0; at < body.length; at += 1_000) {
    const step = reader.push(Buffer.from(body.slice(at, at + 1_000)));
    if (step.kind === "failed") return step.failure;
  }
  const step = reader.end();
  assert.ok(step.kind === "failed");
  return step.failure;
}

test("a plain-text error is passed on as the upstream's reason, without addresses", () => {
  for (const dialect of conversationDialects) {
    assert.deepEqual(failureOf(dialect, 400, "temperature must be below 2\n", "text/plain"), {
      code: "invalid_request",
      message: "temperature must be below 2",
    });
    assert.doesNotMatch(
      failureOf(dialect, 422, "worker vllm-0.vllm.svc.cluster.local:8000 says no", "text/plain").message,
      /vllm-0|8000/,
    );
    assert.equal(
      failureOf(dialect, 400, "The prompt (total length 9) is too long to fit into the model", "text/plain").code,
      "context_too_long",
    );
  }
});

test("an HTML page is not the upstream's reason and does not blame the request, because it comes from a proxy", () => {
  const page = "<html>\r\n<head><title>400 The plain HTTP request was sent to HTTPS port</title></head>\r\n</html>";
  for (const dialect of conversationDialects) {
    const failure = failureOf(dialect, 400, page, "text/html");
    assert.deepEqual([failure.code, /HTTPS|html/.test(failure.message)], ["upstream_failed", false]);
    assert.equal(
      failureOf(dialect, 413, "<html><h1>413 Request Entity Too Large</h1></html>", "text/html").code,
      "body_too_large",
    );
  }
});

test("an error body that is truncated or too long still counts by its status", () => {
  for (const dialect of conversationDialects) {
    assert.deepEqual(
      failureOf(dialect, 400, '{"error":{"message":"half of a', "application/json").code,
      "invalid_request",
    );
    assert.doesNotMatch(failureOf(dialect, 400, '{"error":{"message":"half of a', "application/json").message, /half/);
    const long = failureOf(dialect, 400, `x ${"y".repeat(200_000)}`, "text/plain");
    assert.ok(long.code === "invalid_request" && long.message.length <= 2_000);
  }
});

test("a rate limit inside of an answer has the time of the next retry, and a mistake has none", () => {
  const waits = (error: object) => {
    const { retryAfterSeconds, failure } = failedWith(
      upstreamErrorOf({ type: "response.failed", response: { error } }),
    );
    return [failure.code, retryAfterSeconds, failure.retryAfterSeconds];
  };
  const message = "Please try again in 1m50.5s.";
  assert.deepEqual(waits({ code: "rate_limit_exceeded", message }), ["rate_limited", 111, 60]);
  assert.deepEqual(waits({ code: "server_is_overloaded", message }), ["overloaded", 111, 60]);
  assert.deepEqual(waits({ code: "invalid_prompt", message }), ["invalid_request", undefined, undefined]);
  assert.deepEqual(
    failureOf("openai-chat", 400, JSON.stringify({ error: { message } }), "application/json").retryAfterSeconds,
    undefined,
  );
  assert.deepEqual(
    failureOf("openai-chat", 429, JSON.stringify({ error: { message } }), "application/json").retryAfterSeconds,
    60,
  );
});
