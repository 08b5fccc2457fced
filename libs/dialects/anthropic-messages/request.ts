/**
 * Requests in Anthropic's Messages format, in both directions:
 * https://platform.claude.com/docs/en/api/messages/create
 */

import { type JsonObject, jsonBytesOf, listOf, objectOf, someOf, textOf } from "#wire/json/parse.ts";
import type { CallerRequest, Framing, Target, WireRequest } from "../codec.ts";
import {
  neutralRequest,
  oneOf,
  plainSettingsIn,
  type RefusedFields,
  refuseFault,
  refuseFields,
  toolWarnings,
} from "../neutral/caller-request.ts";
import { type FieldSupport, Refusal, refuse } from "../neutral/field-support.ts";
import { fitted } from "../neutral/fitted-request.ts";
import { formatInstructionOf } from "../neutral/format-instruction.ts";
import type { ModelTraits } from "../neutral/model-traits.ts";
import { efforts, type NeutralRequest, type Settings } from "../neutral/neutral.ts";
import { usualEffort } from "../neutral/reasoning.ts";
import { anthropicTierRefusal, serviceTierIn } from "../neutral/service-tier.ts";
import { stopsOf } from "../neutral/within-bounds.ts";
import { type StrictBounds, strictBounds, structuredSchemaOf } from "../schema/anthropic.ts";
import { dialect } from "./blocks.ts";
import { boundCacheMarks } from "./cache.ts";
import { decodeConversation, encodeConversation } from "./messages.ts";
import { statefulFieldIn } from "./stateless.ts";
import { isBegunWithoutThinking, type Thinking, thinkingOf } from "./thinking.ts";
import { decodeToolChoice, decodeTools, encodeTools } from "./tools.ts";

/** The API version of translated requests; callers may use others. */
export const apiVersion = "2023-06-01";

/**
 * Fields that no other dialect supports, and the values that have no effect. All other fields are
 * read by `settingsOf`, or ignored for upstreams of other dialects: `diagnostics`, `speed`,
 * `fallback_credit_token`, `output_config.task_budget`, the `output_config` of a single
 * message, context edits that only clear, citations, and image transformations.
 */
export const refusedFields: RefusedFields = [
  ["container", () => false],
  ["mcp_servers", (value) => listOf(value).length === 0],
  ["compaction", () => false],
  ["fallbacks", (value) => value === "default" || listOf(value).length === 0],
  ["inference_geo", (value) => value === "global"],
  ["billing_policy", (value) => objectOf(value).bill_to !== "user_profile"],
];

export function decodeRequest({ body, headers }: CallerRequest): NeutralRequest {
  refuseFault(statefulFieldIn(body));
  refuseFields(body, refusedFields);
  checkContextEdits(body.context_management);
  checkThinking(body, headers?.["anthropic-beta"] ?? "");
  if (body.max_tokens === 0)
    refuse("max_tokens", "is 0, which only warms a cache, and the upstream of this model has none to warm");
  const tools = decodeTools(body);
  const { system, messages } = decodeConversation(body, tools);
  const toolChoice = decodeToolChoice(body.tool_choice, tools);
  const cited = citedIn(body.messages, "messages");
  const warnings = toolWarnings(body.tools);
  if (cited !== undefined)
    warnings.push(`${cited} asks for citations, which the model that answers does not report; its answer has none.`);
  return neutralRequest({ system, messages, tools, toolChoice, settings: settingsOf(body), warnings });
}

/** The first document or search result, perhaps in a tool's result, that shall be cited. */
function citedIn(values: unknown, path: string): string | undefined {
  for (const [place, value] of listOf(values).entries()) {
    const { citations, content } = objectOf(value);
    const at = `${path}[${place}]`;
    if (objectOf(citations).enabled === true) return `${at}.citations`;
    const inner = citedIn(content, `${at}.content`);
    if (inner !== undefined) return inner;
  }
  return undefined;
}

/**
 * Edits that only clear are ignored. Others are rejected with wording that lets a coding agent
 * continue without them.
 */
function checkContextEdits(value: unknown): void {
  for (const [place, edit] of listOf(objectOf(value).edits).entries()) {
    const { type } = objectOf(edit);
    if (String(type).startsWith("clear_")) continue;
    const why = `edits[${place}].type ${JSON.stringify(type)} is not supported by the upstream of this model.`;
    throw new Refusal("context_management", `context_management: Extra inputs are not permitted: ${why}`);
  }
}

function settingsOf(body: JsonObject): Settings {
  const names = { outputTokensMax: "max_tokens", temperature: "temperature", topP: "top_p", topK: "top_k" };
  const settings: Settings = {
    ...plainSettingsIn(body, names),
    ...plainSettingsIn(objectOf(body.metadata), { user: "user_id" }, "metadata."),
    ...serviceTierIn(body.service_tier, "service_tier", anthropicTierRefusal),
  };
  const stop = listOf(body.stop_sequences).map(String);
  if (stop.length > 0) settings.stop = { value: stop, path: "stop_sequences" };
  if (objectOf(body.tool_choice).disable_parallel_tool_use === true)
    settings.parallelCalls = { value: false, path: "tool_choice.disable_parallel_tool_use" };

  const { effort, format } = objectOf(body.output_config);
  const { type, budget_tokens: budget, display } = objectOf(body.thinking);
  if (textOf(effort) !== undefined) settings.effort = oneOf(efforts, effort, "output_config.effort", efforts.slice(2));
  if (type === "disabled") settings.effort = { value: "none", path: "thinking" };
  else if (settings.effort === undefined && type === "enabled") {
    if (typeof budget === "number") settings.thinkingTokensMax = { value: budget, path: "thinking.budget_tokens" };
    else settings.effort = { value: usualEffort, path: "thinking" };
  }
  // Enabled thinking with a budget is shown unless `display` says otherwise.
  if (type === "enabled" || (type !== "disabled" && textOf(display) !== undefined))
    settings.thinkingShown = { value: display !== "omitted", path: "thinking.display" };
  putFormat(settings, format, "output_config.format");
  if (settings.format === undefined) putFormat(settings, body.output_format, "output_format");
  return settings;
}

/** With the interleaved-thinking beta, the budget covers all answers of a turn together. */
function checkThinking({ thinking, max_tokens: max }: JsonObject, betas: string): void {
  const { type, budget_tokens: budget, display } = objectOf(thinking);
  if (type !== undefined && !["enabled", "adaptive", "between_tools", "disabled"].includes(String(type)))
    refuse("thinking.type");
  if (textOf(display) !== undefined && display !== "summarized" && display !== "omitted")
    refuse("thinking.display", "must be summarized or omitted");
  if (
    type === "enabled" &&
    typeof budget === "number" &&
    typeof max === "number" &&
    budget >= max &&
    !betas.includes("interleaved-thinking")
  )
    refuse("thinking.budget_tokens", "must be less than max_tokens");
}

function putFormat(settings: Settings, format: unknown, path: string): void {
  const { type, schema } = objectOf(format);
  if (type === undefined) return;
  if (type !== "json_schema") refuse(`${path}.type`);
  settings.format = { value: { kind: "schema", schema: objectOf(schema) }, path };
}

/** Sampling fields are supported, but dropped for models that reject them. */
export const fieldSupport: FieldSupport = {
  seed: "ignored",
  presencePenalty: "ignored",
  frequencyPenalty: "ignored",
  verbosity: "ignored",
  modalities: "ignored",
  metadata: "ignored",
  serviceTier: "ignored",
  cacheKey: "ignored",
};

export function encodeRequest(neutral: NeutralRequest, framing: Framing, target: Target): WireRequest {
  const request = fitted(neutral, dialect, fieldSupport, target);
  const { settings } = request;
  const { user } = settings;
  const { sent: stops } = stopsOf(settings, dialect, target);
  const { traits } = target;
  const { system, messages, called } = encodeConversation(request, target);
  const bounds = strictBounds();
  const { format, instruction } = formatOf(settings.format, traits, bounds);
  const { tools, choice, forced } = encodeTools(request, called, bounds);
  const isContinued = messages.findLast(({ role }) => role !== "system")?.role === "assistant";
  const begunWithout = isContinued || isBegunWithoutThinking(messages);
  const thinking = thinkingOf(settings, { target, forced, begunWithout });
  if (instruction !== undefined) system.push({ type: "text", text: instruction });
  boundCacheMarks([...tools, ...system, ...messages.flatMap(({ content }) => content)]);
  const body = {
    model: target.model,
    max_tokens: thinking.maxTokens,
    system: someOf(system),
    messages,
    tools: someOf(tools),
    tool_choice: choice,
    thinking: thinking.thinking,
    output_config: thinking.effort || format ? { effort: thinking.effort, format } : undefined,
    ...samplingOf(settings, traits, thinking),
    stop_sequences: someOf(stops),
    metadata: user && { user_id: user.value },
    stream: framing !== "whole" || undefined,
  };
  return { path: "/messages", headers: { "anthropic-version": apiVersion }, body: jsonBytesOf(body) };
}

/**
 * The format has no JSON mode without a schema, older models have none at all, and not every schema
 * can be enforced. In these cases an instruction asks the model for the format.
 */
function formatOf(
  requested: Settings["format"],
  { jsonSchemas }: ModelTraits,
  bounds: StrictBounds,
): { format?: object; instruction?: string } {
  if (requested === undefined) return {};
  if (requested.value.kind === "json") return { instruction: formatInstructionOf(undefined) };
  const schema = jsonSchemas ? structuredSchemaOf(requested.value.schema, bounds) : undefined;
  return schema === undefined
    ? { instruction: formatInstructionOf(requested.value.schema) }
    : { format: { type: "json_schema", schema } };
}

function samplingOf({ temperature, topP, topK }: Settings, { sampling }: ModelTraits, { isOn }: Thinking): object {
  if (sampling === "none" || isOn) return {};
  return {
    temperature: temperature?.value,
    top_p: sampling === "one" && temperature !== undefined ? undefined : topP?.value,
    top_k: topK?.value,
  };
}
