/** The HTTP routes for callers. */

import type { ServerResponse } from "node:http";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { allowsModel } from "#access/record.ts";
import type { Catalogue, CatalogueModel } from "#catalogue/catalogue.ts";
import { firstTargetOf, offerOf, offersOf } from "#catalogue/offers.ts";
import type { ConversationDialect } from "#dialects/dialect.ts";
import { profiles } from "#dialects/profiles.ts";
import type { GenerationOutcome } from "#events/ingress-events.ts";
import { isForm } from "#operations/operations.ts";
import { printable } from "#wire/json/bounds.ts";
import type { Admission } from "../admission/admission.ts";
import type { GenerationRequest } from "../admission/generation-request.ts";
import type { DetachedGenerations } from "../background/detached.ts";
import type { ResumableStreams } from "../background/resumable.ts";
import {
  dialectOf,
  endpoints,
  googleVersions,
  modelCallOf,
  requestIdHeadersOf,
  responses,
  type ServedEndpoint,
} from "../common/endpoints.ts";
import { pathNotFoundOf } from "../common/failures.ts";
import { labelsOf } from "../common/labels.ts";
import { invalidRequest, Refusal, type Result, valueOrThrow } from "../common/refusal.ts";
import { unsupportedPartOf } from "../common/unsupported-paths.ts";
import { servedBodyOf, servedPathOf } from "../common/vendor-paths.ts";
import type { GenerationLifecycle } from "../generation/lifecycle.ts";
import { fingerprintOf, type Idempotency, nameOf } from "../idempotency/idempotency.ts";
import { type BodyReader, isReadAtOnce } from "../request/body-reader.ts";
import type { SessionSource } from "../request/session.ts";
import type { SharedResponse } from "../response/shared-response.ts";
import { noBytes, type RequestBodies } from "../server/request-bodies.ts";
import type { AttachedFiles } from "../stored/attached-files.ts";
import type { ResolvedBody, Storing } from "../stored/storing.ts";

export interface RoutesOptions {
  catalogue(): Catalogue;
  admission: Admission;
  generations: GenerationLifecycle;
  idempotency: Idempotency;
  bodies: RequestBodies;
  reader: BodyReader;
  storing: Storing;
  detached: DetachedGenerations;
  resumable: ResumableStreams;
  /** Undefined where callers cannot upload files. */
  files: AttachedFiles | undefined;
}

/** The model and the method in a Google path, separated by a colon. */
interface ModelCall {
  model: string;
  method: string;
}

interface Post {
  endpoint: ServedEndpoint;
  resolved: ResolvedBody;
  call: Partial<ModelCall> | undefined;
}

/** Returns the steps that the routes share. */
export function addRoutes(server: FastifyInstance, options: RoutesOptions): GenerationRoutes {
  const posts = new GenerationRoutes(options);
  const serve = (scope: FastifyInstance, { forms }: { forms: boolean }) => {
    for (const endpoint of endpoints.values())
      if (endpoint.path !== undefined && isForm(endpoint.operation) === forms)
        scope.post(
          endpoint.path,
          { onRequest: (request, _reply, done) => posts.checkEarly(request, endpoint, done) },
          (request, reply) => posts.handle(request, reply, endpoint),
        );
  };
  serve(server, { forms: false });
  server.register(async (scope) => {
    options.bodies.takeForms(scope);
    serve(scope, { forms: true });
  });
  for (const version of googleVersions) {
    server.post(
      `/${version}/models/*`,
      { onRequest: (request, reply, done) => posts.checkEarly(request, methodOf(request, reply).endpoint, done) },
      (request, reply) => {
        const { endpoint, ...call } = methodOf(request, reply);
        return posts.handle(request, reply, endpoint, call);
      },
    );
    addModelRoutes(server, version, options);
  }
  return posts;
}

function addModelRoutes(server: FastifyInstance, version: string, { catalogue, admission }: RoutesOptions): void {
  const withTarget = (model: CatalogueModel) => ({
    ...model,
    targetOf: (dialect: ConversationDialect) => firstTargetOf(catalogue(), model, dialect),
  });
  const modelsOf = ({ caller }: FastifyRequest) => {
    const current = catalogue();
    const isPublic = current.publicGroup !== undefined;
    const models = isPublic ? [...offersOf(current, caller.group).values()] : current.modelsOf(caller.group);
    return models.filter(({ id }) => allowsModel(caller, id)).map(withTarget);
  };
  const withOffer = (model: CatalogueModel, group: string): CatalogueModel =>
    catalogue().publicGroup === undefined ? model : offerOf(catalogue(), group, model);
  server.get(`/${version}/models`, (request) =>
    profiles[dialectOf(request.url, request.headers)].modelListOf(
      modelsOf(request),
      new URLSearchParams(request.url.split("?", 2)[1] ?? ""),
    ),
  );
  server.get<{ Params: { "*": string } }>(`/${version}/models/*`, (request) => {
    const { "*": model } = request.params;
    if (model === "") throw new Refusal(pathNotFoundOf(request, `/${version}/models`));
    const offer = withOffer(valueOrThrow(admission.modelFor(request, model)), request.caller.group);
    return profiles[dialectOf(request.url, request.headers)].modelBodyOf(withTarget(offer));
  });
}

/** The steps of every POST route, in this order: checkEarly, handle. */
export class GenerationRoutes {
  readonly #options: RoutesOptions;

  constructor(options: RoutesOptions) {
    this.#options = options;
  }

  /**
   * Before a large body is requested or read: refuses a caller whose limits would refuse every
   * request. Calls `done` unless it returns a promise.
   */
  checkEarly(request: FastifyRequest, endpoint: ServedEndpoint, done: () => void): Promise<void> | undefined {
    const { admission, idempotency } = this.#options;
    const { headers } = request;
    const length =
      headers["transfer-encoding"] === undefined ? Number(headers["content-length"] ?? 0) : Number.POSITIVE_INFINITY;
    const isFree = isReadAtOnce({ length }) || request.batchLine?.vendorBatch?.answeredBy !== undefined;
    const checked = isFree
      ? undefined
      : admission.check(request, endpoint, { mayReplay: idempotency.concerns(request) });
    if (checked === undefined) done();
    return checked?.then((result) => void valueOrThrow(result));
  }

  /** Reads the body, a small one in this turn of the event loop, and begins the generation. */
  handle(
    request: FastifyRequest,
    reply: FastifyReply,
    endpoint: ServedEndpoint,
    call?: ModelCall,
  ): Promise<void> | undefined {
    const served = request.originalUrl === request.url ? undefined : servedPathOf(request.originalUrl);
    const contentType = isForm(endpoint.operation) ? request.headers["content-type"] : undefined;
    if (served !== undefined) request.bytes = servedBodyOf(request.bytes, served, contentType);
    const { files } = this.#options;
    const post = { endpoint, contentType, call: call ?? served };
    if (!files?.concerns(request, endpoint)) return this.#resolve(request, reply, post);
    return request.bodyClaim.during(files.bodyOf(request)).then((bytes) => {
      request.bytes = valueOrThrow(bytes);
      return this.#resolve(request, reply, post);
    });
  }

  #resolve(
    request: FastifyRequest,
    reply: FastifyReply,
    { endpoint, contentType, call }: Omit<Post, "resolved"> & { contentType: string | undefined },
  ): Promise<void> | undefined {
    const form = contentType === undefined ? undefined : { contentType, model: call?.model };
    const read = this.#options.reader.read(endpoint, request.bytes, { key: request.caller.id, form });
    const resolved = this.#options.storing.resolve(request, endpoint, request.bytes, read);
    const begin = (result: Result<ResolvedBody>) => {
      const body = valueOrThrow(result);
      return endpoint === responses && body.body.background === true
        ? this.#answerInBackground(request, reply, body)
        : this.#begin(request, reply, { endpoint, resolved: body, call });
    };
    return resolved instanceof Promise ? request.bodyClaim.during(resolved).then(begin) : begin(resolved);
  }

  async #answerInBackground(request: FastifyRequest, reply: FastifyReply, resolved: ResolvedBody): Promise<void> {
    const live = resolved.body.stream === true ? reply.raw : undefined;
    const response = await this.beginBackground(request, reply, resolved, live);
    if (response !== undefined) reply.type("application/json").send(response);
  }

  /**
   * Begins a response in the background. A stream is answered to `live`; otherwise resolves to the
   * JSON of the response so far. Rejects with Refusal.
   */
  async beginBackground(
    request: FastifyRequest,
    reply: FastifyReply,
    resolved: ResolvedBody,
    live: ServerResponse | undefined,
  ): Promise<Buffer | undefined> {
    const { storing, detached, admission, resumable } = this.#options;
    const { body } = resolved;
    const owner = storing.ownerOf(request);
    if (owner === undefined || body.store === false) throw new Refusal(backgroundStores);
    if (resolved.expansion?.compacts !== undefined) throw new Refusal(noBackgroundCompaction);
    const limits = valueOrThrow(await admission.check(request, responses, { mayReplay: false }))?.headers;
    for (const [name, value] of Object.entries({ ...requestIdHeadersOf(request), ...limits }))
      live?.setHeader(name, value);
    const own = { name: valueOrThrow(nameOf(request)), fingerprint: fingerprintOf(request) };
    const source = { request, owner, endpoint: responses, resolved, live, ...own };
    const { id, isNew } = valueOrThrow(await detached.beginBackground(source));
    request.isGeneration = isNew;
    if (live !== undefined && isNew) reply.hijack();
    else if (live !== undefined) {
      live.setHeader("idempotent-replayed", "true");
      valueOrThrow(await resumable.follow(request, reply, { owner, id, after: -1 }));
    } else {
      const { response } = valueOrThrow(await storing.responses.find(owner, id));
      if (!isNew) reply.header("idempotent-replayed", "true");
      if (limits !== undefined) reply.headers(limits);
      return response;
    }
    return undefined;
  }

  #begin(request: FastifyRequest, reply: FastifyReply, { endpoint, resolved, call }: Post): Promise<void> | undefined {
    const { admission, generations, idempotency, storing, resumable } = this.#options;
    const { body, demand, bytes } = resolved;
    const model = call?.model ?? String(body.model ?? endpoint.modelDefault);
    // https://cloud.google.com/apis/docs/system-parameters
    const { alt, $alt = alt } = request.query as { alt?: string; $alt?: string };
    const framing = (endpoint.framingOf ?? profiles[endpoint.dialect].framingOf)(body, call?.method, $alt);
    const replay = () => admission.replay({ request, endpoint, model, response: reply.raw });
    if (resumable.concerns(request, endpoint, framing) && resolved.expansion?.compacts === undefined)
      return resumable.serve({ request, reply, endpoint, resolved, model, replay }).then(valueOrThrow);
    const begin = (idempotency?: SharedResponse, onEnd?: (outcome: GenerationOutcome) => void) => {
      const { layers, ...answer } = storing.answered(request, endpoint, resolved, { framing });
      const response = { sink: reply.raw, idempotency, ...layers };
      const refusal = generations.begin(
        {
          http: request,
          requestId: request.id,
          endpoint,
          model,
          demand,
          bytes,
          labels: labelsOf(request.caller, request.headers, body),
          ...answer,
          ...lineOf(request),
          layers: response,
          onEnd,
        },
        resolved,
      );
      request.isGeneration = refusal === undefined;
      return refusal;
    };
    const takeOver = (refusal: Refusal | undefined) => {
      valueOrThrow(refusal);
      request.bytes = noBytes;
      reply.hijack();
    };
    if (idempotency.concerns(request)) return idempotency.serve(request, reply.raw, begin, replay).then(takeOver);
    takeOver(begin());
    return undefined;
  }
}

/** The place of a batch's line in the ledger; nothing for another request. */
const lineOf = ({ batchLine }: FastifyRequest) =>
  batchLine && {
    batch: batchLine.batch,
    earlier: batchLine,
    receivedAt: batchLine.receivedAt,
    vendorBatch: batchLine.vendorBatch,
  };

/** Begins the answer to a POST. */
export function beginAnswer(
  generations: GenerationLifecycle,
  http: FastifyRequest,
  reply: FastifyReply,
  { source, ...request }: Omit<GenerationRequest, "http" | "requestId"> & { source: SessionSource },
): undefined {
  valueOrThrow(generations.begin({ http, requestId: http.id, ...request }, source));
  http.isGeneration = true;
  reply.hijack();
}

const noBackgroundCompaction = invalidRequest(
  "A conversation is not compacted in the background: send the request without 'background'.",
  "background",
);
const backgroundStores = invalidRequest(
  "'background' needs stored responses: leave 'store' out or set it to true, and use a key of a group that stores responses.",
  "background",
);

/** The model, the method and the endpoint of a POST below a model's path. */
function methodOf({ params }: FastifyRequest, reply: FastifyReply): ModelCall & { endpoint: ServedEndpoint } {
  const call = modelCallOf((params as { "*": string })["*"]);
  if (call === undefined) {
    reply.header("allow", "GET, HEAD");
    throw new Refusal({ code: "method_not_allowed", message: "POST is not allowed here; use GET or HEAD." });
  }
  const endpoint = endpoints.get(call.method);
  if (endpoint?.method !== undefined) return { ...call, endpoint };
  const methods = [...endpoints.values()].flatMap(({ method = [] }) => method).join(", ");
  const advice = unsupportedPartOf(`:${call.method}`, "gemini");
  throw new Refusal({
    code: "path_not_found",
    message: `There is no method '${printable(call.method)}' here; use one of ${methods}.${advice === undefined ? "" : ` ${advice}`}`,
  });
}
