/** Reads a whole answer, for a caller with or without a stream. */
import type { WholeAnswer } from "#dialects/codec.ts";
import type { Finish } from "#dialects/neutral/neutral.ts";
import type { ProducedCounts } from "#dialects/neutral/produced.ts";
import type { Usage } from "#dialects/usage.ts";
import { TaskTimeout } from "#service/task-thread.ts";
import { joined } from "#wire/joined.ts";
import type { Reading } from "../preparation/exchange.ts";
import { type AnswerReader, type AnswerStep, type FailedStep, stepOf, tooLarge } from "./answer-reader.ts";
import { Trickle } from "./trickle.ts";

const unreadInTime: FailedStep = {
  kind: "failed",
  bytes: [],
  failure: {
    code: "upstream_failed",
    message: "The gateway could not read the answer of this model's upstream in time.",
    isPaid: true,
  },
};

export class WholeReader implements AnswerReader {
  usage: Usage | undefined;
  produced: ProducedCounts | undefined;
  finish: Finish | undefined;
  committed = false;
  readonly begun = true;
  bufferedBytes = 0;
  readonly #read: Reading["whole"];
  readonly #bytesMax: number;
  readonly #trickle = new Trickle();
  #chunks: Buffer[] = [];

  constructor(read: Reading["whole"], bytesMax: number) {
    this.#read = read;
    this.#bytesMax = bytesMax;
  }

  get parts(): number {
    return this.#trickle.parts;
  }

  push(chunk: Buffer): AnswerStep {
    this.#trickle.push(chunk);
    this.bufferedBytes += chunk.length;
    if (this.bufferedBytes > this.#bytesMax) return tooLarge(this.#bytesMax);
    this.#chunks.push(chunk);
    return { kind: "more", bytes: [] };
  }

  end(): AnswerStep {
    const bytes = joined(this.#chunks);
    this.#chunks = [];
    const answer = this.#read(bytes);
    return answer instanceof Promise
      ? { kind: "late", bytes: [], step: answer.then((read) => this.#stepOf(read), lateStepOf) }
      : this.#stepOf(answer);
  }

  #stepOf(answer: WholeAnswer): AnswerStep {
    if (answer.kind === "answer") {
      this.usage = answer.usage;
      this.produced = answer.produced;
      this.finish = answer.finish;
      this.committed = true;
    }
    return stepOf(answer);
  }
}

function lateStepOf(error: unknown): FailedStep {
  if (error instanceof TaskTimeout) return unreadInTime;
  throw error;
}
