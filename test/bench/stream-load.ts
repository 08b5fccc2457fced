/**
 * The callers of streams: a process of raw sockets that reads just enough of each answer to see
 * every chunk's stamp. First all connect, for a busy process accepts a connection only now and
 * then; then they ask one after the other, spread over `rampMs`, and each again as soon as its
 * answer is complete, until the process is ended. Its parent talks to it in messages
 * (`StreamOrder`, `StreamReport`).
 */
import { connect, type Socket } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { nowMicroseconds } from "./clock.ts";
import { Samples } from "./samples.ts";
import { findStamp, microsecondsAt, numberAt, stampLength } from "./stamp.ts";
import type { StreamOptions, StreamOrder, StreamReport } from "./stream-messages.ts";

/** A chunk that is later than this has stalled. */
const stallMicroseconds = 1_000_000;
const errorsMax = 5;
const readBytes = 64 * 1024;
const connectsPerMs = 4;
const reconnectMs = 100;

const freshWindow = () => ({
  since: nowMicroseconds(),
  chunks: 0,
  ended: 0,
  complete: 0,
  first: new Samples(),
  delay: new Samples(),
  gap: new Samples(),
  errors: [] as string[],
});

let window = freshWindow();
let flowing = 0;
const buffer = Buffer.alloc(readBytes);

function fault(text: string): void {
  if (window.errors.length < errorsMax) window.errors.push(text);
}

/**
 * A caller: its connection, and the answer that it reads. Resolves, once connected, to a function
 * that sends its first request.
 */
function callerOf(options: StreamOptions, url: URL): Promise<() => void> {
  let socket: Socket;
  let flows = false;
  let input = "";
  let state: "head" | "size" | "data" | "after-data" | "last" = "head";
  let chunkLeft = 0;
  let tail = "";
  let next = 0;
  let askedAt = 0;
  let receivedAt = 0;
  let sentAt = 0;
  let isGood = true;
  let isTerminated = false;

  const ask = () => {
    state = "head";
    tail = "";
    next = 0;
    isGood = true;
    isTerminated = false;
    askedAt = nowMicroseconds();
    socket.write(options.request, "latin1");
  };

  const connectAnd = (then: () => void) => {
    let isConnected = false;
    input = "";
    socket = connect(
      { host: url.hostname, port: Number(url.port), noDelay: true, onread: { buffer, callback: receive } },
      () => {
        isConnected = true;
        then();
      },
    );
    socket.on("error", (error) => fault(`connection: ${(error as NodeJS.ErrnoException).code ?? error.message}`));
    socket.on("close", () => {
      if (state !== "head" || next > 0) fault(`the answer was cut after ${next} chunks`);
      settle(false);
      setTimeout(connectAnd, reconnectMs, isConnected ? ask : then);
    });
  };

  const settle = (complete: boolean) => {
    window.ended++;
    if (complete) window.complete++;
    if (!flows) flow();
  };

  const flow = () => {
    flows = true;
    if (++flowing === options.callers) process.send?.({ type: "flowing" } satisfies StreamReport);
  };

  const end = () => {
    if (next !== options.chunks) fault(`the answer ended after ${next} chunks of ${options.chunks}`);
    else if (!isTerminated) fault(`the answer ended without ${options.terminator}`);
    settle(isGood && isTerminated && next === options.chunks);
    ask();
  };

  const take = (payload: string, now: number) => {
    const text = tail + payload;
    let from = 0;
    while (next < options.chunks) {
      const at = findStamp(text, from);
      if (at < 0) break;
      const sent = microsecondsAt(text, at);
      if (numberAt(text, at) !== next) {
        fault(`chunk ${numberAt(text, at)} came where ${next} was due`);
        isGood = false;
      }
      window.chunks++;
      window.delay.add(now - sent);
      if (now - sent > stallMicroseconds) isGood = false;
      if (next === 0) {
        window.first.add(now - askedAt);
        if (!flows) flow();
      } else window.gap.add(Math.abs(now - receivedAt - (sent - sentAt)));
      next++;
      receivedAt = now;
      sentAt = sent;
      from = at + stampLength;
    }
    if (next === options.chunks && !isTerminated) isTerminated = text.includes(options.terminator, from);
    tail = text.slice(Math.max(from, text.length - stampLength + 1));
  };

  const receive = (bytes: number) => {
    const now = nowMicroseconds();
    input += buffer.toString("latin1", 0, bytes);
    let at = 0;
    while (at < input.length) {
      if (state === "data") {
        const payload = input.slice(at, at + chunkLeft);
        take(payload, now);
        chunkLeft -= payload.length;
        at += payload.length;
        if (chunkLeft === 0) state = "after-data";
        continue;
      }
      const lineEnd = input.indexOf(state === "head" ? "\r\n\r\n" : "\r\n", at);
      if (lineEnd < 0) break;
      const line = input.slice(at, lineEnd);
      at = lineEnd + (state === "head" ? 4 : 2);
      if (state === "head") {
        if (!/^HTTP\/1.1 200 /.test(line) || !/transfer-encoding: chunked/i.test(line)) {
          fault(`no stream but ${line.split("\r\n", 1)[0]}`);
          socket.destroy();
          return true;
        }
        state = "size";
      } else if (state === "after-data") state = "size";
      else if (state === "last") end();
      else {
        chunkLeft = Number.parseInt(line, 16);
        state = chunkLeft > 0 ? "data" : "last";
      }
    }
    input = input.slice(at);
    return true;
  };

  return new Promise((resolve) => connectAnd(() => resolve(ask)));
}

async function begin(options: StreamOptions): Promise<void> {
  const urls = options.urls.map((url) => new URL(url));
  const connecting: Promise<() => void>[] = [];
  for (let place = 0; place < options.callers; place++) {
    connecting.push(callerOf(options, urls[place % urls.length] as URL));
    if (place % connectsPerMs === 0) await delay(1);
  }
  for (const [place, ask] of (await Promise.all(connecting)).entries())
    setTimeout(ask, (place * options.rampMs) / options.callers);
}

process.on("message", (order: StreamOrder) => {
  if (order.type === "begin") void begin(order.options);
  else if (order.type === "open-window") window = { ...freshWindow(), errors: window.errors };
  else {
    const closed = window;
    const seconds = (nowMicroseconds() - closed.since) / 1e6;
    window = freshWindow();
    const { chunks, ended, complete, first, delay, gap, errors } = closed;
    process.send?.({
      type: "window",
      window: {
        seconds,
        chunks,
        ended,
        complete,
        firstP50: first.percentile(0.5),
        firstP99: first.percentile(0.99),
        delayP50: delay.percentile(0.5),
        delayP99: delay.percentile(0.99),
        gapP50: gap.percentile(0.5),
        gapP99: gap.percentile(0.99),
        errors,
      },
    } satisfies StreamReport);
  }
});
process.on("disconnect", () => process.exit(0));
