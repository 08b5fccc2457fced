/**
 * Sends an answer at its pace and with its faults.
 *
 * waiting ──head──▶ streaming ⇄ blocked (the reader is slow) ──▶ ended
 *    └──────────── any fault, or the caller leaves ───────────────▶ ended; or silent, until the caller leaves
 */
import type { OutgoingHttpHeaders, ServerResponse } from "node:http";
import { type Body, createBody } from "./body.ts";
import type { Script, SentFault, Whole } from "./dialects/dialect.ts";
import type { Journal, JournalEntry } from "./journal.ts";
import type { Settings } from "./settings.ts";
import { createWheelEntry, type Wheel } from "./wheel.ts";

/** A running answer before its settings are known. */
export interface Answering {
  response: ServerResponse;
  wheel: Wheel;
  journal: Journal;
  entry: JournalEntry;
  /** Headers of every answer. */
  headers: OutgoingHttpHeaders;
  /** A JSON error body in the request's dialect. */
  errorBody(fault: SentFault): string;
  /** `errorBody` has the time to retry, and no header does. */
  retryInBody: boolean;
}

export interface Playing extends Answering {
  settings: Settings;
}

const upstreamFault = "The simulator was told to fail.";

/** Records the end of the response, however it ends; calls `leave` first. */
function watch({ response, journal, entry }: Answering, leave: () => void): { spoil(): void } {
  let spoilt = false;
  response.once("close", () => {
    leave();
    journal.close(entry, spoilt ? "fault" : response.writableFinished ? "completed" : "client-closed");
  });
  return {
    spoil() {
      spoilt = true;
    },
  };
}

/** Sends a body immediately; JSON unless `more` has another content type. */
export function sendJson(
  { response, entry, headers }: Pick<Answering, "response"> & Partial<Answering>,
  status: number,
  body: string,
  more: OutgoingHttpHeaders = {},
): void {
  if (entry) entry.status = status;
  response.writeHead(status, {
    ...headers,
    "content-type": "application/json",
    ...more,
    "content-length": Buffer.byteLength(body),
  });
  response.end(body);
}

/** An answer without delays and faults: a rejected request. */
export function playRefusal(answering: Answering, status: number, body: string): void {
  watch(answering, () => {});
  sendJson(answering, status, body);
}

/** Answers with the status that the settings demand. */
function fail({ settings: { faults }, ...answering }: Playing, status: number): void {
  const { retryAfter } = faults;
  const body = answering.errorBody({ status, message: upstreamFault, ...(retryAfter !== undefined && { retryAfter }) });
  sendJson(
    answering,
    status,
    body,
    retryAfter === undefined || answering.retryInBody ? {} : { "retry-after": retryAfter },
  );
}

/** Begins an answer after a delay, unless the settings demand a failure in its place. */
function delayed(playing: Playing, delayMs: number, begin: (nowMs: number) => void) {
  const { response, wheel, settings } = playing;
  const { status, reset } = settings.faults;
  const { spoil } = watch(playing, () => wheel.remove(timer));
  const run = (nowMs: number) => {
    if (status === undefined && reset !== 0) return begin(nowMs);
    spoil();
    if (status !== undefined) fail(playing, status);
    else if (response.socket) response.socket.resetAndDestroy();
    else response.destroy();
  };
  const timer = createWheelEntry(run);
  const start = () => (delayMs > 0 ? wheel.set(timer, wheel.now() + delayMs) : run(wheel.now()));
  return { spoil, timer, start };
}

export function playEvents(playing: Playing, script: Script): void {
  const { response, wheel, entry, settings } = playing;
  const { faults, rate } = settings;
  const intervalMs = rate > 0 ? 1_000 / rate : 0;
  let body: Body;
  let opened = false;
  let firstMs = 0;
  let sent = 0;
  let malformed = false;

  const open = () => {
    if (opened) return "";
    opened = true;
    return script.opening;
  };

  const head = (nowMs: number) => {
    entry.status = 200;
    response.writeHead(200, {
      ...playing.headers,
      "content-type": script.contentType ?? "text/event-stream; charset=utf-8",
      "cache-control": "no-cache",
      "transfer-encoding": "chunked",
    });
    response.flushHeaders();
    body = createBody(response, script.encoding);
    if (settings.earlyOpening) body.write(open());
    firstMs = nowMs + settings.firstMs;
    timer.run = step;
    if (settings.firstMs > 0) wheel.set(timer, firstMs);
    else step(nowMs);
  };

  /** Applies the faults due between two tokens; true if nothing more may be sent. */
  const faultStrikes = (): boolean => {
    if (sent === faults.stall) return true;
    if (sent !== faults.reset && sent !== faults.cut && sent !== faults.error) return false;
    spoil();
    if (sent === faults.reset) {
      body.reset();
      return true;
    }
    if (sent === faults.error && sent !== faults.cut) body.write(script.errorEvent(upstreamFault, { opened }));
    body.end();
    return true;
  };

  const token = (): string => {
    const event = script.events.next().value;
    if (malformed || event === "" || faults.malformed === undefined || sent + 1 < faults.malformed)
      return open() + event;
    malformed = true;
    spoil();
    return open() + broken(event);
  };

  const close = () => {
    if (faults.noEnd) spoil();
    body.write(open() + script.events.next().value + (faults.noEnd ? "" : script.terminator));
    body.end();
  };

  /**
   * At a pace, each token is a separate write; without one, as many as the reader takes leave
   * together.
   */
  const step = (nowMs: number) => {
    if (intervalMs > 0) send(nowMs);
    else body.together(() => send(nowMs));
  };

  /** Sends all due tokens, as far as the reader takes them. */
  const send = (nowMs: number) => {
    while (true) {
      if (faultStrikes()) return;
      if (sent === script.length) return close();
      const dueMs = firstMs + sent * intervalMs;
      if (dueMs > nowMs) return wheel.set(timer, dueMs);
      const writable = body.write(token());
      entry.chunksSent = ++sent;
      if (!writable) return body.onceWritable(() => step(wheel.now()));
    }
  };

  const { spoil, timer, start } = delayed(playing, settings.headMs, head);
  start();
}

/**
 * The token's event, the last of these, without its second half: its JSON does not parse, while the
 * events before it stay whole.
 */
function broken(events: string): string {
  const start = events.lastIndexOf("\n\n", events.length - 3) + 1;
  return `${events.slice(0, Math.floor((start + events.length) / 2)).trimEnd()}\n\n`;
}

/**
 * Sends the whole answer once it is complete: after the delays, and the time of its tokens at the
 * pace.
 */
export function playWhole(playing: Playing, { body, tokens, contentType = "application/json" }: Whole): void {
  const { response, entry, settings, headers } = playing;
  const { faults, rate } = settings;

  /** The answer up to a token, without an end. */
  const part = (count: number): Body => {
    entry.status = 200;
    response.writeHead(200, { ...headers, "content-type": contentType, "transfer-encoding": "chunked" });
    response.flushHeaders();
    const open = createBody(response);
    const text = body.slice(0, Math.floor((body.length * count) / Math.max(1, tokens)));
    if (text !== "") open.write(text);
    return open;
  };

  const answer = () => {
    const reaches = (count: number | undefined): count is number => count !== undefined && count <= tokens;
    if (reaches(faults.stall)) return part(faults.stall);
    if ([faults.reset, faults.cut, faults.error, faults.malformed].some(reaches)) spoil();
    if (reaches(faults.reset)) return part(faults.reset).reset();
    if (reaches(faults.cut)) return part(faults.cut).end();
    if (reaches(faults.error))
      return sendJson(playing, 200, playing.errorBody({ status: 500, message: upstreamFault }));
    if (reaches(faults.malformed)) return sendJson(playing, 200, body.slice(0, -2));
    sendJson(playing, 200, body, { "content-type": contentType });
  };

  const delayMs = settings.headMs + settings.firstMs + (rate > 0 ? (tokens * 1_000) / rate : 0);
  const { spoil, start } = delayed(playing, delayMs, answer);
  start();
}
