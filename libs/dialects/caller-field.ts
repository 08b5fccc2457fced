/** Which field of its own a caller of another dialect is to look at, where an upstream names one of its dialect's. */
import type { NeutralRequest, SettingName } from "./neutral.ts";

/** All dialects' names of the settings; what stands within one is meant as well. */
const settingNames: readonly [RegExp, readonly SettingName[]][] = [
  [/^(max_tokens|max_completion_tokens|max_output_tokens|maxOutputTokens)\b/, ["outputTokensMax"]],
  [/^temperature\b/, ["temperature"]],
  [/^(top_p|topP)\b/, ["topP"]],
  [/^(top_k|topK)\b/, ["topK"]],
  [/^(stop|stop_sequences|stopSequences)\b/, ["stop"]],
  [/^seed\b/, ["seed"]],
  [/^(presence_penalty|presencePenalty)\b/, ["presencePenalty"]],
  [/^(frequency_penalty|frequencyPenalty)\b/, ["frequencyPenalty"]],
  [/^(parallel_tool_calls|tool_choice\.disable_parallel_tool_use)\b/, ["parallelCalls"]],
  [
    /^(response_format|text\.format|output_config\.format|output_format|response_?(mime_?type|json_?schema|schema))\b/i,
    ["format"],
  ],
  [
    /^(reasoning_effort|reasoning|output_config\.effort|thinking|thinking_?config)\b/i,
    ["effort", "thinkingTokensMax", "thinkingShown"],
  ],
  [/^(verbosity|text\.verbosity)\b/, ["verbosity"]],
  [/^(user|safety_identifier|metadata\.user_id)\b/, ["user"]],
  [/^prompt_cache_key\b/, ["cacheKey"]],
];

/** Tools stand in the caller's order in every dialect; Google's are declared within the first. */
const toolPlace = /^tools[.[](\d+)\]?(?:\.function_?declarations[.[](\d+))?/i;

/** Undefined for what the caller has no name for, as for its messages, which come in another order. `field` is as the upstream says it. */
export function callerFieldOf(field: string, { settings, tools, toolChoice }: NeutralRequest): string | undefined {
  const name = field.replace(/^generation_?config\./i, "");
  for (const [pattern, settingsNamed] of settingNames) {
    const setting = pattern.test(name) ? settingsNamed.find((known) => settings[known] !== undefined) : undefined;
    if (setting !== undefined) return settings[setting]?.path;
  }
  if (/^(tool_choice|tool_?config)\b/i.test(name)) return toolChoice?.path;
  const place = toolPlace.exec(name);
  return place === null ? undefined : tools[Number(place[2] ?? place[1])]?.path;
}
