/** OpenAI's legacy completions: POST /v1/completions, streamed and whole. */
import { joined } from "../../answer/chunks.ts";
import { type Choice, compose, tokensOf } from "../../answer/compose.ts";
import { turnsOf } from "../../answer/turns.ts";
import { createdOf, type Dialect, refuse, type Script, stringOf, wholeOf } from "../dialect.ts";
import { chatFinishOf } from "../openai-chat/response.ts";
import { openaiErrorBody } from "../openai-error.ts";
import { type CompletionQuestion, completionQuestionOf } from "./request.ts";

export const openaiCompletions: Dialect = {
  name: "openai-completions",
  serves: (method, path) => method === "POST" && path === "/v1/completions",
  modelOf: ({ body }) => stringOf(body, "model"),
  errorBody: openaiErrorBody,
  answer({ body, digest, settings }) {
    const asked = completionQuestionOf(body, digest);
    const answers = asked.questions.map((question) => compose(question, settings, (fault) => refuse(fault, "n")));
    const choices = answers.flatMap((answer) => answer.choices);
    const promptTokens = asked.questions.reduce((sum, question) => sum + question.promptTokens, 0);
    const completionTokens = choices.reduce((sum, choice) => sum + tokensOf(choice), 0);
    const envelope = {
      id: `cmpl-${digest.slice(0, 24)}`,
      object: "text_completion",
      created: createdOf(digest),
      model: asked.model,
    };
    const usage = {
      prompt_tokens: promptTokens,
      completion_tokens: completionTokens,
      total_tokens: promptTokens + completionTokens,
    };
    if (asked.stream) return scriptOf(envelope, asked, choices, asked.includeUsage ? usage : undefined);
    return wholeOf(
      { ...envelope, choices: choices.map((choice, index) => choiceOf(choice, index, asked)), usage },
      completionTokens,
    );
  },
};

/** The prompt of a choice: its question's, `count` choices each. */
const promptOf = (index: number, { questions, count }: CompletionQuestion): string =>
  questions[Math.floor(index / count)]?.userText ?? "";

function choiceOf(choice: Choice, index: number, asked: CompletionQuestion) {
  const said = choice.text === undefined ? "" : joined(choice.text);
  const text = `${asked.echo ? promptOf(index, asked) : ""}${said}`;
  return { text, index, logprobs: asked.logprobs ? logprobsOf(text) : null, finish_reason: chatFinishOf(choice) };
}

const logprobsOf = (text: string) => ({
  tokens: [text],
  token_logprobs: [-0.01],
  top_logprobs: [{ [text]: -0.01 }],
  text_offset: [0],
});

/** The choices take turns, token by token. */
function scriptOf(envelope: object, asked: CompletionQuestion, choices: Choice[], usage: object | undefined): Script {
  const eventOf = (text: string, index: number, finish: string | null) =>
    `data: ${JSON.stringify({ ...envelope, choices: [{ text, index, logprobs: asked.logprobs ? logprobsOf(text) : null, finish_reason: finish }], ...(usage && { usage: null }) })}\n\n`;
  const turns = turnsOf(choices.map(({ text }) => text?.length ?? 0));
  return {
    kind: "events",
    opening: "",
    length: turns.length,
    eventAt(index) {
      const choice = turns.choiceAt(index);
      const token = turns.tokenAt(index);
      const before = asked.echo && token === 0 ? promptOf(choice, asked) : "";
      return eventOf(`${before}${choices[choice]?.text?.at(token) ?? ""}`, choice, null);
    },
    closing:
      choices.map((choice, index) => eventOf("", index, chatFinishOf(choice))).join("") +
      (usage === undefined ? "" : `data: ${JSON.stringify({ ...envelope, choices: [], usage })}\n\n`),
    terminator: "data: [DONE]\n\n",
    errorEvent: (message) => `data: ${openaiErrorBody({ status: 500, message })}\n\n`,
  };
}
