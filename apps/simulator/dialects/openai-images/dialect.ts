/** OpenAI image generation: POST /v1/images/generations in JSON, not streamed. */
import Type from "typebox";
import { Compile } from "typebox/compile";
import { promptTokensOf, seedOf } from "../../answer/pieces.ts";
import { createdOf, type Dialect, stringOf } from "../dialect.ts";
import { openaiErrorBody } from "../openai-error.ts";
import { faultIn } from "../shape.ts";
import { pngOf } from "./png.ts";

const imagesRequest = Compile(
  Type.Object({
    prompt: Type.String({ minLength: 1, maxLength: 32_000 }),
    model: Type.Optional(Type.String()),
    n: Type.Optional(Type.Integer({ minimum: 1, maximum: 10 })),
    size: Type.Optional(Type.String({ pattern: "^(auto|[1-9][0-9]{1,3}x[1-9][0-9]{1,3})$" })),
    response_format: Type.Optional(Type.Enum(["b64_json", "url"])),
    output_format: Type.Optional(Type.Literal("png")),
    stream: Type.Optional(Type.Literal(false)),
  }),
);

const sideMax = 3_840;
/** What an image counts for in usage, and what it takes at a rate. */
const imageTokens = 272;

export const openaiImages: Dialect = {
  name: "openai-images",
  serves: (method, path) => method === "POST" && path === "/v1/images/generations",
  modelOf: ({ body }) => stringOf(body, "model"),
  errorBody: openaiErrorBody,
  answer({ body, digest, settings }) {
    if (!imagesRequest.Check(body)) return faultIn(imagesRequest.Errors(body));
    const { prompt, n: count = 1, size = "auto" } = body;
    const [width = 1_024, height = 1_024] = size === "auto" ? [] : size.split("x").map(Number);
    if (width > sideMax || height > sideMax) return { kind: "refused", status: 400, message: `size: a side is at most ${sideMax} pixels.`, param: "size" };
    const data = Array.from({ length: count }, (_, index) => {
      const image = pngOf({ width, height, seed: (seedOf(prompt) + index * 0x9e3779b1) >>> 0, bytesMin: settings.imageBytesMin }).toString("base64");
      return body.response_format === "url" ? { url: `data:image/png;base64,${image}` } : { b64_json: image };
    });
    const inputTokens = promptTokensOf(prompt);
    const outputTokens = imageTokens * count;
    const usage = {
      input_tokens: inputTokens,
      input_tokens_details: { text_tokens: inputTokens, image_tokens: 0 },
      output_tokens: outputTokens,
      total_tokens: inputTokens + outputTokens,
    };
    return {
      kind: "whole",
      body: JSON.stringify({ created: createdOf(digest), background: "opaque", output_format: "png", quality: "low", size: `${width}x${height}`, data, usage }),
      tokens: outputTokens,
    };
  },
};
