/**
 * Turns a request into a generation, whether it came as a POST or as a frame of a WebSocket: finds
 * its model, checks its headers, and begins it.
 */

import type { IncomingHttpHeaders, ServerResponse } from "node:http";
import type { FastifyRequest } from "fastify";
import { type PriorityName, priorityNames } from "#access/priority.ts";
import { allowsModel } from "#access/record.ts";
import { type Catalogue, type CatalogueModel, cachePlacesOf, oncePerModel } from "#catalogue/catalogue.ts";
import { isForm, operations } from "#operations/operations.ts";
import type { Priority } from "#relay/admission-queue.ts";
import { contentTypeLengthMax } from "#relay/bounds.ts";
import type { BeginTrace } from "#tracing/tracing.ts";
import { requestIdHeadersOf, type ServedEndpoint } from "../common/endpoints.ts";
import { outlastRedis, type RedisWait } from "../common/outlast-redis.ts";
import { Refusal, type Result, refusalOf } from "../common/refusal.ts";
import { type SessionSource, sessionOf } from "../request/session.ts";
import { refusalOfTrial } from "../server/trials.ts";
import type { Admitted, GenerationRequest } from "./generation-request.ts";
import type { LimitsState, RateLimiter } from "./rate-limits.ts";

export interface AdmissionOptions extends RedisWait {
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
    if (model !== undefined) return model;
    return new Refusal({
      code: "model_not_found",
      message: `The model ${JSON.stringify(id)} does not exist, or this key may not use it. GET /v1/models lists the models it may.`,
      param: "model",
    });
  }

  /**
   * Admits a request that gets another request's answer: it counts as a request of its own, and
   * twice if Redis counted it and could not say so. Undefined for a caller without limits.
   */
  async replay({
    request,
    endpoint,
    model,
    response,
  }: Pick<GenerationRequest, "endpoint" | "model"> & {
    request: Pick<FastifyRequest, "caller" | "headers">;
    response: ServerResponse;
  }): Promise<Result<LimitsState> | undefined> {
    const requested = this.modelFor(request, model);
    if (requested instanceof Refusal) return requested;
    const maxWaitMs = maxWaitMsOf(request.headers);
    if (maxWaitMs instanceof Refusal) return maxWaitMs;
    return outlastRedis(this.#options, async () =>
      this.#options.limits.admitReplay(request.caller, endpoint.dialect, { response, maxWaitMs }),
    );
  }

  /**
   * Checks before the body is read whether the caller's limits refuse every request. Undefined for
   * a caller without limits, and when Redis does not answer.
   */
  check(
    { caller }: FastifyRequest,
    { dialect, operation }: ServedEndpoint,
    replay: { mayReplay: boolean },
  ): Promise<Result<LimitsState> | undefined> | undefined {
    return this.#options.limits.check(caller, dialect, operation, replay)?.catch(() => undefined);
  }

  /**
   * Finds the model and checks the headers. `source` is the body, for a request that may belong to
   * a session.
   */
  admit(request: GenerationRequest, source: SessionSource | undefined): Result<Admitted> {
    const { http, requestId, endpoint, priceVersion } = request;
    const { draining, catalogueInForceAs, beginTrace } = this.#options;
    const { caller, url, headers } = http;
    const catalogue = this.#options.catalogue();
    const requested = this.modelFor(http, request.model);
    const contentType = isForm(endpoint.operation) ? contentTypeOf(headers) : "application/json";
    const maxWaitMs = maxWaitMsOf(headers);
    const group = catalogue.groups.get(caller.group);
    const priority = priorityOf(request, caller.priority ?? group?.priority);
    if (requested instanceof Refusal) return requested;
    if (contentType instanceof Refusal) return contentType;
    if (maxWaitMs instanceof Refusal) return maxWaitMs;
    if (priority instanceof Refusal) return priority;
    const affinity = headers[affinityHeader];
    const otherTrial = refusalOfTrial(http.trial, request.model);
    if (otherTrial !== undefined) return otherTrial;
    if (affinity !== undefined && affinity !== "off" && affinity !== "session") return unknownAffinity;
    const whenFlexFull = headers[flexHeader];
    if (whenFlexFull !== undefined && whenFlexFull !== "wait" && whenFlexFull !== "standard") return unknownFlex;
    const hasSession =
      source !== undefined &&
      affinity !== "off" &&
      operations[endpoint.operation].cachesPrompts === true &&
      dependsOnSession(catalogue, requested);
    const model = request.queue === undefined ? requested : { ...requested, queue: request.queue };
    return {
      id: generationIdOf(requestId),
      model,
      catalogue: priceVersion === undefined ? catalogue : catalogueInForceAs(priceVersion),
      queue: catalogue.queues.get(model.queue) ?? { waitingMax: 0, waitMs: 0 },
      session: hasSession
        ? sessionOf(request.labels.session, source, { keyId: caller.id, model: requested.id })
        : undefined,
      maxWaitMs,
      whenFlexFull,
      share: {
        group: caller.group,
        weight: group?.weight ?? 1,
        key: caller.id,
        priority,
        reserved: (group?.reservedPercent ?? 0) / 100,
      },
      contentType,
      trace: beginTrace?.(headers),
      headers: {
        ...requestIdHeadersOf({ id: requestId, url, headers }),
        ...(draining.aborted && { connection: "close" }),
      },
    };
  }
}

export const generationIdOf = (requestId: string): string => requestId.replace("req_", "gen_");

/** Refuses a type that is longer than any client's. */
function contentTypeOf({ "content-type": type = "" }: IncomingHttpHeaders): Result<string> {
  if (type.length <= contentTypeLengthMax) return type;
  return new Refusal({
    code: "unsupported_media_type",
    message: `The content type is longer than ${contentTypeLengthMax} characters.`,
  });
}

const affinityHeader = "x-sluice-affinity";
const unknownAffinity = refusalOf(
  `The header ${affinityHeader} must be "off", or "session", which is the default.`,
  affinityHeader,
);

const flexHeader = "x-sluice-flex";
const unknownFlex = refusalOf(`The header ${flexHeader} must be "wait" or "standard".`, flexHeader);

/**
 * Whether the worker chooses a place for a model's requests, or for those of a fallback, or lets
 * their upstreams cache prompts.
 */
const dependsOnSession = oncePerModel((catalogue, model): boolean =>
  [model, ...model.fallbacks.flatMap((id) => catalogue.modelWith(id) ?? [])].some(
    (one) =>
      (one.affinity === "session" && cachePlacesOf(catalogue, one) > 1) ||
      [one, ...one.route].some(({ promptCache }) => promptCache?.auto === true),
  ),
);

const priorityHeader = "x-sluice-priority";

/** The priority of the caller's key or group, or the lower one that the request asks for. */
function priorityOf(
  { http, labels, queue, batch }: Pick<GenerationRequest, "http" | "labels" | "queue" | "batch">,
  own: PriorityName = "normal",
): Result<Priority> {
  const value = http.headers[priorityHeader];
  const name = value === undefined ? own : priorityNames.find((other) => other === value);
  if (name === undefined)
    return refusalOf(`The header ${priorityHeader} must be one of ${priorityNames.join(", ")}.`, priorityHeader);
  // A queue of its own: the caller does not wait for the response.
  if (labels.isFlex === true || queue !== undefined || batch !== undefined) return 2;
  return Math.max(priorityNames.indexOf(name), priorityNames.indexOf(own)) as Priority;
}

const maxWaitHeader = "x-sluice-max-wait";

/**
 * How long the caller lets its request wait for a worker, in milliseconds: a whole number from 1 to
 * 999,999,999.
 */
function maxWaitMsOf(headers: IncomingHttpHeaders): Result<number | undefined> {
  const value = headers[maxWaitHeader];
  if (value === undefined) return undefined;
  if (typeof value === "string" && /^[1-9]\d{0,8}$/.test(value)) return Number(value);
  return refusalOf(
    `The header ${maxWaitHeader} must be a whole number of milliseconds from 1 to 999999999, such as 2500.`,
    maxWaitHeader,
  );
}
