/** What a request must pass before it is a generation, whether it came as a POST or as a frame on a socket. */
import type { IncomingHttpHeaders } from "node:http";
import type { FastifyRequest } from "fastify";
import { allowsModel } from "#access/record.ts";
import type { Catalogue, CatalogueModel } from "#catalogue/catalogue.ts";
import type { Framing } from "#dialects/codec.ts";
import { contentTypeLengthMax } from "#relay/job.ts";
import type { AnswerResponse } from "../generation/generation-response.ts";
import type { Generations } from "../generation/lifecycle.ts";
import type { ReadBody } from "../http/body.ts";
import { callerHeadersOf, type Endpoint, requestIdHeadersOf } from "../http/endpoints.ts";
import { unavailable } from "../http/failures.ts";
import { Refused } from "../http/requests.ts";
import type { RateLimiter, ReplayAnswer } from "./rate-limits.ts";

export interface AdmissionOptions {
  catalogue(): Catalogue;
  generations: Generations;
  limits: RateLimiter;
  /** The generation's id that goes with a request's. */
  generationIdOf(requestId: string): string;
  isDraining(): boolean;
}

/** A request for a generation, its body read and checked (body-reader.ts). */
export interface Asked {
  /** Who asks, and with which headers. What it holds for bodies is at least `bytes`. */
  request: FastifyRequest;
  /** Unique: a socket's requests share the one that opened it. */
  requestId: string;
  endpoint: Endpoint;
  /** The catalogue's id, as the caller gave it. */
  model: string;
  framing: Framing;
  demand: ReadBody["demand"];
  bytes: Buffer;
  response: AnswerResponse;
  /** Called when the generation is over, with how. */
  over?: ((outcome: string) => void) | undefined;
}

/** Every method throws Refused for what can't be served. */
export class Admission {
  readonly #options: AdmissionOptions;

  constructor(options: AdmissionOptions) {
    this.#options = options;
  }

  /** The same answer for a model that does not exist and for one that is not the caller's. */
  modelFor({ caller }: FastifyRequest, id: string): CatalogueModel {
    const model = allowsModel(caller, id) ? this.#options.catalogue().modelFor(caller.group, id) : undefined;
    if (model !== undefined) return model;
    throw new Refused({
      code: "model_not_found",
      message: `The model ${JSON.stringify(id)} does not exist, or this key may not use it. GET /v1/models lists the models it may.`,
      param: "model",
    });
  }

  /** What a request must pass that gets an earlier one's answer: it is admitted, and counts, as a request of its own. `undefined` where nothing is limited. */
  async replay({
    request,
    endpoint,
    model,
  }: Pick<Asked, "request" | "endpoint" | "model">): Promise<ReplayAnswer | undefined> {
    this.modelFor(request, model);
    try {
      return await this.#options.limits.admitReplay(request.caller, endpoint.dialect);
    } catch {
      throw new Refused(unavailable);
    }
  }

  /** Refuses a request before its body is read, where its caller's limits refuse any. `undefined` where nothing is limited, or Redis does not answer. */
  look(
    { caller }: FastifyRequest,
    { dialect, operation }: Endpoint,
    mayReplay: boolean,
  ): Promise<ReplayAnswer | undefined> | undefined {
    return this.#options.limits.look(caller, dialect, operation, mayReplay)?.catch(() => undefined);
  }

  /** Takes over the response, and what the request holds for its body. */
  begin(asked: Asked): void {
    const { request, requestId, framing, bytes, response } = asked;
    const { catalogue, generations, generationIdOf, isDraining } = this.#options;
    const { dialect, operation } = asked.endpoint;
    const model = this.modelFor(request, asked.model);
    const { url, headers } = request;
    const begun = generations.begin(
      {
        id: generationIdOf(requestId),
        caller: request.caller,
        dialect,
        operation,
        framing,
        contentType: operation === "image-edit" ? contentTypeOf(headers) : "application/json",
        callerHeaders: callerHeadersOf(dialect, headers),
        model,
        ...asked.demand,
        queue: catalogue().queues.get(model.queue) ?? { waitingMax: 0, waitMs: 0 },
        maxWaitMs: maxWaitMsOf(headers),
        weight: catalogue().groups.get(request.caller.group)?.weight ?? 1,
        held: request.held,
        response,
        over: asked.over,
        requestId,
        headers: {
          ...requestIdHeadersOf({ id: requestId, url, headers }),
          ...(isDraining() && { connection: "close" }),
        },
      },
      bytes,
    );
    if (begun.kind === "refused") throw new Refused(begun.failure);
  }
}

/** Throws Refused for one that no client sends. */
function contentTypeOf({ "content-type": type = "" }: IncomingHttpHeaders): string {
  if (type.length <= contentTypeLengthMax) return type;
  throw new Refused({
    code: "unsupported_media_type",
    message: `The content type may have ${contentTypeLengthMax} characters at most.`,
  });
}

const maxWaitHeader = "x-sluice-max-wait";

/** How long a caller lets its request wait for a worker, in milliseconds. Throws Refused for what is no whole number from 1 to 999,999,999. */
function maxWaitMsOf(headers: IncomingHttpHeaders): number | undefined {
  const value = headers[maxWaitHeader];
  if (value === undefined) return undefined;
  if (typeof value === "string" && /^[1-9]\d{0,8}$/.test(value)) return Number(value);
  throw new Refused({
    code: "invalid_request",
    message: `The header ${maxWaitHeader} must be a whole number of milliseconds from 1 to 999999999, such as 2500.`,
    param: maxWaitHeader,
  });
}
