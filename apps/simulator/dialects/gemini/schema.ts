/** The shape of Gemini's requests, as far as the simulator reads it; unknown fields pass. */
import Type, { type Static } from "typebox";
import { Compile } from "typebox/compile";

import {
  anything,
  filledText,
  nullable,
  nullableFlag,
  nullableInteger,
  nullableNumber,
  nullableText,
  optional,
  text,
} from "../shape.ts";

const json = Type.Record(text, anything);

/** Base64 in either alphabet. */
const bytes = Type.String({ pattern: "^[A-Za-z0-9+/_-]*={0,2}$" });

const media = {
  inlineData: optional(Type.Object({ mimeType: filledText, data: bytes, displayName: nullableText })),
  fileData: optional(Type.Object({ fileUri: filledText, mimeType: optional(text) })),
};

const part = Type.Object({
  ...media,
  text: optional(text),
  thought: nullableFlag,
  thoughtSignature: nullable(bytes),
  functionCall: optional(Type.Object({ id: nullableText, name: filledText, args: nullable(json) })),
  functionResponse: optional(
    Type.Object({
      id: nullableText,
      name: filledText,
      response: json,
      parts: nullable(Type.Array(Type.Object(media))),
    }),
  ),
});

const content = Type.Object({
  role: nullable(Type.Enum(["user", "model", "function"])),
  parts: Type.Array(part, { minItems: 1 }),
});

const tool = Type.Object({
  functionDeclarations: nullable(
    Type.Array(
      Type.Object({
        name: Type.String({ pattern: "^[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}$" }),
        parameters: nullable(json),
        parametersJsonSchema: optional(anything),
      }),
    ),
  ),
});

const penalty = nullable(Type.Number({ minimum: -2, exclusiveMaximum: 2 }));

const generationConfig = Type.Object({
  candidateCount: nullableInteger(1, 8),
  maxOutputTokens: nullableInteger(1, 2_147_483_647),
  stopSequences: nullable(Type.Array(filledText, { maxItems: 5 })),
  temperature: nullableNumber(0, 2),
  topP: nullableNumber(0, 1),
  topK: nullableInteger(1, 2_147_483_647),
  /**
   * The upper bound is exclusive:
   * https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/inference
   */
  presencePenalty: penalty,
  frequencyPenalty: penalty,
  responseMimeType: nullable(Type.Enum(["text/plain", "application/json", "text/x.enum"])),
  responseSchema: nullable(json),
  responseJsonSchema: optional(anything),
  responseModalities: nullable(Type.Array(Type.Enum(["TEXT", "IMAGE", "AUDIO"]), { maxItems: 3 })),
  imageConfig: nullable(
    Type.Object({
      aspectRatio: nullable(Type.Enum(["1:1", "2:3", "3:2", "3:4", "4:3", "4:5", "5:4", "9:16", "16:9", "21:9"])),
      imageSize: nullable(Type.Enum(["1K", "2K", "4K"])),
    }),
  ),
  thinkingConfig: nullable(
    Type.Object({
      includeThoughts: nullableFlag,
      thinkingBudget: nullableInteger(-1, 1_000_000),
      thinkingLevel: nullable(Type.Enum(["THINKING_LEVEL_UNSPECIFIED", "MINIMAL", "LOW", "MEDIUM", "HIGH"])),
    }),
  ),
});

const generateRequest = Type.Object({
  contents: Type.Array(content, { minItems: 1 }),
  systemInstruction: nullable(Type.Object({ parts: Type.Array(part, { minItems: 1 }) })),
  tools: nullable(Type.Array(tool)),
  toolConfig: nullable(
    Type.Object({
      functionCallingConfig: nullable(
        Type.Object({
          mode: nullable(Type.Enum(["MODE_UNSPECIFIED", "AUTO", "ANY", "NONE", "VALIDATED"])),
          allowedFunctionNames: nullable(Type.Array(text)),
        }),
      ),
    }),
  ),
  generationConfig: nullable(generationConfig),
});

const countRequest = Type.Union([generateRequest, Type.Object({ generateContentRequest: generateRequest })]);

const embedRequest = Type.Object({ content, outputDimensionality: nullableInteger(1, 3_072), taskType: nullableText });

export type GenerateRequest = Static<typeof generateRequest>;
export type EmbedRequest = Static<typeof embedRequest>;
export type Content = GenerateRequest["contents"][number];
export type Part = Content["parts"][number];

export const checkedGenerate = Compile(generateRequest);
export const checkedCount = Compile(countRequest);
export const checkedEmbed = Compile(embedRequest);
export const checkedEmbedBatch = Compile(
  Type.Object({ requests: Type.Array(embedRequest, { minItems: 1, maxItems: 100 }) }),
);

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

/** Field names may use underscores instead of capitals (protobuf's JSON mapping). */
export function camelOf(value: unknown, depth = 0): unknown {
  if (typeof value !== "object" || value === null || depth > depthMax) return value;
  if (Array.isArray(value)) return value.map((element) => camelOf(element, depth + 1));
  const members = Object.entries(value).map(([name, member]) => {
    const camel = camelNameOf(name);
    return [camel, opaque.includes(camel) ? member : camelOf(member, depth + 1)];
  });
  return Object.fromEntries(members);
}

export const camelNameOf = (name: string) =>
  name.replace(/_([a-z])/g, (_match, letter: string) => letter.toUpperCase());
