/** What of a request its answer is read by, in short, for who reads the answer elsewhere than the request. */
import type { NeutralRequest, Settings } from "#dialects/neutral.ts";

export interface Asked {
  /** The caller's body; of a large one its settings. */
  body: Record<string, unknown>;
  request: NeutralRequest;
}

/** The conversation itself, in every dialect, and what stands for one where settings are read. */
const conversations: Record<string, unknown> = { messages: [{ role: "user", content: "" }], input: [], contents: [] };
/** Characters that all settings have at most: what some answers repeat of their request. */
const settingsLengthMax = 256 * 1024;

/** The JSON of a body without its conversation, and without settings that are longer than all may be. */
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

/** Texts of more characters and lists of more elements are of no use to who reads an answer. */
const valueLengthMax = 1_000;

/** A request with the names of its tools and settings, and what is short of those. */
export function briefly({ tools, toolChoice, settings }: NeutralRequest): NeutralRequest {
  return {
    system: [],
    messages: [],
    tools: tools.map(({ name, callerName, namespace, takesText, path }) => ({
      name,
      callerName,
      path,
      ...(namespace !== undefined && { namespace }),
      ...(takesText !== undefined && { takesText }),
    })),
    ...(toolChoice !== undefined && { toolChoice: { mode: toolChoice.mode, path: toolChoice.path } }),
    settings: Object.fromEntries(
      Object.entries(settings).map(([name, { path, value }]) => [name, { path, value: shortOf(value) }]),
    ) as Settings,
  };
}

function shortOf(value: unknown): unknown {
  if (typeof value === "string" || Array.isArray(value))
    return value.length <= valueLengthMax ? value : value.slice(0, 0);
  return typeof value === "object" ? {} : value;
}
