/**
 * Callers that do not wait for each other: a process of raw sockets that sends requests when they
 * are due, however many are not answered yet, each on a connection that is free. Its parent talks
 * to it in messages (`OpenOrder`, `OpenReport`).
 */
import { connect, type Socket } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { nowMicroseconds } from "./clock.ts";
import type { OpenOptions, OpenOrder, OpenReport, OpenWindow } from "./open-messages.ts";
import { Samples } from "./samples.ts";
import { findStamp, microsecondsAt, numberAt, stampLength } from "./stamp.ts";

const errorsMax = 5;
const readBytes = 64 * 1024;
const connectsPerMs = 4;
const tickMs = 1;
/** A request that waited longer was queued. */
const waitedMicroseconds = 100_000;

/** One caller's wish, which it may ask for several times. */
interface Wish {
  /**
   * When the request was due, the last one if there were several, in microseconds of the machine's
   * clock.
   */
  dueAt: number;
  asks: number;
  request: string;
  follows: boolean;
}

const freshWindow = () => ({
  since: nowMicroseconds(),
  offered: 0,
  complete: 0,
  refused: 0,
  chunks: 0,
  refusal: new Samples(),
  retryAfter: new Samples(),
  wait: new Samples(),
  served: new Samples(),
  first: new Samples(),
  gap: new Samples(),
  asks: new Samples(),
  lastRefusedAt: 0,
  lastWaitedAt: 0,
  errors: [] as string[],
});

let options: OpenOptions;
let window = freshWindow();
let turn = 0;
let isSettling = false;
/** Wishes that are due later in a burst, or not answered. */
let unsettled = 0;
const free: Connection[] = [];
const buffer = Buffer.alloc(readBytes);

function fault(text: string): void {
  if (window.errors.length < errorsMax) window.errors.push(text);
}

/** A connection and the response that it reads: whole, or a stream of chunks with stamps. */
class Connection {
  readonly #socket: Socket;
  #wish: Wish | undefined;
  #input = "";
  #state: "head" | "size" | "data" | "after-data" | "last" | "whole" = "head";
  #left = 0;
  #tail = "";
  #next = 0;
  #firstSentAt = 0;
  #receivedAt = 0;
  #sentAt = 0;
  #isTerminated = false;

  constructor(url: URL, connected: (connection: Connection) => void) {
    this.#socket = connect(
      {
        host: url.hostname,
        port: Number(url.port),
        noDelay: true,
        onread: { buffer, callback: (bytes) => this.#receive(bytes) },
      },
      () => connected(this),
    );
    this.#socket.on("error", (error) => fault(`connection: ${(error as NodeJS.ErrnoException).code ?? error.message}`));
    this.#socket.on("close", () => this.#closed());
  }

  ask(wish: Wish): void {
    this.#wish = wish;
    wish.asks++;
    this.#state = "head";
    this.#tail = "";
    this.#next = 0;
    this.#isTerminated = false;
    this.#socket.write(wish.request, "latin1");
  }

  #closed(): void {
    const at = free.indexOf(this);
    if (at >= 0) free.splice(at, 1);
    if (this.#wish === undefined) return;
    fault(`the connection was closed after ${this.#next} chunks`);
    settled();
  }

  #receive(bytes: number): boolean {
    const now = nowMicroseconds();
    this.#input += buffer.toString("latin1", 0, bytes);
    let at = 0;
    while (at < this.#input.length) {
      if (this.#state === "data" || this.#state === "whole") {
        const payload = this.#input.slice(at, at + this.#left);
        if (this.#state === "data") this.#take(payload, now);
        this.#left -= payload.length;
        at += payload.length;
        if (this.#left > 0) continue;
        if (this.#state === "data") this.#state = "after-data";
        else this.#done();
        continue;
      }
      const lineEnd = this.#input.indexOf(this.#state === "head" ? "\r\n\r\n" : "\r\n", at);
      if (lineEnd < 0) break;
      const line = this.#input.slice(at, lineEnd);
      at = lineEnd + (this.#state === "head" ? 4 : 2);
      if (this.#state === "head") this.#head(line, now);
      else if (this.#state === "after-data") this.#state = "size";
      else if (this.#state === "last") this.#end(now);
      else {
        this.#left = Number.parseInt(line, 16);
        this.#state = this.#left > 0 ? "data" : "last";
      }
    }
    this.#input = this.#input.slice(at);
    return true;
  }

  #head(head: string, now: number): void {
    const status = head.slice(9, 12);
    if (status === "200" && /transfer-encoding: chunked/i.test(head)) {
      this.#state = "size";
      return;
    }
    this.#state = "whole";
    this.#left = Number(/content-length: *(\d+)/i.exec(head)?.[1]);
    // The server closes a connection that has had no request for long, and says so.
    if (this.#wish === undefined) return;
    const wish = this.#wish;
    const retryAfter = Number(/retry-after: *(\d+)/i.exec(head)?.[1] ?? Number.NaN);
    if (status !== "503" || Number.isNaN(retryAfter)) fault(`no stream but ${head.split("\r\n", 1)[0]}`);
    window.refused++;
    window.refusal.add(now - wish.dueAt);
    window.retryAfter.add(retryAfter * 1_000);
    window.lastRefusedAt = Math.max(window.lastRefusedAt, wish.dueAt);
    if (wish.follows) {
      this.#wish = undefined;
      setTimeout(() => {
        wish.dueAt = nowMicroseconds();
        send(wish);
      }, retryAfter * 1_000);
    }
  }

  #take(payload: string, now: number): void {
    const text = this.#tail + payload;
    let from = 0;
    while (this.#next < options.chunks) {
      const at = findStamp(text, from);
      if (at < 0) break;
      const sent = microsecondsAt(text, at);
      if (numberAt(text, at) !== this.#next) fault(`chunk ${numberAt(text, at)} came where ${this.#next} was due`);
      window.chunks++;
      if (this.#next === 0) {
        this.#firstSentAt = sent;
        const { dueAt } = this.#wish as Wish;
        window.wait.add(sent - dueAt);
        if (sent - dueAt > waitedMicroseconds) window.lastWaitedAt = Math.max(window.lastWaitedAt, dueAt);
        window.first.add(now - dueAt);
      } else window.gap.add(Math.abs(now - this.#receivedAt - (sent - this.#sentAt)));
      this.#next++;
      this.#receivedAt = now;
      this.#sentAt = sent;
      from = at + stampLength;
    }
    if (this.#next === options.chunks && !this.#isTerminated)
      this.#isTerminated = text.includes(options.terminator, from);
    this.#tail = text.slice(Math.max(from, text.length - stampLength + 1));
  }

  #end(now: number): void {
    if (this.#next !== options.chunks || !this.#isTerminated)
      fault(`the answer ended after ${this.#next} chunks of ${options.chunks}`);
    else {
      window.complete++;
      window.served.add(now - this.#firstSentAt);
      window.asks.add((this.#wish as Wish).asks * 1_000);
    }
    this.#done();
  }

  #done(): void {
    this.#state = "head";
    if (this.#wish !== undefined) settled();
    this.#wish = undefined;
    if (!this.#socket.destroyed) free.push(this);
  }
}

function settled(): void {
  unsettled--;
  if (unsettled > 0 || !isSettling) return;
  isSettling = false;
  report({ type: "settled" });
}

function send(wish: Wish): void {
  const connection = free.pop();
  if (connection !== undefined) connection.ask(wish);
  else new Connection(urlOf(turn), (connected) => connected.ask(wish));
}

const urlOf = (place: number) => new URL(options.urls[place % options.urls.length] as string);

/** Sends what is due, at its time: a tick that is late does not make the load smaller. */
const offering = { perSecond: 0, since: 0, sent: 0, count: Number.POSITIVE_INFINITY, follows: false };

function offer(perSecond: number, count = Number.POSITIVE_INFINITY, follows = false): void {
  Object.assign(offering, { perSecond, since: nowMicroseconds(), sent: 0, count, follows });
}

function tick(): void {
  const { perSecond, since, count, follows } = offering;
  if (perSecond === 0) return;
  const due = Math.min(count, Math.floor(((nowMicroseconds() - since) * perSecond) / 1e6) + 1);
  for (; offering.sent < due; offering.sent++) {
    window.offered++;
    if (!isSettling) unsettled++;
    send({
      dueAt: since + (offering.sent * 1e6) / perSecond,
      asks: 0,
      request: options.requests[turn++ % options.requests.length] as string,
      follows,
    });
  }
}

async function begin(all: OpenOptions): Promise<void> {
  options = all;
  const connecting: Promise<Connection>[] = [];
  for (let place = 0; place < all.connections; place++) {
    connecting.push(new Promise((resolve) => new Connection(urlOf(place), resolve)));
    if (place % connectsPerMs === 0) await delay(1);
  }
  free.push(...(await Promise.all(connecting)));
  setInterval(tick, tickMs);
  report({ type: "ready" });
}

function closeWindow(): OpenWindow {
  const { since, offered, complete, refused, chunks, lastRefusedAt, lastWaitedAt, errors, ...samples } = window;
  const { refusal, retryAfter, wait, served, first, gap, asks } = samples;
  window = freshWindow();
  return {
    seconds: (nowMicroseconds() - since) / 1e6,
    offered,
    complete,
    refused,
    chunks,
    refusalP50: refusal.percentile(0.5),
    refusalP99: refusal.percentile(0.99),
    retryAfterP50: retryAfter.percentile(0.5),
    retryAfterMax: retryAfter.percentile(1),
    waitP50: wait.percentile(0.5),
    waitP99: wait.percentile(0.99),
    waitMax: wait.percentile(1),
    servedP50: served.percentile(0.5),
    servedP99: served.percentile(0.99),
    firstP50: first.percentile(0.5),
    firstP99: first.percentile(0.99),
    firstMax: first.percentile(1),
    gapP50: gap.percentile(0.5),
    gapP99: gap.percentile(0.99),
    lastRefusedMs: Math.max(0, lastRefusedAt - since) / 1_000,
    lastWaitedMs: Math.max(0, lastWaitedAt - since) / 1_000,
    asksP50: asks.percentile(0.5),
    asksMax: asks.percentile(1),
    errors,
  };
}

const report = (message: OpenReport) => process.send?.(message);

process.on("message", (order: OpenOrder) => {
  if (order.type === "begin") void begin(order.options);
  else if (order.type === "offer") offer(order.perSecond);
  else if (order.type === "burst") {
    isSettling = true;
    unsettled += order.count;
    offer((order.count * 1_000) / order.overMs, order.count, order.follows);
  } else if (order.type === "open-window") window = { ...freshWindow(), errors: window.errors };
  else report({ type: "window", window: closeWindow() });
});
process.on("disconnect", () => process.exit(0));
