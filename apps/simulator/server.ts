/**
 * The simulator's HTTP server. Plain node:http: a handful of routes, and what counts here, the cost of a token, is a write to a socket
 * that a framework could only stand in the way of.
 */
import { hash } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Dialect } from "./dialects/dialect.ts";
import { openaiErrorBody } from "./dialects/openai-error.ts";
import { dialects } from "./dialects/registry.ts";
import { createJournal, type Journal } from "./journal.ts";
import { type Playing, playEvents, playRefusal, playWhole, sendJson } from "./play.ts";
import { createSeries } from "./series.ts";
import { type Given, givenOf, type Outcome, type Settings, settingsAmong, settingsOf } from "./settings.ts";
import { createWheel } from "./wheel.ts";

export interface SimulatorOptions {
  /** 127.0.0.1 if not given. */
  host?: string;
  /** 0, the default, takes any free port. */
  port?: number;
  /** A bearer credential that every request to a dialect must then bear. */
  key?: string;
  /** Settings of every answer, which its model and its header override. */
  defaults?: Given;
}

export interface Simulator extends AsyncDisposable {
  /** Settles with the base address, without a path; rejects with the system's error if the port cannot be had. */
  listen(): Promise<string>;
  /** Takes no more connections, lets what is under way end within `graceMs` (0 if not given) and closes the rest. */
  close(graceMs?: number): Promise<void>;
  journal: Journal;
}

const bodyBytesMax = 67_108_864;
const connectionsWaitingMax = 4_096;

export function createSimulator(options: SimulatorOptions = {}): Simulator {
  const { host = "127.0.0.1", port = 0, key, defaults = new Map() } = options;
  const journal = createJournal();
  const wheel = createWheel();
  const series = createSeries();
  /** Longer than any client's pool keeps an idle connection, so that it is not the server that closes it under a request. */
  const server = createServer({ keepAliveTimeout: 120_000 }, (request, response) => {
    receive(request, (body) => {
      try {
        handle(request, response, body);
      } catch (error) {
        if (response.headersSent) response.destroy();
        else
          sendJson(
            { response },
            500,
            openaiErrorBody({ status: 500, message: `The simulator has a fault: ${error instanceof Error ? error.message : String(error)}` }),
          );
      }
    });
  });

  const handle = (request: IncomingMessage, response: ServerResponse, body: Buffer | undefined) => {
    const { path, query } = addressOf(request.url ?? "/");
    const method = request.method ?? "GET";
    if (path === "/healthz" || path.startsWith("/_simulator/")) return control(method, path, query, response);
    const dialect = dialects.find((one) => one.serves(method, path));
    const json: Outcome<unknown> = body === undefined ? { kind: "bad", fault: `The body is larger than ${bodyBytesMax} bytes.` } : parsed(body);
    const value = json.kind === "ok" ? json.value : undefined;
    const model = dialect?.modelOf({ path, body: value }) ?? "";
    const id = headerOf(request, "x-simulate-id");
    const bodySha256 = hash("sha256", body ?? "");
    const entry = journal.open({
      model,
      id,
      at: Date.now(),
      method,
      path: request.url ?? "/",
      headers: request.headers,
      bodyBytes: body?.length ?? 0,
      bodySha256,
    });
    const errorBody = dialect?.errorBody ?? openaiErrorBody;
    const playing = { response, wheel, journal, entry, errorBody, headers: { "x-request-id": `req_${bodySha256.slice(0, 24)}` } };
    const refuse = (status: number, message: string) => playRefusal(playing, status, errorBody({ status, message }));
    if (dialect === undefined) return refuse(404, `There is no ${method} ${path}.`);
    if (key !== undefined && request.headers.authorization !== `Bearer ${key}`) return refuse(401, "The credential is missing or wrong.");
    if (json.kind === "bad") return refuse(body === undefined ? 413 : 400, json.fault);
    const settings = settingsFor(model, headerOf(request, "x-simulate"), defaults);
    if (settings.kind === "bad") return refuse(400, settings.fault);
    perform(dialect, { ...playing, settings: seriesSettings(settings.value, id ?? model) }, { method, path, body: value, digest: bodySha256 });
  };

  const perform = (dialect: Dialect, playing: Playing, request: { method: string; path: string; body: unknown; digest: string }) => {
    const answer = dialect.answer({ ...request, settings: playing.settings });
    switch (answer.kind) {
      case "refused":
        return playRefusal(playing, answer.status, dialect.errorBody(answer));
      case "whole":
        return playWhole(playing, answer.body, answer.tokens);
      case "events":
        return playEvents(playing, answer);
    }
  };

  const seriesSettings = (settings: Settings, name: string): Settings => {
    const { failFirst } = settings.faults;
    return failFirst === undefined ? settings : settingsAmong(settings, series.next(name) <= failFirst);
  };

  const control = (method: string, path: string, query: URLSearchParams, response: ServerResponse) => {
    const send = (status: number, value: unknown) => response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(value));
    if (path === "/healthz") return send(200, { status: "ok" });
    if (path === "/_simulator/active" && method === "GET") return send(200, { active: journal.active() });
    if (path === "/_simulator/requests" && method === "GET") {
      const [model, id] = [query.get("model"), query.get("id")];
      return send(200, journal.list({ ...(model !== null && { model }), ...(id !== null && { id }) }));
    }
    if (path === "/_simulator/requests" && method === "DELETE") {
      journal.reset();
      series.reset();
      return send(200, { active: journal.active() });
    }
    send(404, { error: { message: `There is no ${method} ${path}.` } });
  };

  const close = async (graceMs = 0) => {
    if (!server.listening) return;
    const closed = new Promise<void>((resolve) => server.close(() => resolve()));
    let timer: NodeJS.Timeout | undefined;
    const patience = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, graceMs);
    });
    await Promise.race([journal.idle(), patience]);
    clearTimeout(timer);
    server.closeAllConnections();
    await closed;
  };

  return {
    listen: () =>
      new Promise((resolve, reject) => {
        server.once("error", reject);
        server.listen({ host, port, backlog: connectionsWaitingMax }, () => {
          server.off("error", reject);
          resolve(`http://${host.includes(":") ? `[${host}]` : host}:${(server.address() as AddressInfo).port}`);
        });
      }),
    close,
    journal,
    [Symbol.asyncDispose]: close,
  };
}

/** Calls back with the whole body, or with undefined if it is too large; not at all if the caller leaves before. */
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

/** What does not decode is left as it stands: no dialect serves it. */
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

function parsed(body: Buffer): Outcome<unknown> {
  try {
    return { kind: "ok", value: body.length === 0 ? undefined : JSON.parse(body.toString()) };
  } catch {
    return { kind: "bad", fault: "The body is not JSON." };
  }
}

/** What the model's name says, and then the header, overrides the defaults. */
function settingsFor(model: string, header: string | undefined, defaults: Given): Outcome<Settings> {
  const named = givenOf(model.includes(";") ? model.slice(model.indexOf(";")) : "");
  if (named.kind === "bad") return named;
  const sent = givenOf(header ?? "");
  return sent.kind === "bad" ? sent : settingsOf(defaults, named.value, sent.value);
}
