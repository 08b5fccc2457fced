/** The parts of a request that the simulator needs, in any dialect. */

/** Prompt tokens of a message besides its text, and of an image: rough but constant. */
export const messageTokens = 3;
export const imageTokens = 85;

/** Models with this name prefix reason without being asked to. */
export const reasoningModel = "sim-reasoning";

/** The effort of a budget of tokens. */
export const effortOfBudget = (budget: number) =>
  budget <= 1_024 ? "low" : budget <= 8_192 ? "medium" : budget <= 24_576 ? "high" : "xhigh";

/**
 * The tokens of a prompt by those of its messages; `before` are those of instructions and tools.
 */
export function promptOf(counts: number[], before: number): Pick<Question, "promptTokens" | "earlierTokens"> {
  const promptTokens = counts.reduce((sum, count) => sum + count, before);
  return { promptTokens, earlierTokens: promptTokens - (counts.at(-1) ?? 0) };
}

export interface Tool {
  name: string;
  /** The JSON schema of its arguments; undefined for a tool with free text. */
  schema: unknown;
  takes: "json" | "text";
}

export interface Question {
  /** Hex SHA-256 of the request's body. */
  digest: string;
  /** The text of the user's last turn. */
  userText: string;
  /** The images of the user's last turn, by media type and size, or by address. */
  images: string[];
  /** The documents of the user's last turn; absent if the dialect has none. */
  documents?: string[];
  /** Results after the user's last turn. */
  toolResults: { name: string; text: string; failed?: boolean }[];
  /** The tools that may be called. */
  tools: Tool[];
  /** `auto`: a call is made if the user asks for one. */
  calling: "none" | "auto" | "required";
  parallelCalls: boolean;
  /** `bare`: the text is not in quotes. */
  format: { kind: "text" } | { kind: "json" } | { kind: "schema"; schema: unknown; bare?: boolean };
  /** Undefined or "none": no reasoning. */
  effort: string | undefined;
  /** Includes reasoning. */
  outputTokensMax: number | undefined;
  stops: string[];
  /** The number of answers. */
  choices: number;
  promptTokens: number;
  /** Tokens of the prompt before the last turn. */
  earlierTokens: number;
}
