/** The thread that prepares large requests and reads large whole answers. */

import type { WholeAnswer } from "#dialects/codec.ts";
import type { AttachmentAddress, Data } from "#dialects/neutral/attachments.ts";
import { roughTokensOf } from "#dialects/neutral/usage-estimate.ts";
import type { PreparationTask, Prepared } from "#operations/exchange.ts";
import { prepare, readWhole, type WholeTask } from "#operations/exchanges.ts";
import { bufferOf, movable, type Sent, serveTasks } from "#service/task-thread.ts";
import { parsedObject } from "#wire/json/parse.ts";
import { settingsTextOf, shortened } from "./decoded-request.ts";

export type ThreadTask =
  /** `data` is undefined the first time, and has the resolved attachments the second time. */
  | { kind: "prepare"; task: PreparationTask; data: readonly (Data | undefined)[] | undefined }
  | { kind: "read"; task: WholeTask; bytes: Uint8Array };

export type ThreadAnswer =
  | Prepared
  /** The main thread resolves these attachments and sends the task again. */
  | { kind: "addresses"; unresolved: readonly AttachmentAddress[] }
  | { kind: "read"; answer: WholeAnswer };

class Unresolved extends Error {
  readonly unresolved: readonly AttachmentAddress[];

  constructor(unresolved: readonly AttachmentAddress[]) {
    super();
    this.unresolved = unresolved;
  }
}

serveTasks<ThreadTask, ThreadAnswer>(async (message) => {
  if (message.kind === "read") return readSent(readWhole(message.task, bufferOf(message.bytes)));
  const { data } = message;
  const task = { ...message.task, body: bufferOf(message.task.body) };
  try {
    const prepared = await prepare(task, async (unresolved) => {
      if (data === undefined) throw new Unresolved(unresolved);
      return data;
    });
    return sentOf(prepared, task);
  } catch (error) {
    if (error instanceof Unresolved) return { value: { kind: "addresses", unresolved: error.unresolved } };
    throw error;
  }
});

function readSent(answer: WholeAnswer): Sent<ThreadAnswer> {
  if (answer.kind !== "answer") return { value: { kind: "read", answer } };
  const bytes = movable(answer.body);
  return { value: { kind: "read", answer: { ...answer, body: Buffer.from(bytes.buffer) } }, transfer: [bytes.buffer] };
}

/** The result in a form that is cheap to send: bytes that move, and small values. */
function sentOf(prepared: Prepared, { body, spoken }: PreparationTask): Sent<ThreadAnswer> {
  if (prepared.kind === "refused" || prepared.kind === "answered") return { value: prepared };
  const bytes = movable(prepared.request.body);
  const request = { ...prepared.request, body: Buffer.from(bytes.buffer) };
  const transfer = [bytes.buffer];
  if (prepared.kind === "call") {
    const { decoded } = prepared;
    return { value: { ...prepared, request, ...(decoded && { decoded: shortened(decoded, spoken) }) }, transfer };
  }
  const { decoded } = prepared;
  // As text, so that numbers stay as the caller wrote them.
  const settings = Buffer.from(settingsTextOf(decoded?.body ?? parsedObject(body) ?? {}));
  return {
    value: {
      ...prepared,
      request,
      settings,
      decoded: decoded && {
        ...decoded,
        inputTokens: decoded.inputTokens ?? roughTokensOf(decoded.request),
        body: {},
        request: shortened(decoded.request, spoken),
      },
    },
    transfer,
  };
}
