/** Reads bodies where each does not hold up its neighbours: small ones at once, large ones in a thread. */
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

export const isReadAtOnce = ({ length }: Buffer): boolean => length <= readAtOnceBytesMax;

export class BodyReader {
  readonly #thread = new TaskThread<BodyTask, BodyAnswer>(new URL("./body-thread.ts", import.meta.url));

  constructor() {
    // To compile one takes as long as to read a large body.
    for (const { schema } of allEndpoints) validatorOf(schema);
  }

  /** The body of a request to this endpoint; of a large one its settings alone. `contentType` is that of a form. */
  read(endpoint: Endpoint, bytes: Buffer, contentType?: string): BodyRead<Body> | Promise<BodyRead<Body>> {
    const { bodyBytesMax = Number.POSITIVE_INFINITY } = endpoint;
    if (bytes.length > bodyBytesMax) return { kind: "refused", failure: tooLarge(bodyBytesMax) };
    if (!isReadAtOnce(bytes))
      return this.#thread.run({ kind: "body", bytes: ownBytesOf(bytes), endpoint: nameOf(endpoint), contentType }) as Promise<BodyRead<Body>>;
    const checked = (read: BodyRead<unknown>) => (read.kind === "read" ? checkBody(endpoint, read.value) : read);
    return contentType === undefined ? checked(readJson(bytes)) : readForm(bytes, contentType).then(checked);
  }

  /** A large frame of a WebSocket. Rejects with Refused. */
  async readFrame(bytes: Buffer): Promise<CallerFrame> {
    const read = (await this.#thread.run({ kind: "frame", bytes: ownBytesOf(bytes) })) as BodyRead<Omit<CallerFrame, "bytes">>;
    if (read.kind === "refused") throw new Refused(read.failure);
    return { ...read.value, bytes };
  }

  close(): Promise<void> {
    return this.#thread.close();
  }
}
