/**
 * Tools that a vendor runs, in requests that go to a model of another vendor. Without them the
 * model answers from what it knows, so they are left out, and the caller is told. A choice that
 * forces one is refused, and so are tools that name what only their vendor has: stored files,
 * servers of the caller, containers.
 *
 * https://platform.openai.com/docs/guides/tools,
 * https://platform.claude.com/docs/en/agents-and-tools/tool-use/overview#server-tools,
 * https://ai.google.dev/gemini-api/docs/tools, https://console.groq.com/docs/browser-search,
 * https://platform.moonshot.ai/docs/guide/use-web-search
 */
import type { JsonObject } from "#wire/json/parse.ts";

/** Types of tools, and in requests of Gemini names of members, without a version. */
const families =
  /^(?:web_?search|web_fetch|tool_search|image_generation|programmatic_tool_calling|advisor|code_?execution|code_interpreter|browser_search|x_search|live_search|google_?search|google_?maps|url_?context|enterprise_?web_?search|builtin_function|openrouter:)/i;

/** Agents offer them with every request, needed or not, so their callers are not told. */
const habits = /^(?:web_search(?!_\d)|tool_search|image_generation|programmatic_tool_calling|advisor)/;

/** True for a tool that its vendor runs and a model of another vendor can do without. */
export const isDispensable = (type: unknown) => typeof type === "string" && families.test(type);

/**
 * The type of a tool; of one without a type, the member that names it, as LiteLLM's clients write
 * Google's tools in every dialect: https://docs.litellm.ai/docs/providers/gemini#google-search-tool
 */
export const toolTypeOf = (tool: JsonObject): unknown => tool.type ?? Object.keys(tool).find(isDispensable);

/**
 * Sentences about such tools. `types` are those of all offered tools, with the caller's names of
 * their places.
 */
export function leftOutWarnings(types: readonly [type: unknown, path: string][]): string[] {
  const unusual = types.filter(([type]) => isDispensable(type) && !habits.test(String(type)));
  return unusual.map(
    ([type, path]) =>
      `${path} is ${String(type)
        .replace(/[^\w:.-]/g, "_")
        .slice(0, typeLengthMax)}, which its vendor runs; the model that answers goes without it.`,
  );
}

const typeLengthMax = 60;
