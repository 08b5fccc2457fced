import assert from "node:assert/strict";
import { test } from "node:test";
import { plainUsageOf } from "#dialects/usage.ts";
import { TargetCall } from "../../../apps/worker/attempt/target-call.ts";
import type { Exchange } from "../../../apps/worker/preparation/exchange.ts";
import { partOf } from "../../support/part-of.ts";

const bytes = Buffer.from([0x20, 0x0a, 0x00, 0xff, 0x7b]);

/** A call whose caller gets the upstream's bytes as they are. */
const callOf = (contentType: string | undefined, status = 200) => {
  const exchange: Exchange = {
    kind: "exchange",
    request: { path: "/audio/speech", headers: {}, body: Buffer.alloc(0) },
    reading: {
      streams: false,
      bytesMax: 1_000,
      contentType: undefined,
      raw: { kind: "bytes", usage: plainUsageOf(7) },
      whole: (body) => ({ kind: "answer", body, usage: undefined }),
      errorOf: () => ({ message: "no such voice" }),
    },
  };
  const call = new TargetCall(
    partOf<ConstructorParameters<typeof TargetCall>[0]>({
      candidate: { upstream: { name: "u" }, key: "u m", name: "u m", model: { id: "m" }, target: { model: "m" } },
      permit: {},
      attempt: {},
      exchange,
      number: 1,
      resumes: false,
      isQuoted: () => false,
      now: 0,
    }),
  );
  call.headArrived({ status, headers: { "content-type": contentType }, arrivedAt: 0 }, 0);
  return call;
};

test("bytes reach the caller as they arrive, leading white space included, with their content type and usage", () => {
  const call = callOf("audio/mpeg");
  const steps = [call.read(bytes.subarray(0, 2), 0), call.read(bytes.subarray(2), 0)];
  assert.deepEqual(
    steps.map((step) => Buffer.concat(step?.bytes ?? [])),
    [bytes.subarray(0, 2), bytes.subarray(2)],
  );
  assert.deepEqual(call.end(), { kind: "end", bytes: [] });
  assert.deepEqual([call.contentType, call.usage?.inputTokens], ["audio/mpeg", 7]);
});

test("a response of bytes without a readable content type gets the type of any bytes", () => {
  assert.equal(callOf(undefined).contentType, "application/octet-stream");
  assert.equal(callOf("audio/\u00e4").contentType, "application/octet-stream");
});

test("an error in place of bytes is read as an error", () => {
  const call = callOf("application/json", 400);
  call.read(Buffer.from('{"error":{"message":"no such voice"}}'), 0);
  const step = call.end();
  assert.ok(step.kind === "failed");
  assert.equal(step.failure.message, "no such voice");
});

test("a response without a byte, and JSON or text in place of bytes, is no answer", () => {
  const empty = callOf("audio/mpeg").end();
  assert.ok(empty.kind === "failed" && empty.failure.code === "upstream_failed");
  for (const type of ["application/json", "text/html; charset=utf-8"]) {
    const call = callOf(type);
    call.read(Buffer.from('{"error":{"message":"no such voice"}}'), 0);
    assert.equal(call.end().kind, "failed");
  }
});
