import assert from "node:assert/strict";
import { test } from "node:test";
import type { Content, ContentLabel } from "#content/content.ts";
import { Capacity } from "../../../apps/ingress/common/capacity.ts";
import { ContentRecorder, type RecordedRequest } from "../../../apps/ingress/content/content-recorder.ts";
import type { AnswerResponse } from "../../../apps/ingress/response/response.ts";
import { responseFor } from "../../../apps/ingress/response/response-for.ts";

/** A response that remembers what was sent. */
function responseOf() {
  const sent: string[] = [];
  const listeners: (() => void)[] = [];
  const response: AnswerResponse = {
    headersSent: false,
    closed: false,
    writeHead: (status) => sent.push(`head ${status}`),
    write: (chunk) => sent.push(String(chunk)) > 0,
    end: (chunk) => sent.push(`end ${chunk ?? ""}`),
    destroy: () => sent.push("destroyed"),
    once: (event, listener) => event === "close" && listeners.push(listener),
  };
  const close = () => {
    for (const listener of listeners) listener();
  };
  return { response, sent, close };
}

type Recorded = RecordedRequest["http"] & RecordedRequest["endpoint"] & { contentType: string };

const usual: Recorded = {
  ...{ dialect: "openai-chat", operation: "answer", contentType: "application/json" },
  caller: { id: "key_1", account: "a", contentKey: "k" },
};

function startRecorder(capacity = 1 << 20) {
  const recorded = new Capacity(capacity);
  const written: { label: ContentLabel; content: Content }[] = [];
  const stream = { write: async (label: ContentLabel, content: Content) => void written.push({ label, content }) };
  const clock = { now: () => 0, epoch: () => 5 } as ConstructorParameters<typeof ContentRecorder>[0]["clock"];
  const recorder = new ContentRecorder({ stream, recorded, clock });
  const record = (more: object, body: string) => {
    const { response, sent, close } = responseOf();
    const { caller, dialect, operation, contentType }: Recorded = { ...usual, ...more };
    const request = { http: { caller }, endpoint: { dialect, operation }, bytes: Buffer.from(body) };
    const content = recorder.layerOf(request, { id: "gen_1", contentType });
    return { answer: responseFor({ sink: response, content }), response, sent, close };
  };
  return { recorded, written, record };
}

test("requests of other accounts, and sessions, pass untouched", () => {
  const { record } = startRecorder();
  for (const more of [{ caller: { id: "key_1", account: "a" } }, { operation: "realtime" }]) {
    const { answer, response } = record(more, "{}");
    assert.equal(answer, response);
  }
});

test("an answer passes as it is, and is recorded once without its keep-alives", async () => {
  const { record, recorded, written } = startRecorder();
  const { answer, sent, close } = record({}, '{"a":1}');
  answer.writeHead(200, { "content-type": "text/event-stream" });
  answer.write(": keep-alive\n\n");
  answer.write(Buffer.from("data: 1\n\n"));
  answer.end("data: 2\n\n");
  close();
  answer.destroy();
  assert.deepEqual(sent, ["head 200", ": keep-alive\n\n", "data: 1\n\n", "end data: 2\n\n", "destroyed"]);
  assert.deepEqual(written, [
    {
      label: { generationId: "gen_1", account: "a", key: "k", receivedAt: 5 },
      content: {
        dialect: "openai-chat",
        operation: "answer",
        request: { type: "application/json", text: '{"a":1}', bytes: 7, isCut: false },
        status: 200,
        answer: { type: "text/event-stream", text: "data: 1\n\ndata: 2\n\n", bytes: 18, isCut: false },
      },
    },
  ]);
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(recorded.used, 0);
});

test("forms and sound are recorded as their sizes; a caller who leaves ends the record", () => {
  const { record, written } = startRecorder();
  const { answer, close } = record({ contentType: "multipart/form-data; boundary=x" }, "secret form");
  answer.writeHead(200, { "content-type": "audio/mpeg" });
  answer.write(Buffer.alloc(99));
  close();
  answer.write(Buffer.alloc(50));
  const { request, answer: heard } = written[0]?.content ?? {};
  assert.deepEqual([request?.text, request?.bytes], ["", 11]);
  assert.deepEqual([heard?.type, heard?.text, heard?.bytes], ["audio/mpeg", "", 99]);
});

test("without memory less is recorded, and the answer passes all the same", () => {
  const { record, written } = startRecorder(5);
  const { answer, sent } = record({}, '{"a":1}');
  answer.writeHead(200, {});
  answer.end(Buffer.from("whole answer"));
  assert.deepEqual(sent, ["head 200", "end whole answer"]);
  const { request, answer: recorded } = written[0]?.content ?? {};
  assert.ok(request?.isCut && recorded?.isCut && recorded.bytes === 12);
});
