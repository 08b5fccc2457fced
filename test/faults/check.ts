/** Compares the observations in a cell with the expectations. */
import type { ConversationDialect } from "#dialects/dialect.ts";
import {
  asksSameModel,
  type Cell,
  type ErrorName,
  type Expected,
  errorShapes,
  expectedOf,
  type Pace,
  type Span,
  statusOf,
} from "./cases.ts";
import { type Heard, type Played, prices } from "./play.ts";

/** How much later something may happen on a busy machine, in ms. */
const slackMs = 5_000;
/** How much earlier, because the clocks of two processes differ. */
const earlyMs = 20;

const answer = "You said: Hello, how are you?\nThis is the simulator: the same words always get the same answer.";
/** Its first three tokens. */
const opening = "You said: Hello,";
/** The content that a caller has when this fault happens after content. */
function contentBefore(fault: string): string {
  if (fault === "no-end") return answer;
  return fault === "malformed=2" ? "You" : opening;
}
const ourTexts = /^The (upstream of this model [a-z0-9 ;]+|simulator was told to fail)\.$/;

interface GoogleError {
  code: number;
  status: string;
  details?: { "@type": string; retryDelay?: string }[];
}

/** Every difference from the expectations, in sentences. */
export function complaintsOf(cell: Cell, played: Played, pace: Pace, secrets: readonly string[]): string[] {
  const expected = expectedOf(cell, pace);
  const complaints: string[] = [];
  const same = (what: string, seen: unknown, wanted: unknown) => {
    if (JSON.stringify(seen) !== JSON.stringify(wanted))
      complaints.push(`${what}: ${JSON.stringify(seen)} instead of ${JSON.stringify(wanted)}`);
  };
  const within = (what: string, ms: number, [least, most]: Span) => {
    if (!(ms >= least - earlyMs && ms <= most + slackMs))
      complaints.push(`${what}: ${Math.round(ms)} ms instead of ${least} to ${most}`);
  };
  const { askedAt, heard, first, second, next } = played;

  if (expected.got.kind === "whole") checkWhole(cell, heard, same);
  else checkError(cell, heard, expected.got, same);
  within("the caller's wait", heard.tookMs, expected.tookMs);
  for (const secret of secrets) if (heard.text.includes(secret)) complaints.push(`the caller sees ${secret}`);

  if (cell.row.fault === "dead" || cell.row.fault === "stalled")
    same("calls of the first target", played.callsOfAbsent, 1 + expected.pauses.length);
  else same("calls of the first target", first.length, 1 + expected.pauses.length);
  for (const [place, pause] of expected.pauses.entries())
    if (first.length > place + 1)
      within(`the pause before call ${place + 2}`, (first[place + 1] as number) - (first[place] as number), pause);
  same("calls of the second target", second.length, expected.second === undefined ? 0 : 1);
  if (expected.second !== undefined && first.length > 0 && second.length > 0) {
    // A busy simulator notes the first call late, and so the second one soon: too soon is what
    // comes too soon after the caller asked.
    const [least, most] = expected.second;
    within("the caller's question until the second target", (second[0] as number) - askedAt, [
      least,
      Number.POSITIVE_INFINITY,
    ]);
    within("the way to the second target", (second[0] as number) - (first.at(-1) as number), [0, most]);
  }

  const tokens = heard.read?.usage;
  const price = tokens === undefined ? 0 : (tokens.input * prices.input + tokens.output * prices.output) / 1_000_000;
  if (expected.billed === "estimate")
    same(
      "the budget lost something, and less than was reserved",
      played.spent > 0 && played.spent < heard.reserved,
      true,
    );
  else same("what the budget lost", played.spent.toFixed(9), { answer: price, nothing: 0 }[expected.billed].toFixed(9));

  checkWhole(cell, next.heard, (what, ...rest) => same(`next: ${what}`, ...rest));
  within("next: the caller's wait", next.heard.tookMs, [0, 0]);
  if (cell.row.recovers && !cell.row.blocks) same("next: calls of both targets", [next.first, next.second], [1, 0]);
  const answers = [...(expected.got.kind === "whole" ? [heard] : []), ...(asksSameModel(cell.row) ? [next.heard] : [])];
  const counted = expected.billed === "estimate" ? [] : answers.map(({ read }) => read?.usage);
  same("tokens counted", played.counted, {
    input: counted.reduce((sum, usage) => sum + (usage?.input ?? 0), 0),
    output: counted.reduce((sum, usage) => sum + (usage?.output ?? 0), 0),
  });
  return complaints;
}

type Same = (what: string, seen: unknown, wanted: unknown) => void;

function checkWhole({ id, dialect, streams }: Cell, { status, read, text, broken }: Heard, same: Same): void {
  same("status", status, 200);
  same("the error", read?.error?.message, undefined);
  same("the connection broke", broken, false);
  same("the finish", read?.finish, "stop");
  same("the text", read?.text, answer);
  same("breaches of the dialect", read?.faults, []);
  same(
    "the model is named",
    text.includes(`"${id}"`) || text.includes(`"other-${id}"`) || text.includes('"neighbour-'),
    true,
  );
  if (streams) same("an end", hasEnd(dialect, text), true);
}

/** Parts that only a complete stream has. */
function hasEnd(dialect: ConversationDialect, text: string): boolean {
  switch (dialect) {
    case "openai-chat":
      return text.includes("data: [DONE]");
    case "openai-responses":
      return text.includes("event: response.completed");
    case "anthropic-messages":
      return text.includes("event: message_stop");
    case "gemini":
      return text.includes('"finishReason"');
    default:
      return dialect satisfies never;
  }
}

function checkError(
  cell: Cell,
  { status, headers, text, read, broken }: Heard,
  { error, seconds, where, content }: Extract<Expected["got"], { kind: "error" }>,
  same: Same,
): void {
  const { dialect } = cell;
  same("status", status, where === "status" ? statusOf(error, dialect) : 200);
  same("a request id", /^req_/.test(String(headers["x-request-id"] ?? headers["request-id"] ?? "")), true);
  same(
    "the error is in our words",
    ourTexts.test((read?.error?.message ?? "").replace(/ \(no request id\)$/, "")) || read?.error?.message,
    true,
  );
  if (where === "status") {
    same("the content type", headers["content-type"], "application/json");
    const retryAfter = headers["retry-after"];
    same("Retry-After", retryAfter, seconds?.toString());
    checkShape(dialect, parsed(text), error, retryAfter, same);
    return;
  }
  same("an end", hasEnd(dialect, text), false);
  // Some clients detect a failing stream only by its broken connection: Google's older ones, and
  // LangChain4j for chat completions.
  same("the connection broke", broken, dialect === "gemini" || dialect === "openai-chat");
  same("breaches of the dialect", read?.faults, []);
  same("content before the error", read?.text, content ? contentBefore(cell.row.fault) : "");
  const events = [...text.matchAll(/^data: (.*)$/gm)].map(
    ([, data]) => parsed(data as string) as Record<string, unknown>,
  );
  if (dialect !== "openai-responses") {
    checkShape(dialect, events.at(-1), error, undefined, same);
    return;
  }
  const [told, failed] = events.slice(-2) as [
    Record<string, unknown>,
    { response?: { status: string; error: { code: string } } },
  ];
  const { code, type } = errorShapes[error].openai;
  same(
    "the error event",
    [told?.type, told?.code, (told?.error as Record<string, unknown>)?.type],
    ["error", code ?? type, type],
  );
  same("the response that failed", [failed?.response?.status, failed?.response?.error?.code], ["failed", code ?? type]);
}

/** Undefined for what is no JSON. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** An error body in its dialect's own shape. */
function checkShape(
  dialect: ConversationDialect,
  body: unknown,
  name: ErrorName,
  retryAfter: string | undefined,
  same: Same,
): void {
  const { error: told, ...beside } = (body ?? {}) as {
    error?: Record<string, unknown> | null;
    type?: string;
    request_id?: string;
  };
  const error = told ?? {};
  const { status, openai, anthropic, google } = errorShapes[name];
  switch (dialect) {
    case "openai-chat":
    case "openai-responses":
      same("the error's members", Object.keys(error), ["message", "type", "param", "code"]);
      same("the error", [error.type, error.param, error.code], [openai.type, null, openai.code]);
      return;
    case "anthropic-messages":
      same("the error", [beside.type, error.type, typeof beside.request_id], ["error", anthropic, "string"]);
      return;
    case "gemini": {
      const { code, status: named, details } = error as Partial<GoogleError>;
      same("the error", [code, named], [status, google]);
      const delay = details?.find((detail) => detail["@type"].endsWith("RetryInfo"))?.retryDelay;
      same("RetryInfo", delay, retryAfter === undefined ? undefined : `${retryAfter}s`);
      return;
    }
    default:
      dialect satisfies never;
  }
}
