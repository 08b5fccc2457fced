/**
 * Every fault that an upstream may have, and what must follow from it: what the caller gets, when each target is asked, what is billed. What is expected
 * stands here in words of its own and is never read from the gateway's code.
 */
import { type ConversationDialect, conversationDialects } from "#wire/dialect.ts";

/** How an error reads in each dialect. `code` is that of OpenAI's two dialects; null where only the status tells. */
export const errorShapes = {
  refused: { status: 400, openai: { type: "invalid_request_error", code: null }, anthropic: "invalid_request_error", google: "INVALID_ARGUMENT" },
  "too large": {
    status: 413,
    openai: { type: "invalid_request_error", code: "request_too_large" },
    anthropic: "request_too_large",
    google: "INVALID_ARGUMENT",
  },
  unprocessable: { status: 422, openai: { type: "invalid_request_error", code: null }, anthropic: "invalid_request_error", google: "INVALID_ARGUMENT" },
  "rate limited": {
    status: 429,
    openai: { type: "rate_limit_error", code: "rate_limit_exceeded" },
    anthropic: "rate_limit_error",
    google: "RESOURCE_EXHAUSTED",
  },
  "upstream failed": { status: 502, openai: { type: "server_error", code: "upstream_error" }, anthropic: "api_error", google: "INTERNAL" },
  overloaded: { status: 503, openai: { type: "server_error", code: "server_is_overloaded" }, anthropic: "overloaded_error", google: "UNAVAILABLE" },
  "timed out": { status: 504, openai: { type: "server_error", code: "upstream_timeout" }, anthropic: "timeout_error", google: "DEADLINE_EXCEEDED" },
} as const satisfies Record<string, { status: number; openai: { type: string; code: string | null }; anthropic: string; google: string }>;

export type ErrorName = keyof typeof errorShapes;

/** From the least to the most; times in ms. */
export type Span = readonly [least: number, most: number];

/** What a fault leads to where it is met. */
type Course =
  /** The answer is whole all the same; `loses` one event of its stream. */
  | { kind: "harmless"; loses?: true; uncounted?: true }
  /** The caller's own fault: passed on at once. */
  | { kind: "passed"; error: ErrorName }
  /** Tried again, at the next target or after these pauses; `seconds` is the Retry-After that the caller is given. */
  | { kind: "retried"; error: ErrorName; pauses: readonly Span[]; seconds?: Span }
  /** Over when it is met again. */
  | { kind: "once" }
  /** Nothing comes: found out when the time for it is over. */
  | { kind: "silent"; by: "quiet" | "total" }
  /** After content: told in the stream. */
  | { kind: "broken"; error: ErrorName; afterMs?: "quiet" };

/** `patient` targets have the limits that are the defaults, `hasty` ones shorter limits that their operator has set. */
type Patience = "patient" | "hasty";

export interface Row {
  /** The simulator's settings, to be had by `faultAt`; `dead` is a host where nothing listens. */
  fault: string;
  /** For readers. */
  says: string;
  section: string;
  patience: Patience;
  whole: Course;
  stream: Course;
  /** Whose fault it can be: not all of them end a stream alike. */
  dialects: readonly ConversationDialect[];
  /** The fault may strike only so many times, so that the same model is healthy after it. */
  recovers: boolean;
}

/** Pauses between a target's calls where it alone is left, with their jitter. */
const backOff: readonly Span[] = [
  [100, 300],
  [200, 600],
];
const waiting = (ms: number): readonly Span[] => [
  [ms, ms],
  [ms, ms],
];

const retried = (error: ErrorName, pauses = backOff, seconds?: Span): Course => ({ kind: "retried", error, pauses, ...(seconds && { seconds }) });
const failed = retried("upstream failed");
const notAgain = retried("upstream failed", []);
const broken: Course = { kind: "broken", error: "upstream failed" };
const harmless: Course = { kind: "harmless" };

const row = (fault: string, says: string, whole: Course, stream = whole, more: Partial<Row> = {}): Row => ({
  fault,
  says,
  section: "",
  patience: "patient",
  whole,
  stream,
  dialects: conversationDialects,
  recovers: true,
  ...more,
});
const under = (section: string, some: Row[]): Row[] => some.map((one) => ({ ...one, section }));

/** In a fault: longer than any limit, in ms. */
const forEver = "<for ever>";
const silence = (fault: string, says: string, patience: Patience, recovers: boolean, stream: Course = { kind: "silent", by: "quiet" }): Row =>
  row(fault, says, { kind: "silent", by: "total" }, stream, { patience, recovers });

const dateToCome = new Date(Date.now() + 40_000).toISOString();
const harm = "What does no harm";

export const rows: readonly Row[] = [
  ...under("The caller's own fault", [
    row("status=400", "400", { kind: "passed", error: "refused" }),
    row("status=413", "413", { kind: "passed", error: "too large" }),
    row("status=422", "422", { kind: "passed", error: "unprocessable" }),
  ]),
  ...under("An error status", [
    row("status=401", "401: the only credential is refused", notAgain),
    row("status=403", "403: the only credential is refused", notAgain),
    row("status=404", "404: no such model there", notAgain),
    row("status=408", "408", retried("timed out")),
    row("status=409", "409", failed),
    row("status=429", "429", retried("rate limited")),
    row("status=429;retry-after=7", "429, Retry-After: 7", retried("rate limited", [], [7, 7])),
    row("status=429;retry-after=86400", "429, Retry-After: 86400", retried("rate limited", [], [60, 60])),
    row(`status=429;retry-after=${dateToCome}`, "429, Retry-After: a date in 40 s", retried("rate limited", [], [10, 41])),
    row("status=429;retry-after=2020-01-01T00:00:00Z", "429, Retry-After: a date in the past", retried("rate limited", waiting(1_000), [1, 1])),
    row("status=500", "500", failed),
    row("status=502", "502", failed),
    row("status=503", "503", retried("overloaded")),
    row("status=503;retry-after=1", "503, Retry-After: 1", retried("overloaded", waiting(1_000), [1, 1])),
    row("status=504", "504", retried("timed out")),
    row("status=529", "529", retried("overloaded")),
    row("fail-first=1", "503 once, then healthy", { kind: "once" }),
  ]),
  ...under("A connection or an answer that fails before its content", [
    row("dead", "nothing listens", failed, failed, { recovers: false }),
    row("reset=0", "reset before the head", failed),
    row("cut=0", "the body ends before its first token", failed),
    row("cut=0;early-opening", "the body ends after the stream's opening event", failed),
    row("error=0", "an error in place of the answer, with status 200", failed),
    row("error=0;early-opening", "an error after the stream's opening event", failed),
    row("reset=0;fail-first=1", "reset once, then healthy", { kind: "once" }),
  ]),
  ...under("An answer that fails after content", [
    row("reset=3;rate=200", "reset after three tokens", failed, broken),
    row("cut=3", "the body ends after three tokens", failed, broken),
    row("error=3", "an error after three tokens", failed, broken),
    row("no-end", "no terminator, which bears the finish (openai-responses, gemini)", harmless, broken, { dialects: ["openai-responses", "gemini"] }),
  ]),
  ...under("Silence", [
    silence(`head=${forEver}`, "no head", "patient", false),
    silence(`first=${forEver}`, "a head and no token", "patient", false),
    silence("stall=0;early-opening", "an opening event and no token", "patient", true),
    silence("stall=3", "silence after three tokens", "patient", true, { kind: "broken", error: "timed out", afterMs: "quiet" }),
  ]),
  ...under("Silence at a target with short limits of its own", [
    silence(`head=${forEver}`, "no head", "hasty", false),
    silence("stall=0", "a head and no token", "hasty", true),
    silence("stall=3", "silence after three tokens", "hasty", true, { kind: "broken", error: "timed out", afterMs: "quiet" }),
  ]),
  ...under(harm, [
    row("malformed=2", "broken JSON in one event, or in the whole body", failed, { kind: "harmless", loses: true }),
    row("no-end", "no terminator (openai-chat, anthropic-messages)", harmless, harmless, { dialects: ["openai-chat", "anthropic-messages"] }),
    row("usage=every", "usage in every event", harmless, harmless, { recovers: false }),
    row("usage=never", "no usage", { kind: "harmless", uncounted: true }, undefined, { recovers: false }),
    row("early-opening", "an opening event long before the first token", harmless, harmless, { recovers: false }),
  ]),
];

/** The time limits that are in force, in ms, and how soon a silent stream gets a sign of life. */
export interface Pace {
  quietMs: Record<Patience, number>;
  totalMs: Record<Patience, number>;
  keepAliveMs: number;
  /** The limits are the catalogue's defaults: nothing is written into it. */
  isDefault: boolean;
}

export interface Cell {
  id: string;
  /** Its place in `rows`. */
  place: number;
  row: Row;
  dialect: ConversationDialect;
  streams: boolean;
  /** A second target stands behind the first. */
  pair: boolean;
}

/** The simulator's settings for a row. */
export const faultAt = (pace: Pace, { fault }: Row): string => fault.replace(forEver, String(pace.totalMs.patient + 10_000));

/** All of the suite. The first target speaks the caller's dialect, the second another one. */
export const cells: readonly Cell[] = rows.flatMap((one, place) =>
  one.dialects.flatMap((dialect) =>
    [false, true].flatMap((streams) =>
      [false, true].map((pair) => ({
        id: `row${place}-${dialect}-${streams ? "stream" : "whole"}-${pair ? "pair" : "alone"}`,
        place,
        row: one,
        dialect,
        streams,
        pair,
      })),
    ),
  ),
);

/** Whether the request after the fault goes to the same model; else to a neighbour at the same upstream. */
export const asksSameModel = ({ recovers, section }: Row): boolean => recovers || section === harm;

/** It is to be played early, before its date has come. */
export const namesDate = ({ fault }: Row): boolean => fault.includes(dateToCome);

export const dialectOfSecond: Record<ConversationDialect, ConversationDialect> = {
  "openai-chat": "anthropic-messages",
  "openai-responses": "gemini",
  "anthropic-messages": "openai-responses",
  gemini: "openai-chat",
};

export interface Expected {
  got: { kind: "whole"; loses: boolean } | { kind: "error"; error: ErrorName; seconds: Span | undefined; where: "status" | "stream"; content: boolean };
  /** Before each further call of the first target, after its call before. */
  pauses: readonly Span[];
  /** From the first target's last call to the second's; undefined when it is not asked. */
  second: Span | undefined;
  billed: "answer" | "nothing" | "reservation";
  /** Until the caller has all that it gets, but for what an answer takes. */
  tookMs: Span;
}

const atOnce: Span = [0, 0];
/** How often the time limits are looked at. */
const watchMs = 250;

/** What must be seen in a cell. */
export function expectedOf({ row: { whole, stream, patience }, streams, pair }: Cell, pace: Pace): Expected {
  const course = streams ? stream : whole;
  const answered = { kind: "whole", loses: false } as const;
  const after = (pauses: readonly Span[]): Span => [pauses.reduce((sum, [least]) => sum + least, 0), pauses.reduce((sum, [, most]) => sum + most, 0)];
  switch (course.kind) {
    case "harmless":
      return {
        got: { ...answered, loses: course.loses === true },
        pauses: [],
        second: undefined,
        billed: course.uncounted ? "reservation" : "answer",
        tookMs: atOnce,
      };
    case "passed":
      return { got: errorOf(course.error), pauses: [], second: undefined, billed: "nothing", tookMs: atOnce };
    case "once":
      if (pair) return { got: answered, pauses: [], second: atOnce, billed: "answer", tookMs: atOnce };
      return { got: answered, pauses: backOff.slice(0, 1), second: undefined, billed: "answer", tookMs: after(backOff.slice(0, 1)) };
    case "retried":
      if (pair) return { got: answered, pauses: [], second: atOnce, billed: "answer", tookMs: atOnce };
      return { got: errorOf(course.error, course.seconds), pauses: course.pauses, second: undefined, billed: "nothing", tookMs: after(course.pauses) };
    case "silent": {
      const limitMs = (course.by === "quiet" ? pace.quietMs : pace.totalMs)[patience];
      const found: Span = [limitMs, limitMs + watchMs];
      if (pair && course.by === "quiet") return { got: answered, pauses: [], second: found, billed: "answer", tookMs: found };
      const isKeptAlive = streams && limitMs > pace.keepAliveMs;
      return {
        got: { ...errorOf("timed out"), where: isKeptAlive ? "stream" : "status" },
        pauses: [],
        second: undefined,
        billed: "nothing",
        tookMs: found,
      };
    }
    case "broken": {
      const limitMs = course.afterMs === undefined ? 0 : pace.quietMs[patience];
      return {
        got: { ...errorOf(course.error), where: "stream", content: true },
        pauses: [],
        second: undefined,
        billed: "nothing",
        tookMs: [limitMs, limitMs === 0 ? 0 : limitMs + watchMs],
      };
    }
    default:
      return course satisfies never;
  }
}

const errorOf = (error: ErrorName, seconds?: Span) => ({ kind: "error", error, seconds, where: "status", content: false }) as const;
