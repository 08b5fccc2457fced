/**
 * The endpoints of Ollama's API: https://docs.ollama.com/api. Its requests become chat completions
 * and requests for embeddings before they are admitted, and the answers are translated as they are
 * written, so nothing else knows this format.
 */

import { hash } from "node:crypto";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import Type from "typebox";
import { allowsModel } from "#access/record.ts";
import type { Catalogue } from "#catalogue/catalogue.ts";
import { type ListedModel, timeTextOf } from "#dialects/profile.ts";
import { name, when } from "#dialects/request-schema/schema-parts.ts";
import type { Clock } from "#service/clock.ts";
import type { Admission } from "../admission/admission.ts";
import type { Capacity } from "../common/capacity.ts";
import { endpoints, type ServedEndpoint } from "../common/endpoints.ts";
import { labelsOf } from "../common/labels.ts";
import { valueOrThrow } from "../common/refusal.ts";
import type { GenerationLifecycle } from "../generation/lifecycle.ts";
import { readObject } from "../request/body.ts";
import type { BodyReader } from "../request/body-reader.ts";
import { type ModelPath, modelIdOf, modelPaths } from "../request/ollama.ts";
import { OllamaAnswer, ollamaTranslationOf } from "../response/ollama-answer.ts";
import { noBytes, type RequestBodies } from "../server/request-bodies.ts";
import { beginAnswer, type GenerationRoutes } from "./generations.ts";

export interface OllamaRoutesOptions {
  catalogue(): Catalogue;
  admission: Admission;
  generations: GenerationLifecycle;
  bodies: RequestBodies;
  reader: BodyReader;
  clock: Clock;
  /** Bytes of whole answers that wait for their end. */
  recorded: Capacity;
}

/** The version of Ollama's API that is served; some clients refuse older ones. */
const version = "0.12.0";

const showSchema = Type.Object(
  { model: Type.Optional(name), name: Type.Optional(name) },
  when({ not: { required: ["name"] } }, "model"),
);

const chat = endpoints.get("/v1/chat/completions") as ServedEndpoint;
const embeddings = endpoints.get("/v1/embeddings") as ServedEndpoint;
const endpointOf = (path: ModelPath) => (path === "/api/chat" || path === "/api/generate" ? chat : embeddings);

/**
 * Bodies are JSON whatever their type says, because Ollama does not look at it, and its examples
 * send none with curl: https://github.com/ollama/ollama/blob/main/docs/api.md
 */
export function addOllamaRoutes(
  server: FastifyInstance,
  options: OllamaRoutesOptions,
  posts: Pick<GenerationRoutes, "checkEarly">,
): void {
  server.register(async (scope) => {
    options.bodies.takeAnyType(scope);
    serve(scope, options, posts);
  });
}

function serve(
  server: FastifyInstance,
  options: OllamaRoutesOptions,
  posts: Pick<GenerationRoutes, "checkEarly">,
): void {
  const { catalogue, admission } = options;
  for (const path of modelPaths)
    server.post(
      path,
      { onRequest: (request, _reply, done) => posts.checkEarly(request, endpointOf(path), done) },
      (request, reply) => begin(options, path, request, reply),
    );
  server.get("/", (_request, reply) => reply.type("text/plain").send("Ollama is running"));
  server.get("/api/version", () => ({ version }));
  server.get("/api/ps", () => ({ models: [] }));
  server.get("/api/tags", ({ caller }) =>
    modelListOf(
      catalogue()
        .modelsOf(caller.group)
        .filter(({ id }) => allowsModel(caller, id)),
    ),
  );
  server.post("/api/show", (request) => {
    const body = valueOrThrow(readObject(request.bytes, showSchema));
    return modelDetailsOf(valueOrThrow(admission.modelFor(request, modelIdOf(String(body.model ?? body.name)))));
  });
}

async function begin(
  { admission, generations, bodies, reader, clock, recorded }: OllamaRoutesOptions,
  path: ModelPath,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<unknown> {
  const { caller, bodyClaim } = request;
  const key = caller.id;
  const ollamaRequest = valueOrThrow(await bodyClaim.during(reader.readOllama(path, request.bytes, key)));
  request.bytes = noBytes;
  const { model, bytes } = ollamaRequest;
  const answer = new OllamaAnswer({ path, ...ollamaRequest, now: () => clock.now(), epoch: () => clock.epoch() });
  if (bytes === undefined) {
    valueOrThrow(admission.modelFor(request, modelIdOf(model)));
    return answer.loaded(ollamaRequest.loads);
  }
  valueOrThrow(bodies.reserve(request, bytes.length));
  const endpoint = endpointOf(path);
  const source = valueOrThrow(await bodyClaim.during(Promise.resolve(reader.read(endpoint, bytes, { key }))));
  const { streams } = ollamaRequest;
  const translation = { translation: ollamaTranslationOf(answer), streams, claim: recorded.claim(key) };
  return beginAnswer(generations, request, reply, {
    labels: labelsOf(caller, request.headers),
    endpoint,
    model: modelIdOf(model),
    framing: streams ? "sse" : "whole",
    demand: source.demand,
    source,
    bytes,
    layers: { sink: reply.raw, translation },
  });
}

/** Ollama's names of the catalogue's capabilities. */
const capabilityNames: Record<string, string> = {
  tools: "tools",
  vision: "vision",
  reasoning: "thinking",
  embedding: "embedding",
};

/** Fields that describe a file with a model, which a gateway has not. */
const detailsOf = ({ ownedBy }: ListedModel) => ({
  parent_model: "",
  format: "",
  family: ownedBy,
  families: [ownedBy],
  parameter_size: "",
  quantization_level: "",
});

const modelListOf = (models: readonly ListedModel[]): object => ({
  models: models.map((model) => ({
    name: model.id,
    model: model.id,
    modified_at: timeTextOf(model.created),
    size: 0,
    digest: hash("sha256", model.id),
    details: detailsOf(model),
  })),
});

function modelDetailsOf(model: ListedModel): object {
  const named = model.capabilities.flatMap((capability) => capabilityNames[capability] ?? []);
  return {
    license: "",
    modelfile: "",
    parameters: "",
    template: "",
    details: detailsOf(model),
    model_info: {
      "general.architecture": model.ownedBy,
      ...(model.contextWindow !== undefined && { [`${model.ownedBy}.context_length`]: model.contextWindow }),
    },
    capabilities: named.includes("embedding") ? named : ["completion", ...named],
    modified_at: timeTextOf(model.created),
  };
}
