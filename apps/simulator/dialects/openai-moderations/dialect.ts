/**
 * OpenAI moderations: POST /v1/moderations. Words such as "kill" and "hate" are flagged, and
 * nothing else.
 */
import Type from "typebox";
import { Compile } from "typebox/compile";
import { type Dialect, refuse, stringOf, wholeOf } from "../dialect.ts";
import { openaiErrorBody } from "../openai-error.ts";
import { filledText, nullableText, optional, shaped, text } from "../shape.ts";

const part = Type.Union([
  Type.Object({ type: Type.Literal("text"), text }),
  Type.Object({ type: Type.Literal("image_url"), image_url: Type.Object({ url: filledText }) }),
]);

const moderationRequest = Compile(
  Type.Object({
    model: nullableText,
    input: Type.Union([text, Type.Array(text, { minItems: 1 }), Type.Array(part, { minItems: 1 })]),
    user: optional(text),
  }),
);

const inputsMax = 2_048;

/** Each category with the words that belong to it. */
const categories: Record<string, RegExp> = {
  harassment: /\bidiots?\b/i,
  "harassment/threatening": /\bwatch your back\b/i,
  hate: /\bhate\b/i,
  "hate/threatening": /\bhate and kill\b/i,
  illicit: /\bsteal\b/i,
  "illicit/violent": /\bbombs?\b/i,
  "self-harm": /\bhurt myself\b/i,
  "self-harm/instructions": /\bhow to hurt myself\b/i,
  "self-harm/intent": /\bwill hurt myself\b/i,
  sexual: /\bsex\b/i,
  "sexual/minors": /\bsex with minors\b/i,
  violence: /\bkill\b/i,
  "violence/graphic": /\bgore\b/i,
};

export const openaiModerations: Dialect = {
  name: "openai-moderations",
  serves: (method, path) => method === "POST" && path === "/v1/moderations",
  modelOf: ({ body }) => stringOf(body, "model"),
  errorBody: openaiErrorBody,
  answer({ body, digest }) {
    const { input, model } = shaped(moderationRequest, body);
    const inputs = typeof input === "string" ? [[input]] : inputsOf(input);
    if (inputs.length > inputsMax) refuse(`input: there are at most ${inputsMax}.`, "input");
    return wholeOf({
      id: `modr-${digest.slice(0, 24)}`,
      model: model ?? "omni-moderation-latest",
      results: inputs.map(resultOf),
    });
  },
};

type Input = string | { kind: "image" };

/** A list of texts is one input each; a list of parts is one input. */
function inputsOf(input: (string | { type: string; text?: string })[]): Input[][] {
  if (input.every((one) => typeof one === "string")) return input.map((one) => [one]);
  return [
    input.map((one) => (typeof one === "string" ? one : one.type === "text" ? (one.text ?? "") : { kind: "image" })),
  ];
}

function resultOf(input: Input[]) {
  const words = input.filter((one) => typeof one === "string").join(" ");
  const types = [...new Set(input.map((one) => (typeof one === "string" ? "text" : "image")))];
  const of = <Value>(value: (isFound: boolean) => Value) =>
    Object.fromEntries(Object.entries(categories).map(([name, pattern]) => [name, value(pattern.test(words))]));
  const found = of((isFound) => isFound);
  return {
    flagged: Object.values(found).some(Boolean),
    categories: found,
    category_scores: of((isFound) => (isFound ? 0.97 : 0.0001)),
    category_applied_input_types: of(() => types),
  };
}
