/** Calls upstreams over HTTP, with a pool of connections for each upstream. */

import { Readable } from "node:stream";
import type { Dispatcher } from "undici";
import type { CatalogueUpstream } from "#catalogue/catalogue.ts";
import type { Environment } from "#catalogue/environment.ts";
import type { WireRequest } from "#dialects/codec.ts";
import { upstreamProfiles } from "#dialects/profiles.ts";
import { type Clock, systemClock } from "#service/clock.ts";
import { LiveMap } from "#service/live-map.ts";
import { Unreachable } from "#service/public-agent.ts";
import type { BodyWithAttachments } from "../attachments/request-attachments.ts";
import { freshConnectionsMs, knownAddressesMax, presenceMs, requestIdLengthMax } from "../bounds.ts";
import type { Authorize, SignedRequest } from "./authorization.ts";
import { followTlsFiles, openConnections, socketOptionsOf } from "./connections.ts";
import { HttpCall } from "./http-call.ts";
import type { PooledCall, UpstreamCall, UpstreamHandlers, UpstreamHeaders } from "./pooled-call.ts";
import { SessionCall, sessionUrlOf } from "./session-call.ts";
import { StreamPace } from "./stream-pace.ts";
import { failureOfAuthorization, failureOfConfiguration } from "./transport-failures.ts";

/** A request whose body may be in chunks. */
export type UpstreamRequest = Omit<WireRequest, "body"> & { body: Buffer | BodyWithAttachments };

export interface SingleRequest {
  method: "GET" | "POST" | "DELETE";
  path: string;
  headers?: Record<string, string> | undefined;
  body?: Buffer | undefined;
  timeoutMs: number;
  bytesMax: number;
}

const absentStatuses = [502, 503, 504];

/** The connections to one upstream, and the calls that wait for one. */
interface Pool {
  upstream: CatalogueUpstream;
  readonly connections: Dispatcher;
  /** Ends the following of its TLS files. */
  unfollow(): void;
  /** Calls that have a connection, or are about to open one. */
  calls: number;
  /**
   * Until then each call has a connection of its own, because the upstream reset a kept one. In
   * milliseconds of the clock's `now`.
   */
  freshUntil: number;
  /**
   * Calls that wait for a connection, in order. Undici's own pool would keep the body of an aborted
   * call.
   */
  readonly waiting: LiveMap<number, () => void>;
}

interface Address {
  readonly url: URL;
  readonly origin: string;
  readonly path: string;
}

/** No token or signature could be made of a credential. */
export class UnusableCredential extends Error {}

/** The issuer of tokens did not answer. */
const isUnreached = (error: unknown): boolean => {
  const { code, response } = error as { code?: unknown; response?: unknown };
  return response === undefined && /^(?:ECONN|ENOTFOUND|EAI_|EHOST|ENET|ETIMEDOUT|UND_ERR)/.test(String(code));
};

export class Upstreams {
  readonly #pools = new Map<string, Pool>();
  /** Pools that get no new calls. Each closes after its last call, waiting calls included. */
  readonly #retired = new Set<Pool>();
  /** By the base URL and the path. */
  readonly #addresses = new Map<string, Address>();
  #calls = 0;
  readonly #authorize: Authorize;
  readonly #environment: Environment;
  readonly #clock: Clock;

  /** The worker sets its interval. */
  readonly pace: StreamPace;

  /** `environment` names the proxies, if any. */
  constructor(authorize: Authorize, environment: Environment = {}, clock: Clock = systemClock) {
    this.#authorize = authorize;
    this.#environment = environment;
    this.#clock = clock;
    this.pace = new StreamPace(clock);
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
    const call = new HttpCall(handlers, this.pace);
    const { body } = request;
    const { url, origin, path } = this.#addressOf(upstream.baseUrl, request.path);
    const headers = headersFor(upstream, request);
    const signed = { method: "POST", url, headers, body } as const;
    this.#begin(call, upstream, credential, signed, (pool, authorization) => {
      const send = (connections: Dispatcher, again?: () => boolean) => {
        const options: Dispatcher.DispatchOptions = {
          method: "POST",
          origin,
          path,
          headers: Object.assign(headers, authorization),
          body: dispatchedOf(body),
        };
        if (pool.freshUntil > this.#clock.now()) options.reset = true;
        call.send(connections, options, again);
      };
      send(pool.connections, () => {
        pool.freshUntil = this.#clock.now() + freshConnectionsMs;
        // A body with attachments is read once: parts of it come from elsewhere.
        if (!isRepeatable || !Buffer.isBuffer(body)) return false;
        const connections = this.#openSpare(upstream);
        if (connections === undefined) return false;
        call.onceLeft(() => void connections.close().catch(() => undefined));
        send(connections);
        return true;
      });
    });
    return call;
  }

  /** The address of a path at an upstream, and what undici reads of it. */
  #addressOf(baseUrl: string, path: string): Address {
    const key = `${baseUrl} ${path}`;
    const present = this.#addresses.get(key);
    if (present !== undefined) return present;
    if (this.#addresses.size >= knownAddressesMax) this.#addresses.clear();
    const url = urlOf(baseUrl, path);
    const address = { url, origin: url.origin, path: `${url.pathname}${url.search}` };
    this.#addresses.set(key, address);
    return address;
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
      return openConnections(upstream, 1, this.#environment, this.pace);
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
          `${error instanceof Unreachable ? "address" : "TLS files or proxy"}: ${(error as NodeJS.ErrnoException).code ?? "not usable"}`,
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
    if (pool.waiting.size === 0 && pool.calls < upstream.connectionsMax) {
      start();
      return;
    }
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
    const { probePath } = upstreamProfiles[upstream.dialect];
    const probe = { method: "GET", path: probePath, timeoutMs: presenceMs, bytesMax: 0 } as const;
    try {
      return !absentStatuses.includes((await this.request(upstream, credential, probe)).status);
    } catch {
      return false;
    }
  }

  /**
   * One request with a connection of its own, without redirects. Resolves to the first `bytesMax`
   * bytes of the answer as text. Rejects with an error of the network or a TimeoutError.
   */
  async request(
    upstream: CatalogueUpstream,
    credential: string | undefined,
    request: SingleRequest,
  ): Promise<{ status: number; text: string }> {
    return this.during(upstream, credential, request, async ({ status, body }) => ({
      status,
      text: await beginningOf(body, request.bytesMax),
    }));
  }

  /** The same; `read` gets the body as it arrives, within the time of the request. */
  async during<Result>(
    upstream: CatalogueUpstream,
    credential: string | undefined,
    request: Omit<SingleRequest, "bytesMax">,
    read: (response: { status: number; body: Readable }) => Promise<Result>,
  ): Promise<Result> {
    const { method, body = Buffer.alloc(0), timeoutMs } = request;
    const url = urlOf(upstream.baseUrl, request.path);
    const headers =
      method === "POST"
        ? headersFor(upstream, { path: request.path, headers: request.headers, body })
        : { ...request.headers, ...upstream.headers, "user-agent": "sluice" };
    let connections: Dispatcher | undefined;
    try {
      const authorization = await this.#authorized(upstream, credential, { method, url, headers, body });
      connections = openConnections(upstream, 1, this.#environment, this.pace);
      const response = await connections.request({
        origin: url.origin,
        path: `${url.pathname}${url.search}`,
        method,
        headers: { ...headers, ...authorization },
        ...(method === "POST" && { body }),
        signal: AbortSignal.timeout(timeoutMs),
      });
      return await read({ status: response.statusCode, body: response.body });
    } finally {
      connections?.destroy().catch(() => undefined);
    }
  }

  async #authorized(...request: Parameters<Authorize>): Promise<Record<string, string>> {
    try {
      return await this.#authorize(...request);
    } catch (cause) {
      throw isUnreached(cause) ? cause : new UnusableCredential(String((cause as Error).message), { cause });
    }
  }

  /** Closes the connections to all other upstreams once their calls are over. */
  retain(upstreams: ReadonlyMap<string, CatalogueUpstream>): void {
    for (const name of this.#pools.keys()) if (!upstreams.has(name)) this.#retire(name);
  }

  async close(): Promise<void> {
    const pools = [...this.#pools.values(), ...this.#retired];
    for (const { unfollow } of pools) unfollow();
    await Promise.all(pools.map(({ connections }) => connections.destroy()));
  }

  /**
   * The pool of an upstream. A changed address, TLS setting, TLS file or limit makes a new pool,
   * and the old one finishes its calls. Throws for unreadable TLS files.
   */
  #poolOf(upstream: CatalogueUpstream): Pool {
    const present = this.#pools.get(upstream.name);
    if (present !== undefined && (present.upstream === upstream || leadsToSame(present.upstream, upstream))) {
      present.upstream = upstream;
      return present;
    }
    this.#retire(upstream.name);
    const connections = openConnections(upstream, upstream.connectionsMax, this.#environment, this.pace);
    const unfollow = followTlsFiles(upstream, () => this.#retire(upstream.name));
    const pool: Pool = { upstream, connections, unfollow, calls: 0, freshUntil: 0, waiting: new LiveMap() };
    this.#pools.set(upstream.name, pool);
    return pool;
  }

  #retire(name: string): void {
    const pool = this.#pools.get(name);
    if (pool === undefined) return;
    this.#pools.delete(name);
    pool.unfollow();
    this.#retired.add(pool);
    this.#closeOnceOver(pool);
  }

  #closeOnceOver(pool: Pool): void {
    if (pool.calls === 0 && this.#retired.delete(pool)) pool.connections.close().catch(() => undefined);
  }
}

async function beginningOf(body: Readable, bytesMax: number): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  body.on("error", () => undefined);
  if (bytesMax > 0)
    for await (const chunk of body as AsyncIterable<Buffer>) {
      chunks.push(chunk);
      bytes += chunk.length;
      if (bytes >= bytesMax) break;
    }
  body.destroy();
  return Buffer.concat(chunks).subarray(0, bytesMax).toString();
}

function startNext({ calls, upstream, waiting }: Pool): void {
  if (calls >= upstream.connectionsMax) return;
  waiting.shift()?.();
}

/** Appends a path to a base URL, which may have a query such as `?api-version=…`. */
export function urlOf(baseUrl: string, path: string): URL {
  const base = new URL(baseUrl);
  const url = new URL(`${base.origin}${base.pathname.replace(/\/$/, "")}${path}`);
  for (const [name, value] of base.searchParams) if (!url.searchParams.has(name)) url.searchParams.append(name, value);
  return url;
}

function headersFor({ headers }: CatalogueUpstream, { headers: own, body }: UpstreamRequest): Record<string, string> {
  const all: Record<string, string> = { "content-type": "application/json", ...own, ...headers };
  all["accept-encoding"] = "identity";
  all["user-agent"] = "sluice";
  if (!Buffer.isBuffer(body)) all["content-length"] = String(body.byteLength);
  return all;
}

/** A body in chunks is read one chunk ahead of the socket. */
const dispatchedOf = (body: Buffer | BodyWithAttachments): Buffer | Readable =>
  Buffer.isBuffer(body) ? body : Readable.from(body, { highWaterMark: 1 });

/** The request id headers of OpenAI and most others, Anthropic, Azure (two), and AWS. */
const requestIdHeaders = ["x-request-id", "request-id", "apim-request-id", "x-ms-request-id", "x-amzn-requestid"];

const printable = /^[\x21-\x7e]+$/;

/** The upstream's own id of a request, if it sends one in printable ASCII. */
export function upstreamRequestIdOf(headers: UpstreamHeaders): string | undefined {
  for (const name of requestIdHeaders) {
    const value = headers[name];
    if (typeof value === "string" && printable.test(value)) return value.slice(0, requestIdLengthMax);
  }
  return undefined;
}

const leadsToSame = (left: CatalogueUpstream, right: CatalogueUpstream) =>
  left.baseUrl === right.baseUrl &&
  JSON.stringify(left.tls) === JSON.stringify(right.tls) &&
  left.connectionsMax === right.connectionsMax &&
  left.timeouts.connectTimeoutMs === right.timeouts.connectTimeoutMs;
