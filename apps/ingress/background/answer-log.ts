/**
 * The log of a streamed answer: its events, numbered from 0, as they were sent. It is stored while
 * the answer runs and for a while afterwards, so that a caller whose connection broke can read on
 * at any ingress. One process writes a log at a time.
 */
import { setTimeout as delay } from "node:timers/promises";
import type { Clock } from "#service/clock.ts";
import {
  logAppendMsMax,
  logGatherBytes,
  logGatherMs,
  logPendingBytesMax,
  logPollMsMax,
  logPollMsMin,
  logRetryMs,
  logSilentMsMax,
} from "../common/bounds.ts";
import { eventsOf } from "../response/event-cutter.ts";
import type { AnswerLog, LogHead } from "../response/logged-response.ts";
import { logIdOf, type SealedStore, type StoreOwner } from "../stored/sealed-store.ts";

/** Parts that are read at once. */
const partsPerRead = 64;

/**
 * A part of a log. `first` is the number of its first event. `another writer`: events that the
 * writer before it had not stored are lost. `failed`: the last event is an error.
 */
type Part =
  | { kind: "head"; head: LogHead }
  | { kind: "events"; first: number; bytes: Buffer }
  | { kind: "end" }
  | { kind: "broken" }
  | { kind: "another writer" }
  | { kind: "failed" };

/** The place is what is stored. */
const kinds = ["head", "events", "end", "broken", "another writer", "failed"] as const;
const numberBytes = 4;

function encoded(part: Part): Buffer {
  const kind = Buffer.from([kinds.indexOf(part.kind)]);
  switch (part.kind) {
    case "head":
      return Buffer.concat([kind, Buffer.from(JSON.stringify(part.head))]);
    case "events": {
      const first = Buffer.alloc(numberBytes);
      first.writeUInt32LE(part.first);
      return Buffer.concat([kind, first, part.bytes]);
    }
    default:
      return kind;
  }
}

function decoded(bytes: Buffer): Part {
  const rest = bytes.subarray(1);
  const kind = kinds[bytes[0] as number] ?? "broken";
  switch (kind) {
    case "head":
      return { kind, head: JSON.parse(rest.toString("utf8")) as LogHead };
    case "events":
      return { kind, first: rest.readUInt32LE(), bytes: rest.subarray(numberBytes) };
    default:
      return { kind };
  }
}

/** No part follows. */
const isEnd = ({ kind }: Part): boolean => kind === "end" || kind === "failed" || kind === "broken";

export interface LogWriterOptions {
  store: SealedStore;
  owner: StoreOwner;
  /** The answer's id; the ids of its events begin with it. */
  id: string;
  /** The parts and the events that the log has already. */
  parts: number;
  events: number;
  /** Another process wrote them. */
  isTakenOver: boolean;
  clock: Clock;
  /** Called when everything that waited was appended. */
  drained(): void;
}

/** It stops writing when the log was removed, finds no space, or is written by another process. */
export class LogWriter implements AnswerLog {
  readonly #options: LogWriterOptions;
  #parts: number;
  #events: number;
  #pending: Buffer[] = [];
  #pendingBytes = 0;
  #timer: NodeJS.Timeout | undefined;
  /** All that was given to Redis so far. */
  #written: Promise<void> = Promise.resolve();
  #isAbandoned = false;

  constructor(options: LogWriterOptions) {
    this.#options = options;
    this.#parts = options.parts;
    this.#events = options.events;
    if (options.isTakenOver) this.#append({ kind: "another writer" });
  }

  get nextEvent(): number {
    return this.#events;
  }

  get isFull(): boolean {
    return this.#pendingBytes > logPendingBytesMax;
  }

  head(head: LogHead): void {
    this.#flush();
    this.#append({ kind: "head", head });
  }

  event(event: Buffer): Buffer {
    const bytes = Buffer.concat([Buffer.from(`id: ${this.#options.id}.${this.#events}\n`), event]);
    this.#pending.push(bytes);
    this.#pendingBytes += bytes.length;
    this.#events++;
    if (this.#pendingBytes >= logGatherBytes) this.#flush();
    else this.#timer ??= setTimeout(() => this.#flush(), logGatherMs);
    return bytes;
  }

  end(kind: "end" | "failed" | "broken" = "end"): Promise<void> {
    this.#flush();
    this.#append({ kind });
    return this.#written;
  }

  abandon(): void {
    this.#isAbandoned = true;
    clearTimeout(this.#timer);
    this.#pending = [];
    this.#pendingBytes = 0;
  }

  #flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#pending.length === 0) return;
    const bytes = Buffer.concat(this.#pending);
    const first = this.#events - this.#pending.length;
    this.#pending = [];
    this.#append({ kind: "events", first, bytes });
  }

  #append(part: Part): void {
    const bytes = part.kind === "events" ? part.bytes.length : 0;
    this.#written = this.#written.then(async () => {
      const isAppended = await this.#appendInTime(part);
      this.#parts++;
      this.#pendingBytes -= bytes;
      if (!isAppended) this.abandon();
      if (this.#pendingBytes <= 0) this.#options.drained();
    });
  }

  /**
   * Redis may be away for a while. An append that it did not answer may have happened, and is then
   * not repeated: this process alone writes the log.
   */
  async #appendInTime(part: Part): Promise<boolean> {
    const { store, owner, id, clock } = this.#options;
    const bytes = encoded(part);
    const isLast = isEnd(part);
    const until = clock.now() + logAppendMsMax;
    while (!this.#isAbandoned) {
      const place = { before: this.#parts, isLast };
      const parts = await store.append(owner, logIdOf(id), bytes, place).catch(() => undefined);
      if (parts !== undefined) return parts === this.#parts + 1;
      if (clock.now() > until) return false;
      await delay(logRetryMs);
    }
    return false;
  }
}

/** The parts and events of the log so far. */
export interface LogState {
  parts: number;
  events: number;
  hasEnded: boolean;
}

/** The state of the log of the answer with this id. Undefined for a log that is not stored. */
export async function logStateOf(store: SealedStore, owner: StoreOwner, id: string): Promise<LogState | undefined> {
  const state = { parts: 0, events: 0, hasEnded: false };
  for (;;) {
    const parts = await store.parts(owner, logIdOf(id), state.parts, partsPerRead);
    if (parts === undefined) return undefined;
    for (const part of parts.map(decoded)) {
      state.parts++;
      if (part.kind === "events") state.events = part.first + eventsOf(part.bytes).length;
      state.hasEnded ||= isEnd(part);
    }
    if (parts.length < partsPerRead) return state;
  }
}

/**
 * Whether the log of the answer with this id has its end: "failed" where the answer has failed or
 * is not complete. Undefined for a log that has no end so far, or is not stored. Rejects when Redis
 * does not answer.
 */
export async function logEndOf(
  store: SealedStore,
  owner: StoreOwner,
  id: string,
): Promise<"end" | "failed" | undefined> {
  const [last] = ((await store.parts(owner, logIdOf(id), -1, 1)) ?? []).map(decoded);
  if (last === undefined || !isEnd(last)) return undefined;
  return last.kind === "end" ? "end" : "failed";
}

/** A place in the log of the answer `id`: behind the event with the number `after`; -1 for all. */
export interface LogPosition {
  owner: StoreOwner;
  id: string;
  after: number;
}

export interface LogReader {
  head(head: LogHead): void;
  /** Whole events, and the number of the one after them. Resolves when more can be taken. */
  events(bytes: Buffer, next: number): Promise<void>;
  /** Called before each wait for more. False ends the reading. */
  waits(now: number): boolean;
  /** Is the log still written? Asked when nothing has come for a while. */
  isWritten(): Promise<boolean>;
}

/**
 * Reads the log of the answer with this id to its end, from behind the event with the number
 * `after` (-1 for all). Resolves to "end"; to "failed" if the last event is an error; to "lost" for
 * a log that broke off, is not stored any more or not written any more, and when Redis is away for
 * long; or to "left" when the reader wants no more. A log without the event `after`, which its
 * caller saw and another writer did not find, is lost for this caller: what follows may be another
 * answer.
 */
export async function readLog(
  { store, clock }: { store: SealedStore; clock: Clock },
  { owner, id, after }: LogPosition,
  reader: LogReader,
): Promise<"end" | "failed" | "lost" | "left"> {
  let at = 0;
  let pollMs = logPollMsMin;
  let readAt = clock.now();
  const place = { after, events: 0 };
  for (;;) {
    const isSilent = clock.now() - readAt > logSilentMsMax;
    // Asked first: the last parts may be written in between.
    const writer = isSilent ? await writerOf(reader) : "not asked";
    const parts = await store.parts(owner, logIdOf(id), at, partsPerRead).catch(() => "unavailable" as const);
    if (parts === undefined) return "lost";
    if (parts === "unavailable" || parts.length === 0) {
      if (writer === "gone" || (writer === "unknown" && parts === "unavailable")) return "lost";
      if (writer === "writes" && parts !== "unavailable") readAt = clock.now();
      pollMs = Math.min(logPollMsMax, 2 * pollMs);
    } else {
      at += parts.length;
      pollMs = logPollMsMin;
      readAt = clock.now();
      const end = await readParts(parts.map(decoded), place, reader);
      if (end !== undefined) return end;
    }
    if (!reader.waits(clock.now())) return "left";
    await delay(pollMs);
  }
}

/** Unknown where Redis does not answer. */
const writerOf = (reader: LogReader): Promise<"writes" | "gone" | "unknown"> =>
  reader.isWritten().then(
    (isWritten) => (isWritten ? "writes" : "gone"),
    () => "unknown",
  );

/** How the log ended, if it did. `place.events` counts the events of the log so far. */
async function readParts(
  parts: readonly Part[],
  place: { readonly after: number; events: number },
  reader: LogReader,
): Promise<"end" | "failed" | "lost" | undefined> {
  for (const part of parts) {
    if (part.kind === "end" || part.kind === "failed") return part.kind;
    if (part.kind === "broken") return "lost";
    if (part.kind === "another writer") {
      if (place.after >= place.events) return "lost";
    } else if (part.kind === "head") reader.head(part.head);
    else {
      const events = eventsOf(part.bytes);
      place.events = part.first + events.length;
      const bytes = Buffer.concat(events.slice(Math.max(0, place.after + 1 - part.first)));
      if (bytes.length > 0) await reader.events(bytes, place.events);
    }
  }
  return undefined;
}
