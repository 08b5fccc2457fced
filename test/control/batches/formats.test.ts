/** Results in the formats of the three APIs, compared with recorded ones of the vendors. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { type LineOutcome, reasonTexts, type UnansweredReason } from "../../../apps/control/batches/format.ts";
import { type BatchDialect, batchFormats } from "../../../apps/control/batches/formats.ts";

const answered = (status: number, body: string): LineOutcome => ({
  kind: "answered",
  status,
  requestId: "req_1",
  body: Buffer.from(body),
});
const unanswered = (reason: UnansweredReason): LineOutcome => ({
  kind: "unanswered",
  reason,
});

const results: [dialect: BatchDialect, outcome: LineOutcome, result: unknown][] = [
  [
    "openai",
    answered(200, '{\n "n": 1.50\r\n}'),
    {
      id: "batch_req_7",
      custom_id: "a",
      response: { status_code: 200, request_id: "req_1", body: { n: 1.5 } },
      error: null,
    },
  ],
  [
    "openai",
    answered(400, '{"error":{"message":"no"}}'),
    {
      id: "batch_req_7",
      custom_id: "a",
      response: { status_code: 400, request_id: "req_1", body: { error: { message: "no" } } },
      error: null,
    },
  ],
  [
    "openai",
    unanswered("expired"),
    {
      id: "batch_req_7",
      custom_id: "a",
      response: null,
      error: {
        code: "batch_expired",
        message: "This request could not be executed before the completion window expired.",
      },
    },
  ],
  [
    "anthropic",
    answered(200, '{"id":"msg_1"}'),
    { custom_id: "a", result: { type: "succeeded", message: { id: "msg_1" } } },
  ],
  [
    "anthropic",
    answered(400, '{"type":"error","error":{"type":"invalid_request_error","message":"no"},"request_id":"req_1"}'),
    {
      custom_id: "a",
      result: {
        type: "errored",
        error: { type: "error", error: { type: "invalid_request_error", message: "no" }, request_id: "req_1" },
      },
    },
  ],
  ["anthropic", unanswered("cancelled"), { custom_id: "a", result: { type: "canceled" } }],
  ["anthropic", unanswered("expired"), { custom_id: "a", result: { type: "expired" } }],
  ["gemini", answered(200, '{"candidates":[]}'), { key: "a", response: { candidates: [] }, metadata: { key: "k" } }],
  [
    "gemini",
    answered(400, '{"error":{"code":400,"message":"no","status":"INVALID_ARGUMENT"}}'),
    { key: "a", error: { code: 3, message: "no", status: "INVALID_ARGUMENT" }, metadata: { key: "k" } },
  ],
];

for (const [dialect, outcome, result] of results)
  test(`${dialect}: ${outcome.kind === "answered" ? `status ${outcome.status}` : outcome.reason}`, () => {
    const metadata = dialect === "gemini" ? '{"key":"k"}' : undefined;
    const written = batchFormats[dialect].write({ customId: "a", metadata }, "7", outcome);
    assert.equal(written.includes(0x0a) || written.includes(0x0d), false);
    assert.deepEqual(JSON.parse(written.toString()), result);
  });

for (const reason of Object.keys(reasonTexts) as UnansweredReason[])
  test(`a request that is ${reason} has a result in every format`, () => {
    for (const format of Object.values(batchFormats))
      assert.notDeepEqual(JSON.parse(format.write({ customId: "a" }, "7", unanswered(reason)).toString()), {});
  });
