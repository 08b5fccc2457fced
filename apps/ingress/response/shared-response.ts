/**
 * A response that several callers receive. It keeps the bytes that were written, up to a bound, so
 * that a caller who joins later receives them first. The fastest caller sets the pace; one that
 * falls too far behind is disconnected. When all callers have left, it goes on as long as its bytes
 * are kept, for callers that may still join.
 */
import type { OutgoingHttpHeaders } from "node:http";
import { sharedUnreadBytesMax, storableAnswerBytesMax } from "../common/bounds.ts";
import type { Claim } from "../common/capacity.ts";
import { type AnswerResponse, ResponseEvents, sharedHeadersOf } from "./response.ts";

export interface KeptAnswer {
  status: number;
  headers: Record<string, string>;
  body: Buffer;
}

/** The headers for a caller that joins; `own` are those of its request. */
export function headersOf(answer: Pick<KeptAnswer, "headers">, own: Record<string, string>): Record<string, string> {
  return { ...answer.headers, ...own, "idempotent-replayed": "true" };
}

export class SharedResponse extends ResponseEvents implements AnswerResponse {
  readonly #members = new Set<AnswerResponse>();
  readonly #joined = new Map<AnswerResponse, Record<string, string>>();
  readonly #blocked = new Set<AnswerResponse>();
  /** The claim on memory for the kept bytes. */
  readonly #claim: Claim;
  #head: { status: number; headers: Record<string, string> } | undefined;
  #kept: Buffer[] | undefined = [];
  #ended = false;
  #settle: () => void = () => undefined;
  /** Resolves when the response has ended, or can't end any more. */
  readonly settled = new Promise<void>((resolve) => {
    this.#settle = resolve;
  });

  constructor(claim: Claim) {
    super();
    this.#claim = claim;
  }

  /** Adds the first caller. No bytes are kept for one that left before the beginning. */
  over(first: AnswerResponse): this {
    if (first.closed) this.forget();
    this.#add(first);
    return this;
  }

  get headersSent(): boolean {
    return this.#head !== undefined;
  }

  /** The whole response once it has ended; undefined where it was too large to keep. */
  get kept(): KeptAnswer | undefined {
    return this.#head === undefined || this.#kept === undefined || !this.#ended
      ? undefined
      : { ...this.#head, body: Buffer.concat(this.#kept) };
  }

  /**
   * Adds a caller: it receives the bytes so far and those to come. Returns false when the bytes are
   * not kept any more, or the response was closed.
   */
  join(response: AnswerResponse, own: Record<string, string>): boolean {
    if (this.#kept === undefined || (this.closed && !this.#ended)) return false;
    if (this.#head === undefined) this.#joined.set(response, own);
    else response.writeHead(this.#head.status, headersOf(this.#head, own));
    if (this.#ended) {
      response.end(Buffer.concat(this.#kept));
      return true;
    }
    this.#add(response);
    if (this.#head !== undefined) this.#write(response, Buffer.concat(this.#kept));
    this.#goOn();
    return true;
  }

  /** Releases the kept bytes. */
  forget(): void {
    this.#kept = undefined;
    this.#claim.end();
    this.#closeIfOver();
  }

  writeHead(status: number, headers: OutgoingHttpHeaders): void {
    this.#head = { status, headers: sharedHeadersOf(headers) };
    for (const member of this.#members) {
      const own = this.#joined.get(member);
      member.writeHead(status, own === undefined ? headers : headersOf(this.#head, own));
    }
  }

  write(chunk: string | Buffer, written?: () => void): boolean {
    const bytes = this.#keep(chunk);
    let callback = written;
    for (const member of this.#members) {
      this.#write(member, bytes, callback);
      callback = undefined;
    }
    if (callback !== undefined) process.nextTick(callback);
    return !this.#isFull;
  }

  end(chunk?: string | Buffer): void {
    this.#ended = true;
    const bytes = chunk === undefined ? undefined : this.#keep(chunk);
    for (const member of this.#members) member.end(bytes);
    this.#settle();
    this.#closeIfOver();
  }

  destroy(): void {
    for (const member of this.#members) member.destroy();
    this.forget();
  }

  #add(member: AnswerResponse): void {
    this.#members.add(member);
    if (member.closed) this.#left(member);
    else member.once("close", () => this.#left(member));
  }

  #left(member: AnswerResponse): void {
    this.#members.delete(member);
    this.#joined.delete(member);
    this.#blocked.delete(member);
    this.#closeIfOver();
    this.#goOn();
  }

  #closeIfOver(): void {
    if (this.#members.size > 0 || (this.#kept !== undefined && !this.#ended)) return;
    this.#settle();
    this.close();
  }

  #write(member: AnswerResponse, bytes: Buffer, written?: () => void): void {
    if (member.write(bytes, written)) return;
    if (this.#members.size > 1 && (member.writableLength ?? 0) > sharedUnreadBytesMax) member.destroy();
    if (this.#blocked.has(member)) return;
    this.#blocked.add(member);
    member.once("drain", () => {
      this.#blocked.delete(member);
      this.#goOn();
    });
  }

  /** Every caller has unread bytes. */
  get #isFull(): boolean {
    return this.#members.size > 0 && this.#blocked.size === this.#members.size;
  }

  #goOn(): void {
    if (!this.#isFull) this.drained();
  }

  /**
   * Returns a copy of the bytes, for their memory may be reused, and keeps it where there is space.
   */
  #keep(chunk: string | Buffer): Buffer {
    const bytes = Buffer.from(chunk as Buffer);
    if (this.#kept === undefined) return bytes;
    const keptBytes = this.#claim.amount + bytes.length;
    if (keptBytes > storableAnswerBytesMax || this.#claim.hold(keptBytes) !== undefined) this.forget();
    else this.#kept.push(bytes);
    return bytes;
  }
}
