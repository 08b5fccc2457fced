/**
 * A response that several callers get: it keeps what was written, up to a bound, and who joins later gets that first. The fastest of them sets the pace;
 * who falls too far behind is cut off. When all have left it goes on for those who may yet join, for as long as it is kept.
 */
import { EventEmitter } from "node:events";
import type { OutgoingHttpHeaders } from "node:http";
import type { Claim } from "../admission/capacity.ts";
import type { AnswerResponse } from "../generation/generation-response.ts";

/** Bytes of one answer that are kept at most. */
const keptBytesMax = 1 << 20;
/** Bytes that one of several callers may have yet to read: more than all that is kept, and what the relay has on its way, together. */
const unreadBytesMax = 4 << 20;

/** Of the first caller alone, or of the moment. */
const notShared = /ratelimit|request-id|^connection$/;

interface Member extends AnswerResponse {
  /** Bytes that were written and not sent. */
  readonly writableLength: number;
}

export interface KeptAnswer {
  status: number;
  headers: Record<string, string>;
  body: Buffer;
}

/** An answer for one who did not ask first; `own` headers are that caller's. */
export function headersOf(answer: Pick<KeptAnswer, "headers">, own: Record<string, string>): Record<string, string> {
  return { ...answer.headers, ...own, "idempotent-replayed": "true" };
}

export class SharedResponse implements AnswerResponse {
  closed = false;
  readonly #members = new Set<Member>();
  readonly #joined = new Map<Member, Record<string, string>>();
  readonly #blocked = new Set<Member>();
  readonly #emitter = new EventEmitter();
  /** What the bytes that are kept hold. */
  readonly #held: Claim;
  #head: { status: number; headers: Record<string, string> } | undefined;
  #kept: Buffer[] | undefined = [];
  #ended = false;

  constructor(first: Member, held: Claim) {
    this.#held = held;
    // Who left before it began wants nothing kept.
    if (first.closed) this.forget();
    this.#add(first);
  }

  get headersSent(): boolean {
    return this.#head !== undefined;
  }

  /** All that was written, once it has ended; undefined where it was too much to keep. */
  get kept(): KeptAnswer | undefined {
    return this.#head === undefined || this.#kept === undefined || !this.#ended
      ? undefined
      : { ...this.#head, body: Buffer.concat(this.#kept) };
  }

  /** Gives the response what was written so far and what will be; false when that is not kept any more, or nobody is left who gets it. */
  join(response: Member, own: Record<string, string>): boolean {
    if (this.#kept === undefined || (this.closed && !this.#ended)) return false;
    if (this.#head === undefined) this.#joined.set(response, own);
    else response.writeHead(this.#head.status, headersOf(this.#head, own));
    if (this.#ended) {
      response.end(Buffer.concat(this.#kept));
      return true;
    }
    this.#add(response);
    if (this.#head !== undefined) this.#wrote(response, response.write(Buffer.concat(this.#kept)));
    this.#goOn();
    return true;
  }

  /** Keeps nothing any more. */
  forget(): void {
    this.#kept = undefined;
    this.#held.end();
    this.#closeIfOver();
  }

  writeHead(status: number, headers: OutgoingHttpHeaders): this {
    const shared = Object.entries(headers).filter(([name]) => !notShared.test(name));
    this.#head = { status, headers: Object.fromEntries(shared.map(([name, value]) => [name, String(value)])) };
    for (const member of this.#members) {
      const own = this.#joined.get(member);
      member.writeHead(status, own === undefined ? headers : headersOf(this.#head, own));
    }
    return this;
  }

  write(chunk: string | Buffer, written?: () => void): boolean {
    const bytes = this.#keep(chunk);
    let callback = written;
    for (const member of this.#members) {
      this.#wrote(member, member.write(bytes, callback));
      callback = undefined;
    }
    if (callback !== undefined) process.nextTick(callback);
    return !this.#isFull;
  }

  end(chunk?: string | Buffer): void {
    this.#ended = true;
    const bytes = chunk === undefined ? undefined : this.#keep(chunk);
    for (const member of this.#members) member.end(bytes);
    this.#closeIfOver();
  }

  destroy(): void {
    for (const member of this.#members) member.destroy();
    this.forget();
  }

  once(event: "close" | "drain", listener: () => void): void {
    this.#emitter.once(event, listener);
  }

  #add(member: Member): void {
    this.#members.add(member);
    if (member.closed) this.#left(member);
    else member.once("close", () => this.#left(member));
  }

  #left(member: Member): void {
    this.#members.delete(member);
    this.#joined.delete(member);
    this.#blocked.delete(member);
    this.#closeIfOver();
    this.#goOn();
  }

  /** Like the responses that it stands for, it says so in no one's midst. */
  #closeIfOver(): void {
    if (this.closed || this.#members.size > 0 || (this.#kept !== undefined && !this.#ended)) return;
    this.closed = true;
    process.nextTick(() => this.#emitter.emit("close"));
  }

  #wrote(member: Member, took: boolean): void {
    if (took) return;
    if (this.#members.size > 1 && member.writableLength > unreadBytesMax) member.destroy();
    if (this.#blocked.has(member)) return;
    this.#blocked.add(member);
    member.once("drain", () => {
      this.#blocked.delete(member);
      this.#goOn();
    });
  }

  /** None of those who get it has read what was written. */
  get #isFull(): boolean {
    return this.#members.size > 0 && this.#blocked.size === this.#members.size;
  }

  #goOn(): void {
    if (!this.#isFull) this.#emitter.emit("drain");
  }

  /** A copy: what is written may lie in memory that is used again. */
  #keep(chunk: string | Buffer): Buffer {
    const bytes = Buffer.from(chunk as Buffer);
    if (this.#kept === undefined) return bytes;
    const keptBytes = this.#held.amount + bytes.length;
    if (keptBytes > keptBytesMax || this.#held.hold(keptBytes) !== undefined) this.forget();
    else this.#kept.push(bytes);
    return bytes;
  }
}
