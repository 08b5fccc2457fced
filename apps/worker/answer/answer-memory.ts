/**
 * The memory for large whole answers in one worker, which are held until they are read and sent.
 * Pure. An answer that needs more than is free, or more than its key's fair share, waits: its
 * upstream is not read meanwhile. If all wait, the oldest goes on all the same, so the bound is
 * exceeded by one answer at most.
 */
import { isFairShare } from "#relay/fair-share.ts";
import { claimedAtOnceBytes } from "../bounds.ts";

export class AnswerMemory {
  readonly #bytesMax: number;
  /** Oldest first. */
  readonly #claims = new Set<AnswerClaim>();
  readonly #byKey = new Map<string, number>();
  #used = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  get used(): number {
    return this.#used;
  }

  get waiting(): number {
    return [...this.#claims].filter(({ isWaiting }) => isWaiting).length;
  }

  /**
   * For one answer of this key. `resumed` is called when the claim no longer waits, perhaps at
   * once.
   */
  claim(key: string, resumed: () => void): AnswerClaim {
    const claim = new AnswerClaim(this, key, resumed);
    this.#claims.add(claim);
    return claim;
  }

  /** For claims: serves those that wait. */
  serve(): void {
    for (const claim of this.#claims) if (claim.isWaiting && this.#fits(claim)) this.#give(claim);
    const [oldest] = this.#claims;
    if (oldest !== undefined && [...this.#claims].every(({ isWaiting }) => isWaiting)) this.#give(oldest);
  }

  /** For claims. */
  change(claim: AnswerClaim, by: number): void {
    const { key } = claim;
    const keyBytes = (this.#byKey.get(key) ?? 0) + by;
    if (keyBytes === 0) this.#byKey.delete(key);
    else this.#byKey.set(key, keyBytes);
    this.#used += by;
  }

  /** For claims: forgets one. */
  end(claim: AnswerClaim): void {
    this.#claims.delete(claim);
    this.change(claim, -claim.bytes);
    this.serve();
  }

  #fits({ key, bytes, wanted }: AnswerClaim): boolean {
    const more = wanted - bytes;
    return isFairShare((this.#byKey.get(key) ?? 0) + more, this.#bytesMax - this.#used - more);
  }

  #give(claim: AnswerClaim): void {
    this.change(claim, claim.wanted - claim.bytes);
    claim.releaseAll();
  }
}

export class AnswerClaim {
  readonly key: string;
  readonly #memory: AnswerMemory;
  readonly #resumed: () => void;
  #bytes = 0;
  #wanted = 0;
  #isOver = false;

  constructor(memory: AnswerMemory, key: string, resumed: () => void) {
    this.#memory = memory;
    this.key = key;
    this.#resumed = resumed;
  }

  get bytes(): number {
    return this.#bytes;
  }

  get wanted(): number {
    return this.#wanted;
  }

  get isWaiting(): boolean {
    return this.#wanted > this.#bytes;
  }

  /**
   * The answer has so many bytes now. If the claim waits afterwards, its upstream must not be read.
   */
  hold(bytes: number): void {
    if (this.#isOver || bytes <= this.#bytes) return;
    this.#wanted = Math.ceil(bytes / claimedAtOnceBytes) * claimedAtOnceBytes;
    this.#memory.serve();
  }

  /** For the memory. */
  releaseAll(): void {
    this.#bytes = this.#wanted;
    this.#resumed();
  }

  /** May be called any number of times. */
  end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#memory.end(this);
  }
}
