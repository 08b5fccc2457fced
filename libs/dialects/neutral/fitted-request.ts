/**
 * A request as its target accepts it: without settings that the dialect ignores or the model
 * refuses, by the model's traits, and with every value within its bounds. Every encoder begins with
 * it.
 */

import type { Target } from "../codec.ts";
import type { ConversationDialect } from "../dialect.ts";
import { withWireNames } from "../schema/tool-schemas.ts";
import { withFewMarks } from "./cache-marks.ts";
import { type FieldSupport, refuse } from "./field-support.ts";
import { withUserLast } from "./history.ts";
import { type NeutralRequest, type SettingName, type Settings, withoutOwnImages } from "./neutral.ts";
import { effortAmong, requestedEffortOf } from "./reasoning.ts";
import { withinBounds } from "./within-bounds.ts";

/**
 * Throws Refusal, naming the caller's field, for a setting without which the answer would be wrong.
 */
export function fitted(
  request: NeutralRequest,
  dialect: ConversationDialect,
  fieldSupport: FieldSupport,
  target: Target,
): NeutralRequest {
  checkModalities(request, fieldSupport);
  const withImages = withImagesInPlace(request, dialect);
  const ended =
    target.traits.prefill === false ? { ...withImages, messages: withUserLast(withImages.messages) } : withImages;
  const callable = withCallsAllowed(ended, dialect, target);
  const isOpenai = dialect === "openai-chat" || dialect === "openai-responses";
  const reasoning = isOpenai ? withEffort(callable, dialect, target) : callable;
  const named = withWireNames(reasoning, dialect);
  const accepted = { ...named, settings: acceptedBy(named.settings, target) };
  return withinBounds(isOpenai ? withFewMarks(accepted) : accepted, dialect, target.model);
}

/** A caller that accepts text as well gets text from a model that makes no images. */
function checkModalities({ settings: { modalities } }: NeutralRequest, { modalities: support }: FieldSupport): void {
  if (support === "ignored" && modalities !== undefined && !modalities.value.includes("text")) refuse(modalities.path);
}

/** Only Google's format has images in the model's own turns. */
const withImagesInPlace = (request: NeutralRequest, dialect: ConversationDialect) =>
  dialect === "gemini" ? request : { ...request, messages: withoutOwnImages(request.messages) };

const sampled = ["temperature", "topP", "topK"] as const;
const penalised = ["presencePenalty", "frequencyPenalty"] as const;

/** The settings without those that only optimise and that the model refuses. */
function acceptedBy(settings: Settings, { traits }: Target): Settings {
  const { sampling, penalties, verbosity } = traits;
  const isSampled =
    sampling === "both" || sampling === "one" || (sampling === "without-thinking" && settings.effort?.value === "none");
  const refused: SettingName[] = [
    ...(isSampled ? [] : sampled),
    ...(isSampled && penalties ? [] : penalised),
    ...(verbosity ? [] : (["verbosity"] as const)),
  ];
  return without(settings, refused);
}

function without(settings: Settings, names: readonly SettingName[]): Settings {
  if (!names.some((name) => settings[name] !== undefined)) return settings;
  const kept = { ...settings };
  for (const name of names) delete kept[name];
  return kept;
}

/**
 * The effort is one that the model accepts, and none beside functions where the endpoint refuses
 * both together.
 */
function withEffort(
  request: NeutralRequest,
  dialect: ConversationDialect,
  { traits, reasons }: Target,
): NeutralRequest {
  const { settings, tools } = request;
  const requested = requestedEffortOf(settings);
  // Such a model refuses a wish for a summary, too: https://github.com/BerriAI/litellm/pull/38842
  if (traits.thinking === "none")
    return { ...request, settings: without(settings, ["effort", "thinkingTokensMax", "thinkingShown"]) };
  const { efforts } = traits;
  const isApart =
    dialect === "openai-chat" &&
    !traits.callsWhileReasoning &&
    reasons !== false &&
    tools.length > 0 &&
    efforts.includes("none");
  if (requested === undefined && !isApart) return request;
  const wanted = isApart || requested === undefined ? "none" : requested;
  const isSwitched = wanted === "none" && traits.thinkingSwitch !== "effort" && !traits.thinksAlways;
  const path = (settings.effort ?? settings.thinkingTokensMax)?.path ?? "tools";
  const effort = { value: isSwitched ? wanted : effortAmong(wanted, efforts), path };
  return { ...request, settings: { ...without(settings, ["thinkingTokensMax"]), effort } };
}

/**
 * A required call where the model can't be forced to call: only the required tools are offered, and
 * an instruction asks for the call. Where thinking alone prevents it, thinking is switched off: its
 * amount is a preference, the call a requirement. Anthropic's encoder does that itself.
 */
function withCallsAllowed(
  request: NeutralRequest,
  dialect: ConversationDialect,
  { traits, reasons }: Target,
): NeutralRequest {
  const { toolChoice, tools, settings, system } = request;
  const { forcedCalls, thinksAlways } = traits;
  if (toolChoice?.mode !== "required" || forcedCalls === "always" || tools.length === 0) return request;
  const { only, path } = toolChoice;
  if (forcedCalls === "without-thinking" && !thinksAlways) {
    if (dialect === "anthropic-messages" || reasons === false) return request;
    return { ...request, settings: { ...without(settings, ["thinkingTokensMax"]), effort: { value: "none", path } } };
  }
  const chosen = new Set(only);
  const offered = only === undefined ? tools : tools.filter(({ name }) => chosen.has(name));
  const names = offered.map(({ name }) => name).join(", ");
  const text = `Your next answer must call ${offered.length === 1 ? `the tool ${names}` : "one of the tools"}, and must not be text alone.`;
  return {
    ...request,
    tools: offered,
    toolChoice: { mode: "auto", path },
    system: [...system, { kind: "text", text, path }],
  };
}
