/**
 * The attachments (images and documents) that are fetched for one request. Their base64 stays out
 * of the request while it is decoded and encoded: a mark stands for each. When the request is sent,
 * the base64 replaces the marks block by block.
 */

import { randomBytes } from "node:crypto";
import type { Failure } from "#dialects/errors.ts";
import { type Data, isTextType, type RemoteAttachment } from "#dialects/neutral/attachments.ts";
import { Refusal } from "#dialects/neutral/field-support.ts";
import {
  allAttachmentsBytesMax,
  attachmentBytesMax,
  attachmentsMax,
  attachmentsTimeoutMs,
  fetchesAtOnceMax,
  guessedAttachmentBytes,
} from "../bounds.ts";
import type { AttachmentBudget, Grant } from "./attachment-budget.ts";
import { type AttachmentFetcher, type Claim, type Fetched, TooMuch, unfetched } from "./attachment-fetcher.ts";
import { blockBytes, memoryOf, partsOf } from "./base64.ts";
import type { Pace } from "./pace.ts";

/** Other requests used the budget for too long. */
export class AttachmentsBusy extends Error {
  readonly failure: Failure = {
    code: "overloaded",
    message: "The gateway's memory for fetched images and documents is full; try again in a moment.",
    retryAfterSeconds: 5,
  };
}

/** A body in chunks, whose memory is freed as they are sent. Read it once. */
export interface BodyWithAttachments extends AsyncIterable<Buffer> {
  readonly byteLength: number;
  /** The same chunks without freeing them. Each is valid until the next is requested. */
  chunks(): Iterable<Buffer>;
}

/** One address, which several parts of a request may name. */
interface Wanted {
  key: string;
  attachments: readonly RemoteAttachment[];
}

const wantedOf = (attachments: readonly RemoteAttachment[]): Wanted[] =>
  [...Map.groupBy(attachments, ({ url, part }) => `${part} ${url}`)].map(([key, same]) => ({ key, attachments: same }));

interface MarkedAttachment extends Fetched {
  mark: string;
}

/** The attachments that were fetched together. */
interface Batch {
  grant: Grant;
  fetched: Map<string, MarkedAttachment>;
  /** How many bodies with these attachments are being sent; and the body that is not sent yet. */
  sending: number;
  next: Body | undefined;
}

export class RequestAttachments {
  readonly fetcher: AttachmentFetcher;
  readonly #budget: AttachmentBudget;
  readonly #key: string;
  /** Made when the first attachment needs a mark. */
  #prefix: string | undefined;
  #batch: Batch | undefined;
  #marks = 0;
  #isOver = false;

  /** `key` is the caller's key, whose share of the budget is used. */
  constructor(fetcher: AttachmentFetcher, budget: AttachmentBudget, key: string) {
    this.fetcher = fetcher;
    this.#budget = budget;
    this.#key = key;
  }

  get #markPrefix(): string {
    this.#prefix ??= `${randomBytes(20).toString("hex")}00`;
    return this.#prefix;
  }

  /**
   * Fetches the attachments, unless it has them, and replaces every address. Throws Refusal, and
   * AttachmentsBusy after `waitMs` in line.
   */
  async inline(attachments: readonly RemoteAttachment[], waitMs: number, signal: AbortSignal): Promise<void> {
    const [first] = attachments;
    if (first === undefined) return;
    const surplus = attachments[attachmentsMax];
    if (surplus !== undefined)
      throw new Refusal(
        surplus.path,
        `${surplus.path}: a request may name ${attachmentsMax} addresses at most for this model.`,
      );
    const wanted = wantedOf(attachments);
    if (!wanted.every(({ key }) => this.#batch?.fetched.has(key))) {
      this.#free(this.#batch);
      const batch = await this.#fetchAll(wanted, waitMs, signal).catch((error: unknown) => {
        if (signal.aborted) throw unfetched(first.path, "its request is over");
        throw error;
      });
      this.#batch = batch;
      if (this.#isOver) this.#free(batch);
    }
    for (const { key, attachments: same } of wanted) {
      const data = dataOf(this.#batch?.fetched.get(key));
      if (data !== undefined) for (const { replace } of same) replace(data);
    }
  }

  /** The request with the fetched base64 in place of its marks; the same bytes if it has none. */
  filled(bytes: Buffer): Buffer | BodyWithAttachments {
    const batch = this.#batch;
    if (batch === undefined) return bytes;
    const byMark = new Map([...batch.fetched.values()].map((attachment) => [attachment.mark, attachment]));
    const chunks: (Buffer | MarkedAttachment)[] = [];
    let from = 0;
    for (let at = bytes.indexOf(this.#markPrefix); at >= 0; at = bytes.indexOf(this.#markPrefix, from)) {
      const end = at + this.#markPrefix.length + markDigits;
      const attachment = byMark.get(bytes.toString("latin1", at, end));
      chunks.push(bytes.subarray(from, attachment === undefined ? end : at));
      if (attachment !== undefined) chunks.push(attachment);
      from = end;
    }
    chunks.push(bytes.subarray(from));
    if (from === 0) return bytes;
    batch.next = new Body(chunks, this.#budget.pace, {
      begun: (body) => {
        batch.sending++;
        if (batch.next === body) batch.next = undefined;
      },
      ended: () => {
        if (--batch.sending === 0 && batch.next === undefined) this.#free(batch);
      },
    });
    return batch.next;
  }

  /** The request is over, so nothing more of it is sent. */
  release(): void {
    this.#isOver = true;
    this.#free(this.#batch);
  }

  #free(batch: Batch | undefined): void {
    if (batch === undefined) return;
    for (const { blocks } of batch.fetched.values()) this.#budget.pool.putBack(blocks.splice(0));
    batch.fetched.clear();
    batch.grant.release();
    if (this.#batch === batch) this.#batch = undefined;
  }

  /**
   * Reserves a guess of what the attachments need. If they need more than is free now, everything
   * is dropped and fetched again once enough is free, because a request must not wait while it has
   * a reservation. The third round reserves as much as any request may need.
   */
  async #fetchAll(wanted: readonly Wanted[], waitMs: number, signal: AbortSignal): Promise<Batch> {
    const most = Math.min(memoryOf(allAttachmentsBytesMax) + blockBytes * attachmentsMax, this.#budget.bytesMax);
    const inLine = AbortSignal.any([signal, AbortSignal.timeout(waitMs)]);
    let bytes = guessedAttachmentBytes * wanted.length;
    for (let round = 1; ; round++) {
      const grant = await this.#budget.acquire(this.#key, Math.min(bytes, most), inLine).catch((error: unknown) => {
        throw signal.aborted ? error : new AttachmentsBusy();
      });
      const claims = new Claims(grant, this.#budget.bytesMax);
      try {
        return { grant, fetched: await this.#fetchRound(wanted, claims, signal), sending: 0, next: undefined };
      } catch (error) {
        grant.release();
        if (!(error instanceof TooMuch)) throw error;
        bytes = round === 1 ? claims.expectedOf(wanted.length) : most;
      }
    }
  }

  /** Fetches a few at a time, all within one time limit. */
  async #fetchRound(
    wanted: readonly Wanted[],
    claims: Claims,
    signal: AbortSignal,
  ): Promise<Map<string, MarkedAttachment>> {
    const left = [...wanted];
    const all = new Map<string, MarkedAttachment>();
    const failed = new AbortController();
    const until = AbortSignal.any([signal, failed.signal, AbortSignal.timeout(attachmentsTimeoutMs)]);
    const work = async () => {
      for (let next = left.shift(); next !== undefined; next = left.shift()) {
        const { key, attachments } = next;
        const attachment = attachments[0] as RemoteAttachment;
        const fetched = await this.fetcher.fetch(
          attachment,
          { claim: claims.of(next), pool: this.#budget.pool, pace: this.#budget.pace },
          until,
        );
        all.set(key, { ...fetched, mark: `${this.#markPrefix}${String(this.#marks++).padStart(markDigits, "0")}` });
      }
    };
    try {
      await allOf(Array.from({ length: Math.min(fetchesAtOnceMax, left.length) }, work), () => failed.abort());
      claims.settle();
      return all;
    } catch (error) {
      for (const { blocks } of all.values()) this.#budget.pool.putBack(blocks.splice(0));
      throw error;
    }
  }
}

/**
 * Settles when all have settled. Rejects like the first that rejects, after calling `failed` at
 * once.
 */
async function allOf(works: readonly Promise<void>[], failed: () => void): Promise<void> {
  try {
    await Promise.all(works);
  } catch (error) {
    failed();
    await Promise.allSettled(works);
    throw error;
  }
}

/** A mark is itself valid base64: 42 characters and 6 digits. */
const markDigits = 6;

/**
 * A text is small, and some formats rewrite it, so it replaces its address at once. Anything else
 * is a mark until it is sent.
 */
function dataOf(fetched: MarkedAttachment | undefined): Data | undefined {
  if (fetched === undefined) return undefined;
  const { mimeType, mark } = fetched;
  return {
    kind: "data",
    mimeType,
    data: isTextType(mimeType) ? Buffer.concat([...partsOf(fetched)]).toString("latin1") : mark,
  };
}

/** How many bytes of its grant a request needs, as the sizes of its attachments become known. */
class Claims {
  readonly #grant: Grant;
  readonly #bytesMax: number;
  readonly #claimed = new Map<Wanted, { bytes: number; isKnown: boolean }>();

  constructor(grant: Grant, bytesMax: number) {
    this.#grant = grant;
    this.#bytesMax = bytesMax;
  }

  of(wanted: Wanted): Claim {
    return (bytes, isKnown) => this.#claim(wanted, bytes, isKnown);
  }

  /** Throws TooMuch when the grant can't grow to this size now, and Refusal when it never can. */
  #claim(wanted: Wanted, bytes: number, isKnown: boolean): void {
    this.#claimed.set(wanted, { bytes, isKnown });
    const { path } = wanted.attachments[0] as RemoteAttachment;
    let inAll = 0;
    for (const [{ attachments }, claimed] of this.#claimed) inAll += claimed.bytes * attachments.length;
    if (inAll > allAttachmentsBytesMax)
      throw unfetched(path, `all that the request names has more than ${allAttachmentsBytesMax} bytes`);
    const needed = this.#needed;
    if (needed > this.#bytesMax)
      throw unfetched(
        path,
        `all that the request names has more than the ${this.#bytesMax} bytes that are held at once here`,
      );
    if (needed <= this.#grant.bytes) return;
    // An attachment of unknown size grows in few steps.
    const grown = isKnown ? needed : Math.min(this.#bytesMax, needed + guessedAttachmentBytes);
    if (!this.#grant.tryResize(grown)) throw new TooMuch();
  }

  /** The expected need of all attachments. */
  expectedOf(count: number): number {
    const measuredClaims = [...this.#claimed.values()].filter(({ isKnown }) => isKnown);
    return (
      measuredClaims.reduce((sum, { bytes }) => sum + memoryOf(bytes), 0) +
      (count - measuredClaims.length) * memoryOf(attachmentBytesMax)
    );
  }

  /** Gives back what is not needed. */
  settle(): void {
    this.#grant.tryResize(this.#needed);
  }

  get #needed(): number {
    let needed = 0;
    for (const { bytes } of this.#claimed.values()) needed += memoryOf(bytes);
    return needed;
  }
}

class Body implements BodyWithAttachments {
  readonly byteLength: number;
  readonly #chunks: readonly (Buffer | MarkedAttachment)[];
  readonly #pace: Pace;
  readonly #on: { begun(body: Body): void; ended(): void };

  constructor(
    chunks: readonly (Buffer | MarkedAttachment)[],
    pace: Pace,
    on: { begun(body: Body): void; ended(): void },
  ) {
    this.#chunks = chunks;
    this.#pace = pace;
    this.#on = on;
    this.byteLength = chunks.reduce((sum, { length }) => sum + length, 0);
  }

  *chunks(): Generator<Buffer, void> {
    for (const chunk of this.#chunks)
      if (Buffer.isBuffer(chunk)) yield chunk;
      else yield* partsOf(chunk);
  }

  /**
   * Yields copies, because blocks are reused while sent bytes may still be on their way. Ends with
   * the last chunk, or when its reader stops.
   */
  async *[Symbol.asyncIterator](): AsyncGenerator<Buffer, void> {
    this.#on.begun(this);
    try {
      for (const chunk of this.chunks()) {
        yield Buffer.from(chunk);
        await this.#pace.moved(chunk.length);
      }
    } finally {
      this.#on.ended();
    }
  }
}
