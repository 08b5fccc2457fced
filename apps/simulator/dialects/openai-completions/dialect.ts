/** OpenAI's legacy completions: POST /v1/completions, streamed and whole. */
import { eachOf, joined, noChunks, promptTokensOf } from "../../answer/chunks.ts";
import { type Choice, compose, tokensOf } from "../../answer/compose.ts";
import type { Question } from "../../answer/question.ts";
import { inTurns } from "../../answer/turns.ts";
import { createdOf, refuse, type Script, wholeOf } from "../dialect.ts";
import { openaiDialect, openaiScript, stopsOf } from "../openai.ts";
import { chatFinishOf } from "../openai-chat/response.ts";
import {
  anyOf,
  compiled,
  filledText,
  integer,
  list,
  nullable,
  nullableFlag,
  nullableInteger,
  nullableText,
  object,
  shaped,
  text,
} from "../shape.ts";

/** Reads a request for completions, as far as the answer depends on it; unknown fields pass. */

const tokenIds = list(integer({ minimum: 0 }), { minItems: 1 });

const completionRequest = compiled(
  object({
    model: filledText,
    prompt: nullable(anyOf([text, list(text, { minItems: 1 }), tokenIds, list(tokenIds, { minItems: 1 })])),
    suffix: nullableText,
    max_tokens: nullableInteger(0),
    n: nullableInteger(1, 128),
    best_of: nullableInteger(1, 128),
    logprobs: nullableInteger(0, 5),
    echo: nullableFlag,
    stop: nullable(anyOf([text, list(text)])),
    stream: nullableFlag,
    stream_options: nullable(object({ include_usage: nullableFlag })),
  }),
);

interface CompletionQuestion {
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
function completionQuestionOf(raw: unknown, digest: string): CompletionQuestion {
  const body = shaped(completionRequest, raw);
  const count = body.n ?? 1;
  const { prompt, suffix } = body;
  const stops = stopsOf(body.stop);
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
      stops,
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

export const openaiCompletions = openaiDialect(
  "openai-completions",
  ["/v1/completions"],
  ({ body, digest, settings }) => {
    const request = completionQuestionOf(body, digest);
    const answers = request.questions.map((question) => compose(question, settings, (fault) => refuse(fault, "n")));
    const choices = answers.flatMap((answer) => answer.choices);
    const promptTokens = request.questions.reduce((sum, question) => sum + question.promptTokens, 0);
    const completionTokens = choices.reduce((sum, choice) => sum + tokensOf(choice), 0);
    const envelope = {
      id: `cmpl-${digest.slice(0, 24)}`,
      object: "text_completion",
      created: createdOf(digest),
      model: request.model,
    };
    const usage = {
      prompt_tokens: promptTokens,
      completion_tokens: completionTokens,
      total_tokens: promptTokens + completionTokens,
    };
    if (request.stream) return scriptOf(envelope, request, choices, request.includeUsage ? usage : undefined);
    return wholeOf(
      { ...envelope, choices: choices.map((choice, index) => choiceOf(choice, index, request)), usage },
      completionTokens,
    );
  },
);

/** The prompt of a choice: its question's, `count` choices each. */
const promptOf = (index: number, { questions, count }: CompletionQuestion) =>
  questions[Math.floor(index / count)]?.userText ?? "";

function choiceOf(choice: Choice, index: number, request: CompletionQuestion) {
  const answerText = choice.text === undefined ? "" : joined(choice.text);
  const text = `${request.echo ? promptOf(index, request) : ""}${answerText}`;
  return { text, index, logprobs: request.logprobs ? logprobsOf(text) : null, finish_reason: chatFinishOf(choice) };
}

const logprobsOf = (text: string) => ({
  tokens: [text],
  token_logprobs: [-0.01],
  top_logprobs: [{ [text]: -0.01 }],
  text_offset: [0],
});

/** The choices take turns, token by token. */
function scriptOf(envelope: object, request: CompletionQuestion, choices: Choice[], usage: object | undefined): Script {
  const eventOf = (text: string, index: number, finish: string | null) =>
    `data: ${JSON.stringify({ ...envelope, choices: [{ text, index, logprobs: request.logprobs ? logprobsOf(text) : null, finish_reason: finish }], ...(usage && { usage: null }) })}\n\n`;
  function* events(): Generator<string, string> {
    const echoed = new Set<number>();
    for (const { choice, token } of inTurns(choices.map(({ text = noChunks }) => eachOf(text)))) {
      const before = request.echo && !echoed.has(choice) ? promptOf(choice, request) : "";
      echoed.add(choice);
      yield eventOf(before + token, choice, null);
    }
    return (
      choices.map((choice, index) => eventOf("", index, chatFinishOf(choice))).join("") +
      (usage === undefined ? "" : `data: ${JSON.stringify({ ...envelope, choices: [], usage })}\n\n`)
    );
  }
  return openaiScript({
    length: choices.reduce((sum, { text }) => sum + (text?.length ?? 0), 0),
    events: events(),
    terminator: "data: [DONE]\n\n",
  });
}
