/**
 * Passes bytes of any kind on as they arrive. Nothing in them tells that an answer is complete, so
 * only the end of the response does.
 */
import type { Usage } from "#dialects/usage.ts";
import { type AnswerReader, type AnswerStep, incomplete } from "./answer-reader.ts";
import { Trickle } from "./trickle.ts";

export class BytesReader implements AnswerReader {
  readonly usage: Usage;
  committed = false;
  readonly #trickle = new Trickle();

  constructor(usage: Usage) {
    this.usage = usage;
  }

  get parts(): number {
    return this.#trickle.parts;
  }

  push(chunk: Buffer): AnswerStep {
    this.#trickle.push(chunk);
    this.committed ||= chunk.length > 0;
    return { kind: "more", bytes: chunk.length > 0 ? [chunk] : [] };
  }

  end(): AnswerStep {
    return this.committed ? { kind: "end", bytes: [] } : { kind: "failed", bytes: [], failure: incomplete };
  }
}
