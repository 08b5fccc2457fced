import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, get, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { Answer, type AnswerOptions } from "../../apps/ingress/answer.ts";

/** An answer, and its caller, who reads when it is told to. */
async function startAnswer(framing: AnswerOptions["framing"]) {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const asking = get({ port: (server.address() as AddressInfo).port });
  const [, response] = (await once(server, "request")) as [unknown, ServerResponse];
  const taken: number[] = [];
  const answer = new Answer(
    {
      response,
      dialect: "openai-chat",
      framing,
      model: "m",
      requestId: "req_1",
      headers: {},
      spliced: false,
      room: { take: () => false, giveBack: () => undefined },
      listener: { committed: () => undefined, taken: (seq) => void taken.push(seq) },
    },
    performance.now(),
  );
  return {
    answer,
    taken,
    caller: async () => ((await once(asking, "response")) as [IncomingMessage])[0],
    async [Symbol.asyncDispose]() {
      asking.destroy();
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

const frameBytes = 60_000;
const event = (seq: number) => Buffer.from(`data: ${String(seq).padEnd(frameBytes - 8)}\n\n`);

/** More than the sockets of a machine hold. */
const frames = 500;

async function readSome(caller: IncomingMessage): Promise<Buffer> {
  for (;;) {
    const chunk: Buffer | null = caller.read();
    if (chunk !== null) return chunk;
    await once(caller, "readable");
  }
}

/** Gives it all frames at once, as far as they can be told apart from what the sockets took. */
function answerAll({ answer, taken }: { answer: Answer; taken: number[] }): Buffer {
  for (let seq = 0; seq < frames; seq++) answer.data(event(seq), seq, performance.now());
  assert.ok(taken.length < frames / 2, `${taken.length} frames fit into the sockets`);
  return Buffer.concat(Array.from({ length: frames }, (_, seq) => event(seq)));
}

test("a caller who reads slowly is seen to take one frame after the other, and gets all of them", async () => {
  await using started = await startAnswer("sse");
  const { answer, taken } = started;
  const wanted = answerAll(started);
  answer.end();
  const endedAt = answer.takenAt;
  const takenEarly = taken.length;
  const caller = await started.caller();
  const read: Buffer[] = [];
  while (taken.length < takenEarly + 20) read.push(await readSome(caller));
  assert.ok(taken.length < frames, "frames are taken before the last one is");
  assert.ok(answer.takenAt > endedAt);
  for await (const chunk of caller) read.push(chunk);
  assert.deepEqual(
    taken,
    Array.from({ length: frames }, (_, seq) => seq),
  );
  assert.ok(Buffer.concat(read).equals(wanted));
});

test("what fails behind a slow caller's back is told behind all that it has yet to read", async () => {
  await using started = await startAnswer("sse");
  const wanted = answerAll(started);
  started.answer.fail({ code: "upstream_failed", message: "It broke." });
  const read: Buffer[] = [];
  for await (const chunk of await started.caller()) read.push(chunk);
  const text = Buffer.concat(read);
  assert.ok(text.subarray(0, wanted.length).equals(wanted));
  assert.match(text.subarray(wanted.length).toString(), /^data: \{"error":.*It broke/);
});

test("an answer in one piece has its length, however many frames it came in", async () => {
  await using started = await startAnswer("whole");
  const pieces = Array.from({ length: 5 }, (_, seq) => event(seq));
  for (const [seq, piece] of pieces.entries()) started.answer.data(piece, seq, performance.now());
  started.answer.end();
  const caller = await started.caller();
  assert.equal(caller.headers["content-length"], String(5 * frameBytes));
  assert.ok(Buffer.concat(await caller.toArray()).equals(Buffer.concat(pieces)));
});
