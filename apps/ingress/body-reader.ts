/** Reads bodies where each does not hold up its neighbours: small ones at once, large ones in a thread, where the keys take turns. */
import { FairQueue } from "#relay/fair-queue.ts";
import { ownBytesOf, TaskThread } from "#service/task-thread.ts";
import { type Body, type BodyRead, checkBody, readForm, readJson } from "./body.ts";
import type { BodyAnswer, BodyTask } from "./body-thread.ts";
import { allEndpoints, type Endpoint, nameOf } from "./endpoints.ts";
import { tooLarge } from "./failures.ts";
import { Refused } from "./requests.ts";
import type { CallerFrame } from "./socket-frame.ts";
import { validatorOf } from "./validation.ts";

/** A body of so many bytes, whatever it holds, takes some 20 ms at most. */
const readAtOnceBytesMax = 128 * 1024;
/** Bodies that are given to the thread at once: while it reads one, the next is on its way. */
const inThreadMax = 2;

export const isReadAtOnce = ({ length }: { length: number }): boolean => length <= readAtOnceBytesMax;

interface Reading {
  taskOf(): BodyTask;
  settle(answer: BodyAnswer | Promise<BodyAnswer>): void;
}

/** Large bodies wait here for as long as the thread takes for those before them; what they hold bounds how many they are. */
export class BodyReader {
  readonly #thread = new TaskThread<BodyTask, BodyAnswer>(new URL("./body-thread.ts", import.meta.url));
  readonly #queue = new FairQueue<Reading>();
  #inThread = 0;
  #isClosed = false;

  constructor() {
    // To compile one takes as long as to read a large body.
    for (const { schema } of allEndpoints) validatorOf(schema);
  }

  /** The body of a request to this endpoint; of a large one its settings alone. `keyId` is its caller's, `contentType` that of a form. */
  read(endpoint: Endpoint, bytes: Buffer, keyId: string, contentType?: string): BodyRead<Body> | Promise<BodyRead<Body>> {
    const { bodyBytesMax = Number.POSITIVE_INFINITY } = endpoint;
    if (bytes.length > bodyBytesMax) return { kind: "refused", failure: tooLarge(bodyBytesMax) };
    if (!isReadAtOnce(bytes)) {
      const taskOf = (): BodyTask => ({ kind: "body", bytes: ownBytesOf(bytes), endpoint: nameOf(endpoint), contentType });
      return this.#readInThread(keyId, taskOf) as Promise<BodyRead<Body>>;
    }
    const checked = (read: BodyRead<unknown>) => (read.kind === "read" ? checkBody(endpoint, read.value) : read);
    return contentType === undefined ? checked(readJson(bytes)) : readForm(bytes, contentType).then(checked);
  }

  /** A large frame of a WebSocket. Rejects with Refused. */
  async readFrame(bytes: Buffer, keyId: string): Promise<CallerFrame> {
    const read = (await this.#readInThread(keyId, () => ({ kind: "frame", bytes: ownBytesOf(bytes) }))) as BodyRead<Omit<CallerFrame, "bytes">>;
    if (read.kind === "refused") throw new Refused(read.failure);
    return { ...read.value, bytes };
  }

  #readInThread(keyId: string, taskOf: () => BodyTask): Promise<BodyAnswer> {
    return new Promise((settle) => {
      this.#queue.add({ taskOf, settle }, { group: "", weight: 1, key: keyId });
      this.#goOn();
    });
  }

  #goOn(): void {
    while (!this.#isClosed && this.#inThread < inThreadMax) {
      const next = this.#queue.take();
      if (next === undefined) return;
      this.#inThread++;
      const done = () => {
        this.#inThread--;
        this.#goOn();
      };
      const read = this.#thread.run(next.taskOf());
      next.settle(read);
      read.then(done, done);
    }
  }

  close(): Promise<void> {
    this.#isClosed = true;
    return this.#thread.close();
  }
}
