/**
 * The images and documents that are fetched for one request. Their base64 stays out of the request while that is decoded and encoded: a mark stands for each, and
 * the body that goes to the upstream is the request's bytes with the fetched blocks in the marks' places, written one after the other.
 */
import { randomBytes } from "node:crypto";
import { type Data, isTextType, type RemoteAttachment } from "#dialects/attachments.ts";
import type { Failure } from "#dialects/errors.ts";
import { Refusal } from "#dialects/field-support.ts";
import type { AttachmentBudget, Grant } from "./attachment-budget.ts";
import {
  type AttachmentFetcher,
  attachmentBytesMax,
  type Claim,
  type Fetched,
  TooMuch,
  unfetched,
} from "./attachment-fetcher.ts";
import { blockBytes, heldBytesOf, partsOf } from "./base64.ts";
import type { Pace } from "./pace.ts";

/** Of all sources of a request, each as often as it is named. */
const allBytesMax = 50 << 20;
const attachmentsMax = 32;
/** For all that one request names. */
const timeoutMs = 15_000;
const atOnceMax = 4;
/** What is reserved for a source of which nothing is known yet. */
const guessedBytes = 1 << 20;

/** There were too many bytes of other requests for too long. */
export class AttachmentsBusy extends Error {
  readonly failure: Failure = {
    code: "overloaded",
    message: "The gateway is fetching as many images and documents as it can hold; try again in a moment.",
    retryAfterSeconds: 5,
  };
}

/** A body in pieces, which are let go of once they are sent. Read it once. */
export interface BodyWithAttachments extends AsyncIterable<Buffer> {
  readonly byteLength: number;
  /** The same pieces, to be looked at each before the next is asked for. */
  chunks(): Iterable<Buffer>;
}

/** A source that several parts of a request may name. */
interface Wanted {
  key: string;
  attachments: readonly RemoteAttachment[];
}

const wantedOf = (attachments: readonly RemoteAttachment[]): Wanted[] =>
  [...Map.groupBy(attachments, ({ url, part }) => `${part} ${url}`)].map(([key, same]) => ({ key, attachments: same }));

interface Held extends Fetched {
  mark: string;
}

/** What was fetched in one go. */
interface Batch {
  grant: Grant;
  held: Map<string, Held>;
  /** Bodies of it that are being sent, and the one that is yet to be. */
  sending: number;
  next: Body | undefined;
}

export class RequestAttachments {
  readonly fetcher: AttachmentFetcher;
  readonly #budget: AttachmentBudget;
  readonly #key: string;
  readonly #markPrefix = `${randomBytes(20).toString("hex")}00`;
  #batch: Batch | undefined;
  #marks = 0;
  #isOver = false;

  /** `key` is whose share of the budget it takes. */
  constructor(fetcher: AttachmentFetcher, budget: AttachmentBudget, key: string) {
    this.fetcher = fetcher;
    this.#budget = budget;
    this.#key = key;
  }

  /** Fetches what is not at hand and puts it in the place of every address. Throws Refusal; SourcesBusy after waiting in line for `waitMs`. */
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
    if (!wanted.every(({ key }) => this.#batch?.held.has(key))) {
      this.#free(this.#batch);
      const batch = await this.#fetchAll(wanted, waitMs, signal).catch((error: unknown) => {
        if (signal.aborted) throw unfetched(first.path, "its request is over");
        throw error;
      });
      this.#batch = batch;
      if (this.#isOver) this.#free(batch);
    }
    for (const { key, attachments: same } of wanted) {
      const data = dataOf(this.#batch?.held.get(key));
      if (data !== undefined) for (const { replace } of same) replace(data);
    }
  }

  /** A request's bytes with what was fetched in the place of its marks; the same bytes where there are none. */
  filled(bytes: Buffer): Buffer | BodyWithAttachments {
    const batch = this.#batch;
    if (batch === undefined) return bytes;
    const byMark = new Map([...batch.held.values()].map((held) => [held.mark, held]));
    const chunks: (Buffer | Held)[] = [];
    let from = 0;
    for (let at = bytes.indexOf(this.#markPrefix); at >= 0; at = bytes.indexOf(this.#markPrefix, from)) {
      const end = at + this.#markPrefix.length + markDigits;
      const held = byMark.get(bytes.toString("latin1", at, end));
      chunks.push(bytes.subarray(from, held === undefined ? end : at), ...(held === undefined ? [] : [held]));
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

  /** The request is over: nothing more of it is sent. */
  release(): void {
    this.#isOver = true;
    this.#free(this.#batch);
  }

  #free(batch: Batch | undefined): void {
    if (batch === undefined) return;
    for (const { blocks } of batch.held.values()) this.#budget.pool.putBack(blocks.splice(0));
    batch.held.clear();
    batch.grant.release();
    if (this.#batch === batch) this.#batch = undefined;
  }

  /**
   * Reserves what the sources are guessed to need. Where they need more than there is just now, all is dropped and begun anew once there is as much: what a request
   * waits for it waits for with empty hands. The third time, there is as much as any request may need.
   */
  async #fetchAll(wanted: readonly Wanted[], waitMs: number, signal: AbortSignal): Promise<Batch> {
    const most = Math.min(heldBytesOf(allBytesMax) + blockBytes * attachmentsMax, this.#budget.bytesMax);
    const inLine = AbortSignal.any([signal, AbortSignal.timeout(waitMs)]);
    let bytes = guessedBytes * wanted.length;
    for (let round = 1; ; round++) {
      const grant = await this.#budget.acquire(this.#key, Math.min(bytes, most), inLine).catch((error: unknown) => {
        throw signal.aborted ? error : new AttachmentsBusy();
      });
      const claims = new Claims(grant, this.#budget.bytesMax);
      try {
        return { grant, held: await this.#fetchRound(wanted, claims, signal), sending: 0, next: undefined };
      } catch (error) {
        grant.release();
        if (!(error instanceof TooMuch)) throw error;
        bytes = round === 1 ? claims.expectedOf(wanted.length) : most;
      }
    }
  }

  /** Some at once, all within one time limit. */
  async #fetchRound(wanted: readonly Wanted[], claims: Claims, signal: AbortSignal): Promise<Map<string, Held>> {
    const left = [...wanted];
    const held = new Map<string, Held>();
    const failed = new AbortController();
    const until = AbortSignal.any([signal, failed.signal, AbortSignal.timeout(timeoutMs)]);
    const work = async () => {
      for (let next = left.shift(); next !== undefined; next = left.shift()) {
        const { key, attachments } = next;
        const attachment = attachments[0] as RemoteAttachment;
        const fetched = await this.fetcher.fetch(
          attachment,
          { claim: claims.of(next), pool: this.#budget.pool, pace: this.#budget.pace },
          until,
        );
        held.set(key, { ...fetched, mark: `${this.#markPrefix}${String(this.#marks++).padStart(markDigits, "0")}` });
      }
    };
    try {
      await allOf(Array.from({ length: Math.min(atOnceMax, left.length) }, work), () => failed.abort());
      claims.settle();
      return held;
    } catch (error) {
      for (const { blocks } of held.values()) this.#budget.pool.putBack(blocks.splice(0));
      throw error;
    }
  }
}

/** Waits for all of them, whatever becomes of each, and rejects as the first that does, of which `failed` is told. */
async function allOf(works: readonly Promise<void>[], failed: () => void): Promise<void> {
  try {
    await Promise.all(works);
  } catch (error) {
    failed();
    await Promise.allSettled(works);
    throw error;
  }
}

/** A mark is base64 of its own: 42 characters and 6 digits. */
const markDigits = 6;

/** Texts are small, and are rewritten in some formats; all else is a mark until it is sent. */
function dataOf(held: Held | undefined): Data | undefined {
  if (held === undefined) return undefined;
  const { mimeType, mark } = held;
  return {
    kind: "data",
    mimeType,
    data: isTextType(mimeType) ? Buffer.concat([...partsOf(held)]).toString("latin1") : mark,
  };
}

/** What the sources of a request need of its grant, as it becomes known. */
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

  /** Throws TooMuch when the grant can't grow to this now, Refusal when it never can. */
  #claim(wanted: Wanted, bytes: number, isKnown: boolean): void {
    this.#claimed.set(wanted, { bytes, isKnown });
    const { path } = wanted.attachments[0] as RemoteAttachment;
    let inAll = 0;
    for (const [{ attachments }, claimed] of this.#claimed) inAll += claimed.bytes * attachments.length;
    if (inAll > allBytesMax) throw unfetched(path, `all that the request names has more than ${allBytesMax} bytes`);
    const needed = this.#needed;
    if (needed > this.#bytesMax)
      throw unfetched(
        path,
        `all that the request names has more than the ${this.#bytesMax} bytes that are held at once here`,
      );
    if (needed <= this.#grant.bytes) return;
    // What is not announced grows in few steps.
    const grown = isKnown ? needed : Math.min(this.#bytesMax, needed + guessedBytes);
    if (!this.#grant.tryResize(grown)) throw new TooMuch();
  }

  /** What all of them need, as far as that can be said. */
  expectedOf(count: number): number {
    const known = [...this.#claimed.values()].filter(({ isKnown }) => isKnown);
    return (
      known.reduce((sum, { bytes }) => sum + heldBytesOf(bytes), 0) +
      (count - known.length) * heldBytesOf(attachmentBytesMax)
    );
  }

  /** Gives back what was not needed. */
  settle(): void {
    this.#grant.tryResize(this.#needed);
  }

  get #needed(): number {
    let needed = 0;
    for (const { bytes } of this.#claimed.values()) needed += heldBytesOf(bytes);
    return needed;
  }
}

class Body implements BodyWithAttachments {
  readonly byteLength: number;
  readonly #chunks: readonly (Buffer | Held)[];
  readonly #pace: Pace;
  readonly #on: { begun(body: Body): void; ended(): void };

  constructor(chunks: readonly (Buffer | Held)[], pace: Pace, on: { begun(body: Body): void; ended(): void }) {
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

  /** Copies, for blocks are used again while what was sent is still on its way. Ends with its last piece, or when its reader gives up. */
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
