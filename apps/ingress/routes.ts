/** The endpoints for callers. */
import type { FastifyInstance, FastifyRequest } from "fastify";
import { allowsModel } from "#access/record.ts";
import type { Catalogue, CatalogueModel } from "#catalogue/catalogue.ts";
import { type ChatRequest, chatRequestSchema } from "#wire/openai-chat/request.ts";
import type { Generations } from "./generations.ts";
import { type BodyBudget, Refused } from "./requests.ts";

export interface RoutesOptions {
  catalogue(): Catalogue;
  generations: Generations;
  budget: BodyBudget;
  /** The generation's id that goes with a request's. */
  generationIdOf(requestId: string): string;
  isDraining(): boolean;
}

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

  server.post<{ Body: ChatRequest }>("/v1/chat/completions", { schema: { body: chatRequestSchema } }, (request, reply) => {
    const { model: id, stream } = request.body;
    const model = modelFor(request, id);
    const { bytes } = request;
    const begun = generations.begin(
      {
        id: generationIdOf(request.id),
        caller: request.caller,
        dialect: "openai-chat",
        model,
        lane: catalogue().lanes.get(model.lane) ?? { waitingMax: 0, waitMs: 0 },
        streams: stream === true,
        response: reply.raw,
        headers: { "x-request-id": request.id, ...(isDraining() && { connection: "close" }) },
      },
      bytes,
    );
    if (begun.kind === "refused") throw new Refused(begun.failure);
    budget.giveBack(request.budgetedBytes - bytes.length);
    forgetBody(request);
    request.isGeneration = true;
    reply.hijack();
  });

  server.get("/v1/models", (request) => ({
    object: "list",
    data: catalogue()
      .modelsOf(request.caller.group)
      .filter(({ id }) => allowsModel(request.caller, id))
      .map(listedOf),
  }));

  server.get<{ Params: { "*": string } }>("/v1/models/*", (request) => listedOf(modelFor(request, request.params["*"])));
}

/** The request lives as long as its answer does; its body is not needed for that long, and belongs to the generation now. */
function forgetBody(request: FastifyRequest): void {
  request.budgetedBytes = 0;
  request.bytes = noBytes;
  request.body = undefined;
}

const noBytes = Buffer.alloc(0);

/** A model as OpenAI's list shows it (https://platform.openai.com/docs/api-reference/models/object). */
const listedOf = ({ id, created, ownedBy }: CatalogueModel) => ({ id, object: "model", created, owned_by: ownedBy });
