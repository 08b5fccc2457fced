/**
 * The part of a request that is needed to read its answer, shortened so that it is cheap to send to
 * a thread.
 */

import type { UpstreamDialect } from "#dialects/dialect.ts";
import type { NeutralRequest, Settings, Tool } from "#dialects/neutral/neutral.ts";
import { profiles } from "#dialects/profiles.ts";
import { argumentNamesOf } from "#dialects/schema/tool-schemas.ts";
import { isConversation } from "#operations/conversation.ts";
import { defined } from "#wire/json/parse.ts";
import { settingLengthMax, settingsLengthMax } from "../bounds.ts";

/** The conversation's fields in all dialects, with the short values that replace them. */
const conversations: Record<string, unknown> = Object.fromEntries(
  Object.values(profiles).map(({ conversation }) => [conversation.field, conversation.empty]),
);

/** The JSON of a body without its conversation, and without the settings that exceed the limit. */
export function settingsTextOf(body: Record<string, unknown>): string {
  let left = settingsLengthMax;
  const members = Object.entries(body).flatMap(([name, value]) => {
    const text = `${JSON.stringify(name)}:${JSON.stringify(Object.hasOwn(conversations, name) ? conversations[name] : value)}`;
    if (text.length > left) return [];
    left -= text.length;
    return [text];
  });
  return `{${members.join()}}`;
}

/**
 * A request without its messages, with what an answer needs of its tools, and with settings that
 * are short. `spoken` is the upstream's dialect.
 */
export function shortened({ tools, toolChoice, settings }: NeutralRequest, spoken: UpstreamDialect): NeutralRequest {
  return {
    system: [],
    messages: [],
    tools: tools.map((tool) => shortTool(tool, spoken)),
    ...(toolChoice !== undefined && { toolChoice: { mode: toolChoice.mode, path: toolChoice.path } }),
    settings: Object.fromEntries(
      Object.entries(settings).map(([name, { path, value }]) => [name, { path, value: shortOf(value) }]),
    ) as Settings,
  };
}

function shortTool(tool: Tool, spoken: UpstreamDialect): Tool {
  const { name, callerName, namespace, takesText, textAsArguments, native, path } = tool;
  const argumentNames = isConversation(spoken) ? argumentNamesOf(tool, spoken) : undefined;
  return {
    name,
    callerName,
    path,
    ...defined({ namespace, takesText, textAsArguments, argumentNames }),
    ...(native !== undefined && { native: { dialect: native.dialect, value: { type: native.value.type } } }),
  };
}

function shortOf(value: unknown): unknown {
  if (typeof value === "string" || Array.isArray(value))
    return value.length <= settingLengthMax ? value : value.slice(0, 0);
  return typeof value === "object" ? {} : value;
}
