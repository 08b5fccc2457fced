/** The thread in which large bodies are read and checked. */
import { bufferOf, serveTasks } from "#service/task-thread.ts";
import { type Body, type BodyRead, checkBody, readForm, readJson, settingsOf } from "./body.ts";
import { endpointNamed } from "./endpoints.ts";

export interface BodyTask {
  bytes: Uint8Array;
  endpoint: string;
  /** Of a form. */
  contentType: string | undefined;
}

serveTasks(async ({ bytes: plain, endpoint, contentType }: BodyTask): Promise<BodyRead<Body>> => {
  const bytes = bufferOf(plain);
  const read = contentType === undefined ? readJson(bytes) : await readForm(bytes, contentType);
  const checked = read.kind === "read" ? checkBody(endpointNamed(endpoint), read.value) : read;
  return checked.kind === "read" ? { kind: "read", value: settingsOf(checked.value) } : checked;
});
