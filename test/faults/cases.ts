/**
 * Every fault of an upstream and its expected consequences: the caller's response, the times of the
 * calls, and the charge. Expectations are stated here and never read from the gateway's code.
 */
import { type ConversationDialect, conversationDialects } from "#dialects/dialect.ts";
import { quietMsMin } from "../../apps/worker/bounds.ts";
import { isLong } from "../support/long.ts";

/**
 * The format of an error in each dialect. `code` is that of OpenAI's two dialects; null if only the
 * status tells.
 */
export const errorShapes = {
  refused: {
    status: 400,
    openai: { type: "invalid_request_error", code: null },
    anthropic: "invalid_request_error",
    google: "INVALID_ARGUMENT",
  },
  "too large": {
    status: 413,
    openai: { type: "invalid_request_error", code: "request_too_large" },
    anthropic: "request_too_large",
    google: "INVALID_ARGUMENT",
  },
  unprocessable: {
    status: 422,
    openai: { type: "invalid_request_error", code: null },
    anthropic: "invalid_request_error",
    google: "INVALID_ARGUMENT",
  },
  "rate limited": {
    status: 429,
    openai: { type: "rate_limit_error", code: "rate_limit_exceeded" },
    anthropic: "rate_limit_error",
    google: "RESOURCE_EXHAUSTED",
  },
  "upstream failed": {
    status: 502,
    openai: { type: "server_error", code: "upstream_error" },
    anthropic: "api_error",
    google: "INTERNAL",
  },
  /** Anthropic's own API says 529. */
  overloaded: {
    status: 503,
    anthropicStatus: 529,
    openai: { type: "server_error", code: "server_is_overloaded" },
    anthropic: "overloaded_error",
    google: "UNAVAILABLE",
  },
  "timed out": {
    status: 504,
    openai: { type: "server_error", code: "upstream_timeout" },
    anthropic: "timeout_error",
    google: "DEADLINE_EXCEEDED",
  },
} as const satisfies Record<
  string,
  {
    status: number;
    anthropicStatus?: number;
    openai: { type: string; code: string | null };
    anthropic: string;
    google: string;
  }
>;

export type ErrorName = keyof typeof errorShapes;

/** The status that a caller of this dialect reads. */
export function statusOf(error: ErrorName, dialect: ConversationDialect): number {
  const shape: { status: number; anthropicStatus?: number } = errorShapes[error];
  return dialect === "anthropic-messages" ? (shape.anthropicStatus ?? shape.status) : shape.status;
}

/** From the least to the most; times in ms. */
export type Span = readonly [least: number, most: number];

/** The consequence of a fault for one call. */
type Course =
  /** The answer is complete anyway. */
  | { kind: "harmless"; uncounted?: true }
  /** The caller's own error: passed on at once. */
  | { kind: "passed"; error: ErrorName }
  /** Retried at the next target or after these pauses; `seconds` is the caller's Retry-After. */
  | { kind: "retried"; error: ErrorName; pauses: readonly Span[]; seconds?: number }
  /** Gone at the next call. */
  | { kind: "once" }
  /** Silence, detected by a timeout. */
  | { kind: "silent"; by: "quiet" | "begin" | "connect" }
  /** After content: an error event. */
  | {
      kind: "broken";
      error: ErrorName;
      afterMs?: "quiet" /** Only where the model says that answers are resumed. */;
      isOver?: true;
    };

/**
 * `patient` targets have the default timeouts, `hasty` ones shorter timeouts set by their operator.
 */
type Patience = "patient" | "hasty";

export interface Row {
  /**
   * The simulator's settings, to be had by `faultAt`; `dead` is a host where nothing listens,
   * `stalled` one that answers no handshake.
   */
  fault: string;
  /** For readers. */
  says: string;
  section: string;
  timeouts: Patience;
  whole: Course;
  stream: Course;
  /** Whose fault it can be: not all of them end a stream alike. */
  dialects: readonly ConversationDialect[];
  /** The fault may strike only so many times, so that the same model is healthy after it. */
  recovers: boolean;
  /** The target is blocked for a while after the fault. */
  blocks: boolean;
  /** Over which it can happen. */
  transports: readonly Transport[];
}

/** How the targets are reached. */
export const transports = ["http", "https", "h2"] as const;
export type Transport = (typeof transports)[number];

/**
 * Targets behind the first one. `two`: a second target, where a plain text goes on.
 * `resumed`: a second target, and the model says that any answer may be resumed there. `fallback`:
 * another model, where the answer may be resumed as well.
 */
export const arrangements = ["one", "two", "resumed", "fallback"] as const;
export type Arrangement = (typeof arrangements)[number];

/** Pauses between a target's calls where it alone is left, with their jitter. */
const backOff: readonly Span[] = [
  [100, 300],
  [200, 600],
];
const waiting = (ms: number): readonly Span[] => [
  [ms, ms],
  [ms, ms],
];

const retried = (error: ErrorName, pauses = backOff, seconds?: number): Course => ({
  kind: "retried",
  error,
  pauses,
  ...(seconds !== undefined && { seconds }),
});
const failed = retried("upstream failed");
const notAgain = retried("upstream failed", []);
const broken = { kind: "broken", error: "upstream failed" } as const satisfies Course;
const harmless: Course = { kind: "harmless" };

const row = (fault: string, says: string, whole: Course, stream = whole, more: Partial<Row> = {}): Row => ({
  fault,
  says,
  section: "",
  timeouts: "patient",
  whole,
  stream,
  dialects: conversationDialects,
  recovers: true,
  blocks: false,
  transports,
  ...more,
});
const under = (section: string, some: Row[]): Row[] => some.map((one) => ({ ...one, section }));

/** In a fault: longer than any limit, in ms. */
const forEver = "<for ever>";
const silence = (fault: string, says: string, timeouts: Patience, recovers: boolean): Row =>
  row(fault, says, { kind: "silent", by: "begin" }, { kind: "silent", by: "quiet" }, { timeouts: timeouts, recovers });
/** Some bytes of a whole answer have come by then. */
const silenceAfterContent = (timeouts: Patience): Row =>
  row(
    "stall=3",
    "silence after three tokens",
    { kind: "silent", by: "quiet" },
    { kind: "broken", error: "timed out", afterMs: "quiet" },
    { timeouts: timeouts, recovers: true },
  );

/** So far ahead that it has not come yet whenever its cells are played. */
const dateToCome = new Date(Date.now() + 86_400_000).toISOString();
const harm = "What does no harm";

export const rows: readonly Row[] = [
  ...under("The caller's own fault", [
    row("status=400", "400", { kind: "passed", error: "refused" }),
    row("status=413", "413", { kind: "passed", error: "too large" }),
    row("status=422", "422", { kind: "passed", error: "unprocessable" }),
  ]),
  ...under("An error status", [
    row("status=401", "401: the only credential is refused", notAgain, notAgain, { blocks: true }),
    row("status=403", "403 without a reason", notAgain),
    row("status=404", "404: no such model there", notAgain, notAgain, { blocks: true }),
    row("status=408", "408", retried("timed out")),
    row("status=409", "409", failed),
    row("status=429", "429", retried("rate limited")),
    row("status=429;retry-after=7", "429, Retry-After: 7", retried("rate limited", [], 7), undefined, {
      blocks: true,
    }),
    row("status=429;retry-after=86400", "429, Retry-After: 86400", retried("rate limited", [], 60), undefined, {
      blocks: true,
    }),
    row(
      `status=429;retry-after=${dateToCome}`,
      "429, Retry-After: a date in a day",
      retried("rate limited", [], 60),
      undefined,
      { blocks: true },
    ),
    row(
      "status=429;retry-after=2020-01-01T00:00:00Z",
      "429, Retry-After: a date in the past",
      retried("rate limited", backOff, 1),
    ),
    row("status=500", "500", failed),
    row("status=502", "502", failed),
    row("status=503", "503", retried("overloaded")),
    row("status=503;retry-after=1", "503, Retry-After: 1", retried("overloaded", waiting(1_000), 1)),
    row("status=504", "504", retried("timed out")),
    row("status=529", "529", retried("overloaded")),
    row("fail-first=1", "503 once, then healthy", { kind: "once" }),
  ]),
  ...under("A connection or an answer that fails before its content", [
    row("dead", "nothing listens", failed, failed, { recovers: false }),
    row("stalled", "the TLS handshake stalls", { kind: "silent", by: "connect" }, undefined, {
      recovers: false,
      transports: ["https", "h2"],
    }),
    row("reset=0", "reset before the head", failed),
    row("cut=0", "the body ends before its first token", failed),
    row("cut=0;early-opening", "the body ends after the stream's opening event", failed),
    row("error=0", "an error in place of the answer, with status 200", failed),
    row("error=0;early-opening", "an error after the stream's opening event", failed),
    row("malformed=1", "broken JSON in the first token's event, or in the whole body", failed),
    row("reset=0;fail-first=1", "reset once, then healthy", { kind: "once" }),
  ]),
  ...under("An answer that fails after content", [
    row("malformed=2", "broken JSON in the second token's event", failed, broken),
    row("reset=3;rate=200", "reset after three tokens", failed, broken),
    row("cut=3", "the body ends after three tokens", failed, broken),
    row("error=3", "an error after three tokens", failed, broken),
    row("no-end", "no terminator, which bears the finish (gemini)", harmless, broken, { dialects: ["gemini"] }),
    row(
      "no-end",
      "no terminator, which bears the finish (openai-responses)",
      harmless,
      { ...broken, isOver: true },
      {
        dialects: ["openai-responses"],
      },
    ),
  ]),
  ...under("Silence", [
    silence(`head=${forEver}`, "no head", "patient", false),
    silence(`first=${forEver}`, "a head and no token", "patient", false),
    silence("stall=0;early-opening", "an opening event and no token", "patient", true),
    silenceAfterContent("patient"),
  ]),
  ...under("Silence at a target with short limits of its own", [
    silence(`head=${forEver}`, "no head", "hasty", false),
    silence("stall=0", "a head and no token", "hasty", true),
    silenceAfterContent("hasty"),
  ]),
  ...under(harm, [
    row("no-end", "no terminator (openai-chat, anthropic-messages)", harmless, harmless, {
      dialects: ["openai-chat", "anthropic-messages"],
    }),
    row("usage=every", "usage in every event", harmless, harmless, { recovers: false }),
    row("usage=never", "no usage", { kind: "harmless", uncounted: true }, undefined, { recovers: false }),
    row("early-opening", "an opening event long before the first token", harmless, harmless, { recovers: false }),
  ]),
];

/** The time limits that are in force, in ms, and how soon a silent stream gets a sign of life. */
export interface Pace {
  connectMs: number;
  /** Timeouts of a stream: until the head, the first token, and between tokens. */
  quietMs: Record<Patience, number>;
  /** Until the first content of any answer. */
  beginMs: Record<Patience, number>;
  totalMs: Record<Patience, number>;
  keepAliveMs: number;
  /** The limits are the catalogue's defaults: nothing is written into it. */
  isDefault: boolean;
}

/** The limits of a configuration that resumes: ten seconds each in a catalogue. */
export const resumedMs = (pace: Pace): number => (pace.isDefault ? 10_000 : pace.quietMs.patient);

export interface Cell {
  id: string;
  /** Its place in `rows`. */
  place: number;
  row: Row;
  dialect: ConversationDialect;
  streams: boolean;
  arrangement: Arrangement;
  transport: Transport;
}

/** The simulator's settings for a row. */
export const faultAt = (pace: Pace, { fault }: Row): string =>
  fault.replace(forEver, String(pace.totalMs.patient + 10_000));

/**
 * All of the suite. The first target speaks the caller's dialect, the second another one. Answers
 * are resumed over plain HTTP alone.
 */
export const allCells: readonly Cell[] = rows.flatMap((row, place) =>
  row.transports.flatMap((transport) =>
    row.dialects.flatMap((dialect) =>
      [false, true].flatMap((streams) =>
        arrangements
          .filter((arrangement) => transport === row.transports[0] || arrangement === "one" || arrangement === "two")
          .map((arrangement) => ({
            id: `row${place}-${dialect}-${streams ? "stream" : "whole"}-${arrangement}-${transport}`,
            place,
            row,
            dialect,
            streams,
            arrangement,
            transport,
          })),
      ),
    ),
  ),
);

/**
 * For `npm test`: every fault with one of its dialects, over plain HTTP in all arrangements, and
 * over HTTPS and HTTP/2 in one each. `npm run test:long` plays all dialects over plain HTTP with
 * one target and with two, and `npm run faults` plays all cells.
 */
export const someCells: readonly Cell[] = allCells.filter(
  ({ row: { dialects }, place, dialect, arrangement, transport }) =>
    (dialect === dialects[place % dialects.length] &&
      (transport === "http" || arrangement === (place % 2 === transports.indexOf(transport) % 2 ? "one" : "two"))) ||
    (isLong && transport === "http" && (arrangement === "one" || arrangement === "two")),
);

/**
 * Whether the request after the fault goes to the same model; else to a neighbour at the same
 * upstream.
 */
export const asksSameModel = ({ recovers, blocks, section }: Row): boolean => (recovers && !blocks) || section === harm;

export const dialectOfSecond: Record<ConversationDialect, ConversationDialect> = {
  "openai-chat": "anthropic-messages",
  "openai-responses": "gemini",
  "anthropic-messages": "openai-responses",
  gemini: "openai-chat",
};

export interface Expected {
  got:
    | { kind: "whole" }
    | { kind: "error"; error: ErrorName; seconds: number | undefined; where: "status" | "stream"; content: boolean };
  /** Before each further call of the first target, after its call before. */
  pauses: readonly Span[];
  /** From the first target's last call to the second's; undefined when it is not asked. */
  second: Span | undefined;
  billed: "answer" | "nothing" | "estimate";
  /** Until the caller has all that it gets, but for what an answer takes. */
  tookMs: Span;
}

const atOnce: Span = [0, 0];
/** How often the time limits are looked at. */
const watchMs = 250;

const noPauses: readonly Span[] = [];
const sumOf = (spans: readonly Span[]): Span => [
  spans.reduce((sum, [least]) => sum + least, 0),
  spans.reduce((sum, [, most]) => sum + most, 0),
];

/** The expected observations in a cell. */
export function expectedOf(cell: Pick<Cell, "row" | "streams" | "arrangement">, pace: Pace): Expected {
  const { row, streams, arrangement } = cell;
  const course = streams ? row.stream : row.whole;
  const { timeouts } = row;
  const resumes = arrangement === "resumed" || arrangement === "fallback";
  const answered = { kind: "whole" } as const;
  /** The first target answers in the end, or the caller is told why not. */
  const alone = (got: Expected["got"], pauses = noPauses): Expected => ({
    got,
    pauses,
    second: undefined,
    billed: got.kind === "whole" ? "answer" : "nothing",
    tookMs: sumOf(pauses),
  });
  /** The second target answers, once the first was found out and its retries are over. */
  const elsewhere = (span: Span, pauses = noPauses): Expected => {
    const second = sumOf([span, ...pauses]);
    return { got: answered, pauses, second, billed: "answer", tookMs: second };
  };
  switch (course.kind) {
    case "harmless":
      return { ...alone(answered), ...(course.uncounted && { billed: "estimate" }) };
    case "passed":
      return alone(errorOf(course.error));
    case "once":
      return arrangement === "two" || arrangement === "resumed"
        ? elsewhere(atOnce)
        : alone(answered, backOff.slice(0, 1));
    case "retried":
      if (arrangement === "one") return alone(errorOf(course.error, course.seconds), course.pauses);
      return elsewhere(atOnce, arrangement === "fallback" ? course.pauses : noPauses);
    case "silent": {
      // The only target of an answer that does not stream is waited for until its total time is
      // over.
      const beginMs = arrangement === "one" ? pace.totalMs[timeouts] : pace.beginMs[timeouts];
      const adapts = pace.isDefault && timeouts === "patient" && arrangement === "two";
      const limits = {
        quiet: adapts && streams ? quietMsMin.streamed : pace.quietMs[timeouts],
        begin: adapts ? quietMsMin.whole : beginMs,
        connect: pace.connectMs,
      };
      const limitMs = resumes && course.by !== "connect" ? resumedMs(pace) : limits[course.by];
      const span: Span = [limitMs, limitMs + watchMs];
      if (arrangement !== "one") return elsewhere(span);
      const isKeptAlive = streams && limitMs > pace.keepAliveMs;
      return { ...alone({ ...errorOf("timed out"), where: isKeptAlive ? "stream" : "status" }), tookMs: span };
    }
    case "broken": {
      const quietMs = course.afterMs === undefined ? 0 : resumes ? resumedMs(pace) : pace.quietMs[timeouts];
      const span: Span = [quietMs, quietMs === 0 ? 0 : quietMs + watchMs];
      if (resumes || (arrangement === "two" && course.isOver !== true))
        return elsewhere(span, arrangement === "fallback" && course.afterMs === undefined ? backOff : noPauses);
      return { ...alone({ ...errorOf(course.error), where: "stream", content: true }), tookMs: span };
    }
    default:
      return course satisfies never;
  }
}

const errorOf = (error: ErrorName, seconds?: number) =>
  ({ kind: "error", error, seconds, where: "status", content: false }) as const;
