/**
 * OpenAI moderations: POST /v1/moderations. Words such as "kill" and "hate" are flagged, and
 * nothing else.
 */
import { refuse, wholeOf } from "../dialect.ts";
import { openaiDialect } from "../openai.ts";
import { anyOf, compiled, exactly, filledText, list, nullableText, object, optional, shaped, text } from "../shape.ts";

const part = anyOf([
  object({ type: exactly("text"), text }),
  object({ type: exactly("image_url"), image_url: object({ url: filledText }) }),
]);

const moderationRequest = compiled(
  object({
    model: nullableText,
    input: anyOf([text, list(text, { minItems: 1 }), list(part, { minItems: 1 })]),
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

export const openaiModerations = openaiDialect("openai-moderations", ["/v1/moderations"], ({ body, digest }) => {
  const { input, model } = shaped(moderationRequest, body);
  const inputs = typeof input === "string" ? [[input]] : inputsOf(input);
  if (inputs.length > inputsMax) refuse(`input: there are at most ${inputsMax}.`, "input");
  return wholeOf({
    id: `modr-${digest.slice(0, 24)}`,
    model: model ?? "omni-moderation-latest",
    results: inputs.map(resultOf),
  });
});

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
  const of = <Value>(value: (isFlagged: boolean) => Value) =>
    Object.fromEntries(Object.entries(categories).map(([name, pattern]) => [name, value(pattern.test(words))]));
  const flags = of((isFlagged) => isFlagged);
  return {
    flagged: Object.values(flags).some(Boolean),
    categories: flags,
    category_scores: of((isFlagged) => (isFlagged ? 0.97 : 0.0001)),
    category_applied_input_types: of(() => types),
  };
}
