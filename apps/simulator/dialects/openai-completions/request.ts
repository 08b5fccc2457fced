/** Reads a request for completions, as far as the answer depends on it; unknown fields pass. */
import Type from "typebox";
import { Compile } from "typebox/compile";
import { promptTokensOf } from "../../answer/chunks.ts";
import type { Question } from "../../answer/question.ts";
import { filledText, nullable, nullableFlag, nullableInteger, nullableText, shaped, text } from "../shape.ts";

const tokenIds = Type.Array(Type.Integer({ minimum: 0 }), { minItems: 1 });

const completionRequest = Compile(
  Type.Object({
    model: filledText,
    prompt: nullable(
      Type.Union([text, Type.Array(text, { minItems: 1 }), tokenIds, Type.Array(tokenIds, { minItems: 1 })]),
    ),
    suffix: nullableText,
    max_tokens: nullableInteger(0),
    n: nullableInteger(1, 128),
    best_of: nullableInteger(1, 128),
    logprobs: nullableInteger(0, 5),
    echo: nullableFlag,
    stop: nullable(Type.Union([text, Type.Array(text, { maxItems: 4 })])),
    stream: nullableFlag,
    stream_options: nullable(Type.Object({ include_usage: nullableFlag })),
  }),
);

export interface CompletionQuestion {
  model: string;
  stream: boolean;
  includeUsage: boolean;
  echo: boolean;
  logprobs: boolean;
  /** The choices of each question. */
  count: number;
  /** One for each prompt. */
  questions: Question[];
}

/** `digest` is the hex SHA-256 of the body. */
export function completionQuestionOf(raw: unknown, digest: string): CompletionQuestion {
  const body = shaped(completionRequest, raw);
  const count = body.n ?? 1;
  const { prompt, suffix, stop } = body;
  const ending = suffix === null || suffix === undefined || suffix === "" ? "" : ` … ${suffix}`;
  return {
    model: body.model,
    stream: body.stream ?? false,
    includeUsage: body.stream_options?.include_usage ?? false,
    echo: body.echo ?? false,
    logprobs: body.logprobs !== undefined && body.logprobs !== null,
    count,
    questions: promptsOf(prompt ?? "").map((userText) => ({
      digest,
      userText: `${userText}${ending}`,
      images: [],
      toolResults: [],
      tools: [],
      calling: "none",
      parallelCalls: false,
      format: { kind: "text" },
      effort: undefined,
      outputTokensMax: body.max_tokens ?? undefined,
      stops: typeof stop === "string" ? [stop] : (stop ?? []),
      choices: count,
      promptTokens: promptTokensOf(`${userText}${ending}`),
      earlierTokens: 0,
    })),
  };
}

/** A list of numbers is one prompt. */
function promptsOf(prompt: string | string[] | number[] | number[][]): string[] {
  if (typeof prompt === "string") return [prompt];
  if (prompt.every((one) => typeof one === "number")) return [`tokens ${prompt.join(" ")}`];
  return prompt.map((one) => (typeof one === "string" ? one : `tokens ${Object(one).join(" ")}`));
}
