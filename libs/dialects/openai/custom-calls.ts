/**
 * Tools that take free text, in requests that pass to an upstream of the same dialect unchanged.
 * Many servers of OpenAI's dialects know functions only, and answer with a call whose arguments are
 * JSON; the caller gets the free text that it expects.
 */
import { listOf, objectOf, textOf } from "#wire/json/parse.ts";
import { objectSpansOf, readSpan } from "#wire/json/spans.ts";

const mark = '"custom"';

/**
 * The names of a request's tools with free text; undefined if there are none. A request without
 * them costs one search.
 */
export function customNamesIn(bytes: Buffer): ReadonlySet<string> | undefined {
  if (!bytes.includes(mark)) return undefined;
  const spans = objectSpansOf(bytes, ["tools"]);
  const tools = spans?.members.tools;
  const names = new Set(tools === undefined ? [] : namesIn(readSpan(bytes, tools)));
  return names.size === 0 ? undefined : names;
}

function namesIn(tools: unknown, isInNamespace = false): string[] {
  return listOf(tools).flatMap((value) => {
    const { type, name, custom, tools: inner } = objectOf(value);
    if (type === "namespace" && !isInNamespace) return namesIn(inner, true);
    return type === "custom" ? (textOf(name) ?? textOf(objectOf(custom).name) ?? []) : [];
  });
}
