/**
 * Turns a request into a generation, whether it came as a POST or as a frame of a WebSocket: finds
 * its model, checks its headers, and begins it.
 */

import type { IncomingHttpHeaders } from "node:http";
import type { FastifyRequest } from "fastify";
import { allowsModel } from "#access/record.ts";
import type { Catalogue, CatalogueModel } from "#catalogue/catalogue.ts";
import type { Framing, StorageFields } from "#dialects/codec.ts";
import type { GenerationOutcome } from "#events/ingress-events.ts";
import { isForm } from "#operations/operations.ts";
import { contentTypeLengthMax } from "#relay/bounds.ts";
import type { BeginTrace } from "#tracing/tracing.ts";
import { callerHeadersOf, requestIdHeadersOf, type ServedEndpoint } from "../common/endpoints.ts";
import { labelsOf } from "../common/labels.ts";
import { outlastRedis, type Patience } from "../common/outlast-redis.ts";
import { type Result, refusalOf, resultOf, valueOrThrow } from "../common/refused.ts";
import type { Body, ReadBody } from "../request/body.ts";
import type { AnswerResponse } from "../response/generation-response.ts";
import type { EarlierRun, GenerationRequest, SessionInput } from "./generation-request.ts";
import type { RateLimiter, ReplayAnswer } from "./rate-limits.ts";

export interface AdmissionOptions extends Patience {
  catalogue(): Catalogue;
  /**
   * The catalogue with this version, or the current one where this process does not know it any
   * more.
   */
  catalogueInForceAs(version: string | undefined): Catalogue;
  limits: RateLimiter;
  /** Undefined while tracing is off. */
  beginTrace: BeginTrace | undefined;
  /** Aborted when this process begins to stop: from then on connections are not kept. */
  draining: AbortSignal;
}

/** A request for a generation, its body read and checked (request/body-reader.ts). */
export interface AdmissionRequest {
  /** The caller and the headers. Its claim on the memory for bodies covers at least `bytes`. */
  request: Pick<FastifyRequest, "caller" | "url" | "headers" | "held">;
  /** Of its own, where the requests of a WebSocket share the `request` that opened it. */
  requestId: string;
  endpoint: ServedEndpoint;
  /** The catalogue's id, as the caller gave it. */
  model: string;
  framing: Framing;
  demand: ReadBody["demand"];
  /** For its user. */
  body?: Body;
  bytes: Buffer;
  response: AnswerResponse;
  /** Where the caller's messages come from, in a session. */
  input?: SessionInput;
  /** What the answer says of its storage. */
  storage?: StorageFields | undefined;
  /** In place of the model's own queue. */
  queue?: string;
  /** Set where another ingress began it before, so it is no new request. */
  earlier?: EarlierRun | undefined;
  /** When the request was received, in epoch milliseconds; now by default. */
  receivedAt?: number | undefined;
  /** Called when a worker has taken it. */
  onBound?: (() => void) | undefined;
  /** Called when the generation is over. */
  onEnd?: ((outcome: GenerationOutcome) => void) | undefined;
}

export class Admission {
  readonly #options: AdmissionOptions;

  constructor(options: AdmissionOptions) {
    this.#options = options;
  }

  /** The version of the catalogue whose prices apply to requests that are admitted now. */
  get priceVersion(): string {
    return this.#options.catalogue().version;
  }

  /**
   * The model with this id. One that does not exist and one that the caller may not use are refused
   * alike.
   */
  modelFor({ caller }: Pick<FastifyRequest, "caller">, id: string): Result<CatalogueModel> {
    const model = allowsModel(caller, id) ? this.#options.catalogue().modelFor(caller.group, id) : undefined;
    if (model !== undefined) return resultOf(model);
    return refusalOf({
      code: "model_not_found",
      message: `The model ${JSON.stringify(id)} does not exist, or this key may not use it. GET /v1/models lists the models it may.`,
      param: "model",
    });
  }

  /**
   * Admits a request that gets another request's answer: it counts as a request of its own, and
   * twice if Redis counted it and could not say so. Undefined for a caller without limits. Rejects
   * with Refused.
   */
  async replay({
    request,
    endpoint,
    model,
  }: Pick<AdmissionRequest, "request" | "endpoint" | "model">): Promise<ReplayAnswer | undefined> {
    valueOrThrow(this.modelFor(request, model));
    return outlastRedis(this.#options, async () => this.#options.limits.admitReplay(request.caller, endpoint.dialect));
  }

  /**
   * Checks before the body is read whether the caller's limits refuse every request. Undefined for
   * a caller without limits, and when Redis does not answer.
   */
  check(
    { caller }: FastifyRequest,
    { dialect, operation }: ServedEndpoint,
    mayReplay: boolean,
  ): Promise<ReplayAnswer | undefined> | undefined {
    return this.#options.limits.check(caller, dialect, operation, mayReplay)?.catch(() => undefined);
  }

  /** The request as its generation keeps it. */
  requestOf(asked: AdmissionRequest): Result<GenerationRequest> {
    const { request, requestId, endpoint, demand, model: id, queue, body, bytes: _, ...kept } = asked;
    const { draining, catalogueInForceAs, beginTrace } = this.#options;
    const { caller, url, headers, held } = request;
    const { dialect, operation } = endpoint;
    const catalogue = this.#options.catalogue();
    const found = this.modelFor(request, id);
    const contentType = isForm(operation) ? contentTypeOf(headers) : resultOf("application/json");
    const maxWaitMs = maxWaitMsOf(headers);
    if (found.kind === "refused") return found;
    if (contentType.kind === "refused") return contentType;
    if (maxWaitMs.kind === "refused") return maxWaitMs;
    const model = queue === undefined ? found.value : { ...found.value, queue };
    const { earlier } = kept;
    return resultOf({
      ...kept,
      ...demand,
      id: generationIdOf(requestId),
      requestId,
      caller,
      labels: earlier?.labels ?? labelsOf(caller, headers, body),
      trace: beginTrace?.(headers),
      dialect,
      operation,
      contentType: contentType.value,
      callerHeaders: callerHeadersOf(dialect, headers),
      model,
      catalogue: earlier === undefined ? catalogue : catalogueInForceAs(earlier.priceVersion),
      queue: catalogue.queues.get(model.queue) ?? { waitingMax: 0, waitMs: 0 },
      maxWaitMs: maxWaitMs.value,
      weight: catalogue.groups.get(caller.group)?.weight ?? 1,
      held,
      receivedAt: earlier?.receivedAt ?? kept.receivedAt,
      headers: {
        ...requestIdHeadersOf({ id: requestId, url, headers }),
        ...(draining.aborted && { connection: "close" }),
      },
    });
  }
}

export const generationIdOf = (requestId: string): string => requestId.replace("req_", "gen_");

/** Refuses a type that is longer than any client's. */
function contentTypeOf({ "content-type": type = "" }: IncomingHttpHeaders): Result<string> {
  if (type.length <= contentTypeLengthMax) return resultOf(type);
  return refusalOf({
    code: "unsupported_media_type",
    message: `The content type is longer than ${contentTypeLengthMax} characters.`,
  });
}

const maxWaitHeader = "x-sluice-max-wait";

/**
 * How long the caller lets its request wait for a worker, in milliseconds: a whole number from 1 to
 * 999,999,999.
 */
function maxWaitMsOf(headers: IncomingHttpHeaders): Result<number | undefined> {
  const value = headers[maxWaitHeader];
  if (value === undefined) return resultOf(undefined);
  if (typeof value === "string" && /^[1-9]\d{0,8}$/.test(value)) return resultOf(Number(value));
  return refusalOf({
    code: "invalid_request",
    message: `The header ${maxWaitHeader} must be a whole number of milliseconds from 1 to 999999999, such as 2500.`,
    param: maxWaitHeader,
  });
}
