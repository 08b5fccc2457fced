/**
 * The simulator's HTTP server. Uses plain node:http, because the cost of a token matters here, and
 * it is a write to a socket.
 */
import { hash } from "node:crypto";
import { createServer, type IncomingMessage, type OutgoingHttpHeaders, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { type Clock, systemClock } from "#service/clock.ts";
import { setNewest } from "#service/newest.ts";
import { AnthropicBatches } from "./batches/anthropic.ts";
import type { BatchRequest, SendToSelf, VendorBatches } from "./batches/batch-run.ts";
import { GeminiBatches } from "./batches/gemini.ts";
import { OpenAiBatches } from "./batches/openai.ts";
import { type Dialect, Refused, type SentFault, type SimulatedRequest } from "./dialects/dialect.ts";
import { openaiErrorBody } from "./dialects/openai.ts";
import { dialects } from "./dialects/registry.ts";
import { createJournal, type Journal } from "./journal.ts";
import { type Answering, type Playing, playEvents, playRefusal, playWhole, sendJson } from "./play.ts";
import { createPromptCaches } from "./prompt-cache.ts";
import { countedTokensOf, createRateLimits, openaiLimitHeaders } from "./rate-limits.ts";
import { addRealtime } from "./realtime/server.ts";
import { bodyValueOf } from "./request-body.ts";
import {
  type Outcome,
  type Settings,
  type SettingValues,
  settingsAmong,
  settingsOf,
  settingValuesIn,
} from "./settings.ts";
import { createWheel } from "./wheel.ts";

/** The most recent names of requests that are counted. */
const namesMax = 10_000;

export interface SimulatorOptions {
  /** 127.0.0.1 by default. */
  host?: string;
  /** 0, the default, uses any free port. */
  port?: number;
  /** A credential that every request to a dialect must have. */
  key?: string;
  /** Default settings of every answer; its model and its header override them. */
  defaults?: SettingValues;
  /** For the life of cached prompts, and for rate limits. */
  clock?: Pick<Clock, "now">;
}

export interface Simulator extends AsyncDisposable {
  /**
   * Resolves with the base address, without a path; rejects with the system's error if the port is
   * not available.
   */
  listen(): Promise<string>;
  /**
   * Accepts no more connections, lets running answers end within `graceMs` (0 by default) and
   * closes the rest.
   */
  close(graceMs?: number): Promise<void>;
  journal: Journal;
}

/** The body of a request; empty if it was too large. */
interface Received {
  bytes: Buffer | undefined;
  value: Outcome<unknown>;
}

const bodyBytesMax = 67_108_864;
const connectionsWaitingMax = 4_096;

export function createSimulator(options: SimulatorOptions = {}): Simulator {
  const { host = "127.0.0.1", port = 0, key, defaults = new Map(), clock = systemClock } = options;
  const journal = createJournal();
  const wheel = createWheel();
  /** Requests by name, for faults that affect only the first few. */
  const counts = new Map<string, number>();
  const takeLimits = createRateLimits(() => clock.now());
  const cacheOf = createPromptCaches(() => clock.now());
  /**
   * Longer than any client's pool keeps an idle connection, so that the server never closes one as
   * a request arrives.
   */
  const server = createServer({ keepAliveTimeout: 120_000 }, (request, response) => {
    receive(request, (body) => {
      const value: ReturnType<typeof bodyValueOf> =
        body === undefined
          ? { kind: "bad", fault: `The body is larger than ${bodyBytesMax} bytes.` }
          : bodyValueOf(body, request.headers["content-type"]);
      if (!(value instanceof Promise)) return attempt(request, response, { bytes: body, value });
      value.then((form) => {
        if (!response.closed) attempt(request, response, { bytes: body, value: form });
      });
    });
  });

  const attempt = (request: IncomingMessage, response: ServerResponse, body: Received) => {
    try {
      handle(request, response, body);
    } catch (error) {
      if (response.headersSent) response.destroy();
      else
        sendJson(
          { response },
          500,
          openaiErrorBody({
            status: 500,
            message: `The simulator has a fault: ${error instanceof Error ? error.message : String(error)}`,
          }),
        );
    }
  };

  const handle = (request: IncomingMessage, response: ServerResponse, { bytes, value: read }: Received) => {
    const { path, query } = addressOf(request.url ?? "/");
    const method = request.method ?? "GET";
    if (path === "/healthz" || path.startsWith("/_simulator/")) return control(method, path, query, response);
    const dialect = dialects.find((one) => one.serves(method, path));
    const body = read.kind === "ok" ? read.value : undefined;
    const model = dialect?.modelOf({ path, body }) ?? "";
    const id = headerOf(request, "x-simulate-id");
    const bodySha256 = hash("sha256", bytes ?? "");
    const entry = journal.open({
      model,
      id,
      at: Date.now(),
      method,
      path: request.url ?? "/",
      headers: request.headers,
      bodyBytes: bytes?.length ?? 0,
      bodySha256,
    });
    const requestId = `req_${bodySha256.slice(0, 24)}`;
    const batches = dialect === undefined ? vendorBatches.find((one) => one.serves(method, path)) : undefined;
    const errorBody = (fault: SentFault) => {
      const text = { ...fault, requestId };
      return batches?.errorBody(text) ?? (dialect?.errorBody ?? openaiErrorBody)(text);
    };
    const headers: OutgoingHttpHeaders = { [dialect?.requestIdHeader ?? "x-request-id"]: requestId };
    const playing = { response, wheel, journal, entry, errorBody, headers, retryInBody: dialect?.retryInBody ?? false };
    const refuse = (status: number, message: string) => playRefusal(playing, status, errorBody({ status, message }));
    if (dialect === undefined && batches === undefined) return refuse(404, `There is no ${method} ${path}.`);
    const { authorization } = request.headers;
    const credential = dialect?.credentialOf?.({ query, headers: request.headers });
    const sent = sentOf(request);
    const isAuthenticated =
      authorization === `Bearer ${key}` ||
      credential === key ||
      (batches !== undefined && [sent["x-api-key"], sent["x-goog-api-key"]].includes(key));
    if (key !== undefined && !isAuthenticated) {
      const isToken = credential === undefined && authorization !== undefined;
      const fault = isToken ? undefined : dialect?.credentialFault?.(credential);
      const { status, ...text } = fault ?? { status: 401, message: "The credential is missing or wrong." };
      return playRefusal(playing, status, errorBody({ status, ...text }));
    }
    if (read.kind === "bad") return refuse(bytes === undefined ? 413 : 400, read.fault);
    if (dialect === undefined)
      return answerBatches(batches as VendorBatches, playing, { ...{ method, path, query, body }, headers: sent });
    const settings = settingsFor(model, headerOf(request, "x-simulate"), defaults);
    if (settings.kind === "bad") return refuse(400, settings.fault);
    const scope = `${credential ?? authorization} ${model}`;
    const { limitRequests, limitTokens } = settings.value;
    if (limitRequests !== undefined || limitTokens !== undefined) {
      const { limits, retryMs } = takeLimits(scope, settings.value, countedTokensOf(bytes?.toString() ?? ""));
      Object.assign(headers, (dialect.limitHeaders ?? openaiLimitHeaders)(limits, Date.now()));
      const retryAfter = String(Math.ceil(retryMs / 1_000));
      if (retryMs > 0 && !playing.retryInBody) Object.assign(headers, { "retry-after": retryAfter });
      if (retryMs > 0)
        return playRefusal(playing, 429, errorBody({ status: 429, message: "Rate limit reached.", retryAfter }));
    }
    perform(
      dialect,
      { ...playing, settings: seriesSettings(settings.value, id ?? model) },
      {
        ...{ method, path, query, headers: request.headers, body, digest: bodySha256 },
        cache: settings.value.promptCache ? cacheOf(scope) : undefined,
      },
    );
  };

  const ownUrl = () => `http://${host.includes(":") ? `[${host}]` : host}:${(server.address() as AddressInfo).port}`;
  const sendToSelf: SendToSelf = async (path, body, headers) => {
    const response = await fetch(`${ownUrl()}${path}`, {
      method: "POST",
      headers: { "content-type": "application/json", ...headers },
      body,
    });
    const requestId = response.headers.get("x-request-id") ?? "";
    return { status: response.status, requestId, text: await response.text() };
  };
  const vendorBatches = [
    new AnthropicBatches(sendToSelf),
    new GeminiBatches(sendToSelf),
    new OpenAiBatches(sendToSelf),
  ];

  /** Answers, or sends the refusal that this throws. */
  const orRefusal = (answering: Answering, answer: () => void) => {
    try {
      answer();
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      playRefusal(answering, error.fault.status, answering.errorBody(error.fault));
    }
  };

  const answerBatches = (batches: VendorBatches, answering: Answering, request: BatchRequest) =>
    orRefusal(answering, () => {
      const { response, headers } = answering;
      const answer = batches.answer(request);
      const isFile = typeof answer === "string";
      response.writeHead(200, { ...headers, "content-type": isFile ? "application/octet-stream" : "application/json" });
      response.end(isFile ? answer : JSON.stringify(answer));
      journal.close(answering.entry, "completed");
    });

  const perform = (dialect: Dialect, playing: Playing, request: Omit<SimulatedRequest, "settings">) =>
    orRefusal(playing, () => {
      const answer = dialect.answer({ ...request, settings: playing.settings });
      if (answer.kind === "whole") playWhole(playing, answer);
      else playEvents(playing, answer);
    });

  const seriesSettings = (settings: Settings, name: string): Settings => {
    const { failFirst } = settings.faults;
    if (failFirst === undefined) return settings;
    const count = (counts.get(name) ?? 0) + 1;
    setNewest(counts, name, count, namesMax);
    return settingsAmong(settings, count <= failFirst);
  };

  const control = (method: string, path: string, query: URLSearchParams, response: ServerResponse) => {
    const send = (status: number, value: unknown) =>
      response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(value));
    if (path === "/healthz") return send(200, { status: "ok" });
    if (path === "/_simulator/active" && method === "GET") return send(200, { active: journal.active() });
    if (path === "/_simulator/requests" && method === "GET") {
      const [model, id] = [query.get("model"), query.get("id")];
      return send(200, journal.list({ ...(model !== null && { model }), ...(id !== null && { id }) }));
    }
    if (path === "/_simulator/requests" && method === "DELETE") {
      journal.reset();
      counts.clear();
      return send(200, { active: journal.active() });
    }
    send(404, { error: { message: `There is no ${method} ${path}.` } });
  };

  const closeSessions = addRealtime(server, {
    key,
    journal,
    settingsOf(model) {
      const settings = settingsFor(model, undefined, defaults);
      return settings.kind === "bad" ? settings : { kind: "ok", value: seriesSettings(settings.value, model) };
    },
  });

  const close = async (graceMs = 0) => {
    if (!server.listening) return;
    const closed = new Promise<void>((resolve) => server.close(() => resolve()));
    let timer: NodeJS.Timeout | undefined;
    const grace = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, graceMs);
    });
    await Promise.race([journal.idle(), grace]);
    clearTimeout(timer);
    closeSessions();
    server.closeAllConnections();
    await closed;
  };

  return {
    listen: () =>
      new Promise((resolve, reject) => {
        server.once("error", reject);
        server.listen({ host, port, backlog: connectionsWaitingMax }, () => {
          server.off("error", reject);
          resolve(ownUrl());
        });
      }),
    close,
    journal,
    [Symbol.asyncDispose]: close,
  };
}

/**
 * Calls back with the whole body, or with undefined if it is too large; never if the caller leaves
 * before.
 */
function receive(request: IncomingMessage, done: (body: Buffer | undefined) => void): void {
  let parts: Buffer[] = [];
  let bytes = 0;
  request.on("data", (part: Buffer) => {
    bytes += part.length;
    if (bytes <= bodyBytesMax) parts.push(part);
    else parts = [];
  });
  request.on("end", () => done(bytes > bodyBytesMax ? undefined : Buffer.concat(parts)));
}

const sentNames = ["authorization", "x-api-key", "x-goog-api-key", "anthropic-version", "anthropic-beta"];

/** The headers of a request that those of a batch repeat. */
const sentOf = ({ headers }: IncomingMessage): Record<string, string> =>
  Object.fromEntries(
    sentNames.flatMap((name) => (headers[name] === undefined ? [] : [[name, String(headers[name])] as const])),
  );

/** A path that cannot be decoded stays as it is: no dialect serves it. */
function addressOf(target: string): { path: string; query: URLSearchParams } {
  const [raw = "", ...rest] = target.split("?");
  let path = raw;
  try {
    path = decodeURIComponent(raw);
  } catch {}
  return { path, query: new URLSearchParams(rest.join("?")) };
}

function headerOf({ headers }: IncomingMessage, name: string): string | undefined {
  const value = headers[name];
  return Array.isArray(value) ? value.join(",") : value;
}

/** The settings of the model's name override the defaults, and the header overrides both. */
function settingsFor(model: string, header: string | undefined, defaults: SettingValues): Outcome<Settings> {
  const named = settingValuesIn(model.includes(";") ? model.slice(model.indexOf(";")) : "");
  if (named.kind === "bad") return named;
  const sent = settingValuesIn(header ?? "");
  return sent.kind === "bad" ? sent : settingsOf(defaults, named.value, sent.value);
}
