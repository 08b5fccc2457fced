/** The endpoints for callers. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { allowsModel } from "#access/record.ts";
import type { Catalogue } from "#catalogue/catalogue.ts";
import type { Admission } from "../admission/admission.ts";
import type { ReplayAnswer } from "../admission/rate-limits.ts";
import type { AnswerResponse } from "../generation/generation-response.ts";
import type { Idempotency } from "../idempotency/idempotency.ts";
import type { BodyRead, ReadBody } from "./body.ts";
import { type BodyReader, isReadAtOnce } from "./body-reader.ts";
import {
  dialectOf,
  type Endpoint,
  endpoints,
  formEndpoints,
  framingOf,
  googleVersions,
  modelCallOf,
  modelMethods,
} from "./endpoints.ts";
import { modelBodyOf, modelListOf } from "./models.ts";
import { noBytes, Refused } from "./requests.ts";

export interface RoutesOptions {
  catalogue(): Catalogue;
  admission: Admission;
  idempotency: Idempotency;
  bodies: BodyReader;
}

export function addRoutes(server: FastifyInstance, { catalogue, admission, idempotency, bodies }: RoutesOptions): void {
  const begin = (
    request: FastifyRequest,
    reply: FastifyReply,
    endpoint: Endpoint,
    read: BodyRead<ReadBody>,
    google?: { model: string; method: string },
  ): Promise<void> | undefined => {
    if (read.kind === "refused") throw new Refused(read.failure);
    const { body, demand } = read.value;
    const model = google?.model ?? String(body.model);
    const framing = framingOf(body, google?.method, (request.query as { alt?: string }).alt);
    const start = (response: AnswerResponse, over?: (outcome: string) => void) => {
      admission.begin({
        request,
        requestId: request.id,
        endpoint,
        model,
        framing,
        demand,
        bytes: request.bytes,
        response,
        over,
      });
      request.isGeneration = true;
    };
    const begun = () => {
      request.bytes = noBytes;
      reply.hijack();
    };
    const replay = async () => admittedHeadersOf(await admission.replay({ request, endpoint, model }), reply);
    if (idempotency.concerns(request)) return idempotency.serve(request, reply.raw, start, replay).then(begun);
    start(reply.raw);
    begun();
    return undefined;
  };

  /** Before a large body is asked for, or read: what is refused without a look into it is refused now. */
  const look = async (request: FastifyRequest, reply: FastifyReply, endpoint: Endpoint) => {
    const { headers } = request;
    const length =
      headers["transfer-encoding"] === undefined ? Number(headers["content-length"] ?? 0) : Number.POSITIVE_INFINITY;
    if (!isReadAtOnce({ length }))
      admittedHeadersOf(await admission.look(request, endpoint, idempotency.concerns(request)), reply);
  };

  /** Small bodies are read at once, in the same turn of the event loop. */
  const handle = (
    request: FastifyRequest,
    reply: FastifyReply,
    endpoint: Endpoint,
    google?: { model: string; method: string },
  ) => {
    const contentType = endpoint.operation === "image-edit" ? request.headers["content-type"] : undefined;
    const read = bodies.read(endpoint, request.bytes, { key: request.caller.id, contentType });
    return read instanceof Promise
      ? request.held.during(read).then((settled) => begin(request, reply, endpoint, settled, google))
      : begin(request, reply, endpoint, read, google);
  };

  const serve = (scope: FastifyInstance, served: Record<string, Endpoint>) => {
    for (const [url, endpoint] of Object.entries(served))
      scope.post(url, { onRequest: (request, reply) => look(request, reply, endpoint) }, (request, reply) =>
        handle(request, reply, endpoint),
      );
  };
  serve(server, endpoints);
  server.register(async (scope) => {
    server.readForms(scope);
    serve(scope, formEndpoints);
  });

  for (const version of googleVersions)
    server.post(
      `/${version}/models/*`,
      { onRequest: async (request, reply) => look(request, reply, methodOf(request, reply).endpoint) },
      (request, reply) => {
        const { endpoint, ...google } = methodOf(request, reply);
        return handle(request, reply, endpoint, google);
      },
    );

  const modelsOf = (request: FastifyRequest) =>
    catalogue()
      .modelsOf(request.caller.group)
      .filter(({ id }) => allowsModel(request.caller, id));

  for (const version of googleVersions) {
    server.get(`/${version}/models`, (request) =>
      modelListOf(
        dialectOf(request.url, request.headers),
        modelsOf(request),
        new URLSearchParams(request.url.split("?", 2)[1] ?? ""),
      ),
    );
    server.get<{ Params: { "*": string } }>(`/${version}/models/*`, (request) =>
      modelBodyOf(dialectOf(request.url, request.headers), admission.modelFor(request, request.params["*"])),
    );
  }
}

/** How its caller's limits stand that admit a request; throws Refused, and sets the same headers, where they don't. */
function admittedHeadersOf(answer: ReplayAnswer | undefined, reply: FastifyReply): Record<string, string> {
  if (answer?.kind !== "refused") return answer?.headers ?? {};
  reply.headers(answer.headers);
  throw new Refused(answer.failure);
}

/** What a POST below a model's path asks for. */
function methodOf(
  { params }: FastifyRequest,
  reply: FastifyReply,
): { model: string; method: string; endpoint: Endpoint } {
  const call = modelCallOf((params as { "*": string })["*"]);
  if (call === undefined) {
    reply.header("allow", "GET, HEAD");
    throw new Refused({ code: "method_not_allowed", message: "POST is not allowed here; use GET or HEAD." });
  }
  const endpoint = Object.hasOwn(modelMethods, call.method) ? modelMethods[call.method] : undefined;
  if (endpoint !== undefined) return { ...call, endpoint };
  throw new Refused({
    code: "path_not_found",
    message: `Models have no such method here, but ${Object.keys(modelMethods).join(", ")}.`,
  });
}
