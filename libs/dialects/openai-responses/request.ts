/**
 * Requests in OpenAI's Responses format, in both directions:
 * https://platform.openai.com/docs/api-reference/responses/create
 */

import { type JsonObject, jsonBytesOf, listOf, objectOf, someOf, textOf } from "#wire/json/parse.ts";
import type { CallerRequest, Framing, Target, WireRequest } from "../codec.ts";
import {
  neutralRequest,
  oneOf,
  plainSettingsIn,
  refuseFault,
  toolWarnings,
  verbosities,
} from "../neutral/caller-request.ts";
import { type FieldSupport, refuse } from "../neutral/field-support.ts";
import { fitted } from "../neutral/fitted-request.ts";
import { withTextResults } from "../neutral/history.ts";
import { efforts, type Message, type NeutralRequest, type Settings, turnsOf } from "../neutral/neutral.ts";
import { requestedEffortOf } from "../neutral/reasoning.ts";
import { openaiTierOf, openaiTierRefusal, serviceTierIn } from "../neutral/service-tier.ts";
import { schemaFormatOf } from "../openai/parts.ts";
import { haveJson, openaiFormatOf } from "../schema/openai.ts";
import { decodeInput, dialect, encodeItems } from "./items.ts";
import { refuseTrigger, statefulFieldIn } from "./stateless.ts";
import { decodeToolChoice, decodeTools, encodeTool, encodeToolChoice, withFunctionsOnly } from "./tools.ts";

/**
 * Fields that are neither rejected here nor read by `settingsOf` are ignored for upstreams of other
 * dialects: `include`, `client_metadata`, `truncation`, `prompt_cache_options`, `stream_options`,
 * `max_tool_calls`, `moderation` and similar. `store` is reported as false.
 */
export function decodeRequest({ body }: CallerRequest): NeutralRequest {
  refuseFault(statefulFieldIn(body));
  refuseTrigger(body);
  if (typeof body.top_logprobs === "number" && body.top_logprobs > 0) refuse("top_logprobs");
  const tools = decodeTools(body);
  const { system, messages, warnings } = decodeInput(body, tools);
  warnings.push(...toolWarnings(body.tools));
  const toolChoice = decodeToolChoice(body.tool_choice, tools);
  return neutralRequest({ system, messages, tools, toolChoice, settings: settingsOf(body), warnings });
}

function settingsOf(body: JsonObject): Settings {
  const settings = plainSettingsIn(body, {
    outputTokensMax: "max_output_tokens",
    temperature: "temperature",
    topP: "top_p",
    user: textOf(body.safety_identifier) === undefined ? "user" : "safety_identifier",
    cacheKey: "prompt_cache_key",
  });
  Object.assign(settings, serviceTierIn(body.service_tier, "service_tier", openaiTierRefusal));
  const stops = [body.stop].flat().filter((stop) => typeof stop === "string");
  if (stops.length > 0) settings.stop = { value: stops, path: "stop" };
  if (body.parallel_tool_calls === false) settings.parallelCalls = { value: false, path: "parallel_tool_calls" };
  if (Object.keys(objectOf(body.metadata)).length > 0)
    settings.metadata = { value: objectOf(body.metadata), path: "metadata" };
  configure(settings, body, "");
  for (const [place, value] of listOf(body.input).entries()) {
    const item = objectOf(value);
    if (item.type === "configuration_update") configure(settings, item, `input[${place}].`);
  }
  return settings;
}

/** Settings of the request that its input may override. */
function configure(settings: Settings, fields: JsonObject, prefix: string): void {
  const { effort, summary, generate_summary: oldSummary } = objectOf(fields.reasoning);
  const { format, verbosity } = objectOf(fields.text);
  if (textOf(effort) !== undefined) settings.effort = oneOf(efforts, effort, `${prefix}reasoning.effort`);
  if (textOf(summary ?? oldSummary) !== undefined)
    settings.thinkingShown = { value: true, path: `${prefix}reasoning.summary` };
  if (textOf(verbosity) !== undefined) settings.verbosity = oneOf(verbosities, verbosity, `${prefix}text.verbosity`);
  const path = `${prefix}text.format`;
  const { type } = objectOf(format);
  if (type === "text") delete settings.format;
  else if (type === "json_object") settings.format = { value: { kind: "json" }, path };
  else if (type === "json_schema") settings.format = schemaFormatOf(format, path);
  else if (type !== undefined) refuse(`${path}.type`);
}

export const fieldSupport: FieldSupport = {
  topK: "ignored",
  stop: "adapted",
  seed: "ignored",
  presencePenalty: "ignored",
  frequencyPenalty: "ignored",
  modalities: "adapted",
  metadata: "ignored",
};

export function encodeRequest(neutral: NeutralRequest, framing: Framing, target: Target): WireRequest {
  const accepted = fitted(neutral, dialect, fieldSupport, target);
  const request = target.traits.functionsOnly ? withFunctionsOnly(accepted) : accepted;
  const { messages, settings, tools, toolChoice } = request;
  const { system, isJson, schema } = openaiFormatOf(request, "text.format");
  const { outputTokensMax, temperature, topP, parallelCalls, user, cacheKey } = settings;
  const reasoning = encodeReasoning(settings);
  const text = {
    format: isJson ? { type: "json_object" } : schema && { type: "json_schema", ...schema },
    verbosity: settings.verbosity?.value,
  };
  const turns = turnsOf(messages).map((turn) =>
    target.textResults === true && turn.role === "user" ? { ...turn, parts: withTextResults(turn.parts) } : turn,
  );
  const { cacheMarks } = target.traits;
  // Only items can be marked.
  const isMarked = cacheMarks === "breakpoint" && system.some(({ cache }) => cache !== undefined);
  // Only items count as the input that must name JSON.
  const hasInstructions = turns.length > 0 && !isMarked && (isJson !== true || haveJson(messages));
  const instructions: Message = { role: "system", parts: system, path: "input" };
  // OpenAI's models draw with a tool of the vendor:
  // https://platform.openai.com/docs/guides/tools-image-generation
  const drawing = settings.modalities === undefined ? [] : [{ type: "image_generation" }];
  const body = {
    model: target.model,
    ...(system.length > 0 && hasInstructions && { instructions: system.map((part) => part.text).join("\n\n") }),
    input: encodeItems(hasInstructions ? turns : [instructions, ...turns], tools, cacheMarks),
    tools: someOf([...tools.map(encodeTool), ...drawing]),
    ...(tools.length > 0 && {
      tool_choice: toolChoice && encodeToolChoice(toolChoice, tools),
      parallel_tool_calls: parallelCalls?.value,
    }),
    ...(settings.modalities?.value.includes("text") === false && { tool_choice: drawing[0] }),
    max_output_tokens:
      outputTokensMax && Math.min(outputTokensMax.value, target.outputTokensMax ?? Number.POSITIVE_INFINITY),
    temperature: temperature?.value,
    top_p: topP?.value,
    reasoning,
    ...(Object.values(text).some((value) => value !== undefined) && { text }),
    include: includesReasoning(request, target) ? [encryptedReasoning] : undefined,
    safety_identifier: user?.value,
    prompt_cache_key: cacheKey?.value,
    service_tier: openaiTierOf(settings.serviceTier),
    store: false,
    stream: framing !== "whole" || undefined,
  };
  return { path: "/responses", body: jsonBytesOf(body) };
}

function encodeReasoning(settings: Settings): object | undefined {
  const effort = requestedEffortOf(settings);
  const isShown = settings.thinkingShown?.value === true;
  return effort === undefined && !isShown ? undefined : { effort, summary: isShown ? "auto" : undefined };
}

/**
 * The value of `include` that adds encrypted content to reasoning, so that it can be sent back to
 * an upstream that did not store it.
 */
export const encryptedReasoning = "reasoning.encrypted_content";

/**
 * True if a model may be asked for encrypted reasoning, which OpenAI rejects for models that do not
 * reason. The catalogue decides; without its setting, a request for reasoning or the model's
 * traits.
 */
export const mayReason = ({ traits, reasons }: Target, wantsReasoning: boolean) =>
  reasons ?? (wantsReasoning || traits.knownToReason);

function includesReasoning({ settings, messages }: NeutralRequest, target: Target): boolean {
  const effort = requestedEffortOf(settings);
  if (effort === "none") return false;
  const isReplayed = () =>
    messages.some(({ parts }) =>
      parts.some((part) => part.kind === "reasoning" && part.signature?.dialect === dialect),
    );
  return mayReason(target, effort !== undefined || settings.thinkingShown?.value === true || isReplayed());
}
