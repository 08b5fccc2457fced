/** Calls to upstreams over HTTP, through one pool of connections for each. */
import { errors, Pool } from "undici";
import type { CatalogueUpstream } from "#catalogue/catalogue.ts";
import type { Failure } from "#wire/errors.ts";

export interface UpstreamRequest {
  /** Behind the upstream's base address; begins with a slash. */
  path: string;
  body: Buffer;
  /** The upstream's secret, if it has one. */
  credential: string | undefined;
}

export interface UpstreamHandlers {
  head(status: number, headers: Record<string, string | string[] | undefined>): void;
  data(chunk: Buffer): void;
  end(): void;
  /** Neither `end` nor anything else follows; not called for an abort of one's own. */
  failed(failure: Failure): void;
}

export interface UpstreamCall {
  /** Closes the connection at once, or gives up the place in line for one. Nothing more is reported. */
  abort(): void;
  /** Stops or goes on reading the answer. */
  flow(open: boolean): void;
}

type Controller = Parameters<NonNullable<Parameters<Pool["dispatch"]>[1]["onRequestStart"]>>[0];

const aborted = new Error("aborted");

interface PoolEntry {
  pool: Pool;
  upstream: CatalogueUpstream;
}

export class Upstreams {
  readonly #pools = new Map<string, PoolEntry>();

  /** Sends a POST with a JSON body. The time limits are the caller's to keep, but for that of connecting. */
  call(upstream: CatalogueUpstream, { path, body, credential }: UpstreamRequest, handlers: UpstreamHandlers): UpstreamCall {
    const url = new URL(upstream.baseUrl);
    let controller: Controller | undefined;
    let over = false;
    let open = true;
    this.#poolOf(upstream, url.origin).dispatch(
      {
        method: "POST",
        path: `${url.pathname === "/" ? "" : url.pathname}${path}`,
        headers: {
          ...upstream.headers,
          "content-type": "application/json",
          "accept-encoding": "identity",
          "user-agent": "sluice",
          ...(credential !== undefined && { authorization: `Bearer ${credential}` }),
        },
        body,
      },
      {
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
          if (over) return;
          over = true;
          handlers.end();
        },
        onResponseError(_controller, error) {
          if (over) return;
          over = true;
          handlers.failed(failureOfTransport(error));
        },
      },
    );
    return {
      abort() {
        if (over) return;
        over = true;
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

  async close(): Promise<void> {
    await Promise.all([...this.#pools.values()].map(({ pool }) => pool.destroy()));
  }

  /** The upstream's pool; a new one once its address or its limits changed, while the old one finishes what it has. */
  #poolOf(upstream: CatalogueUpstream, origin: string): Pool {
    const entry = this.#pools.get(upstream.name);
    if (entry?.upstream === upstream) return entry.pool;
    if (entry !== undefined && isSamePool(entry.upstream, upstream)) {
      entry.upstream = upstream;
      return entry.pool;
    }
    entry?.pool.close().catch(() => undefined);
    const pool = new Pool(origin, {
      connections: upstream.limits.connectionsMax,
      connect: { timeout: upstream.limits.connectTimeoutMs },
      headersTimeout: 0,
      bodyTimeout: 0,
    });
    this.#pools.set(upstream.name, { pool, upstream });
    return pool;
  }
}

const isSamePool = (left: CatalogueUpstream, right: CatalogueUpstream) =>
  left.baseUrl === right.baseUrl &&
  left.limits.connectionsMax === right.limits.connectionsMax &&
  left.limits.connectTimeoutMs === right.limits.connectTimeoutMs;

/** The message names no address: it goes to the caller. */
function failureOfTransport(error: Error): Failure {
  if (error instanceof errors.ConnectTimeoutError) return { code: "upstream_timeout", message: "The upstream of this model could not be reached in time." };
  if (["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH"].includes((error as NodeJS.ErrnoException).code ?? ""))
    return { code: "upstream_failed", message: "The upstream of this model could not be reached." };
  return { code: "upstream_failed", message: "The upstream of this model broke the connection before its answer was complete." };
}
