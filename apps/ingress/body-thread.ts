/** The thread in which large bodies are read and checked. */
import { bufferOf, serveTasks } from "#service/task-thread.ts";
import { type Body, type BodyRead, checkBody, readForm, readJson, settingsOf } from "./body.ts";
import { endpointNamed } from "./endpoints.ts";
import { Refused } from "./requests.ts";
import { type CallerFrame, callerFrameOf } from "./socket-frame.ts";

export type BodyTask =
  | { kind: "body"; bytes: Uint8Array; endpoint: string /** Of a form. */; contentType: string | undefined }
  | { kind: "frame"; bytes: Uint8Array };

export type BodyAnswer = BodyRead<Body> | BodyRead<Omit<CallerFrame, "bytes">>;

serveTasks(async (task: BodyTask): Promise<{ result: BodyAnswer }> => {
  const bytes = bufferOf(task.bytes);
  if (task.kind === "frame") return { result: readFrame(bytes) };
  const read = task.contentType === undefined ? readJson(bytes) : await readForm(bytes, task.contentType);
  const checked = read.kind === "read" ? checkBody(endpointNamed(task.endpoint), read.value) : read;
  return { result: checked.kind === "read" ? { kind: "read", value: settingsOf(checked.value) } : checked };
});

function readFrame(bytes: Buffer): BodyRead<Omit<CallerFrame, "bytes">> {
  try {
    const { bytes: _bytes, ...frame } = callerFrameOf(bytes);
    return { kind: "read", value: frame };
  } catch (error) {
    if (error instanceof Refused) return { kind: "refused", failure: error.failure };
    throw error;
  }
}
