/** The kinds of calls of a chaos run. */
import { once } from "node:events";
import { setTimeout as delay } from "node:timers/promises";
import { WebSocket } from "ws";
import type { ConversationDialect } from "#dialects/dialect.ts";
import { callers } from "../../conformance/callers/callers.ts";
import { operationCases } from "../../conformance/operations.ts";
import {
  type CallResult,
  callMsMax,
  dialects,
  headersOf,
  judge,
  type Received,
  ranAgain,
  refusalOf,
  send,
} from "./call.ts";
import type { Random } from "./random.ts";
import type { Keys } from "./stack.ts";

export interface CallContext {
  /** Unlike those of all other calls. */
  prompt: string;
  random: Random;
  /** The called ingress, and another one. */
  url: string;
  otherUrl: string;
  keys: Keys;
  /** The text of the answer to a prompt with so many tokens. */
  expected(prompt: string, model: string): Promise<string>;
}

export interface CallKind {
  name: string;
  /** How often, compared with others. */
  weight: number;
  /** It calls the other ingress, too. */
  callsBoth?: true;
  run(context: CallContext): Promise<CallResult>;
}

const timeout = () => AbortSignal.timeout(callMsMax);
const paced = (random: Random) => `paced-${random.pick(dialects)}`;

async function converse(
  { prompt, url, expected, keys }: CallContext,
  dialect: ConversationDialect,
  model: string,
  streams: boolean,
  { key = keys.plain, signal = timeout(), onData = (_bytes: number): Promise<void> | void => {} } = {},
): Promise<CallResult> {
  const { path, body } = callers[dialect].requestOf({ turns: [{ role: "user", text: prompt }] }, model, streams);
  const leaving = signal;
  const received = await send(
    `${url}${path}`,
    { headers: headersOf(key), body: JSON.stringify(body), signal: AbortSignal.any([signal, timeout()]) },
    onData,
  );
  return judge(received, dialect, streams, await expected(prompt, model), leaving.aborted);
}

const conversations: CallKind[] = dialects.flatMap((dialect) => [
  {
    name: `${dialect}, whole`,
    weight: 2,
    run: (context) => converse(context, dialect, context.random.pick(["fast", paced(context.random)]), false),
  },
  {
    name: `${dialect}, streamed`,
    weight: 4,
    run: (context) => converse(context, dialect, context.random.pick([paced(context.random), "long", "resumed"]), true),
  },
]);

/** Leaves at any moment. */
async function leave(context: CallContext): Promise<CallResult> {
  const controller = new AbortController();
  const timer = setTimeout(() => controller.abort(), context.random.integer(0, 3_000));
  const result = await converse(context, context.random.pick(dialects), paced(context.random), true, {
    signal: controller.signal,
  });
  clearTimeout(timer);
  return result;
}

/** Reads a large answer slowly. */
const readSlowly = (context: CallContext) =>
  converse(context, context.random.pick(dialects), "large", true, {
    onData: async (bytes) => {
      if (bytes < 1 << 20) await delay(20);
    },
  });

/**
 * Sends the same request twice at once to two ingresses, and then again: all get the same bytes,
 * unless the answer could not be kept and it says that it ran again.
 */
async function repeat({ prompt, url, otherUrl, random, keys, expected }: CallContext): Promise<CallResult> {
  const model = random.pick(["fast", paced(random)]);
  const { path, body } = callers["openai-chat"].requestOf({ turns: [{ role: "user", text: prompt }] }, model, false);
  const post = (base: string) =>
    send(`${base}${path}`, {
      headers: { ...headersOf(keys.plain), "idempotency-key": prompt },
      body: JSON.stringify(body),
      signal: timeout(),
    });
  const received = [...(await Promise.all([post(url), post(otherUrl)])), await post(random.pick([url, otherUrl]))];
  const text = await expected(prompt, model);
  const results = received.map((one) => judge(one, "openai-chat", false, text));
  const requestIds = results.flatMap((result) => result.requestIds);
  const whole = received.filter((_, place) => results[place]?.outcome === "complete");
  const isReplayed = (one: Received | undefined) => one?.headers.get("idempotent-replayed") === "true";
  const bodiesOf = (some: typeof whole) => new Set(some.map((one) => one?.body.toString()));
  const runs = whole.filter((one) => !isReplayed(one));
  const strange = bodiesOf(whole.filter(isReplayed)).difference(bodiesOf(runs));
  // The first one may have failed for its own caller alone.
  if (strange.size > (runs.length === 0 ? 1 : 0))
    return { outcome: "wrong", detail: `${bodiesOf(whole).size} answers to one Idempotency-Key`, requestIds };
  const worst = results.find(({ outcome }) => outcome !== "complete") ?? (results[0] as CallResult);
  return { ...worst, ...(runs.length > 1 && worst.outcome === "complete" && { detail: ranAgain }), requestIds };
}

/**
 * Without the ids of events, and without the comments that stand in events because libraries read
 * blank lines after an id as events.
 */
const withoutIds = (body: Buffer): Buffer =>
  Buffer.from(body.toString().replaceAll(/^(?:id: .*\n|:.*\n(?=id: |data: |event: ))/gm, ""));

/** Breaks a resumable stream, and goes on with it at another ingress. */
async function resume({ prompt, url, otherUrl, random, keys, expected }: CallContext): Promise<CallResult> {
  const model = random.pick(["long", "resumed"]);
  const { path, body } = callers["openai-chat"].requestOf({ turns: [{ role: "user", text: prompt }] }, model, true);
  const controller = new AbortController();
  const timer = setTimeout(() => controller.abort(), random.integer(500, 4_000));
  const request = { headers: headersOf(keys.plain), body: JSON.stringify(body) };
  const first = await send(`${url}${path}`, {
    ...request,
    headers: { ...request.headers, "x-sluice-resumable": "true" },
    signal: AbortSignal.any([controller.signal, timeout()]),
  });
  clearTimeout(timer);
  const text = await expected(prompt, model);
  const whole = (received: Received | undefined, hasLeft = false) =>
    judge(received && { ...received, body: withoutIds(received.body) }, "openai-chat", true, text, hasLeft);
  if (!first?.isBroken || first.status !== 200) return whole(first, controller.signal.aborted);
  const read = first.body.toString();
  const begun = read.slice(0, read.lastIndexOf("\n\n") + 2);
  const lastId = [...begun.matchAll(/^id: (.+)$/gm)].at(-1)?.[1];
  if (lastId === undefined) return whole(first, controller.signal.aborted);
  if (begun.endsWith("data: [DONE]\n\n")) return whole({ ...first, isBroken: false });
  const second = await send(`${otherUrl}${path}`, {
    ...request,
    headers: { ...request.headers, "last-event-id": lastId },
    signal: timeout(),
  });
  if (second === undefined) return { outcome: "cut", detail: "no answer to the resumption", requestIds: [] };
  // A primary that fails takes the last moments with it, and with them perhaps the stream's log.
  if (second.status === 404) return { outcome: "refused", detail: "404", requestIds: [] };
  if (second.status !== 200) return refusalOf(second, callers["openai-chat"]);
  const requestIds = [first.headers.get("x-request-id") as string];
  return { ...whole({ ...second, body: Buffer.concat([Buffer.from(begun), second.body]) }), requestIds };
}

const isOver = (status: unknown): boolean => status !== "queued" && status !== "in_progress";

/**
 * A background response, polled at the other ingress until it is over; now and then it is cancelled
 * there.
 */
async function inBackground({ prompt, url, otherUrl, random, keys, expected }: CallContext): Promise<CallResult> {
  const model = random.pick(["fast", paced(random), "long"]);
  const headers = headersOf(keys.plain);
  const cancelsAt = random.integer(0, 5) === 0 ? Date.now() + random.integer(0, 3_000) : Number.POSITIVE_INFINITY;
  const until = Date.now() + callMsMax - 5_000;
  const body = JSON.stringify({ model, input: prompt, background: true });
  const created = await send(`${url}/v1/responses`, { headers, body, signal: timeout() });
  if (created === undefined || (created.isBroken && created.status === 200))
    return { outcome: "cut", detail: "no response", requestIds: [] };
  if (created.status !== 200) return refusalOf(created, callers["openai-responses"]);
  const requestIds = [created.headers.get("x-request-id") as string];
  const { id } = JSON.parse(created.body.toString()) as { id: string };
  const at = `${otherUrl}/v1/responses/${id}`;
  for (let isCancelled = false; Date.now() < until; await delay(250)) {
    const cancels: boolean = !isCancelled && Date.now() > cancelsAt;
    const received: Received | undefined = cancels
      ? await send(`${at}/cancel`, { headers, signal: timeout() })
      : await send(at, { method: "GET", headers, signal: timeout() });
    // A primary that fails takes the last moments with it.
    if (received?.status === 404) return { outcome: "refused", detail: "404", requestIds };
    if (received === undefined || received.isBroken || received.status !== 200) continue;
    isCancelled ||= cancels;
    const { status, error, usage, output } = JSON.parse(received.body.toString()) as BackgroundResponse;
    if (!isOver(status)) continue;
    if (status === "cancelled" && isCancelled) return { outcome: "left", detail: "", requestIds };
    if (status === "failed") return { outcome: "failed", detail: String(error?.message).slice(0, 80), requestIds };
    const text = output.flatMap(({ content = [] }) => content.map((part) => part.text)).join("");
    return status === "completed" && text === (await expected(prompt, model))
      ? {
          outcome: "complete",
          detail: "",
          requestIds,
          usage: { input: usage.input_tokens, output: usage.output_tokens },
        }
      : { outcome: "wrong", detail: `a background response is ${status}: ${text.slice(0, 200)}`, requestIds };
  }
  return { outcome: "wrong", detail: "a background response does not end", requestIds };
}

interface BackgroundResponse {
  status: string;
  error: { message: string } | null;
  usage: { input_tokens: number; output_tokens: number };
  output: { content?: { text: string }[] }[];
}

/** A Responses call over a WebSocket. */
async function overWebsocket({ prompt, url, random, keys, expected }: CallContext): Promise<CallResult> {
  const model = paced(random);
  const socket = new WebSocket(`${url.replace("http", "ws")}/v1/responses`, {
    headers: { authorization: `Bearer ${keys.plain}` },
    handshakeTimeout: callMsMax,
  });
  const none = { requestIds: [] };
  const over = new AbortController();
  const timer = setTimeout(() => socket.terminate(), callMsMax);
  try {
    const events: { type: string; delta?: string; status?: number; error?: { message?: string } }[] = [];
    socket.on("message", (data) => {
      const event = JSON.parse(String(data));
      events.push(event);
      if (/^(response\.(completed|failed|incomplete)|error)$/.test(event.type)) over.abort();
    });
    socket.on("close", () => over.abort());
    socket.on("error", () => over.abort());
    socket.on("open", () => socket.send(JSON.stringify({ type: "response.create", model, input: prompt })));
    await once(over.signal, "abort");
    const text = events.map(({ type, delta }) => (type === "response.output_text.delta" ? delta : "")).join("");
    const whole = await expected(prompt, model);
    const last = events.at(-1);
    if (last?.type === "response.completed")
      return text === whole
        ? { outcome: "complete", detail: "", ...none }
        : { outcome: "wrong", detail: `another answer over a WebSocket: ${text.slice(0, 200)}`, ...none };
    if (!whole.startsWith(text)) return { outcome: "wrong", detail: "not the beginning of the answer", ...none };
    if (last?.type === "error" || last?.type === "response.failed")
      return { outcome: "failed", detail: String(last.error?.message).slice(0, 80), ...none };
    return { outcome: "cut", detail: "a WebSocket", ...none };
  } finally {
    clearTimeout(timer);
    socket.terminate();
  }
}

async function draw({ prompt, url, keys }: CallContext): Promise<CallResult> {
  const received = await send(`${url}/v1/images/generations`, {
    headers: headersOf(keys.plain),
    body: JSON.stringify({ model: "picture", prompt }),
    signal: timeout(),
  });
  if (received === undefined || (received.isBroken && received.status === 200))
    return { outcome: "cut", detail: "no picture", requestIds: [] };
  if (received.status !== 200) return refusalOf(received, undefined);
  const requestIds = [received.headers.get("x-request-id") as string];
  const { data } = JSON.parse(received.body.toString()) as { data: { b64_json: string }[] };
  const picture = Buffer.from(data[0]?.b64_json ?? "", "base64");
  return picture.toString("latin1", 1, 4) === "PNG" && picture.length >= 100_000
    ? { outcome: "complete", detail: "", requestIds }
    : { outcome: "wrong", detail: `a picture of ${picture.length} bytes`, requestIds };
}

/** Completions, moderations, rankings, speech and transcripts. */
async function operate({ url, random, keys }: CallContext): Promise<CallResult> {
  const { name, path, request, expect } = random.pick(operationCases);
  const { "content-type": type, ...headers } = headersOf(keys.plain);
  let body: FormData | string;
  if (request instanceof FormData) {
    body = new FormData();
    for (const [field, value] of request.entries()) body.append(field, value);
    body.set("model", "anything");
  } else body = JSON.stringify({ model: "anything", ...request });
  const received = await send(`${url}${path}`, {
    headers: { ...headers, ...(typeof body === "string" && { "content-type": type as string }) },
    body,
    signal: timeout(),
  });
  if (received === undefined || (received.isBroken && received.status === 200))
    return { outcome: "cut", detail: name, requestIds: [] };
  if (received.status !== 200) return refusalOf(received, undefined);
  const requestIds = [received.headers.get("x-request-id") as string];
  try {
    expect(new Response(null, { headers: received.headers }), received.body);
    return { outcome: "complete", detail: "", requestIds };
  } catch (error) {
    const text = received.body.toString();
    if (/event: error|"error":\s?\{/.test(text)) return { outcome: "failed", detail: name, requestIds };
    return { outcome: "wrong", detail: `${name}: ${(error as Error).message.slice(0, 200)}`, requestIds };
  }
}

export const probe: CallKind = {
  name: "probe",
  weight: 0,
  run: (context) => converse(context, "openai-chat", "fast", false),
};

export const probePicture: CallKind = { name: "probe, picture", weight: 0, run: draw };

/** With a key that limits generations at once, and whose budget is compared with the ledger. */
export const budgeted: CallKind = {
  name: "budgeted key",
  weight: 2,
  run: (context) =>
    converse(context, context.random.pick(dialects), paced(context.random), true, { key: context.keys.budgeted }),
};

export const kinds: readonly CallKind[] = [
  ...conversations,
  budgeted,
  {
    name: "rate-limited key",
    weight: 2,
    run: (context) => converse(context, "openai-chat", "fast", false, { key: context.keys.limited }),
  },
  { name: "caller that leaves", weight: 3, run: leave },
  { name: "slow reader", weight: 1, run: readSlowly },
  { name: "idempotent retry", weight: 3, callsBoth: true, run: repeat },
  { name: "resumed stream", weight: 3, callsBoth: true, run: resume },
  { name: "background response", weight: 3, callsBoth: true, run: inBackground },
  { name: "WebSocket", weight: 3, run: overWebsocket },
  { name: "image", weight: 2, run: draw },
  { name: "other operation", weight: 2, run: operate },
];
