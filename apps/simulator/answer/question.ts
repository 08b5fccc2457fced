/** What the simulator needs to know of a request, whatever its dialect. */

/** What a message costs beside its text, and an image: rough but constant. */
export const messageTokens = 3;
export const imageTokens = 85;

/** Models whose name begins so reason without being asked to. */
export const reasoningModel = "sim-reasoning";

export interface Tool {
  name: string;
  /** The JSON schema of its arguments; undefined for a tool that takes free text. */
  schema: unknown;
  takes: "json" | "text";
}

export interface Question {
  /** Hex SHA-256 of the request's body. */
  digest: string;
  /** The text of the last turn of the user. */
  userText: string;
  /** Of the last turn of the user: a media type and size, or an address. */
  images: string[];
  /** Likewise; none if the dialect knows none. */
  documents?: string[];
  /** Results that came after the last turn of the user. */
  toolResults: { name: string; text: string; failed?: boolean }[];
  /** Those that may be called. */
  tools: Tool[];
  /** Whether a call is wanted: never, if the user asks for one, or always. */
  calling: "none" | "auto" | "required";
  parallelCalls: boolean;
  /** `bare` is a text that is not in quotes. */
  format: { kind: "text" } | { kind: "json" } | { kind: "schema"; schema: unknown; bare?: boolean };
  /** undefined or "none": no reasoning. */
  effort: string | undefined;
  /** Reasoning included. */
  outputTokensMax: number | undefined;
  stops: string[];
  /** How many answers are wanted. */
  choices: number;
  promptTokens: number;
  /** What of the prompt was there before the last turn. */
  earlierTokens: number;
}
