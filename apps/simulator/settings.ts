/**
 * The settings of simulated answers: defaults, by model name (`sim-text;tokens=64;rate=50`), or by
 * the header `x-simulate: tokens=64,rate=50`.
 */

/** Bounds the memory of one answer over all of its choices. */
export const answerBytesMax = 67_108_864;

type Kind =
  | { kind: "integer"; min: number; max: number }
  | { kind: "number"; min: number; max: number }
  | { kind: "flag" }
  | { kind: "choice"; of: readonly string[] }
  | { kind: "instant" };

type Setting = Kind & { description: string };

const reasoningForms = ["content", "field", "details", "parts", "call"] as const;
const batchFaults = ["fail", "expire", "hold", "refuse"] as const;
const usageModes = ["asked", "always", "never", "every"] as const;
const delayMsMax = 3_600_000;
const tokensMax = 200_000;

const integer = (min: number, max: number, description: string) => ({
  kind: "integer" as const,
  min,
  max,
  description,
});

const flag = (description: string) => ({ kind: "flag" as const, description });

/** Every setting with its bounds; also the source of the reference page. */
export const settingTable = {
  tokens: integer(
    0,
    tokensMax,
    "Length of a text answer in tokens; each token is one event of the stream. Unset: the length of the text.",
  ),
  rate: {
    kind: "number",
    min: 0,
    max: 100_000,
    description: "Tokens per second; 0 is as fast as possible. An image takes the tokens of its usage.",
  },
  first: integer(0, delayMsMax, "Delay before the first token, after the head, in ms."),
  head: integer(0, delayMsMax, "Delay before the head of the response, in ms."),
  size: integer(1, 65_536, "Bytes of each text token. Unset: one word."),
  reasoning: integer(0, tokensMax, "Reasoning tokens before the answer. Unset: according to the requested effort."),
  redacted: flag("Reasoning comes as redacted data instead of text, in dialects that have such a form."),
  "reasoning-form": {
    kind: "choice",
    of: reasoningForms,
    description:
      "Where a chat completion has its reasoning: in reasoning_content, in reasoning, also in reasoning_details with a signature, in parts of the content with a signature, or beside a signature of the first call.",
  },
  "needs-reasoning": flag(
    "Refuses a chat completion whose earlier calls come back without their reasoning, or with a changed one.",
  ),
  "strict-turns": flag(
    "Refuses a chat completion with instructions behind the beginning, with turns that do not alternate, or with a user's turn after a result.",
  ),
  "strict-messages": flag("Refuses a chat completion with members of messages that OpenAI does not know."),
  filter: integer(
    0,
    tokensMax,
    "After this many tokens, or a shorter text, a content filter ends the answer; 0 blocks the prompt, in dialects that report it. No tool is called.",
  ),
  cached: integer(
    0,
    10_000_000,
    "Prompt tokens reported as cached, at most all of them. Unset: a prefix of long prompts.",
  ),
  "prompt-cache": flag(
    "Prompt tokens are cached as at the vendor, for each credential and model: at Anthropic by marks, at OpenAI by the beginning of the prompt. The usage says how many were read and written.",
  ),
  "cache-minimum": integer(
    0,
    tokensMax,
    "The shortest prompt that `prompt-cache` caches by marks, in tokens. Unset: 1024.",
  ),
  "limit-requests": integer(
    1,
    1_000_000,
    "Requests of one credential and model that are accepted within `limit-period`. Responses state what is left, and further requests get 429.",
  ),
  "limit-tokens": integer(
    1,
    1_000_000_000,
    "The same for tokens: those of the prompt, and the most that the request allows for the answer.",
  ),
  "limit-period": integer(1, delayMsMax, "The time in which a used-up limit is full again, in ms. Unset: 60000."),
  "limit-window": flag("Limits are full again at once, instead of being refilled all the time."),
  "image-bytes": integer(0, 33_554_432, "Minimum size of a generated image, in bytes."),
  usage: {
    kind: "choice",
    of: usageModes,
    description: "Usage in a stream: as the request asks, always, never, or running totals in every event.",
  },
  "early-opening": flag(
    "Sends the opening event of a stream, which has no content, with the head instead of the first token.",
  ),
  status: integer(400, 599, "Fault: the answer is this HTTP status."),
  "retry-after": {
    kind: "instant",
    description:
      "The Retry-After of `status`: seconds, or an ISO 8601 instant, which is sent as an HTTP date. Gemini has it in the body.",
  },
  reset: integer(0, tokensMax, "Fault: the connection is reset after this many tokens; 0 is before the head."),
  stall: integer(0, tokensMax, "Fault: the connection stays open and silent after this many tokens."),
  cut: integer(0, tokensMax, "Fault: the body ends normally after this many tokens, without a finish."),
  error: integer(0, tokensMax, "Fault: an error event ends the stream after this many tokens."),
  malformed: integer(
    1,
    tokensMax,
    "Fault: this token's event (counted from 1), or the next token's with an event, is broken JSON; the stream continues.",
  ),
  "no-end": flag("Fault: everything except the terminator is sent."),
  batch: {
    kind: "choice",
    of: batchFaults,
    description:
      "Fault of a batch with this model: it fails at its check, it expires after half of its requests, it answers none until it is cancelled, or it is refused.",
  },
  "fail-first": integer(
    1,
    1_000_000,
    "The faults apply only to this many first requests with the same x-simulate-id, or otherwise the same model. Without another fault, the fault is status 503.",
  ),
} as const satisfies Record<string, Setting>;

type SettingName = keyof typeof settingTable;

export type Settings = ReturnType<typeof mergedOf>;

/** The checked settings of one source, not yet merged. */
export type SettingValues = ReadonlyMap<SettingName, number | string | true>;

/** `fault` is one sentence that names the setting. */
export type Outcome<Value> = { kind: "ok"; value: Value } | { kind: "bad"; fault: string };

const isSettingName = (name: string): name is SettingName => Object.hasOwn(settingTable, name);

/** Reads `name=value` pairs separated by "," or ";"; a flag has no value. */
export function settingValuesIn(text: string): Outcome<SettingValues> {
  const values = new Map<SettingName, number | string | true>();
  for (const entry of text.split(/[;,]/)) {
    const [rawName = "", ...rest] = entry.split("=");
    const name = rawName.trim();
    const value = rest.length === 0 ? undefined : rest.join("=").trim();
    if (name === "" && value === undefined) continue;
    if (!isSettingName(name))
      return {
        kind: "bad",
        fault: `There is no simulator setting "${name.slice(0, 40)}"; there are ${Object.keys(settingTable).join(", ")}.`,
      };
    if (values.has(name)) return { kind: "bad", fault: `The simulator setting "${name}" is given twice.` };
    const parsed = settingValueOf(name, settingTable[name], value);
    if (parsed.kind === "bad") return parsed;
    values.set(name, parsed.value);
  }
  return { kind: "ok", value: values };
}

function settingValueOf(name: string, setting: Setting, text: string | undefined): Outcome<number | string | true> {
  const bad = (wanted: string): Outcome<never> => ({
    kind: "bad",
    fault: `The simulator setting "${name}" must be ${wanted}${text === undefined ? "" : `, not "${text.slice(0, 40)}"`}.`,
  });
  switch (setting.kind) {
    case "flag":
      return text === undefined ? { kind: "ok", value: true } : bad("given without a value");
    case "choice":
      return text !== undefined && setting.of.includes(text)
        ? { kind: "ok", value: text }
        : bad(`one of ${setting.of.join(", ")}`);
    case "instant": {
      if (text !== undefined && /^\d{1,9}$/.test(text)) return { kind: "ok", value: text };
      const instant = text !== undefined && /^\d{4}-\d{2}-\d{2}T/.test(text) ? new Date(text) : undefined;
      return instant && !Number.isNaN(instant.getTime())
        ? { kind: "ok", value: instant.toUTCString() }
        : bad("seconds or an ISO 8601 instant such as 2030-01-01T00:00:00Z");
    }
    case "integer":
    case "number": {
      const wanted = `${setting.kind === "integer" ? "an integer" : "a number"} from ${setting.min} to ${setting.max}`;
      const shape = setting.kind === "integer" ? /^\d{1,9}$/ : /^\d{1,9}(\.\d{1,6})?$/;
      if (text === undefined || !shape.test(text)) return bad(wanted);
      const value = Number(text);
      return value >= setting.min && value <= setting.max ? { kind: "ok", value } : bad(wanted);
    }
  }
}

/** Merges the sources; for each setting, a later source wins. */
export function settingsOf(...sources: SettingValues[]): Outcome<Settings> {
  const settings = mergedOf(new Map(sources.flatMap((source) => [...source])));
  if ((settings.tokens ?? 0) * (settings.tokenBytes ?? 8) > answerBytesMax)
    return {
      kind: "bad",
      fault: `The simulator settings "tokens" and "size" together make an answer of more than ${answerBytesMax} bytes.`,
    };
  return { kind: "ok", value: settings };
}

function mergedOf(values: SettingValues) {
  const number = (name: SettingName): number | undefined => {
    const value = values.get(name);
    return typeof value === "number" ? value : undefined;
  };
  const text = (name: SettingName): string | undefined => {
    const value = values.get(name);
    return typeof value === "string" ? value : undefined;
  };
  return {
    tokens: number("tokens"),
    /** Tokens per second; 0 is as fast as possible. */
    rate: number("rate") ?? 0,
    firstMs: number("first") ?? 0,
    headMs: number("head") ?? 0,
    tokenBytes: number("size"),
    reasoningTokens: number("reasoning"),
    redacted: values.has("redacted"),
    reasoningForm: reasoningForms.find((form) => form === text("reasoning-form")) ?? ("content" as const),
    needsReasoning: values.has("needs-reasoning"),
    strictTurns: values.has("strict-turns"),
    strictMessages: values.has("strict-messages"),
    filterTokens: number("filter"),
    cachedTokens: number("cached"),
    promptCache: values.has("prompt-cache"),
    cacheTokensMin: number("cache-minimum") ?? 1_024,
    limitRequests: number("limit-requests"),
    limitTokens: number("limit-tokens"),
    limitPeriodMs: number("limit-period") ?? 60_000,
    limitWindow: values.has("limit-window"),
    imageBytesMin: number("image-bytes") ?? 0,
    usage: usageModes.find((mode) => mode === text("usage")) ?? ("asked" as const),
    earlyOpening: values.has("early-opening"),
    /** Counts are in tokens; the first fault that the answer reaches applies. */
    faults: {
      status: number("status"),
      /** The value of the header. */
      retryAfter: text("retry-after"),
      reset: number("reset"),
      stall: number("stall"),
      cut: number("cut"),
      error: number("error"),
      malformed: number("malformed"),
      noEnd: values.has("no-end"),
      failFirst: number("fail-first"),
    },
  };
}

const { faults: noFaults } = mergedOf(new Map());

/** The settings of one request of a `fail-first` series. */
export function settingsAmong(settings: Settings, failing: boolean): Settings {
  if (!failing) return { ...settings, faults: noFaults };
  const { status, reset, stall, cut, error, malformed, noEnd } = settings.faults;
  const another = [status, reset, stall, cut, error, malformed].some((count) => count !== undefined) || noEnd;
  return another ? settings : { ...settings, faults: { ...settings.faults, status: 503 } };
}
