/**
 * The schemas of requests in Google's Gemini format:
 * https://ai.google.dev/api/generate-content#request-body
 */

import Type from "typebox";
import type { JsonObject } from "#wire/json/parse.ts";
import { int32Max, nullable, type Schema } from "../request-schema/schema-parts.ts";
import { snakeNameOf } from "./names.ts";

const text = nullable("string");
const flag = nullable("boolean");
const anyObject = nullable("object");
const number = (minimum: number, maximum: number) => nullable("number", { minimum, maximum });
const integer = (minimum: number, maximum = int32Max) => nullable("integer", { minimum, maximum });
const named: Schema = { type: "string", minLength: 1 };
/** A value by its name or its number. */
const choice: Schema = { type: ["string", "integer", "null"] };

const reference = (name: string): Schema => ({ $ref: `#/$defs/${name}` });
/** A list, or a single item in its place. */
const some = (name: string): Schema => ({
  type: ["array", "object"],
  items: reference(name),
  if: { type: "object" },
  then: reference(name),
});
const someOrNone = (name: string): Schema => ({ ...some(name), type: ["array", "object", "null"] });

/** Requires the member in either spelling, and reports it as missing otherwise. */
const wants = (name: string): Schema =>
  snakeNameOf(name) === name
    ? { required: [name] }
    : { if: { not: { required: [snakeNameOf(name)] } }, then: { required: [name] } };

/** Excludes the other member if one is given. */
const excludes = (one: string, other: string): Schema => ({
  if: { required: [one], properties: { [one]: { not: { type: "null" } } } },
  then: { properties: { [other]: { type: "null" } } },
});

/** Refuses a member in both spellings: an upstream may read the other one. */
const spelledOnce = (members: Record<string, Schema>): Schema =>
  Object.fromEntries(
    Object.keys(members)
      .filter((name) => snakeNameOf(name) !== name)
      .map((name) => [snakeNameOf(name), { properties: { [name]: false } }]),
  );

/** Members with both spellings. */
const fields = (members: Record<string, Schema>): Schema =>
  Object.fromEntries(
    Object.entries(members).flatMap(([name, schema]) =>
      [name, snakeNameOf(name)]
        .filter((spelling, place, all) => all.indexOf(spelling) === place)
        .map((spelling) => [spelling, schema]),
    ),
  );

const object = (members: Record<string, Schema>, ...rules: Schema[]): Schema => ({
  type: "object",
  properties: fields(members),
  dependencies: spelledOnce(members),
  ...(rules.length > 0 && { allOf: rules }),
});
const optionalObject = (members: Record<string, Schema>, ...rules: Schema[]): Schema => ({
  ...object(members, ...rules),
  type: ["object", "null"],
});

const media = {
  inlineData: optionalObject({ mimeType: named, data: named, displayName: text }, wants("mimeType"), wants("data")),
  fileData: optionalObject({ fileUri: named, mimeType: text, displayName: text }, wants("fileUri")),
};

const part = object({
  ...media,
  text,
  thought: flag,
  thoughtSignature: text,
  functionCall: optionalObject({ id: text, name: named, args: anyObject }, wants("name")),
  functionResponse: optionalObject(
    { id: text, name: named, response: anyObject, parts: someOrNone("media") },
    wants("name"),
  ),
  executableCode: anyObject,
  codeExecutionResult: anyObject,
  toolCall: anyObject,
  toolResponse: anyObject,
  videoMetadata: anyObject,
  partMetadata: anyObject,
  mediaResolution: { type: ["string", "object", "null"], if: { type: "object" }, then: object({ level: text }) },
});

const content = object(
  { role: { enum: ["user", "model", "function", "tool", "", null] }, parts: some("part") },
  wants("parts"),
);

/**
 * Instructions have no speaker, so their role means nothing. Google's older libraries write
 * `system`: https://github.com/google-gemini/generative-ai-js, in `request-helpers.ts`, and
 * https://github.com/googleapis/nodejs-vertexai, in `functions/util.ts`
 */
const instructions = object({ role: text, parts: some("part") }, wants("parts"));

const declaration = object(
  {
    name: named,
    description: text,
    parameters: anyObject,
    parametersJsonSchema: { type: ["object", "boolean", "null"] },
    behavior: choice,
  },
  wants("name"),
  excludes("parameters", "parametersJsonSchema"),
);

const generationConfig = optionalObject(
  {
    temperature: number(0, 2),
    topP: number(0, 1),
    topK: integer(1),
    candidateCount: integer(1, 8),
    maxOutputTokens: integer(1),
    stopSequences: nullable("array", { items: named, maxItems: 5 }),
    seed: integer(-int32Max - 1),
    presencePenalty: number(-2, 2),
    frequencyPenalty: number(-2, 2),
    responseLogprobs: flag,
    logprobs: integer(0, 20),
    responseMimeType: text,
    responseSchema: anyObject,
    responseJsonSchema: { type: ["object", "boolean", "null"] },
    responseModalities: nullable("array", { items: { type: ["string", "integer"] } }),
    mediaResolution: choice,
    speechConfig: anyObject,
    imageConfig: anyObject,
    audioTranscriptionConfig: anyObject,
    thinkingConfig: optionalObject(
      { includeThoughts: flag, thinkingBudget: integer(-1), thinkingLevel: text },
      excludes("thinkingBudget", "thinkingLevel"),
    ),
  },
  excludes("responseSchema", "responseJsonSchema"),
);

const requestMembers = {
  contents: some("content"),
  systemInstruction: nullable("object", { if: { type: "object" }, then: reference("instructions") }),
  tools: someOrNone("tool"),
  toolConfig: optionalObject({
    functionCallingConfig: optionalObject({
      mode: choice,
      allowedFunctionNames: nullable("array", { items: { type: "string" } }),
    }),
  }),
  safetySettings: { type: ["array", "object", "null"], items: object({ category: choice, threshold: choice }) },
  cachedContent: text,
  labels: anyObject,
  serviceTier: text,
  store: flag,
  continuationToken: text,
  generationConfig,
};

const notEmpty: Schema = { properties: { contents: { minItems: 1 } } };
const $defs = {
  part,
  content,
  instructions,
  media: object(media),
  declaration,
  tool: object({ functionDeclarations: someOrNone("declaration") }),
  request: object(requestMembers, wants("contents"), notEmpty),
};

/**
 * Checks the known fields for type and range. Unknown fields pass, and so do unknown values of
 * fields to which the vendor may add values. `null` counts as absent for optional fields. No
 * defaults and no coercion: a check never changes the caller's body.
 */
export const generateRequestSchema = Type.Unsafe<JsonObject>({ ...$defs.request, $defs });

/**
 * A request to count tokens: a conversation, or the whole request that would contain it.
 * https://ai.google.dev/api/tokens
 */
export const countRequestSchema = Type.Unsafe<JsonObject>({
  ...object(
    {
      ...requestMembers,
      generateContentRequest: nullable("object", { if: { type: "object" }, then: reference("request") }),
    },
    {
      if: { properties: { generateContentRequest: { type: "null" }, generate_content_request: { type: "null" } } },
      then: { allOf: [wants("contents"), notEmpty] },
    },
  ),
  $defs,
});
