/** The thread in which large bodies are read and checked. */

import { bufferOf, type Sent, serveTasks } from "#service/task-thread.ts";
import { endpoints, type ServedEndpoint } from "../common/endpoints.ts";
import { type Result, resultFrom, resultOf } from "../common/refused.ts";
import { checkBody, type ReadBody, readForm, readJson, settingsOf } from "./body.ts";
import { type InteractionRequest, readInteraction } from "./interactions.ts";
import { type ModelPath, type OllamaRequest, readOllamaRequest } from "./ollama.ts";
import { type CallerFrame, callerFrameOf } from "./socket-frame.ts";

export type BodyTask =
  | { kind: "body"; bytes: Uint8Array; endpoint: string /** Of a form. */; contentType: string | undefined }
  | { kind: "frame"; bytes: Uint8Array }
  | { kind: "interaction"; bytes: Uint8Array }
  | { kind: "ollama"; bytes: Uint8Array; path: ModelPath };

export type BodyAnswer =
  | Result<ReadBody>
  | Result<Omit<CallerFrame, "bytes">>
  | Result<OllamaRequest>
  | Result<InteractionRequest>;

serveTasks(async (task: BodyTask): Promise<Sent<BodyAnswer>> => {
  const bytes = bufferOf(task.bytes);
  if (task.kind === "frame") return { value: readFrame(bytes) };
  if (task.kind === "interaction") return { value: readInteraction(bytes) };
  if (task.kind === "ollama") return { value: readOllamaRequest(task.path, bytes) };
  const endpoint = endpoints.get(task.endpoint) as ServedEndpoint;
  const read = task.contentType === undefined ? readJson(bytes) : await readForm(endpoint, bytes, task.contentType);
  const checked = read.kind === "value" ? checkBody(endpoint, read.value) : read;
  if (checked.kind === "refused") return { value: checked };
  const { body, ...others } = checked.value;
  return { value: resultOf({ body: settingsOf(body), ...others }) };
});

/** The frame without its bytes, which the sender has. */
const readFrame = (bytes: Buffer): Result<Omit<CallerFrame, "bytes">> =>
  resultFrom(() => {
    const { bytes: _, ...frame } = callerFrameOf(bytes);
    return frame;
  });
