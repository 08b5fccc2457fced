/**
 * Fits the values of a request to the bounds of its target (see value-bounds.ts). Every encoder
 * begins with it.
 */
import type { Target } from "../codec.ts";
import type { ConversationDialect } from "../dialect.ts";
import { refuse } from "./field-support.ts";
import type { Message, NeutralRequest, Part, SettingName, Settings, Tool } from "./neutral.ts";
import { type Bounded, boundsOf, fitsText, type Rule } from "./value-bounds.ts";

/**
 * The request with every value within the bounds of the upstream's dialect and model. Throws
 * Refusal for more tools than the model accepts. Stop sequences are left out here (see `stopsOf`),
 * because the gateway ends the answer at them.
 */
export function withinBounds(request: NeutralRequest, dialect: ConversationDialect, model: string): NeutralRequest {
  let bounded = request;
  for (const { of, rule } of boundsOf(dialect, model)) bounded = withRule(bounded, of, rule);
  return bounded;
}

function withRule(request: NeutralRequest, of: Bounded, rule: Rule): NeutralRequest {
  switch (of) {
    case "callId":
      return rule.kind === "text" ? withCallIds(request, rule) : request;
    case "toolDescription":
      return rule.kind === "length" ? withDescriptions(request, rule.max) : request;
    case "tools": {
      const surplus = rule.kind === "count" ? request.tools[rule.max] : undefined;
      if (surplus !== undefined && rule.kind === "count")
        refuse(surplus.path, `is one tool too many: the upstream of this model accepts ${rule.max} tools`);
      return request;
    }
    case "stop":
      return request;
    case "format":
      return rule.kind === "text" ? withFormatName(request, rule) : request;
    default:
      return withSetting(request, of, rule);
  }
}

function withSetting(
  request: NeutralRequest,
  name: Exclude<SettingName, "format" | "stop">,
  rule: Rule,
): NeutralRequest {
  const setting = request.settings[name];
  if (setting === undefined) return request;
  const { [name]: _, ...others } = request.settings;
  const value = valueWithin(setting.value, rule);
  if (value === setting.value) return request;
  const settings = value === undefined ? others : { ...request.settings, [name]: { ...setting, value } };
  return { ...request, settings: settings as Settings };
}

function valueWithin(value: unknown, rule: Rule): unknown {
  if (rule.kind === "text" && typeof value === "string") return fitsText(value, rule) ? value : rule.hashed(value);
  if (rule.kind !== "range" || typeof value !== "number") return value;
  const { min = Number.NEGATIVE_INFINITY, max = Number.POSITIVE_INFINITY, leavesOut } = rule;
  if (value >= min && value <= max) return value;
  return leavesOut === true ? undefined : Math.max(min, Math.min(value, max));
}

type TextRule = Extract<Rule, { kind: "text" }>;

function withFormatName(request: NeutralRequest, rule: TextRule): NeutralRequest {
  const { format } = request.settings;
  if (format?.value.kind !== "schema" || format.value.name === undefined || fitsText(format.value.name, rule))
    return request;
  const name = rule.hashed(format.value.name);
  return { ...request, settings: { ...request.settings, format: { ...format, value: { ...format.value, name } } } };
}

/** A call and its result keep one id. */
function withCallIds(request: NeutralRequest, rule: TextRule): NeutralRequest {
  const fits = (part: Part) =>
    part.kind === "call" ? fitsText(part.id, rule) : part.kind !== "result" || fitsText(part.callId, rule);
  if (request.messages.every(({ parts }) => parts.every(fits))) return request;
  const renamed = (part: Part): Part => {
    if (fits(part)) return part;
    if (part.kind === "call") return { ...part, id: rule.hashed(part.id) };
    return part.kind === "result" ? { ...part, callId: rule.hashed(part.callId) } : part;
  };
  const messages = request.messages.map((message): Message => ({ ...message, parts: message.parts.map(renamed) }));
  return { ...request, messages };
}

const continued = "\n(Continued in the instructions.)";

/**
 * The rest of a long description stands in the instructions, so that the model still reads all of
 * it.
 */
function withDescriptions(request: NeutralRequest, max: number): NeutralRequest {
  const rests: string[] = [];
  const tools = request.tools.map((tool): Tool => {
    const { name, description = "" } = tool;
    if (description.length <= max) return tool;
    const most = max - continued.length;
    const space = description.lastIndexOf(" ", most);
    const end = space > most / 2 ? space : most;
    rests.push(`The description of the tool ${name} continues:\n${description.slice(end).trimStart()}`);
    return { ...tool, description: `${description.slice(0, end).toWellFormed()}${continued}` };
  });
  if (rests.length === 0) return request;
  const system = rests.map((text) => ({ kind: "text" as const, text: text.toWellFormed(), path: "tools" }));
  return { ...request, tools, system: [...request.system, ...system] };
}

/**
 * The stop sequences that the upstream ends an answer at, and those that the gateway must end it
 * at.
 */
export interface Stops {
  sent: string[];
  cut: string[];
}

/** Empty sequences and repeated ones are left out. */
export function stopsOf(
  { stop }: Settings,
  dialect: ConversationDialect,
  { model, traits }: Pick<Target, "model" | "traits">,
): Stops {
  const all = [...new Set(stop?.value)].filter((sequence) => sequence !== "");
  if (all.length === 0 || !traits.stops || dialect === "openai-responses") return { sent: [], cut: all };
  const rules = boundsOf(dialect, model).flatMap(({ of, rule }) => (of === "stop" ? [rule] : []));
  const most = Math.min(...rules.map((rule) => (rule.kind === "count" ? rule.max : Number.POSITIVE_INFINITY)));
  const takesBlank = !rules.some(({ kind }) => kind === "not-blank");
  const sent = all.filter((sequence) => takesBlank || sequence.trim() !== "").slice(0, most);
  return { sent, cut: all.filter((sequence) => !sent.includes(sequence)) };
}
