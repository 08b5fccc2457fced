/** Reads bodies where each does not hold up its neighbours: small ones at once, large ones in a thread. */
import { TaskThread } from "#service/task-thread.ts";
import { type Body, type BodyRead, checkBody, readForm, readJson } from "./body.ts";
import type { BodyTask } from "./body-thread.ts";
import { type Endpoint, nameOf } from "./endpoints.ts";

/** A body of so many bytes, whatever it holds, takes some 20 ms at most. */
export const readAtOnceBytesMax = 128 * 1024;

export class BodyReader {
  readonly #thread = new TaskThread<BodyTask, BodyRead<Body>>(new URL("./body-thread.ts", import.meta.url));

  /** The body of a request to this endpoint; of a large one its settings alone. `contentType` is that of a form. */
  read(endpoint: Endpoint, bytes: Buffer, contentType?: string): BodyRead<Body> | Promise<BodyRead<Body>> {
    if (bytes.length > readAtOnceBytesMax) return this.#thread.run({ bytes, endpoint: nameOf(endpoint), contentType });
    const checked = (read: BodyRead<unknown>) => (read.kind === "read" ? checkBody(endpoint, read.value) : read);
    return contentType === undefined ? checked(readJson(bytes)) : readForm(bytes, contentType).then(checked);
  }

  close(): Promise<void> {
    return this.#thread.close();
  }
}
