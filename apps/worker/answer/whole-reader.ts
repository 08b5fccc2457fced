/** Reads a whole answer, for a caller with or without a stream. */

import type { WholeAnswer } from "#dialects/codec.ts";
import type { Finish } from "#dialects/neutral.ts";
import type { Usage } from "#dialects/usage.ts";
import { answerBytesMax } from "../bounds.ts";
import type { Reading } from "../preparation/exchange.ts";
import { type AnswerReader, type AnswerStep, stepOf, tooLarge } from "./answer-reader.ts";

export class WholeReader implements AnswerReader {
  usage: Usage | undefined;
  finish: Finish | undefined;
  committed = false;
  readonly begun = true;
  readonly malformedEvents = 0;
  readonly produced = undefined;
  readonly settled = false;
  readonly #read: Reading["whole"];
  readonly #chunks: Buffer[] = [];
  #bytes = 0;

  constructor(read: Reading["whole"]) {
    this.#read = read;
  }

  push(chunk: Buffer): AnswerStep {
    this.#bytes += chunk.length;
    if (this.#bytes > answerBytesMax) return { kind: "failed", bytes: [], failure: tooLarge };
    this.#chunks.push(chunk);
    return { kind: "more", bytes: [] };
  }

  end(): AnswerStep {
    const answer = this.#read(Buffer.concat(this.#chunks));
    return answer instanceof Promise
      ? { kind: "late", bytes: [], step: answer.then((read) => this.#stepOf(read)) }
      : this.#stepOf(answer);
  }

  #stepOf(answer: WholeAnswer): AnswerStep {
    if (answer.kind === "answer") {
      this.usage = answer.usage;
      this.finish = answer.finish;
      this.committed = true;
    }
    return stepOf(answer);
  }
}
