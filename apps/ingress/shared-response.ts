/** A response that several callers get: it keeps what was written, up to a bound, and who joins later gets that first. */
import { EventEmitter } from "node:events";
import type { OutgoingHttpHeaders } from "node:http";
import type { AnswerResponse } from "./answer.ts";

/** Bytes of one answer that are kept at most. */
const keptBytesMax = 1 << 20;

/** Of the first caller alone, or of the moment. */
const notShared = /ratelimit|request-id|^connection$/;

/** What the bytes that are kept count in. */
export interface KeptBudget {
  take(bytes: number): boolean;
  giveBack(bytes: number): void;
}

interface KeptAnswer {
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
  readonly #members = new Set<AnswerResponse>();
  readonly #joined = new Map<AnswerResponse, Record<string, string>>();
  readonly #blocked = new Set<AnswerResponse>();
  readonly #emitter = new EventEmitter();
  readonly #budget: KeptBudget;
  #head: { status: number; headers: Record<string, string> } | undefined;
  #kept: Buffer[] | undefined = [];
  #keptBytes = 0;
  #ended = false;

  constructor(first: AnswerResponse, budget: KeptBudget) {
    this.#budget = budget;
    this.#add(first);
  }

  get headersSent(): boolean {
    return this.#head !== undefined;
  }

  /** All that was written, once it has ended; undefined where it was too much to keep. */
  get kept(): KeptAnswer | undefined {
    return this.#head === undefined || this.#kept === undefined || !this.#ended ? undefined : { ...this.#head, body: Buffer.concat(this.#kept) };
  }

  /** Gives the response what was written so far and what will be; false when that is not kept any more, or nobody is left who gets it. */
  join(response: AnswerResponse, own: Record<string, string>): boolean {
    if (this.#kept === undefined || (this.closed && !this.#ended)) return false;
    if (this.#head !== undefined) {
      response.writeHead(this.#head.status, headersOf(this.#head, own));
      if (!this.#ended) response.write(Buffer.concat(this.#kept));
    } else this.#joined.set(response, own);
    if (this.#ended) response.end(Buffer.concat(this.#kept));
    else this.#add(response);
    return true;
  }

  /** Keeps nothing any more. */
  forget(): void {
    this.#kept = undefined;
    this.#budget.giveBack(this.#keptBytes);
    this.#keptBytes = 0;
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
      const took = member.write(bytes, callback);
      callback = undefined;
      if (took || this.#blocked.has(member)) continue;
      this.#blocked.add(member);
      member.once("drain", () => this.#unblock(member));
    }
    return this.#blocked.size === 0;
  }

  end(chunk?: string | Buffer): void {
    this.#ended = true;
    const bytes = chunk === undefined ? undefined : this.#keep(chunk);
    for (const member of this.#members) member.end(bytes);
  }

  destroy(): void {
    for (const member of this.#members) member.destroy();
  }

  once(event: "close" | "drain", listener: () => void): void {
    this.#emitter.once(event, listener);
  }

  #add(member: AnswerResponse): void {
    this.#members.add(member);
    member.once("close", () => {
      this.#members.delete(member);
      this.#joined.delete(member);
      this.#unblock(member);
      if (this.#members.size > 0) return;
      this.closed = true;
      this.#emitter.emit("close");
    });
  }

  #unblock(member: AnswerResponse): void {
    if (this.#blocked.delete(member) && this.#blocked.size === 0) this.#emitter.emit("drain");
  }

  /** A copy: what is written may lie in memory that is used again. */
  #keep(chunk: string | Buffer): Buffer {
    const bytes = Buffer.from(chunk as Buffer);
    if (this.#kept === undefined) return bytes;
    if (this.#keptBytes + bytes.length > keptBytesMax || !this.#budget.take(bytes.length)) this.forget();
    else {
      this.#kept.push(bytes);
      this.#keptBytes += bytes.length;
    }
    return bytes;
  }
}
