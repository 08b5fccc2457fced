/**
 * A conversation in no dialect: what people see and edit. Each dialect builds its requests from it
 * and reads its events into it.
 */

export const dialects = ["openai-chat", "openai-responses", "anthropic-messages", "gemini"] as const;
export type Dialect = (typeof dialects)[number];

export const dialectNames: Record<Dialect, string> = {
  "openai-chat": "OpenAI chat completions",
  "openai-responses": "OpenAI Responses",
  "anthropic-messages": "Anthropic Messages",
  gemini: "Gemini",
};

/** A call of a tool by the model. */
export interface ToolCall {
  id: string;
  name: string;
  /** JSON. */
  input: string;
}

export interface UserTurn {
  role: "user";
  text: string;
  /** Data URLs. */
  images: string[];
}

export interface AssistantTurn {
  role: "assistant";
  text: string;
  reasoning: string;
  calls: ToolCall[];
  /**
   * The answer in its own dialect. Vendors want reasoning and its signatures back unchanged after a
   * tool call.
   */
  native: { dialect: Dialect; content: unknown[] } | undefined;
}

export interface ToolTurn {
  role: "tool";
  results: { call: ToolCall; text: string }[];
}

export type Turn = UserTurn | AssistantTurn | ToolTurn;

export interface Tool {
  name: string;
  description: string;
  /** A JSON schema. */
  parameters: unknown;
}

export const efforts = ["none", "minimal", "low", "medium", "high"] as const;
export type Effort = (typeof efforts)[number];

export const toolChoices = ["auto", "none", "required"] as const;
/** Without one the model decides. */
export type ToolChoice = "auto" | "none" | "required" | { tool: string };

export interface Settings {
  model: string;
  system?: string | undefined;
  tools?: Tool[] | undefined;
  toolChoice?: ToolChoice | undefined;
  /** The JSON schema of the answer. */
  schema?: unknown;
  effort?: Effort | undefined;
  temperature?: number | undefined;
  /** Output tokens. */
  maxTokens?: number | undefined;
}

/** `input` has all input tokens, those from caches included; `output` includes reasoning. */
interface Usage {
  input: number;
  cached: number;
  output: number;
  reasoning: number;
}

/** A request without the key and the base URL. */
export interface DialectRequest {
  path: string;
  body: Record<string, unknown>;
  /** The model, which some dialects have in the path only. */
  model: string;
}

/** The content of the events of one answer so far. */
export interface Answer {
  turn: AssistantTurn;
  usage: Usage | undefined;
  finish: string | undefined;
  error: string | undefined;
}

export const emptyAnswer = (): Answer => ({
  turn: { role: "assistant", text: "", reasoning: "", calls: [], native: undefined },
  usage: undefined,
  finish: undefined,
  error: undefined,
});

export interface DialectModule {
  /** Streams, and stores nothing. */
  requestOf(turns: readonly Turn[], settings: Settings): DialectRequest;
  /** A reader for one answer: adds each event's JSON to the answer. */
  reader(answer: Answer): (event: unknown) => void;
}

/** The media type and the base64 of a data URL. */
export function dataUrlParts(url: string): { type: string; data: string } {
  const [, type = "image/png", data = ""] = /^data:([^;,]+)(?:;[^,]*)?,(.*)$/s.exec(url) ?? [];
  return { type, data };
}

/** The JSON of a call's input; an empty object if the model wrote something else. */
export function inputOf({ input }: ToolCall): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(input);
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}

/** The content to send back unchanged, if the turn was answered in this dialect. */
export const nativeOf = ({ native }: AssistantTurn, dialect: Dialect): unknown[] | undefined =>
  native?.dialect === dialect && native.content.length > 0 ? native.content : undefined;
