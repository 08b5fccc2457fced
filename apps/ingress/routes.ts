/** The endpoints for callers. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { allowsModel } from "#access/record.ts";
import type { Catalogue, CatalogueModel } from "#catalogue/catalogue.ts";
import {
  callerHeadersOf,
  dialectOf,
  type Endpoint,
  endpoints,
  formEndpoints,
  framingOf,
  googleVersions,
  modelCallOf,
  modelMethods,
  requestIdHeadersOf,
} from "./endpoints.ts";
import { invalidFieldOf, type ValidationFault } from "./failures.ts";
import type { Generations } from "./generations.ts";
import { modelBodyOf, modelListOf } from "./models.ts";
import { type BodyBudget, Refused } from "./requests.ts";

export interface RoutesOptions {
  catalogue(): Catalogue;
  generations: Generations;
  budget: BodyBudget;
  /** The generation's id that goes with a request's. */
  generationIdOf(requestId: string): string;
  isDraining(): boolean;
}

type Body = Record<string, unknown>;

export function addRoutes(server: FastifyInstance, { catalogue, generations, budget, generationIdOf, isDraining }: RoutesOptions): void {
  /** The same answer for a model that does not exist and for one that is not the caller's. */
  const modelFor = ({ caller }: FastifyRequest, id: string): CatalogueModel => {
    const model = allowsModel(caller, id) ? catalogue().modelFor(caller.group, id) : undefined;
    if (model !== undefined) return model;
    throw new Refused({
      code: "model_not_found",
      message: `The model ${JSON.stringify(id)} does not exist, or this key may not use it. GET /v1/models lists the models it may.`,
      param: "model",
    });
  };

  const begin = (request: FastifyRequest, reply: FastifyReply, { dialect, operation, faultOf }: Endpoint, id: string, method?: string): void => {
    const body = request.body as Body;
    const fault = faultOf?.(body);
    if (fault !== undefined) throw new Refused(fault);
    const model = modelFor(request, id);
    const { bytes } = request;
    const begun = generations.begin(
      {
        id: generationIdOf(request.id),
        caller: request.caller,
        dialect,
        operation,
        framing: framingOf(body, method, (request.query as { alt?: string }).alt),
        contentType: operation === "image-edit" ? String(request.headers["content-type"]) : "application/json",
        callerHeaders: callerHeadersOf(dialect, request.headers),
        model,
        lane: catalogue().lanes.get(model.lane) ?? { waitingMax: 0, waitMs: 0 },
        response: reply.raw,
        requestId: request.id,
        headers: { ...requestIdHeadersOf(request), ...(isDraining() && { connection: "close" }) },
      },
      bytes,
    );
    if (begun.kind === "refused") throw new Refused(begun.failure);
    budget.giveBack(request.budgetedBytes - bytes.length);
    forgetBody(request);
    request.isGeneration = true;
    reply.hijack();
  };

  const serve = (scope: FastifyInstance, served: Record<string, Endpoint>) => {
    for (const [url, endpoint] of Object.entries(served))
      scope.post<{ Body: Body }>(url, { schema: { body: endpoint.schema } }, (request, reply) => begin(request, reply, endpoint, String(request.body.model)));
  };
  serve(server, endpoints);
  server.register(async (scope) => {
    server.readForms(scope);
    serve(scope, formEndpoints);
  });

  for (const version of googleVersions)
    server.post(`/${version}/models/*`, { onRequest: async (request, reply) => void methodOf(request, reply) }, (request, reply) => {
      const { model, method, endpoint } = methodOf(request, reply);
      const isValid = request.compileValidationSchema(endpoint.schema as unknown as Record<string, unknown>);
      if (!isValid(request.body)) throw new Refused(invalidFieldOf((isValid.errors?.[0] ?? {}) as ValidationFault));
      begin(request, reply, endpoint, model, method);
    });

  const modelsOf = (request: FastifyRequest) =>
    catalogue()
      .modelsOf(request.caller.group)
      .filter(({ id }) => allowsModel(request.caller, id));

  for (const version of googleVersions) {
    server.get(`/${version}/models`, (request) =>
      modelListOf(dialectOf(request.url, request.headers), modelsOf(request), new URLSearchParams(request.url.split("?", 2)[1] ?? "")),
    );
    server.get<{ Params: { "*": string } }>(`/${version}/models/*`, (request) =>
      modelBodyOf(dialectOf(request.url, request.headers), modelFor(request, request.params["*"])),
    );
  }
}

/** What a POST below a model's path asks for. */
function methodOf({ params }: FastifyRequest, reply: FastifyReply): { model: string; method: string; endpoint: Endpoint } {
  const call = modelCallOf((params as { "*": string })["*"]);
  if (call === undefined) {
    reply.header("allow", "GET, HEAD");
    throw new Refused({ code: "method_not_allowed", message: "POST is not allowed here; use GET or HEAD." });
  }
  const endpoint = Object.hasOwn(modelMethods, call.method) ? modelMethods[call.method] : undefined;
  if (endpoint !== undefined) return { ...call, endpoint };
  throw new Refused({ code: "path_not_found", message: `Models have no such method here, but ${Object.keys(modelMethods).join(", ")}.` });
}

/** The request lives as long as its answer does; its body is not needed for that long, and belongs to the generation now. */
function forgetBody(request: FastifyRequest): void {
  request.budgetedBytes = 0;
  request.bytes = noBytes;
  request.body = undefined;
}

const noBytes = Buffer.alloc(0);
