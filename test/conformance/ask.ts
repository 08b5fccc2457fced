/**
 * The questions of the conformance matrix, in no dialect, and the expected parts of the answers.
 * Each caller writes and reads its own dialect.
 */

export interface Attachment {
  kind: "image" | "document";
  mimeType: string;
  /** Base64, or an address. */
  data?: string;
  url?: string;
}

export interface OfferedTool {
  name: string;
  description: string;
  /** JSON Schema; undefined when it takes no arguments. */
  parameters?: Record<string, unknown>;
}

export interface Ask {
  system?: string;
  /** The conversation so far, ending with the question. */
  turns: { role: "user" | "assistant" | "system"; text: string }[];
  /** Attached to the last turn. */
  attachments?: Attachment[];
  tools?: OfferedTool[];
  toolChoice?: "none" | "required" | { name: string };
  parallelCalls?: false;
  outputTokensMax?: number;
  stop?: string[];
  temperature?: number;
  schema?: Record<string, unknown>;
  /** The thinking is asked for, and to be shown. */
  effort?: "low" | "high";
}

export interface ToolResult {
  text: string;
  isError?: true;
}

export interface Called {
  id: string;
  name: string;
  input: unknown;
}

/** An answer as its caller reads it. */
export interface Observed {
  text: string;
  thinking: string;
  calls: Called[];
  finish: "stop" | "length" | "calls" | "filtered" | undefined;
  usage: { input: number; cached: number; output: number; thinking: number } | undefined;
  /** Violations of the dialect's order of events in a stream, including the terminator. */
  faults: string[];
  error: { status: number | undefined; message: string; field: string | undefined } | undefined;
  /** The answer as the caller would send it back. */
  replay: unknown;
}

/** A caller of one dialect, written from its public documentation. */
export interface Caller {
  requestOf(ask: Ask, model: string, streams: boolean): { path: string; body: Record<string, unknown> };
  readWhole(status: number, text: string): Observed;
  readStream(text: string): Observed;
  /** The request that follows an answer with tool calls. */
  withResults(body: Record<string, unknown>, answer: Observed, results: readonly ToolResult[]): Record<string, unknown>;
}

export const nothing = (): Observed => ({
  text: "",
  thinking: "",
  calls: [],
  finish: undefined,
  usage: undefined,
  faults: [],
  error: undefined,
  replay: undefined,
});

export interface Event {
  name: string | undefined;
  data: string;
}

/** The events of a stream; its faults where bytes are none. */
export function eventsIn(text: string, faults: string[]): Event[] {
  if (!text.endsWith("\n\n")) faults.push("no blank line at the end");
  const events: Event[] = [];
  for (const block of text.split("\n\n")) {
    if (block.trim() === "") continue;
    const lines = block.split("\n").filter((line) => line !== "");
    const name = lines.find((line) => line.startsWith("event: "))?.slice(7);
    const data = lines.filter((line) => line.startsWith("data: ")).map((line) => line.slice(6));
    if (data.length !== 1 || lines.length !== data.length + (name === undefined ? 0 : 1))
      faults.push(`an odd event: ${block.slice(0, 80)}`);
    events.push({ name, data: data.join("\n") });
  }
  return events;
}

export const parsed = <Shape>(text: string): Shape => JSON.parse(text) as Shape;
