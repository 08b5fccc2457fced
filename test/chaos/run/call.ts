/** One call of a chaos run: what it asks, what it must get, and what it got. */
import { type ConversationDialect, conversationDialects } from "#dialects/dialect.ts";
import type { Caller, Observed } from "../../conformance/ask.ts";
import { callers } from "../../conformance/callers/callers.ts";

/**
 * complete: the whole answer. refused: an error instead of an answer. failed: an error after the
 * answer began. cut: the connection broke. left: the caller left. wrong: anything that no caller
 * may ever see.
 */
export type Outcome = "complete" | "refused" | "failed" | "cut" | "left" | "wrong";

export interface CallResult {
  outcome: Outcome;
  /** The status of a refusal, or what is wrong. */
  detail: string;
  /** The message of a refusal. */
  message?: string;
  requestIds: string[];
  usage?: { input: number; output: number } | undefined;
}

export interface Call extends CallResult {
  number: number;
  kind: string;
  /** Places of the ingresses that it called. */
  ingresses: readonly number[];
  /** Epoch milliseconds. */
  startedAt: number;
  endedAt: number;
}

/**
 * The detail of a complete call whose request ran more than once, as its answers say. Only a fault
 * may be why.
 */
export const ranAgain = "ran again";

/** No call may take longer; the longest answer takes six seconds. */
export const callMsMax = 90_000;

export const dialects = conversationDialects;

/** 408: an ingress that was frozen gives up a request that it had not read yet. */
const statusesAllowed = new Set([408, 429, 502, 503, 504, 529]);

export const headersOf = (key: string): Record<string, string> => ({
  "content-type": "application/json",
  authorization: `Bearer ${key}`,
  "x-api-key": key,
  "x-goog-api-key": key,
  "anthropic-version": "2023-06-01",
});

export interface Received {
  status: number;
  headers: Headers;
  body: Buffer;
  isBroken: boolean;
}

/**
 * Sends a request and reads the answer to its end, its break, or until `signal`; undefined if there
 * was no answer. Calls `onData` with the bytes so far.
 */
export async function send(
  url: string,
  request: RequestInit,
  onData: (bytes: number) => Promise<void> | void = () => {},
): Promise<Received | undefined> {
  const response = await fetch(url, { method: "POST", ...request }).catch(() => undefined);
  if (response === undefined) return undefined;
  const parts: Uint8Array[] = [];
  let bytes = 0;
  let isBroken = false;
  try {
    for await (const part of response.body ?? []) {
      parts.push(part as Uint8Array);
      bytes += (part as Uint8Array).length;
      await onData(bytes);
    }
  } catch {
    isBroken = true;
  }
  return { status: response.status, headers: response.headers, body: Buffer.concat(parts), isBroken };
}

const requestIdsOf = ({ headers }: Received): string[] => {
  const id = headers.get("x-request-id") ?? headers.get("request-id");
  return id === null ? [] : [id];
};

/**
 * A refusal must be an error of the caller's dialect, and say when to come again where it limits a
 * rate.
 */
export function refusalOf(received: Received, caller: Caller | undefined): CallResult {
  const { status, headers, body } = received;
  const requestIds = requestIdsOf(received);
  const wrong = (detail: string): CallResult => ({ outcome: "wrong", detail, requestIds });
  const text = body.toString();
  if (received.isBroken) return { outcome: "cut", detail: `in an error ${status}`, requestIds };
  if (!statusesAllowed.has(status)) return wrong(`status ${status}: ${text.slice(0, 300)}`);
  if (status === 429 && headers.get("retry-after") === null) return wrong("a 429 without Retry-After");
  let message: string | undefined;
  try {
    message =
      caller === undefined
        ? (JSON.parse(text) as { error: { message: string } }).error.message
        : caller.readWhole(status, text).error?.message;
    if (typeof message !== "string" || message === "") return wrong(`no message: ${text.slice(0, 300)}`);
  } catch {
    return wrong(`no error of the dialect: ${text.slice(0, 300)}`);
  }
  return { outcome: "refused", detail: String(status), message, requestIds };
}

/** Comments and events that only show that the stream is alive. */
const keepAlive = /^(?::.*|event: (?:keepalive|ping)\ndata: .*)\n\n/gm;

/** Judges the answer to a conversation, given the text that it must have. */
export function judge(
  received: Received | undefined,
  dialect: ConversationDialect,
  streams: boolean,
  expected: string,
  hasLeft = false,
): CallResult {
  if (received === undefined) return { outcome: hasLeft ? "left" : "cut", detail: "no answer", requestIds: [] };
  const caller = callers[dialect];
  const requestIds = requestIdsOf(received);
  const wrong = (detail: string): CallResult => ({ outcome: "wrong", detail, requestIds });
  if (received.status !== 200) return refusalOf(received, caller);
  const text = received.body.toString().replaceAll(keepAlive, "");
  if (!streams) {
    if (received.isBroken) return { outcome: hasLeft ? "left" : "cut", detail: "in a whole answer", requestIds };
    return judged(caller.readWhole(200, text), expected, requestIds);
  }
  const isWhole = !received.isBroken;
  let observed: Observed;
  try {
    observed = caller.readStream(isWhole ? text : text.slice(0, text.lastIndexOf("\n\n") + 2));
  } catch (error) {
    return wrong(`an unreadable stream: ${error instanceof Error ? error.message : error}: ${text.slice(-300)}`);
  }
  if (observed.error !== undefined) {
    if (!expected.startsWith(observed.text)) return wrong(`not the beginning of the answer: ${text.slice(-300)}`);
    return { outcome: "failed", detail: observed.error.message.slice(0, 80), requestIds };
  }
  if (isWhole) return judged(observed, expected, requestIds);
  if (!expected.startsWith(observed.text)) return wrong(`not the beginning of the answer: ${text.slice(-300)}`);
  return { outcome: hasLeft ? "left" : "cut", detail: "in a stream", requestIds };
}

function judged(observed: Observed, expected: string, requestIds: string[]): CallResult {
  const wrong = (detail: string): CallResult => ({ outcome: "wrong", detail, requestIds });
  if (observed.faults.length > 0) return wrong(observed.faults.join("; "));
  if (observed.text !== expected) return wrong(differenceOf(observed.text, expected));
  if (observed.usage === undefined) return wrong("no usage");
  const { input, output } = observed.usage;
  return { outcome: "complete", detail: "", requestIds, usage: { input, output } };
}

function differenceOf(text: string, expected: string): string {
  const at = [...expected].findIndex((character, place) => text[place] !== character);
  const place = at === -1 ? expected.length : at;
  const shown = (one: string) => JSON.stringify(one.slice(Math.max(0, place - 20), place + 40));
  return `another answer, of ${text.length} characters instead of ${expected.length}: ${shown(text)} instead of ${shown(expected)} at ${place}`;
}
