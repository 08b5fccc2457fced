/** The thread in which large bodies are read and checked. */

import type { Failure } from "#dialects/errors.ts";
import { operations } from "#operations/operations.ts";
import { bufferOf, type Sent, serveTasks } from "#service/task-thread.ts";
import { endpoints, type ServedEndpoint } from "../common/endpoints.ts";
import { Refusal, type Result } from "../common/refusal.ts";
import { checkBody, type FormSource, type ReadBody, readForm, readJson, settingsOf } from "./body.ts";
import { type InteractionRequest, readInteraction } from "./interactions.ts";
import { type ModelPath, type OllamaRequest, readOllamaRequest } from "./ollama.ts";
import { openerToKeep } from "./session.ts";
import { type CallerFrame, callerFrameOf } from "./socket-frame.ts";

export type BodyTask =
  | { kind: "body"; bytes: Uint8Array; endpoint: string; form: FormSource | undefined }
  | { kind: "frame"; bytes: Uint8Array }
  | { kind: "interaction"; bytes: Uint8Array }
  | { kind: "ollama"; bytes: Uint8Array; path: ModelPath };

export type BodyAnswer = ReadBody | Omit<CallerFrame, "bytes"> | OllamaRequest | InteractionRequest;

/** A refusal loses its class on the way between threads. */
serveTasks(async (task: BodyTask): Promise<Sent<BodyAnswer | { failure: Failure }>> => {
  const answer = await answerOf(task);
  // Frees the bytes now: an idle thread collects nothing.
  (task.bytes.buffer as ArrayBuffer).transfer(0);
  return { value: answer instanceof Refusal ? { failure: answer.failure } : answer };
});

async function answerOf(task: BodyTask): Promise<Result<BodyAnswer>> {
  const bytes = bufferOf(task.bytes);
  if (task.kind === "frame") return readFrame(bytes);
  if (task.kind === "interaction") return readInteraction(bytes);
  if (task.kind === "ollama") return readOllamaRequest(task.path, bytes);
  const endpoint = endpoints.get(task.endpoint) as ServedEndpoint;
  const read = task.form === undefined ? readJson(bytes) : await readForm(endpoint, bytes, task.form);
  const checked: Result<ReadBody> = read instanceof Refusal ? read : checkBody(endpoint, read);
  if (checked instanceof Refusal) return checked;
  const opener = operations[endpoint.operation].cachesPrompts ? openerToKeep(checked.body) : undefined;
  return { ...checked, body: settingsOf(checked.body), ...(opener !== undefined && { opener }) };
}

/** The frame without its bytes, which the sender has. */
function readFrame(sent: Buffer): Result<Omit<CallerFrame, "bytes">> {
  const frame = callerFrameOf(sent);
  if (frame instanceof Refusal) return frame;
  const { bytes: _, ...members } = frame;
  return members;
}
