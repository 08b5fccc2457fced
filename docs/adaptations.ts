/**
 * Generates the tables of docs/clients.md that say what is adapted, ignored and refused between
 * dialects, from the tables that the codecs use.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { FieldSupport } from "#dialects/neutral/field-support.ts";
import { modelRules } from "#dialects/neutral/model-traits.ts";
import type { SettingName } from "#dialects/neutral/neutral.ts";
import { type Bounded, type Rule, valueBounds } from "#dialects/neutral/value-bounds.ts";
import { upstreamRules } from "#dialects/repairs/strict-upstreams.ts";
import {
  refusedFields as messagesRefused,
  fieldSupport as messagesSupport,
} from "../libs/dialects/anthropic-messages/request.ts";
import { type ConversationDialect, conversationDialects } from "../libs/dialects/dialect.ts";
import { refusedFields as geminiRefused, fieldSupport as geminiSupport } from "../libs/dialects/gemini/request.ts";
import { refusedFields as chatRefused, fieldSupport as chatSupport } from "../libs/dialects/openai-chat/request.ts";
import { fieldSupport as responsesSupport } from "../libs/dialects/openai-responses/request.ts";
import { alignedTableOf, code } from "./tables.ts";

export const clientsFile = join(import.meta.dirname, "clients.md");

const supports: Record<ConversationDialect, FieldSupport> = {
  "openai-chat": chatSupport,
  "openai-responses": responsesSupport,
  "anthropic-messages": messagesSupport,
  gemini: geminiSupport,
};

/** The names that callers know a setting by. */
const settingNames: Record<SettingName, string> = {
  outputTokensMax: "`max_tokens`, `max_completion_tokens`, `max_output_tokens`, `maxOutputTokens`",
  temperature: "`temperature`",
  topP: "`top_p`, `topP`",
  topK: "`top_k`, `topK`",
  stop: "`stop`, `stop_sequences`, `stopSequences`",
  seed: "`seed`",
  presencePenalty: "`presence_penalty`, `presencePenalty`",
  frequencyPenalty: "`frequency_penalty`, `frequencyPenalty`",
  parallelCalls: "`parallel_tool_calls`, `disable_parallel_tool_use`",
  format: "`response_format`, `text.format`, `output_config.format`, `responseSchema`",
  effort: "`reasoning_effort`, `reasoning.effort`, `output_config.effort`, `thinkingLevel`, `enable_thinking`",
  thinkingTokensMax: "`thinking.budget_tokens`, `thinkingBudget`, `reasoning.max_tokens`, `thinking_budget`",
  thinkingShown: "`reasoning.summary`, `thinking.display`, `includeThoughts`",
  verbosity: "`verbosity`, `text.verbosity`",
  modalities: "`modalities`, `responseModalities` with images",
  user: "`user`, `safety_identifier`, `metadata.user_id`",
  metadata: "`metadata` of OpenAI's dialects",
  serviceTier: "`service_tier`, `serviceTier`",
  cacheKey: "`prompt_cache_key`",
};

const names: Record<SettingName | Bounded, string> = {
  ...settingNames,
  callId: "ids of calls",
  toolDescription: "descriptions of tools",
  tools: "`tools`",
};

const wordOf = (support: FieldSupport[SettingName]): string =>
  support === undefined ? "yes" : support === "adapted" ? "by Sluice" : support;

const boundOf = (rule: Rule): [bound: string, beyond: string] => {
  switch (rule.kind) {
    case "range":
      return [
        [rule.min === undefined ? "" : `at least ${rule.min}`, rule.max === undefined ? "" : `at most ${rule.max}`]
          .filter((text) => text !== "")
          .join(", "),
        rule.leavesOut === true ? "left out" : "the nearest allowed value",
      ];
    case "text":
      return [rule.words, "a stable hash or spelling"];
    case "length":
      return [`at most ${rule.max} characters`, "the rest stands in the instructions"];
    case "count":
      return [`at most ${rule.max}`, "see below"];
    case "not-blank":
      return ["not only white space", "see below"];
    default:
      return rule satisfies never;
  }
};

const beyondOf = (of: Bounded, rule: Rule): string =>
  of === "stop" ? "Sluice ends the answer at the others" : of === "tools" ? "refused" : boundOf(rule)[1];

const versionOf = (version: number): string => `${Math.floor(version / 100)}.${version % 100}`;

function modelRows(): string[][] {
  return Object.entries(modelRules).flatMap(([dialect, rows]) =>
    rows.map(({ model, from, to, traits, source }) => [
      dialect,
      [
        code(model.source),
        from === undefined ? "" : `from ${versionOf(from)}`,
        to === undefined ? "" : `until ${versionOf(to)}`,
      ]
        .filter((text) => text !== "")
        .join(" "),
      Object.entries(traits)
        .map(([name, value]) => code(`${name}: ${[value].flat().join(", ")}`))
        .join(", "),
      source ?? "",
    ]),
  );
}

const refusedRows = (
  [
    ["openai-chat", chatRefused],
    ["anthropic-messages", messagesRefused],
    ["gemini", geminiRefused],
  ] as const
).map(([dialect, fields]) => [dialect, fields.map(([name]) => code(name)).join(", ")]);

/** Tested by test/libs/dialects/media.test.ts. */
const attachmentRows: string[][] = [
  ["images (PNG, JPEG, GIF, WebP)", "any", "`image_url`", "`input_image`", "`image`", "`inlineData`, `fileData`"],
  ["PDF", "any", "`file`", "`input_file`", "`document`", "`inlineData`, `fileData`"],
  ["text, JSON, CSV and similar", "any", "text", "text", "`document`", "`inlineData`"],
  [
    "audio",
    "`input_audio`, `audio_url`, `file`, `inlineData`, `fileData`",
    "`input_audio`; `audio_url` for addresses",
    "refused",
    "refused",
    "`inlineData`, `fileData`",
  ],
  [
    "video",
    "`video_url`, `input_video`, `inlineData`, `fileData`",
    "`video_url`",
    "refused",
    "refused",
    "`inlineData`, `fileData`",
  ],
  [
    "images that the model made, in earlier turns",
    "`images`, `image_generation_call`, `inlineData`",
    "next user turn",
    "next user turn",
    "next user turn",
    "the model's turn",
  ],
];

const generatedOf =
  (): string => `Settings, for a caller of another dialect than the upstream's. _Ignored_ settings only optimise; _refused_ ones are a 400 that names the field; _by Sluice_: the upstream has no such setting.

${alignedTableOf(
  ["setting", ...conversationDialects],
  Object.entries(settingNames).map(([name, words]) => [
    words,
    ...conversationDialects.map((dialect) => wordOf(supports[dialect][name as SettingName])),
  ]),
)}

Fields that no other dialect has, and that are refused unless their value asks for nothing:

${alignedTableOf(["caller's dialect", "fields"], refusedRows)}

Attachments, by what they are. \`data\`: base64 or a data URL; \`address\`: an http(s) address, of a document only where the upstream fetches it, otherwise Sluice fetches images and documents.

${alignedTableOf(["content", "fields of callers", ...conversationDialects], attachmentRows)}

Values beyond a bound of the upstream are fitted to it. Equal texts get equal hashes, so that users and caches stay apart.

${alignedTableOf(
  ["upstream's dialect", "models", "value", "bound", "beyond it", "source"],
  valueBounds.map(({ dialect, models = "all", of, rule, source }) => [
    dialect,
    models,
    names[of],
    boundOf(rule)[0],
    beyondOf(of, rule),
    source,
  ]),
)}

Known upstreams refuse fields of their dialect, which are left out (ids of calls: replaced), for every operation and also where requests are otherwise unchanged; \`omits\` and \`betas\` of an upstream in the catalogue replace these
defaults. When any other upstream refuses a field that only optimises or that newer models dropped, its request is repeated once without it, and later requests to this target go without it for an hour; the worker
logs which.

${alignedTableOf(
  ["upstream", "left out", "forwarded betas", "source"],
  upstreamRules.map(({ name, omits, betas, source }) => [
    name,
    omits.map(code).join(", "),
    betas === undefined ? "all" : betas.length === 0 ? "none" : betas.map(code).join(", "),
    source,
  ]),
)}

Rules of models, by the upstream's name of the model; \`traits\` of a model in the catalogue replace them. A model that matches no version has the rules of its family's newest. [The reference](reference.md) explains the traits.

${alignedTableOf(["upstream's dialect", "models (regular expression)", "traits", "source"], modelRows())}`;

const begin = "<!-- generated by `npm run reference` -->";
const end = "<!-- end of the generated tables -->";

/** The page with current tables. */
export function clientsPageOf(page: string): string {
  const [before, rest = ""] = page.split(begin);
  return `${before}${begin}\n\n${generatedOf()}\n\n${end}${rest.split(end)[1] ?? ""}`;
}

if (import.meta.main) writeFileSync(clientsFile, clientsPageOf(readFileSync(clientsFile, "utf8")));
