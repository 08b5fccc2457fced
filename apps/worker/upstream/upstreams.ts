/** Calls upstreams over HTTP, with a pool of connections for each upstream. */

import { Readable, type Transform } from "node:stream";
import { type Dispatcher, errors } from "undici";
import type { CatalogueUpstream } from "#catalogue/catalogue.ts";
import type { Environment } from "#catalogue/environment.ts";
import type { WireRequest } from "#dialects/codec.ts";
import type { Failure } from "#dialects/errors.ts";
import { upstreamProfiles } from "#dialects/profiles.ts";
import { LiveMap } from "#relay/live-map.ts";
import type { BodyWithAttachments } from "../attachments/request-attachments.ts";
import { freshConnectionsMs, presenceMs, requestIdLengthMax } from "../bounds.ts";
import type { Authorize, SignedRequest } from "./authorization.ts";
import { openConnections, socketOptionsOf } from "./connections.ts";
import { decompressorOf } from "./decompress.ts";
import { isOfReused } from "./plain-socket.ts";
import { PooledCall } from "./pooled-call.ts";
import { SessionCall, sessionUrlOf } from "./session-call.ts";

export type UpstreamHeaders = Readonly<Record<string, string | string[] | undefined>>;

export interface UpstreamHandlers {
  head(status: number, headers: UpstreamHeaders): void;
  /**
   * Always decompressed. `kind` is set for a message of a session, which comes whole, and for the
   * close frame that ends it.
   */
  data(chunk: Buffer, kind?: "text" | "binary" | "close"): void;
  end(): void;
  /** A part of a message of the caller was sent to the upstream of a session. */
  sent?(fragment: Buffer, isFirst: boolean): void;
  /**
   * Nothing follows. Not called after `abort`. `cause` is the transport's error code, for the
   * operator.
   */
  failed(failure: Failure, cause: string): void;
}

export interface UpstreamCall {
  /** Closes the connection at once, or stops waiting for one. No handler is called afterwards. */
  abort(): void;
  /** Pauses or resumes reading the response. */
  flow(open: boolean): void;
}

/** A request whose body may be in chunks. */
export type UpstreamRequest = Omit<WireRequest, "body"> & { body: Buffer | BodyWithAttachments };

type Controller = Dispatcher.DispatchController;

const aborted = new Error("aborted");

const absentStatuses = [502, 503, 504];

/** The connections to one upstream, and the calls that wait for one. */
interface Pool {
  upstream: CatalogueUpstream;
  readonly connections: Dispatcher;
  /** Calls that have a connection, or are about to open one. */
  calls: number;
  /**
   * Until then each call has a connection of its own, because the upstream reset a kept one. In
   * milliseconds of `performance.now`.
   */
  freshUntil: number;
  /**
   * Calls that wait for a connection, in order. Undici's own pool would keep the body of an aborted
   * call.
   */
  readonly waiting: LiveMap<number, () => void>;
}

export class Upstreams {
  readonly #pools = new Map<string, Pool>();
  /** Pools that get no new calls. Each closes after its last call, waiting calls included. */
  readonly #retired = new Set<Pool>();
  #calls = 0;
  readonly #authorize: Authorize;
  readonly #environment: Environment;

  /** `environment` names the proxies, if any. */
  constructor(authorize: Authorize, environment: Environment = {}) {
    this.#authorize = authorize;
    this.#environment = environment;
  }

  /**
   * Sends a POST. `credential` is a name. The caller enforces all time limits except the connect
   * timeout. If the upstream resets a kept connection before its response, a request that may be
   * repeated is sent once more, on a connection of its own.
   */
  call(
    upstream: CatalogueUpstream,
    credential: string | undefined,
    request: UpstreamRequest,
    handlers: UpstreamHandlers,
    isRepeatable = false,
  ): UpstreamCall {
    const call = new Call(handlers);
    const { url, ...options } = dispatchOptionsOf(upstream, request);
    const { headers } = options;
    const signed = { method: "POST", url, headers, body: request.body } as const;
    this.#begin(call, upstream, credential, signed, (pool, authorization) => {
      const send = (connections: Dispatcher, again?: () => boolean) =>
        call.send(
          connections,
          {
            ...options,
            body: dispatchedOf(options.body),
            origin: url.origin,
            headers: { ...headers, ...authorization },
            ...(pool.freshUntil > performance.now() && { reset: true }),
          },
          again,
        );
      send(pool.connections, () => {
        pool.freshUntil = performance.now() + freshConnectionsMs;
        // A body with attachments is read once: parts of it come from elsewhere.
        if (!isRepeatable || !Buffer.isBuffer(request.body)) return false;
        const connections = this.#openSpare(upstream);
        if (connections === undefined) return false;
        call.onceLeft(() => void connections.close().catch(() => undefined));
        send(connections);
        return true;
      });
    });
    return call;
  }

  /**
   * Opens a session over a WebSocket. The body is its first message; `model` is the model's name at
   * the upstream. Otherwise like `call`.
   */
  open(
    upstream: CatalogueUpstream,
    credential: string | undefined,
    { path, headers: own, body }: UpstreamRequest & { body: Buffer },
    model: string,
    handlers: UpstreamHandlers,
  ): SessionCall {
    const { connectTimeoutMs } = upstream.timeouts;
    const call = new SessionCall(handlers, { model, first: body, connectTimeoutMs });
    const url = urlOf(upstream.baseUrl, path);
    const headers = { ...own, ...upstream.headers, "user-agent": "sluice" };
    const signed = { method: "GET", url, headers, body: Buffer.alloc(0) } as const;
    this.#begin(call, upstream, credential, signed, (_pool, authorization) =>
      call.connect(sessionUrlOf(url, path), {
        ...socketOptionsOf(upstream, this.#environment),
        headers: { ...headers, ...authorization },
      }),
    );
    return call;
  }

  /**
   * A connection for one call, or undefined if the upstream's certificates can't be read any more.
   */
  #openSpare(upstream: CatalogueUpstream): Dispatcher | undefined {
    try {
      return openConnections(upstream, 1, this.#environment);
    } catch {
      return undefined;
    }
  }

  /**
   * Calls `send` once the upstream has a connection for the call, and its authorization is known.
   */
  #begin(
    call: PooledCall,
    upstream: CatalogueUpstream,
    credential: string | undefined,
    signed: SignedRequest,
    send: (pool: Pool, authorization: Record<string, string>) => void,
  ): void {
    let pool: Pool;
    try {
      pool = this.#poolOf(upstream);
    } catch (error) {
      queueMicrotask(() =>
        call.fail(
          failureOfConfiguration,
          `TLS files or proxy: ${(error as NodeJS.ErrnoException).code ?? "not usable"}`,
        ),
      );
      return;
    }
    const start = () => {
      pool.calls++;
      call.started = true;
      call.onceLeft(() => {
        pool.calls--;
        startNext(pool);
        this.#closeOnceOver(pool);
      });
      const refused = (error: unknown) =>
        call.fail(failureOfAuthorization, `authorization: ${error instanceof Error ? error.name : "failed"}`);
      try {
        const authorization = this.#authorize(upstream, credential, signed);
        if (authorization instanceof Promise) authorization.then((headers) => send(pool, headers)).catch(refused);
        else send(pool, authorization);
      } catch (error) {
        refused(error);
      }
    };
    const number = ++this.#calls;
    pool.waiting.set(number, start);
    call.onceLeft(() => void pool.waiting.delete(number));
    startNext(pool);
  }

  /**
   * Whether the upstream answers at all. Requests its dialect's probe path, usually the model list;
   * any response counts, even a 404, except the statuses by which a proxy reports a missing host.
   * Uses a connection of its own, so that a hanging one does not delay calls.
   */
  async isPresent(upstream: CatalogueUpstream, credential: string | undefined): Promise<boolean> {
    const url = urlOf(upstream.baseUrl, upstreamProfiles[upstream.dialect].probePath);
    const headers = { ...upstream.headers, "user-agent": "sluice" };
    let connections: Dispatcher | undefined;
    try {
      const authorization = await this.#authorize(upstream, credential, {
        method: "GET",
        url,
        headers,
        body: Buffer.alloc(0),
      });
      connections = openConnections(upstream, 1, this.#environment);
      const signal = AbortSignal.timeout(presenceMs);
      const path = `${url.pathname}${url.search}`;
      const { statusCode, body } = await connections.request({
        origin: url.origin,
        path,
        method: "GET",
        headers: { ...headers, ...authorization },
        signal,
      });
      body.on("error", () => undefined).destroy();
      return !absentStatuses.includes(statusCode);
    } catch {
      return false;
    } finally {
      connections?.destroy().catch(() => undefined);
    }
  }

  /** Closes the connections to all other upstreams once their calls are over. */
  retain(upstreams: ReadonlyMap<string, CatalogueUpstream>): void {
    for (const name of this.#pools.keys()) if (!upstreams.has(name)) this.#retire(name);
  }

  async close(): Promise<void> {
    await Promise.all([...this.#pools.values(), ...this.#retired].map(({ connections }) => connections.destroy()));
  }

  /**
   * The pool of an upstream. A changed address, TLS setting or limit makes a new pool, and the old
   * one finishes its calls. Throws for unreadable TLS files.
   */
  #poolOf(upstream: CatalogueUpstream): Pool {
    const known = this.#pools.get(upstream.name);
    if (known !== undefined && (known.upstream === upstream || leadsToSame(known.upstream, upstream))) {
      known.upstream = upstream;
      return known;
    }
    this.#retire(upstream.name);
    const connections = openConnections(upstream, upstream.connectionsMax, this.#environment);
    const pool: Pool = { upstream, connections, calls: 0, freshUntil: 0, waiting: new LiveMap() };
    this.#pools.set(upstream.name, pool);
    return pool;
  }

  #retire(name: string): void {
    const pool = this.#pools.get(name);
    if (pool === undefined) return;
    this.#pools.delete(name);
    this.#retired.add(pool);
    this.#closeOnceOver(pool);
  }

  #closeOnceOver(pool: Pool): void {
    if (pool.calls === 0 && this.#retired.delete(pool)) pool.connections.close().catch(() => undefined);
  }
}

function startNext({ calls, upstream, waiting }: Pool): void {
  if (calls >= upstream.connectionsMax) return;
  waiting.shift()?.();
}

/** One HTTP request. */
class Call extends PooledCall implements Dispatcher.DispatchHandler {
  #controller: Controller | undefined;
  #decompressor: Transform | undefined;
  #open = true;
  #hasHead = false;
  #again: (() => boolean) | undefined;

  /** `again` sends the request once more after a kept connection was reset; false if it may not. */
  send(connections: Dispatcher, options: Dispatcher.DispatchOptions, again?: () => boolean): void {
    this.#again = again;
    if (this.isOver) this.leave();
    else connections.dispatch(options, this);
  }

  override abort(): void {
    if (this.isOver) return;
    this.isOver = true;
    this.release();
    if (this.#controller !== undefined) this.#controller.abort(aborted);
    else if (!this.started) this.leave();
  }

  override flow(open: boolean): void {
    this.#open = open;
    if (this.isOver) return;
    if (!open) {
      this.#decompressor?.pause();
      this.#controller?.pause();
      return;
    }
    this.#decompressor?.resume();
    if (this.#decompressor?.writableNeedDrain !== true) this.#controller?.resume();
  }

  protected override release(): void {
    this.#decompressor?.destroy();
  }

  onRequestStart(controller: Controller): void {
    this.#controller = controller;
    if (this.isOver) controller.abort(aborted);
  }

  onResponseStart(controller: Controller, status: number, headers: UpstreamHeaders): void {
    this.#controller = controller;
    if (this.isOver || status < 200) return;
    const decompressor = decompressorOf(headers["content-encoding"]);
    if (decompressor !== undefined) {
      this.#decompressor = decompressor;
      decompressor.on("data", (chunk: Buffer) => this.isOver || this.handlers.data(chunk));
      decompressor.on("drain", () => this.#open && this.#controller?.resume());
      decompressor.on("end", () => this.#end());
      decompressor.on("error", () => {
        controller.abort(aborted);
        this.fail(failureOfEncoding, "content-encoding");
      });
    }
    this.#hasHead = true;
    this.handlers.head(status, headers);
    if (!this.#open) this.flow(false);
  }

  onResponseData(controller: Controller, chunk: Buffer): void {
    if (this.isOver) return;
    if (this.#decompressor === undefined) this.handlers.data(chunk);
    else if (!this.#decompressor.write(chunk)) controller.pause();
  }

  onResponseEnd(): void {
    this.leave();
    if (this.#decompressor === undefined) this.#end();
    else if (!this.isOver) this.#decompressor.end();
  }

  onResponseError(_controller: Controller, error: Error): void {
    if (!this.isOver && !this.#hasHead && isOfReused(error) && this.#again?.() === true) return;
    this.fail(failureOfTransport(error), (error as NodeJS.ErrnoException).code ?? error.name);
  }

  #end(): void {
    if (this.isOver) return;
    this.isOver = true;
    this.handlers.end();
  }
}

/** Appends a path to a base URL, which may have a query such as `?api-version=…`. */
export function urlOf(baseUrl: string, path: string): URL {
  const base = new URL(baseUrl);
  const url = new URL(`${base.origin}${base.pathname.replace(/\/$/, "")}${path}`);
  for (const [name, value] of base.searchParams) if (!url.searchParams.has(name)) url.searchParams.append(name, value);
  return url;
}

function dispatchOptionsOf({ baseUrl, headers }: CatalogueUpstream, { path, headers: own, body }: UpstreamRequest) {
  const url = urlOf(baseUrl, path);
  return {
    url,
    method: "POST" as const,
    path: `${url.pathname}${url.search}`,
    headers: {
      "content-type": "application/json",
      ...own,
      ...headers,
      "accept-encoding": "identity",
      "user-agent": "sluice",
      ...(!Buffer.isBuffer(body) && { "content-length": String(body.byteLength) }),
    } as Record<string, string>,
    body,
  };
}

/** A body in chunks is read one chunk ahead of the socket. */
const dispatchedOf = (body: Buffer | BodyWithAttachments): Buffer | Readable =>
  Buffer.isBuffer(body) ? body : Readable.from(body, { highWaterMark: 1 });

/** The request id headers of OpenAI and most others, Anthropic, Azure (two), and AWS. */
const requestIdHeaders = ["x-request-id", "request-id", "apim-request-id", "x-ms-request-id", "x-amzn-requestid"];

/** The upstream's own id of a request, if it sends one in printable ASCII. */
export function upstreamRequestIdOf(headers: UpstreamHeaders): string | undefined {
  const named = requestIdHeaders
    .map((name) => headers[name])
    .find((value) => typeof value === "string" && /^[\x21-\x7e]+$/.test(value));
  return typeof named === "string" ? named.slice(0, requestIdLengthMax) : undefined;
}

const leadsToSame = (left: CatalogueUpstream, right: CatalogueUpstream) =>
  left.baseUrl === right.baseUrl &&
  JSON.stringify(left.tls) === JSON.stringify(right.tls) &&
  left.connectionsMax === right.connectionsMax &&
  left.timeouts.connectTimeoutMs === right.timeouts.connectTimeoutMs;

const failureOfConfiguration: Failure = {
  code: "upstream_failed",
  message: "The upstream of this model is not set up; its operator has been notified.",
};
const failureOfEncoding: Failure = {
  code: "upstream_failed",
  message: "The upstream of this model sent an answer whose compression is broken.",
};
const failureOfAuthorization: Failure = {
  code: "upstream_failed",
  message: "The upstream of this model refused the gateway; its operator has been notified.",
};

export const unreachableInTime: Failure = {
  code: "upstream_timeout",
  message: "The upstream of this model could not be reached in time.",
};

/**
 * Of the network and of DNS: https://nodejs.org/api/errors.html#common-system-errors,
 * https://nodejs.org/api/dns.html#error-codes
 */
const unreachable =
  /^(?:ECONNREFUSED|EHOST(?:UNREACH|DOWN)|ENET(?:UNREACH|DOWN)|EADDRNOTAVAIL|ENOTFOUND|ENODATA|ESERVFAIL|EAI_[A-Z]+)$/;
/**
 * Of TLS: https://nodejs.org/api/tls.html#x509-certificate-error-codes,
 * https://nodejs.org/api/errors.html
 */
const untrusted =
  /CERT|^(?:UNABLE_TO_|CRL_|ERR_TLS_|ERR_SSL_|ERROR_IN_|HOSTNAME_MISMATCH|INVALID_CA|INVALID_PURPOSE|PATH_LENGTH_EXCEEDED|EPROTO)/;

/** The caller sees the message, so it names no address. */
export function failureOfTransport(error: Error): Failure {
  if (error instanceof errors.ConnectTimeoutError) return unreachableInTime;
  const code = (error as NodeJS.ErrnoException).code ?? "";
  if (unreachable.test(code))
    return { code: "upstream_failed", message: "The upstream of this model could not be reached." };
  if (untrusted.test(code))
    return {
      code: "upstream_failed",
      message: "The upstream of this model could not be reached securely.",
    };
  if (error instanceof errors.HeadersOverflowError)
    return { code: "upstream_failed", message: "The upstream of this model sent headers that are too large." };
  return {
    code: "upstream_failed",
    message: "The upstream of this model broke the connection before its answer was complete.",
  };
}
