/** OpenAI embeddings: POST /v1/embeddings. */
import { promptTokensOf } from "../../answer/chunks.ts";
import { vectorOf } from "../../answer/vector.ts";
import { answerBytesMax } from "../../settings.ts";
import { refuse } from "../dialect.ts";
import { openaiDialect } from "../openai.ts";
import { anyOf, compiled, filledText, integer, list, object, oneOf, optional, shaped } from "../shape.ts";

const some = { minItems: 1 };
const tokens = list(integer({ minimum: 0 }), some);

const embeddingsRequest = compiled(
  object({
    model: filledText,
    input: anyOf([filledText, list(filledText, some), tokens, list(tokens, some)]),
    dimensions: optional(integer({ minimum: 1, maximum: 4_096 })),
    encoding_format: optional(oneOf(["float", "base64"])),
  }),
);

const inputsMax = 2_048;
const dimensionsDefault = 1_536;
/** The most characters of a number in JSON. */
const numberBytes = 16;

export const openaiEmbeddings = openaiDialect("openai-embeddings", ["/v1/embeddings"], ({ body, settings }) => {
  const request = shaped(embeddingsRequest, body);
  const { model, dimensions = dimensionsDefault, encoding_format: encoding = "float" } = request;
  const inputs = inputsOf(request.input);
  if (inputs.length > inputsMax) refuse(`input: there are at most ${inputsMax}.`, "input");
  if (inputs.length * dimensions * numberBytes > answerBytesMax)
    refuse(`So many vectors are more than ${answerBytesMax} bytes.`, "input");
  const data = inputs.map((input, index) => {
    const vector = vectorOf(typeof input === "string" ? input : input.join(" "), dimensions);
    return `{"object":"embedding","index":${index},"embedding":${encoding === "float" ? floatsOf(vector) : base64Of(vector)}}`;
  });
  const promptTokens = inputs.reduce(
    (sum, input) => sum + (typeof input === "string" ? promptTokensOf(input) : input.length),
    0,
  );
  const usage =
    settings.usage === "never" ? "" : `,"usage":{"prompt_tokens":${promptTokens},"total_tokens":${promptTokens}}`;
  return {
    kind: "whole",
    body: `{"object":"list","data":[${data.join(",")}],"model":${JSON.stringify(model)}${usage}}`,
    tokens: 0,
  };
});

/** A list of numbers is one input. */
function inputsOf(input: string | string[] | number[] | number[][]): (string | number[])[] {
  if (typeof input === "string") return [input];
  return input.every((one) => typeof one === "number") ? [input] : input;
}

/** Nine digits represent a 32-bit float exactly. */
const floatsOf = (vector: Float32Array) =>
  `[${Array.from(vector, (value) => String(Number(value.toPrecision(9)))).join(",")}]`;

/** 32-bit floats, little-endian. */
function base64Of(vector: Float32Array): string {
  const bytes = Buffer.alloc(vector.length * 4);
  for (const [index, value] of vector.entries()) bytes.writeFloatLE(value, index * 4);
  return `"${bytes.toString("base64")}"`;
}
