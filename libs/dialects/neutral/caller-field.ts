/**
 * Maps a field name in an upstream's error to the caller's name of that field in another dialect.
 */
import type { NeutralRequest, SettingName } from "./neutral.ts";

/** The names of each setting in all dialects; nested fields match too. */
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

/**
 * Tools keep the caller's order in every dialect; Google's are declarations within the first tool.
 */
const toolPlace = /^tools[.[](\d+)\]?(?:\.function_?declarations[.[](\d+))?/i;

/**
 * Undefined for a field without a caller's name, such as the messages, whose order differs. `field`
 * is spelled as in the upstream's error.
 */
export function callerFieldOf(field: string, { settings, tools, toolChoice }: NeutralRequest): string | undefined {
  const name = field.replace(/^generation_?config\./i, "");
  for (const [pattern, settingsNamed] of settingNames) {
    const setting = pattern.test(name) ? settingsNamed.find((name) => settings[name] !== undefined) : undefined;
    if (setting !== undefined) return settings[setting]?.path;
  }
  if (/^(tool_choice|tool_?config)\b/i.test(name)) return toolChoice?.path;
  const place = toolPlace.exec(name);
  return place === null ? undefined : tools[Number(place[2] ?? place[1])]?.path;
}
