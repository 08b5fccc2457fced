/**
 * `GET /v1/models` for callers without a key, if the catalogue names a public group: one prepared
 * body for each version of the catalogue.
 */
import { createHash } from "node:crypto";
import type { FastifyReply, FastifyRequest } from "fastify";
import type { Catalogue } from "#catalogue/catalogue.ts";
import { offersOf } from "#catalogue/offers.ts";
import { profiles } from "#dialects/profiles.ts";
import { ByteBudget } from "#service/byte-budget.ts";
import type { Clock } from "#service/clock.ts";
import { publicBytesPerSecond, publicSeconds } from "../common/bounds.ts";
import { dialectOf, pathOf } from "../common/endpoints.ts";
import { Refusal } from "../common/refusal.ts";
import { credentialsOf } from "./authentication.ts";

const path = "/v1/models";
/** Whatever decides whether a request has a key, and the form of its answer. */
const vary = "authorization, x-api-key, x-goog-api-key, api-key, anthropic-version";

interface PublicModelsOptions {
  catalogue(): Catalogue;
  clock: Clock;
}

interface PreparedList {
  of: Catalogue;
  body: Buffer;
  etag: string;
}

export class PublicModels {
  readonly #options: PublicModelsOptions;
  readonly #budget = new ByteBudget(publicBytesPerSecond);
  #list: PreparedList | undefined;

  constructor(options: PublicModelsOptions) {
    this.#options = options;
  }

  /**
   * Answers a request without a key for OpenAI's list, and returns true. Throws Refusal when too
   * many bytes were sent this way.
   */
  answers(request: FastifyRequest, reply: FastifyReply): boolean {
    const { method, url, headers } = request;
    const catalogue = this.#options.catalogue();
    const { publicGroup } = catalogue;
    if (publicGroup === undefined || (method !== "GET" && method !== "HEAD") || pathOf(url) !== path) return false;
    if (credentialsOf(headers, url).length > 0 || dialectOf(url, headers) !== "openai-chat") return false;
    const { body, etag } = this.#prepared(catalogue, publicGroup);
    const before = reply.raw.getHeader("vary");
    reply.headers({
      etag,
      "cache-control": `public, max-age=${publicSeconds}`,
      vary: before === undefined ? vary : `${before}, ${vary}`,
      "access-control-allow-origin": "*",
    });
    if (headers["if-none-match"]?.split(",").some((tag) => tag.trim().replace(/^W\//, "") === etag)) {
      reply.code(304).send();
      return true;
    }
    if (method === "GET") {
      const waitMs = this.#budget.waitFor(body.length, this.#options.clock.now());
      if (waitMs > 0) throw new Refusal({ ...busy, retryAfterSeconds: Math.ceil(waitMs / 1_000) });
    }
    reply.type("application/json; charset=utf-8").send(body);
    return true;
  }

  #prepared(catalogue: Catalogue, group: string): PreparedList {
    if (this.#list?.of === catalogue) return this.#list;
    const models = [...offersOf(catalogue, group).values()];
    const body = Buffer.from(JSON.stringify(profiles["openai-chat"].modelListOf(models, new URLSearchParams())));
    const etag = `"${createHash("sha256").update(body).digest("hex").slice(0, 16)}"`;
    this.#list = { of: catalogue, body, etag };
    return this.#list;
  }
}

const busy = {
  code: "rate_limited",
  message: "The public list of models was sent too often; try again in a moment, or send an API key.",
} as const;
