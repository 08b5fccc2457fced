/**
 * Requests in OpenAI's chat-completions format, in both directions:
 * https://platform.openai.com/docs/api-reference/chat/create
 */

import {
  defined,
  flagOf,
  isObject,
  isPresent,
  type JsonObject,
  jsonBytesOf,
  listOf,
  objectOf,
  someOf,
  stringOf,
  textOf,
} from "#wire/json/parse.ts";
import type { CallerRequest, Framing, Target, WireRequest } from "../codec.ts";
import { cacheIn, markFor } from "../neutral/cache-marks.ts";
import {
  neutralRequest,
  oneOf,
  plainSettingsIn,
  type RefusedFields,
  refuseFault,
  refuseFields,
  toolWarnings,
  verbosities,
} from "../neutral/caller-request.ts";
import { type FieldSupport, refuse } from "../neutral/field-support.ts";
import { fitted } from "../neutral/fitted-request.ts";
import type { Effort, Modality, NeutralRequest, Setting, Settings, Tool, ToolChoice } from "../neutral/neutral.ts";
import { requestedEffortOf } from "../neutral/reasoning.ts";
import { openaiTierOf, openaiTierRefusal, serviceTierIn } from "../neutral/service-tier.ts";
import { descriptionOf, namedTools, parametersOf, toolNameOf } from "../neutral/tools.ts";
import { isDispensable, toolTypeOf } from "../neutral/vendor-tools.ts";
import { stopsOf } from "../neutral/within-bounds.ts";
import { schemaFormatOf } from "../openai/parts.ts";
import { grammarOf } from "../openai-responses/tools.ts";
import { invalidFieldIn } from "../request-schema/invalid-field.ts";
import { openaiFormatOf, strictSchemaOf } from "../schema/openai.ts";
import { toolSchemaOf } from "../schema/tool-schemas.ts";
import { decodeForeign, messagesIn } from "./foreign-shape.ts";
import { withTools } from "./legacy-functions.ts";
import { decodeMessages, encodeTurns } from "./messages.ts";
import { readableRequestSchema } from "./schema.ts";
import { thinkingIn } from "./thinking-fields.ts";
import { arrangedTurns } from "./turns.ts";

const dialect = "openai-chat";

const isModality = (value: unknown): value is Modality => value === "text" || value === "image";

/**
 * Fields that no other dialect supports, and the values that have no effect. All other fields are
 * read by `settingsOf`, or ignored.
 */
export const refusedFields: RefusedFields = [
  ["n", (value) => value === 1],
  ["logprobs", (value) => value === false],
  ["top_logprobs", (value) => value === 0],
  ["logit_bias", (value) => Object.keys(objectOf(value)).length === 0],
  ["audio", () => false],
  ["modalities", (value) => listOf(value).every(isModality)],
  ["web_search_options", () => false],
];

export function decodeRequest({ body: written }: CallerRequest): NeutralRequest {
  const callerMessages = messagesIn(written);
  if (!isPresent(callerMessages) && isPresent(written.input)) return decodeForeign(written);
  const readable = callerMessages === written.messages ? written : { ...written, messages: callerMessages };
  refuseFault(invalidFieldIn(readableRequestSchema, readable));
  const body = withTools(readable);
  refuseFields(body, refusedFields);
  const tools = namedTools(listOf(body.tools).flatMap(toolOf));
  const { system, messages } = decodeMessages(listOf(body.messages), tools);
  const toolChoice = toolChoiceOf(body.tool_choice, tools);
  const settings = settingsOf(body);
  if (objectOf(body.tool_choice).disable_parallel_tool_use === true)
    settings.parallelCalls ??= { value: false, path: "tool_choice.disable_parallel_tool_use" };
  return neutralRequest({ system, messages, tools, toolChoice, settings, warnings: toolWarnings(body.tools) });
}

/**
 * A tool in any shape that agents send here: nested as in this dialect, flat as in OpenAI's
 * Responses, or with the `input_schema` of Anthropic's Messages. None for a tool that its vendor
 * runs.
 */
function toolOf(value: unknown, place: number): Omit<Tool, "name">[] {
  const path = `tools[${place}]`;
  const tool = objectOf(value);
  const type = toolTypeOf(tool) ?? "function";
  if (isDispensable(type)) return [];
  if (type !== "function" && type !== "custom") refuse(`${path}.type`);
  const isFree = type === "custom" && tool.input_schema === undefined;
  const nested = isFree ? tool.custom : tool.function;
  const definition = isPresent(nested) ? objectOf(nested) : tool;
  const { name, description, strict } = definition;
  const parameters = definition.parameters ?? definition.input_schema;
  const { grammar, ...format } = objectOf(definition.format);
  return [
    {
      path,
      callerName: textOf(name) ?? refuse(isPresent(nested) ? `${path}.${type}.name` : `${path}.name`, "is missing"),
      ...cacheIn(tool),
      ...cacheIn(definition),
      ...defined({ description: stringOf(description), strict: flagOf(strict) }),
      ...(isFree
        ? {
            takesText: true,
            ...(!isPresent(nested) && { textAsArguments: true }),
            ...grammarOf({ ...format, ...objectOf(grammar) }),
          }
        : parametersOf(parameters)),
    },
  ];
}

function toolChoiceOf(choice: unknown, tools: NeutralRequest["tools"]): ToolChoice | undefined {
  if (!isPresent(choice)) return undefined;
  const path = "tool_choice";
  if (choice === "auto" || choice === "none" || choice === "required") return { mode: choice, path };
  // Mistral's clients have this word: https://docs.mistral.ai/capabilities/function_calling
  if (choice === "any") return { mode: "required", path };
  const { type, function: named, custom, allowed_tools: allowed } = objectOf(choice);
  const nameIn = (reference: unknown) => {
    const { function: inner, custom: innerCustom, name } = objectOf(reference);
    return toolNameOf(
      tools,
      textOf(objectOf(inner ?? innerCustom).name) ?? textOf(name) ?? refuse(path, "must name a tool"),
    );
  };
  if (type === "any") return { mode: "required", path };
  if (type === "auto" || type === "none") return { mode: type, path };
  if (type === "function" || type === "custom" || type === "tool")
    return { mode: "required", only: [nameIn({ ...objectOf(choice), function: named ?? custom })], path };
  if (type !== "allowed_tools") return refuse(path);
  const { mode, tools: references } = objectOf(allowed ?? choice);
  if (mode !== "auto" && mode !== "required") refuse(`${path}.allowed_tools.mode`, "must be auto or required");
  return { mode, only: listOf(references).map(nameIn), path };
}

function settingsOf(body: JsonObject): Settings {
  const settings = plainSettingsIn(body, {
    temperature: "temperature",
    topP: "top_p",
    topK: "top_k",
    seed: "seed",
    presencePenalty: "presence_penalty",
    frequencyPenalty: "frequency_penalty",
    user: textOf(body.safety_identifier) === undefined ? "user" : "safety_identifier",
    cacheKey: "prompt_cache_key",
  });
  Object.assign(settings, serviceTierIn(body.service_tier, "service_tier", openaiTierRefusal));
  const [tokensMax, oldTokensMax] = [boundIn(body, "max_completion_tokens"), boundIn(body, "max_tokens")];
  if (tokensMax !== undefined && oldTokensMax !== undefined && tokensMax.value !== oldTokensMax.value)
    refuse("max_tokens", "contradicts max_completion_tokens, which replaces it");
  const bound = tokensMax ?? oldTokensMax;
  if (bound !== undefined) settings.outputTokensMax = bound;
  const stop = typeof body.stop === "string" ? [body.stop] : listOf(body.stop).map(String);
  if (stop.length > 0) settings.stop = { value: stop, path: "stop" };
  if (typeof body.parallel_tool_calls === "boolean")
    settings.parallelCalls = { value: body.parallel_tool_calls, path: "parallel_tool_calls" };
  const format = formatOf(body.response_format);
  if (format !== undefined) settings.format = format;
  Object.assign(settings, thinkingIn(body));
  if (textOf(body.verbosity) !== undefined) settings.verbosity = oneOf(verbosities, body.verbosity, "verbosity");
  const modalities = listOf(body.modalities).filter(isModality);
  if (modalities.includes("image")) settings.modalities = { value: modalities, path: "modalities" };
  if (isObject(body.metadata)) settings.metadata = { value: objectOf(body.metadata), path: "metadata" };
  return settings;
}

/** Some servers take -1 as no limit. */
function boundIn(body: JsonObject, path: string): Setting<number> | undefined {
  const value = body[path];
  if (value === 0) refuse(path, "must be >= 1");
  return typeof value === "number" && value !== -1 ? { value, path } : undefined;
}

/**
 * Servers of this format have the schema also directly in the format, with either type:
 * https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md (`schema`),
 * https://docs.litellm.ai/docs/completion/json_mode (`response_schema`).
 */
function formatOf(value: unknown): Settings["format"] {
  const { type, json_schema: nested, response_schema: other, ...flat } = objectOf(value);
  const path = "response_format";
  if (type === undefined || type === "text") return undefined;
  if (type !== "json_object" && type !== "json_schema") refuse(`${path}.type`);
  const schema = flat.schema ?? other;
  if (isPresent(nested) && type === "json_schema") return schemaFormatOf(nested, path);
  if (type === "json_schema" || isPresent(schema)) return schemaFormatOf({ ...flat, schema }, path);
  return { value: { kind: "json" }, path };
}

export const fieldSupport: FieldSupport = {
  topK: "ignored",
  thinkingShown: "ignored",
  metadata: "ignored",
};

export function encodeRequest(neutral: NeutralRequest, framing: Framing, target: Target): WireRequest {
  const request = fitted(neutral, dialect, fieldSupport, target);
  const { model, streamUsage, tokenLimitField, outputTokensMax } = target;
  const { settings, tools, toolChoice } = request;
  const { sent: stop } = stopsOf(settings, dialect, target);
  const stream = framing !== "whole";
  const { system, isJson, schema } = openaiFormatOf(request, "response_format");
  const body = {
    model,
    messages: encodeTurns(system, arrangedTurns(request.messages, target.traits), target),
    ...(tools.length > 0 && {
      tools: offeredOf(tools, toolChoice).map((tool) => ({ ...encodeTool(tool), ...markOf(tool, target) })),
      tool_choice: toolChoice && encodeToolChoice(toolChoice),
      parallel_tool_calls: settings.parallelCalls?.value,
    }),
    ...(settings.outputTokensMax !== undefined && {
      [tokenLimitField]: Math.min(settings.outputTokensMax.value, outputTokensMax ?? Number.POSITIVE_INFINITY),
    }),
    temperature: settings.temperature?.value,
    top_p: settings.topP?.value,
    stop: someOf(stop),
    seed: settings.seed?.value,
    presence_penalty: settings.presencePenalty?.value,
    frequency_penalty: settings.frequencyPenalty?.value,
    response_format: isJson ? { type: "json_object" } : schema && { type: "json_schema", json_schema: schema },
    ...thinkingOf(requestedEffortOf(settings), target),
    verbosity: settings.verbosity?.value,
    modalities: settings.modalities?.value,
    user: settings.user?.value,
    prompt_cache_key: settings.cacheKey?.value,
    service_tier: openaiTierOf(settings.serviceTier),
    stream: stream || undefined,
    stream_options: stream && streamUsage ? { include_usage: true } : undefined,
  };
  return { path: "/chat/completions", body: jsonBytesOf(body) };
}

/** A model that can't reason by effort alone has a switch of its own. */
function thinkingOf(effort: Effort | undefined, { traits }: Target): object {
  if (effort !== "none" || traits.thinkingSwitch === "effort") return { reasoning_effort: effort };
  return traits.thinkingSwitch === "thinking" ? { thinking: { type: "disabled" } } : { enable_thinking: false };
}

/** OpenAI's breakpoints are for content only. */
const markOf = (tool: Tool, { traits: { cacheMarks } }: Target): object =>
  cacheMarks === "control" ? markFor(tool, cacheMarks) : {};

function encodeTool(tool: Tool) {
  const { schema } = toolSchemaOf(tool, dialect);
  const strictSchema = tool.strict === true ? strictSchemaOf(schema) : undefined;
  return {
    type: "function",
    function: {
      name: tool.name,
      description: descriptionOf(tool),
      parameters: strictSchema ?? schema,
      strict: strictSchema !== undefined || undefined,
    },
  };
}

/** Few servers know a choice among several tools: only those are offered. */
function offeredOf(tools: readonly Tool[], choice: ToolChoice | undefined): readonly Tool[] {
  const { mode, only: names = [] } = choice ?? {};
  if (names.length === 0 || mode === "none" || (mode === "required" && names.length === 1)) return tools;
  const only = new Set(names);
  return tools.filter(({ name }) => only.has(name));
}

function encodeToolChoice({ mode, only }: ToolChoice) {
  if (only?.length === 0) return "none";
  return mode === "required" && only?.length === 1 ? { type: "function", function: { name: only[0] } } : mode;
}
