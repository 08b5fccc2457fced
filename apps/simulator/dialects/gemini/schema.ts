/** The shape of Gemini's requests, as far as the simulator reads it; unknown fields pass. */
import type { Static } from "typebox";

import { isObject } from "../../answer/schema.ts";
import {
  anyOf,
  anything,
  compiled,
  filledText,
  list,
  nullable,
  nullableFlag,
  nullableInteger,
  nullableNumber,
  nullableText,
  number,
  object,
  oneOf,
  optional,
  record,
  string,
  text,
} from "../shape.ts";

const json = record(text, anything);

/** The values of a field in the order of their numbers. */
const modes = ["MODE_UNSPECIFIED", "AUTO", "ANY", "NONE", "VALIDATED"];
const modalities = ["MODALITY_UNSPECIFIED", "TEXT", "IMAGE", "AUDIO"];

/** Base64 in either alphabet. */
const bytes = string({ pattern: "^[A-Za-z0-9+/_-]*={0,2}$" });

const media = {
  inlineData: optional(object({ mimeType: filledText, data: bytes, displayName: nullableText })),
  fileData: optional(object({ fileUri: filledText, mimeType: optional(text) })),
};

const part = object({
  ...media,
  text: optional(text),
  thought: nullableFlag,
  thoughtSignature: nullable(bytes),
  functionCall: optional(object({ id: nullableText, name: filledText, args: nullable(json) })),
  functionResponse: optional(
    object({
      id: nullableText,
      name: filledText,
      response: json,
      parts: nullable(list(object(media))),
    }),
  ),
});

const content = object({
  role: nullable(oneOf(["user", "model", "function"])),
  parts: list(part, { minItems: 1 }),
});

const tool = object({
  functionDeclarations: nullable(
    list(
      object({
        name: string({ pattern: "^[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}$" }),
        parameters: nullable(json),
        parametersJsonSchema: optional(anything),
      }),
    ),
  ),
});

const penalty = nullable(number({ minimum: -2, exclusiveMaximum: 2 }));

const generationConfig = object({
  candidateCount: nullableInteger(1, 8),
  maxOutputTokens: nullableInteger(1, 2_147_483_647),
  stopSequences: nullable(list(filledText, { maxItems: 5 })),
  temperature: nullableNumber(0, 2),
  topP: nullableNumber(0, 1),
  topK: nullableInteger(1, 2_147_483_647),
  /**
   * The upper bound is exclusive:
   * https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/inference
   */
  presencePenalty: penalty,
  frequencyPenalty: penalty,
  responseMimeType: nullable(oneOf(["text/plain", "application/json", "text/x.enum"])),
  responseSchema: nullable(json),
  responseJsonSchema: optional(anything),
  responseModalities: nullable(list(oneOf(["TEXT", "IMAGE", "AUDIO"]), { maxItems: 3 })),
  imageConfig: nullable(
    object({
      aspectRatio: nullable(oneOf(["1:1", "2:3", "3:2", "3:4", "4:3", "4:5", "5:4", "9:16", "16:9", "21:9"])),
      imageSize: nullable(oneOf(["1K", "2K", "4K"])),
    }),
  ),
  thinkingConfig: nullable(
    object({
      includeThoughts: nullableFlag,
      thinkingBudget: nullableInteger(-1, 1_000_000),
      thinkingLevel: nullable(oneOf(["THINKING_LEVEL_UNSPECIFIED", "MINIMAL", "LOW", "MEDIUM", "HIGH"])),
    }),
  ),
});

const generateRequest = object({
  contents: list(content, { minItems: 1 }),
  systemInstruction: nullable(object({ parts: list(part, { minItems: 1 }) })),
  tools: nullable(list(tool)),
  toolConfig: nullable(
    object({
      functionCallingConfig: nullable(
        object({
          mode: nullable(oneOf(modes)),
          allowedFunctionNames: nullable(list(text)),
        }),
      ),
    }),
  ),
  generationConfig: nullable(generationConfig),
});

const countRequest = anyOf([generateRequest, object({ generateContentRequest: generateRequest })]);

const embedRequest = object({ content, outputDimensionality: nullableInteger(1, 3_072), taskType: nullableText });

export type GenerateRequest = Static<typeof generateRequest>;
export type EmbedRequest = Static<typeof embedRequest>;
export type Content = GenerateRequest["contents"][number];
export type Part = Content["parts"][number];

export const checkedGenerate = compiled(generateRequest);
export const checkedCount = compiled(countRequest);
export const checkedEmbed = compiled(embedRequest);
export const checkedEmbedBatch = compiled(object({ requests: list(embedRequest, { minItems: 1, maxItems: 100 }) }));

/** Members whose value is the caller's own data, so its keys are not respelled. */
const opaque = [
  "args",
  "response",
  "parameters",
  "parametersJsonSchema",
  "responseSchema",
  "responseJsonSchema",
  "labels",
];
const depthMax = 16;

/** Fields that take a list, or a single item in its place. */
const listed = ["contents", "parts", "tools", "functionDeclarations"];

/**
 * Field names may use underscores instead of capitals, and numbers may stand for the names of
 * values (protobuf's JSON mapping).
 */
export function camelOf(value: unknown, depth = 0, field = ""): unknown {
  if (typeof value === "number") {
    const names = field === "mode" ? modes : field === "responseModalities" ? modalities : [];
    return names[value] ?? value;
  }
  if (typeof value !== "object" || value === null || depth > depthMax) return value;
  if (Array.isArray(value)) return value.map((element) => camelOf(element, depth + 1, field));
  const members = Object.entries(value).map(([name, member]) => {
    const camel = camelNameOf(name);
    const inner = opaque.includes(camel) ? member : camelOf(member, depth + 1, camel);
    return [camel, listed.includes(camel) && isObject(inner) ? [inner] : inner];
  });
  return Object.fromEntries(members);
}

export const camelNameOf = (name: string) =>
  name.replace(/_([a-z])/g, (_match, letter: string) => letter.toUpperCase());
