/**
 * Requests in Google's Gemini format, in both directions:
 * https://ai.google.dev/api/generate-content
 */

import {
  isObject,
  isPresent,
  type JsonObject,
  jsonBytesOf,
  listOf,
  objectOf,
  someOf,
  textOf,
} from "#wire/json/parse.ts";
import type { CallerRequest, Framing, Target, WireRequest } from "../codec.ts";
import {
  neutralRequest,
  plainSettingsIn,
  type RefusedFields,
  refuseFault,
  refuseFields,
} from "../neutral/caller-request.ts";
import { type FieldSupport, refuse } from "../neutral/field-support.ts";
import { fitted } from "../neutral/fitted-request.ts";
import { formatInstructionOf } from "../neutral/format-instruction.ts";
import type { ModelTraits } from "../neutral/model-traits.ts";
import { type Effort, efforts, type NeutralRequest, type Settings } from "../neutral/neutral.ts";
import { effortAmong, requestedEffortOf } from "../neutral/reasoning.ts";
import { geminiTierRefusal, serviceTierIn } from "../neutral/service-tier.ts";
import { leftOutWarnings } from "../neutral/vendor-tools.ts";
import { stopsOf } from "../neutral/within-bounds.ts";
import { geminiTarget } from "../schema/gemini.ts";
import { readSchema } from "../schema/read.ts";
import { decodeContents, decodeSystem, encodeConversation } from "./contents.ts";
import { enumMimeType, enumObjectSchemaOf } from "./enum.ts";
import { jsonSchemaOf } from "./google-schema.ts";
import { camelOf, enumNameOf, pathOf } from "./names.ts";
import { detailOf, dialect } from "./parts.ts";
import { statefulFieldIn } from "./stateless.ts";
import { decodeToolChoice, decodeTools, encodeTools, hostedIn } from "./tools.ts";

/**
 * The thinking settings of Google's models, a number of tokens or a level:
 * https://ai.google.dev/gemini-api/docs/thinking
 */
const path = "generationConfig.thinkingConfig";

/** The neutral settings of a `thinkingConfig`. */
function decodeThinking(value: unknown): Pick<Settings, "effort" | "thinkingTokensMax" | "thinkingShown"> {
  const { thinkingBudget: budget, thinkingLevel: level, includeThoughts } = objectOf(value);
  return {
    ...(typeof includeThoughts === "boolean" && {
      thinkingShown: { value: includeThoughts, path: `${path}.includeThoughts` },
    }),
    ...(budget === 0 && { effort: { value: "none" as const, path: `${path}.thinkingBudget` } }),
    ...(typeof budget === "number" &&
      budget > 0 && { thinkingTokensMax: { value: budget, path: `${path}.thinkingBudget` } }),
    ...(typeof level === "string" &&
      level !== "" &&
      level !== "THINKING_LEVEL_UNSPECIFIED" && { effort: effortOf(level) }),
  };
}

const effortOf = (level: string): NonNullable<Settings["effort"]> => ({
  value:
    efforts.find((effort) => effort === level.toLowerCase()) ??
    refuse(`${path}.thinkingLevel`, "must be MINIMAL, LOW, MEDIUM or HIGH"),
  path: `${path}.thinkingLevel`,
});

function encodeThinking(settings: Settings, traits: ModelTraits): object | undefined {
  const effort = requestedEffortOf(settings);
  const isShown = effort !== "none" && (settings.thinkingShown?.value ?? settings.effort !== undefined);
  if ((effort === undefined && !isShown) || traits.thinking === "none") return undefined;
  const amount =
    effort === undefined
      ? {}
      : traits.thinking === "budget"
        ? { thinkingBudget: budgetOf(settings, effort, traits) }
        : { thinkingLevel: effortAmong(effort, traits.efforts.filter(isLevel)).toUpperCase() };
  return { ...amount, includeThoughts: isShown || undefined };
}

const isLevel = (effort: Effort) => ["minimal", "low", "medium", "high"].includes(effort);

const budgets: Record<Effort, number> = {
  none: 0,
  minimal: 512,
  low: 1_024,
  medium: 8_192,
  high: 24_576,
  xhigh: 32_768,
  max: 32_768,
};

/** A budget within the model's range, and smaller than the answer's token limit. */
function budgetOf(
  { thinkingTokensMax: budget, outputTokensMax }: Settings,
  effort: Effort,
  { thinkingTokensMin: least, thinkingTokensMax: most, thinksAlways }: ModelTraits,
): number {
  const wanted = budget?.value ?? budgets[effort];
  if (wanted === 0 && !thinksAlways) return 0;
  const answerMax = outputTokensMax === undefined ? most : outputTokensMax.value - 1;
  return Math.max(least, Math.min(wanted, most, answerMax));
}

const isEmpty = (value: unknown) => Object.keys(objectOf(value)).length === 0 && listOf(value).length === 0;

/**
 * Fields of `generationConfig` that no other dialect supports, and the values that have no effect.
 * All other fields are read by `settingsOf`, or ignored for upstreams of other dialects.
 * `safetySettings`, `labels` and `store` are ignored as well.
 */
export const refusedFields: RefusedFields = [
  ["candidateCount", (value) => value === 1],
  ["responseLogprobs", (value) => value === false],
  ["logprobs", (value) => value === 0],
  [
    "responseModalities",
    (value) =>
      listOf(value).every((modality) =>
        ["TEXT", "IMAGE", "MODALITY_UNSPECIFIED"].includes(String(modality).toUpperCase()),
      ),
  ],
  [
    "responseFormat",
    (value) => Object.entries(objectOf(value)).every(([modality, format]) => modality === "text" || isEmpty(format)),
  ],
  ["speechConfig", isEmpty],
  ["audioTranscriptionConfig", isEmpty],
];

/** Paths are in camel case, whichever spelling the caller uses. */
export function decodeRequest({ body: written }: CallerRequest): NeutralRequest {
  refuseFault(statefulFieldIn(written));
  const body = objectOf(camelOf(written));
  const config = objectOf(body.generationConfig);
  refuseFields(config, refusedFields, "generationConfig.");
  const tools = decodeTools(body.tools);
  const toolChoice = decodeToolChoice(body.toolConfig, tools);
  const warnings = leftOutWarnings(hostedIn(body.tools));
  return neutralRequest({
    system: decodeSystem(body.systemInstruction),
    messages: decodeContents(body.contents, tools, detailOf(config.mediaResolution)),
    tools,
    toolChoice,
    settings: settingsOf(body, config),
    warnings,
  });
}

function settingsOf({ serviceTier }: JsonObject, config: JsonObject): Settings {
  const names = {
    outputTokensMax: "maxOutputTokens",
    temperature: "temperature",
    topP: "topP",
    topK: "topK",
    seed: "seed",
    presencePenalty: "presencePenalty",
    frequencyPenalty: "frequencyPenalty",
  };
  const settings: Settings = {
    ...decodeThinking(config.thinkingConfig),
    ...plainSettingsIn(config, names, "generationConfig."),
  };
  const stop = listOf(config.stopSequences).map(String);
  if (stop.length > 0) settings.stop = { value: stop, path: "generationConfig.stopSequences" };
  const format = formatOf(config);
  if (format !== undefined) settings.format = format;
  const modalities = listOf(config.responseModalities).map((modality) => String(modality).toLowerCase());
  const kinds = (["text", "image"] as const).filter((modality) => modalities.includes(modality));
  if (kinds.includes("image")) settings.modalities = { value: kinds, path: "generationConfig.responseModalities" };
  return Object.assign(settings, serviceTierIn(serviceTier, "serviceTier", geminiTierRefusal));
}

/** The newer field: https://ai.google.dev/api/generate-content#TextResponseFormat */
function textFormatOf(format: JsonObject): Settings["format"] {
  const path = "generationConfig.responseFormat.text";
  const { mimeType, schema } = format;
  // Such as application/json or APPLICATION_JSON.
  const type = enumNameOf(mimeType).replace(/^.*[/_]/, "");
  const isJson = type === "JSON" || (type === "" && isObject(schema));
  if (isObject(schema) && isJson)
    return { value: { kind: "schema", schema: jsonSchemaOf(schema) }, path: `${path}.schema` };
  if (isJson) return { value: { kind: "json" }, path: `${path}.mimeType` };
  return (type === "" || type === "PLAIN") && !isObject(schema) ? undefined : refuse(`${path}.mimeType`);
}

function formatOf(config: JsonObject): Settings["format"] {
  const { responseMimeType: type, responseSchema, responseFormat } = config;
  const { text } = objectOf(responseFormat);
  if (isPresent(text)) return textFormatOf(objectOf(text));
  const responseJsonSchema = config.responseJsonSchema ?? config._responseJsonSchema;
  if (textOf(type) !== undefined && type !== "text/plain" && type !== "application/json" && type !== enumMimeType)
    refuse("generationConfig.responseMimeType");
  const [schema, name] = responseJsonSchema
    ? [responseJsonSchema, "responseJsonSchema"]
    : [responseSchema, "responseSchema"];
  const path = `generationConfig.${name}`;
  if (type === enumMimeType) {
    const values =
      enumObjectSchemaOf(schema) ??
      refuse(
        "generationConfig.responseMimeType",
        `is ${enumMimeType}, which needs a schema that lists its values as strings (enum)`,
      );
    return { value: { kind: "schema", schema: values, strict: true }, path };
  }
  if (isObject(schema) && type === "text/plain")
    refuse("generationConfig.responseMimeType", "must be application/json for a schema");
  if (isObject(schema)) return { value: { kind: "schema", schema: jsonSchemaOf(schema) }, path };
  return type === "application/json"
    ? { value: { kind: "json" }, path: "generationConfig.responseMimeType" }
    : undefined;
}

export const fieldSupport: FieldSupport = {
  verbosity: "ignored",
  user: "ignored",
  metadata: "ignored",
  cacheKey: "ignored",
};

/**
 * The path of the method for this framing. Upstream streams are always read as server-sent events.
 */
export const answerPathOf = (model: string, framing: Framing) =>
  framing === "whole" ? pathOf(model, "generateContent") : `${pathOf(model, "streamGenerateContent")}?alt=sse`;

export function encodeRequest(neutral: NeutralRequest, framing: Framing, target: Target): WireRequest {
  const request = withFormatAllowed(fitted(neutral, dialect, fieldSupport, target), target);
  const { system, messages, tools, toolChoice, settings } = request;
  const generationConfig = encodeConfig(settings, target);
  const body = {
    ...encodeConversation(system, messages, target.traits),
    ...encodeTools(tools, toolChoice),
    ...(Object.values(generationConfig).some((value) => value !== undefined) && { generationConfig }),
    serviceTier: settings.serviceTier?.value,
  };
  return { path: answerPathOf(target.model, framing), body: jsonBytesOf(body) };
}

/** An instruction in place of a format that the model refuses beside tools. */
function withFormatAllowed(request: NeutralRequest, { traits }: Target): NeutralRequest {
  const { format, ...settings } = request.settings;
  if (format === undefined || request.tools.length === 0 || traits.formatsWithTools) return request;
  const text = formatInstructionOf(format.value.kind === "json" ? undefined : format.value.schema);
  return { ...request, settings, system: [...request.system, { kind: "text", text, path: format.path }] };
}

function encodeConfig(settings: Settings, target: Target): object {
  const { traits, outputTokensMax: most = Number.POSITIVE_INFINITY } = target;
  const { sent: stops } = stopsOf(settings, dialect, target);
  const { outputTokensMax, temperature, topP, topK, seed, presencePenalty, frequencyPenalty, format } = settings;
  const thinkingConfig = encodeThinking(settings, traits);
  return {
    maxOutputTokens: outputTokensMax && Math.min(outputTokensMax.value, most),
    temperature: temperature?.value,
    topP: topP?.value,
    topK: topK?.value,
    stopSequences: someOf(stops),
    seed: seed && Number(BigInt.asIntN(32, BigInt(Math.trunc(seed.value)))),
    presencePenalty: presencePenalty?.value,
    frequencyPenalty: frequencyPenalty?.value,
    responseMimeType: format && "application/json",
    responseJsonSchema: format?.value.kind === "schema" ? readSchema(format.value.schema, geminiTarget) : undefined,
    thinkingConfig,
    responseModalities: settings.modalities?.value.map((modality) => modality.toUpperCase()),
  };
}
