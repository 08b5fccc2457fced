/** The thread in which large requests are prepared. */
import { bufferOf, copyOf, type Sent, serveTasks } from "#service/task-thread.ts";
import { parsedObject } from "#wire/json.ts";
import type { NeutralRequest, Settings } from "#wire/neutral.ts";
import type { Data, SourceAddress } from "#wire/sources.ts";
import { type PreparationTask, type Prepared, prepare } from "./prepare.ts";

/** `data` is what became of the attachments, once they were asked for. */
export type ThreadTask = Omit<PreparationTask, "body"> & { body: Uint8Array; data: readonly (Data | undefined)[] | undefined };

/** Attachments that are to be resolved before the task is given again. */
export type ThreadAnswer = Prepared | { kind: "addresses"; found: readonly SourceAddress[] };

class Unresolved extends Error {
  readonly found: readonly SourceAddress[];

  constructor(found: readonly SourceAddress[]) {
    super();
    this.found = found;
  }
}

serveTasks<ThreadTask, ThreadAnswer>(async ({ data, ...given }) => {
  const task = { ...given, body: bufferOf(given.body) };
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

/** What is made of a request, as it leaves the thread: bytes, and what is small. */
function sentOf(prepared: Prepared, { operation, body }: PreparationTask): Sent<ThreadAnswer> {
  if (prepared.kind === "refused" || prepared.kind === "counted") return { value: prepared };
  const bytes = movable(prepared.request.body);
  const request = { ...prepared.request, body: Buffer.from(bytes.buffer) };
  const transfer = [bytes.buffer];
  if (prepared.kind !== "conversation") return { value: { ...prepared, request }, transfer };
  const { asked } = prepared;
  if (asked !== undefined) return { value: { ...prepared, request, asked: { body: settingsOf(asked.body), request: briefly(asked.request) } }, transfer };
  if (operation !== "answer") return { value: { ...prepared, request }, transfer };
  return { value: { ...prepared, request, settings: Buffer.from(JSON.stringify(settingsOf(parsedObject(body) ?? {}))) }, transfer };
}

/** Bytes in a memory of their own. */
const movable = (bytes: Buffer): Uint8Array<ArrayBuffer> =>
  bytes.buffer instanceof ArrayBuffer && bytes.byteLength === bytes.buffer.byteLength ? (bytes as Uint8Array<ArrayBuffer>) : copyOf(bytes);

/** The conversation itself, in every dialect, and what stands for one where settings are read. */
const conversations: Record<string, unknown> = { messages: [{ role: "user", content: "" }], input: [], contents: [] };
/** Characters of JSON that all settings have at most: what some answers repeat of their request. */
const settingsLengthMax = 1 << 20;

/** A body without its conversation, and without settings that are larger than all may be. */
function settingsOf(body: Record<string, unknown>): Record<string, unknown> {
  let left = settingsLengthMax;
  return Object.fromEntries(
    Object.entries(body).flatMap(([name, value]): [string, unknown][] => {
      if (Object.hasOwn(conversations, name)) return [[name, conversations[name]]];
      const { length } = `${name}${JSON.stringify(value)}`;
      if (length > left) return [];
      left -= length;
      return [[name, value]];
    }),
  );
}

/** Texts of more characters and lists of more elements are of no use to who reads an answer. */
const valueLengthMax = 1_000;

/** The names of tools and settings in a request. */
function briefly({ tools, toolChoice, settings }: NeutralRequest): NeutralRequest {
  return {
    system: [],
    messages: [],
    tools: tools.map(({ name, callerName, namespace, takesText, path }) => ({
      name,
      callerName,
      path,
      ...(namespace !== undefined && { namespace }),
      ...(takesText !== undefined && { takesText }),
    })),
    ...(toolChoice !== undefined && { toolChoice: { mode: toolChoice.mode, path: toolChoice.path } }),
    settings: Object.fromEntries(Object.entries(settings).map(([name, { path, value }]) => [name, { path, value: shortOf(value) }])) as Settings,
  };
}

function shortOf(value: unknown): unknown {
  if (typeof value === "string" || Array.isArray(value)) return value.length <= valueLengthMax ? value : value.slice(0, 0);
  return typeof value === "object" ? {} : value;
}
