/**
 * Pages in browsers as callers: https://fetch.spec.whatwg.org/#http-cors-protocol. A preflight
 * carries no key, so it is answered if any key of the gateway may be used from its origin; the
 * request that follows needs a key that may. Requests without an `Origin` are not concerned.
 */
import type { ServerResponse } from "node:http";
import type { FastifyReply, FastifyRequest } from "fastify";
import { allowsOrigin, hasOrigin } from "#access/origins.ts";
import type { Catalogue } from "#catalogue/catalogue.ts";
import { upstreamRequestIdHeader } from "#relay/job.ts";
import { Refusal } from "../common/refusal.ts";
import type { KeyDirectory } from "./authentication.ts";

/** How long a browser may use the answer of a preflight. Chromium accepts no longer time. */
const preflightSeconds = "7200";

const methods = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";

const limitParts = ["requests", "tokens"];

/** The response headers that client libraries read. */
const exposedHeaders = [
  "x-request-id",
  "request-id",
  "retry-after",
  "retry-after-ms",
  "x-should-retry",
  "anthropic-workspace-id",
  "openai-processing-ms",
  "x-goog-upload-url",
  "x-goog-upload-status",
  "x-sluice-queue-position",
  "x-sluice-queue-seconds",
  "x-sluice-token-count",
  "x-sluice-warning",
  upstreamRequestIdHeader,
  ...limitParts.flatMap((what) =>
    ["limit", "remaining", "reset"].flatMap((part) => [
      `x-ratelimit-${part}-${what}`,
      `anthropic-ratelimit-${what}-${part}`,
    ]),
  ),
].join(", ");

export interface CorsOptions {
  catalogue(): Catalogue;
  keys: KeyDirectory;
}

export class Cors {
  readonly #options: CorsOptions;

  constructor(options: CorsOptions) {
    this.#options = options;
  }

  /**
   * Lets the caller's page read the response, whatever its outcome, if any key may be used from
   * there. Sets the headers on the raw response: a stream has no other.
   */
  expose({ headers: { origin } }: Pick<FastifyRequest, "headers">, response: ServerResponse): void {
    if (origin === undefined || !this.#isAllowedAnywhere(origin)) return;
    response.setHeader("access-control-allow-origin", origin);
    response.setHeader("access-control-expose-headers", exposedHeaders);
    response.setHeader("vary", "origin");
  }

  /**
   * Answers a preflight and returns true. Throws Refusal for an origin from which no key may be
   * used.
   */
  answersPreflight({ method, headers }: FastifyRequest, reply: FastifyReply): boolean {
    const { origin } = headers;
    if (method !== "OPTIONS" || origin === undefined || headers["access-control-request-method"] === undefined)
      return false;
    if (!this.#isAllowedAnywhere(origin)) throw refusedOrigin(origin);
    const wanted = headers["access-control-request-headers"];
    reply.code(204).headers({
      "access-control-allow-methods": methods,
      ...(wanted !== undefined && { "access-control-allow-headers": wanted }),
      "access-control-max-age": preflightSeconds,
    });
    reply.send();
    return true;
  }

  /** Throws Refusal if the request comes from a page that may not use its caller's key. */
  check({ caller, headers }: FastifyRequest): void {
    const { origin } = headers;
    if (origin === undefined || isSameOrigin(origin, headers.host)) return;
    const { origins = [] } = this.#options.catalogue().groups.get(caller.group) ?? {};
    if (!allowsOrigin(caller, origins, origin)) throw refusedOrigin(origin);
  }

  #isAllowedAnywhere(origin: string): boolean {
    const { catalogue, keys } = this.#options;
    for (const { origins } of catalogue().groups.values()) if (hasOrigin(origins, origin)) return true;
    return hasOrigin(keys.origins(), origin);
  }
}

/**
 * A page that a proxy serves under the same address as the gateway. Browsers send the origin with
 * its POSTs as well.
 */
const isSameOrigin = (origin: string, host: string | undefined): boolean =>
  host !== undefined && origin.slice(origin.indexOf("://") + "://".length) === host;

const refusedOrigin = (origin: string): Refusal =>
  new Refusal({
    code: "origin_not_allowed",
    message: `Pages of ${JSON.stringify(origin.slice(0, 300))} may not use this gateway with this key. Its operator can allow it with 'origins' of the key's group, or of the key.`,
  });
