/** The thread in which large requests are prepared, and large whole answers read. */

import type { AttachmentAddress, Data } from "#dialects/attachments.ts";
import type { WholeAnswer } from "#dialects/codec.ts";
import { parsedObject } from "#dialects/json.ts";
import { bufferOf, copyOf, type Sent, serveTasks } from "#service/task-thread.ts";
import { briefly, settingsTextOf } from "./asked.ts";
import { type PreparationTask, type Prepared, prepare } from "./prepare.ts";
import { readWhole, type WholeTask } from "./whole.ts";

export type ThreadTask =
  /** `data` is what became of the attachments, once they were asked for. */
  | { kind: "prepare"; task: PreparationTask; data: readonly (Data | undefined)[] | undefined }
  | { kind: "read"; task: WholeTask; bytes: Uint8Array };

export type ThreadAnswer =
  | Prepared
  /** Attachments that are to be resolved before the task is given again. */
  | { kind: "addresses"; found: readonly AttachmentAddress[] }
  | { kind: "read"; answer: WholeAnswer };

class Unresolved extends Error {
  readonly found: readonly AttachmentAddress[];

  constructor(found: readonly AttachmentAddress[]) {
    super();
    this.found = found;
  }
}

serveTasks<ThreadTask, ThreadAnswer>(async (given) => {
  if (given.kind === "read") return readSent(readWhole(given.task, bufferOf(given.bytes)));
  const { data } = given;
  const task = { ...given.task, body: bufferOf(given.task.body) };
  try {
    const prepared = await prepare(task, async (found) => {
      if (data === undefined) throw new Unresolved(found);
      return data;
    });
    return sentOf(prepared, task);
  } catch (error) {
    if (error instanceof Unresolved) return { value: { kind: "addresses", found: error.found } };
    throw error;
  }
});

function readSent(answer: WholeAnswer): Sent<ThreadAnswer> {
  if (answer.kind !== "answer") return { value: { kind: "read", answer } };
  const bytes = movable(answer.body);
  return { value: { kind: "read", answer: { ...answer, body: Buffer.from(bytes.buffer) } }, transfer: [bytes.buffer] };
}

/** What is made of a request, as it leaves the thread: bytes, and what is small. */
function sentOf(prepared: Prepared, { operation, body }: PreparationTask): Sent<ThreadAnswer> {
  if (prepared.kind === "refused" || prepared.kind === "counted") return { value: prepared };
  const bytes = movable(prepared.request.body);
  const request = { ...prepared.request, body: Buffer.from(bytes.buffer) };
  const transfer = [bytes.buffer];
  if (prepared.kind !== "conversation") return { value: { ...prepared, request }, transfer };
  const { asked } = prepared;
  if (asked === undefined && operation !== "answer") return { value: { ...prepared, request }, transfer };
  // As text, for numbers stay as they are written.
  const settings = Buffer.from(settingsTextOf(asked?.body ?? parsedObject(body) ?? {}));
  return {
    value: { ...prepared, request, settings, asked: asked && { body: {}, request: briefly(asked.request) } },
    transfer,
  };
}

/** Bytes in a memory of their own. */
const movable = (bytes: Buffer): Uint8Array<ArrayBuffer> =>
  bytes.buffer instanceof ArrayBuffer && bytes.byteLength === bytes.buffer.byteLength
    ? (bytes as Uint8Array<ArrayBuffer>)
    : copyOf(bytes);
