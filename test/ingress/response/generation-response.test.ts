import assert from "node:assert/strict";
import type { OutgoingHttpHeaders } from "node:http";
import { test } from "node:test";
import { conversationDialects } from "#dialects/dialect.ts";
import { Capacity } from "../../../apps/ingress/common/capacity.ts";
import { type AnswerOptions, GenerationResponse } from "../../../apps/ingress/response/generation-response.ts";
import type { AnswerResponse } from "../../../apps/ingress/response/response.ts";

/** A response that keeps what is written to it. */
class Written implements AnswerResponse {
  headersSent = false;
  readonly closed = false;
  text = "";
  writeHead(_status: number, _headers: OutgoingHttpHeaders): void {
    this.headersSent = true;
  }
  write(chunk: string | Buffer): boolean {
    this.text += chunk.toString();
    return true;
  }
  end(chunk: string | Buffer = ""): void {
    this.text += chunk.toString();
  }
  destroy(): void {
    assert.fail("the connection was broken");
  }
  once(): void {}
}

function answerTo(response: Written, more: Partial<AnswerOptions> = {}): GenerationResponse {
  const listener = { committed: () => undefined, taken: () => undefined };
  const [room, bufferClaim] = [new Capacity(1 << 20).claim("key"), new Capacity(1 << 20).claim("key")];
  return new GenerationResponse(
    {
      response,
      dialect: "openai-chat",
      framing: "sse",
      model: "m",
      requestId: "req_1",
      headers: {},
      resumed: false,
      deliveredClaim: room,
      bufferClaim,
      listener,
      ...more,
    },
    0,
  );
}

const everyMs = 1_000;

test("a keep-alive is written between events, never inside one, wherever an event is cut", () => {
  const event = 'event: x\ndata: {"a":"b"}\n\n';
  for (const dialect of conversationDialects)
    for (let cut = 1; cut < event.length; cut++) {
      const response = new Written();
      const answer = answerTo(response, { dialect });
      const sent = () => response.text.length;
      answer.data(Buffer.from(event), 1, 0);
      answer.data(Buffer.from(event.slice(0, cut)), 2, 0);
      const cutAt = sent();
      answer.keepAlive(10 * everyMs, everyMs);
      assert.equal(sent(), cutAt, `${dialect}: written into an event after ${JSON.stringify(event.slice(0, cut))}`);
      answer.data(Buffer.from(event.slice(cut)), 3, 10 * everyMs);
      assert.equal(response.text, event + event);
      answer.keepAlive(10.5 * everyMs, everyMs);
      assert.equal(response.text, event + event, "too early");
      answer.keepAlive(20 * everyMs, everyMs);
      assert.ok(sent() > 2 * event.length, `${dialect}: nothing was written between events`);
      assert.ok(response.text.startsWith(event + event));
    }
});

test("an event that arrives byte by byte counts as one event", () => {
  const response = new Written();
  const answer = answerTo(response);
  const event = "data: {}\n\n";
  for (const [place, byte] of [...event].entries()) {
    answer.keepAlive(place * 10 * everyMs, everyMs);
    answer.data(Buffer.from(byte), place, place * 10 * everyMs);
  }
  assert.equal(response.text.replace(/^\n+/, ""), event);
  answer.keepAlive(1_000 * everyMs, everyMs);
  assert.equal(response.text.replace(/^\n+/, ""), `${event}\n\n`);
});

test("a reader that splits a stream at double line ends finds whole events, wherever keep-alives are", () => {
  const event = 'data: {"a":"b"}\n\n';
  for (const dialect of conversationDialects) {
    const response = new Written();
    const answer = answerTo(response, { dialect });
    for (const place of [1, 2, 3]) {
      answer.keepAlive(place * 10 * everyMs, everyMs);
      answer.data(Buffer.from(event), place, place * 10 * everyMs);
    }
    const events = response.text.split("\n\n").filter((part) => part !== "");
    assert.ok(
      events.every((part) => /^(data|event): /.test(part)),
      `${dialect}: ${JSON.stringify(events)}`,
    );
    assert.equal(events.filter((part) => part === event.trim()).length, 3);
  }
});

test("a whole answer is buffered while its key gets memory for it, then it is passed on as it arrives", () => {
  const capacity = new Capacity(100);
  const answers = Array.from({ length: 3 }, () => {
    const response = new Written();
    const taken: number[] = [];
    const listener = { committed: () => undefined, taken: (seq: number) => void taken.push(seq) };
    return {
      response,
      taken,
      answer: answerTo(response, { framing: "whole", bufferClaim: capacity.claim("key"), listener }),
    };
  });
  const [one, two, three] = answers as [(typeof answers)[0], (typeof answers)[0], (typeof answers)[0]];
  one.answer.data(Buffer.alloc(50, "a"), 1, 0);
  two.answer.data(Buffer.alloc(20, "b"), 1, 0);
  assert.deepEqual([capacity.used, one.response.text, two.response.text], [70, "", ""]);
  two.answer.data(Buffer.alloc(20, "c"), 2, 0);
  assert.deepEqual([capacity.used, two.response.text, two.taken], [50, "b".repeat(20) + "c".repeat(20), [2]]);
  two.answer.data(Buffer.from("d"), 3, 0);
  assert.deepEqual([capacity.used, two.response.text.at(-1)], [50, "d"]);
  three.answer.data(Buffer.alloc(30, "e"), 1, 0);
  three.answer.restart();
  assert.deepEqual([capacity.used, three.response.text], [50, ""]);
  three.answer.data(Buffer.alloc(30, "f"), 1, 0);
  for (const { answer } of answers) {
    answer.end();
    answer.forget();
  }
  assert.deepEqual([one.response.text, three.response.text], ["a".repeat(50), "f".repeat(30)]);
  assert.deepEqual([capacity.used, capacity.keys], [0, 0]);
});

test("bytes are written as they come, without keep-alives, and a failure after the first of them breaks the connection", () => {
  let isBroken = false;
  class Breakable extends Written {
    override destroy(): void {
      isBroken = true;
    }
  }
  const response = new Breakable();
  const answer = answerTo(response, { framing: "bytes" });
  answer.keepAlive(10 * everyMs, everyMs);
  assert.equal(response.headersSent, false, "a later failure may still have a status");
  answer.head({ status: 200, headers: { "content-type": "audio/mpeg" } }, 1);
  answer.data(Buffer.from("a\n\n"), 2, 0);
  assert.equal(response.text, "a\n\n");
  answer.keepAlive(20 * everyMs, everyMs);
  answer.fail({ code: "upstream_failed", message: "The upstream broke the connection." });
  assert.deepEqual([response.text, isBroken], ["a\n\n", true]);
});

test("bytes that fail before the first of them are an error with a status", () => {
  const response = new Written();
  const answer = answerTo(response, { framing: "bytes" });
  answer.fail({ code: "upstream_failed", message: "The upstream broke the connection." });
  assert.deepEqual([answer.status, JSON.parse(response.text).error.code], [502, "upstream_error"]);
});
