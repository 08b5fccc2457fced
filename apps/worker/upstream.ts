/** Calls to upstreams over HTTP, through one pool of connections for each. */
import { errors, Pool, request } from "undici";
import type { CatalogueUpstream } from "#catalogue/catalogue.ts";
import { LiveMap } from "#relay/live-map.ts";
import type { WireRequest } from "#wire/codec.ts";
import type { Failure } from "#wire/errors.ts";
import type { Authorize } from "./authorization.ts";

export interface UpstreamHandlers {
  head(status: number, headers: Record<string, string | string[] | undefined>): void;
  data(chunk: Buffer): void;
  end(): void;
  /** `cause` is the transport's own code, for the operator. Neither `end` nor anything else follows; not called for an abort of one's own. */
  failed(failure: Failure, cause: string): void;
}

export interface UpstreamCall {
  /** Closes the connection at once, or gives up the place in line for one. Nothing more is reported. */
  abort(): void;
  /** Stops or goes on reading the answer. */
  flow(open: boolean): void;
}

type Controller = Parameters<NonNullable<Parameters<Pool["dispatch"]>[1]["onRequestStart"]>>[0];

const aborted = new Error("aborted");

/** How long an upstream may take to say that it is there. */
const presenceMs = 2_000;
const absentStatuses = [502, 503, 504];

interface Line {
  upstream: CatalogueUpstream;
  readonly pool: Pool;
  /** Calls that have a connection, or are about to open one. */
  calls: number;
  /** Calls in line for a connection, in order. They stand here and not in the pool, where one that is aborted would keep its body. */
  readonly waiting: LiveMap<number, () => void>;
}

export class Upstreams {
  readonly #lines = new Map<string, Line>();
  /** Lines that nobody joins any more; each closes with its last call, those that still wait in it included. */
  readonly #retired = new Set<Line>();
  #calls = 0;
  readonly #authorize: Authorize;

  constructor(authorize: Authorize) {
    this.#authorize = authorize;
  }

  /** Sends a POST; `credential` is the name of one. The time limits are the caller's to keep, but for that of connecting. */
  call(upstream: CatalogueUpstream, credential: string | undefined, request: WireRequest, handlers: UpstreamHandlers): UpstreamCall {
    const line = this.#lineOf(upstream);
    let controller: Controller | undefined;
    let over = false;
    let open = true;
    const start = () => {
      line.calls++;
      let left = false;
      const leave = () => {
        if (left) return;
        left = true;
        line.calls--;
        startNext(line);
        this.#closeOnceOver(line);
      };
      const refused = (error: unknown) => {
        leave();
        if (over) return;
        over = true;
        handlers.failed(failureOfAuthorization, `authorization: ${error instanceof Error ? error.name : "failed"}`);
      };
      const send = (authorization: Record<string, string>) => {
        if (over) leave();
        else dispatch({ ...options, headers: { ...options.headers, ...authorization } }, leave);
      };
      const { url, ...options } = dispatchOptionsOf(upstream, request);
      try {
        const authorization = this.#authorize(upstream, credential, { method: "POST", url, headers: options.headers, body: request.body });
        if (authorization instanceof Promise) authorization.then(send, refused);
        else send(authorization);
      } catch (error) {
        refused(error);
      }
    };
    const dispatch = (options: Parameters<Pool["dispatch"]>[0], leave: () => void) =>
      line.pool.dispatch(options, {
        onRequestStart(started) {
          controller = started;
          if (over) started.abort(aborted);
        },
        onResponseStart(started, status, headers) {
          controller = started;
          if (over || status < 200) return;
          handlers.head(status, headers);
          if (!open) started.pause();
        },
        onResponseData(_controller, chunk) {
          if (!over) handlers.data(chunk);
        },
        onResponseEnd() {
          leave();
          if (over) return;
          over = true;
          handlers.end();
        },
        onResponseError(_controller, error) {
          leave();
          if (over) return;
          over = true;
          handlers.failed(failureOfTransport(error), (error as NodeJS.ErrnoException).code ?? error.name);
        },
      });
    const number = ++this.#calls;
    line.waiting.set(number, start);
    startNext(line);
    return {
      abort() {
        if (over) return;
        over = true;
        line.waiting.delete(number);
        controller?.abort(aborted);
      },
      flow(wanted) {
        open = wanted;
        if (over || controller === undefined) return;
        if (wanted) controller.resume();
        else controller.pause();
      },
    };
  }

  /**
   * Does it answer at all? Asked of its list of models, which is no generation and costs nothing: whatever it says will do, that it keeps no such list among
   * it, but for what a proxy says of a host that is away. A connection of its own, so that one which hangs is not in the way of calls.
   */
  async isPresent(upstream: CatalogueUpstream, credential: string | undefined): Promise<boolean> {
    const url = new URL(`${upstream.baseUrl}/models`);
    const headers = { ...upstream.headers, "user-agent": "sluice" };
    try {
      const authorization = await this.#authorize(upstream, credential, { method: "GET", url, headers, body: Buffer.alloc(0) });
      const signal = AbortSignal.timeout(presenceMs);
      const { statusCode, body } = await request(url, { headers: { ...headers, ...authorization }, signal, reset: true });
      body.on("error", () => undefined).destroy();
      return !absentStatuses.includes(statusCode);
    } catch {
      return false;
    }
  }

  /** Closes what leads to upstreams that are no longer there, once their calls are over. */
  retain(upstreams: ReadonlyMap<string, CatalogueUpstream>): void {
    for (const name of this.#lines.keys()) if (!upstreams.has(name)) this.#retire(name);
  }

  async close(): Promise<void> {
    await Promise.all([...this.#lines.values(), ...this.#retired].map(({ pool }) => pool.destroy()));
  }

  /** The line to an upstream; a new one once its address or its limits changed, while the old one finishes what it has. */
  #lineOf(upstream: CatalogueUpstream): Line {
    const known = this.#lines.get(upstream.name);
    if (known !== undefined && (known.upstream === upstream || isSamePool(known.upstream, upstream))) {
      known.upstream = upstream;
      return known;
    }
    this.#retire(upstream.name);
    const { origin } = new URL(upstream.baseUrl);
    const pool = new Pool(origin, {
      connections: upstream.limits.connectionsMax,
      connect: { timeout: upstream.limits.connectTimeoutMs },
      headersTimeout: 0,
      bodyTimeout: 0,
    });
    const line: Line = { upstream, pool, calls: 0, waiting: new LiveMap() };
    this.#lines.set(upstream.name, line);
    return line;
  }

  #retire(name: string): void {
    const line = this.#lines.get(name);
    if (line === undefined) return;
    this.#lines.delete(name);
    this.#retired.add(line);
    this.#closeOnceOver(line);
  }

  #closeOnceOver(line: Line): void {
    if (line.calls === 0 && this.#retired.delete(line)) line.pool.close().catch(() => undefined);
  }
}

function startNext({ calls, upstream, waiting }: Line): void {
  if (calls >= upstream.limits.connectionsMax) return;
  waiting.shift()?.();
}

function dispatchOptionsOf({ baseUrl, headers }: CatalogueUpstream, { path, headers: own, body }: WireRequest) {
  const url = new URL(`${baseUrl}${path}`);
  return {
    url,
    method: "POST" as const,
    path: `${url.pathname}${url.search}`,
    headers: { "content-type": "application/json", ...own, ...headers, "accept-encoding": "identity", "user-agent": "sluice" } as Record<string, string>,
    body,
  };
}

const isSamePool = (left: CatalogueUpstream, right: CatalogueUpstream) =>
  left.baseUrl === right.baseUrl &&
  left.limits.connectionsMax === right.limits.connectionsMax &&
  left.limits.connectTimeoutMs === right.limits.connectTimeoutMs;

const failureOfAuthorization: Failure = { code: "upstream_failed", message: "The upstream of this model refused the gateway; its operator has been told." };

/** The message names no address: it goes to the caller. */
function failureOfTransport(error: Error): Failure {
  if (error instanceof errors.ConnectTimeoutError) return { code: "upstream_timeout", message: "The upstream of this model could not be reached in time." };
  if (["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH"].includes((error as NodeJS.ErrnoException).code ?? ""))
    return { code: "upstream_failed", message: "The upstream of this model could not be reached." };
  return { code: "upstream_failed", message: "The upstream of this model broke the connection before its answer was complete." };
}
