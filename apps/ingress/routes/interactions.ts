/**
 * Gemini's Interactions API: https://ai.google.dev/api/interactions-api. Its requests become
 * requests for OpenAI's Responses before they are admitted, and the answers are translated as they
 * are written, so storage, routing, limits and prices are those of Responses.
 */

import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { contentTypes } from "#dialects/codec.ts";
import { geminiProfile } from "#dialects/gemini/profile.ts";
import { elementsOf } from "#dialects/openai-responses/stored-references.ts";
import { jsonOf, parsedObject } from "#wire/json/parse.ts";
import type { DetachedGenerations } from "../background/detached.ts";
import type { Capacity } from "../common/capacity.ts";
import { googleVersions, responses } from "../common/endpoints.ts";
import { labelsOf } from "../common/labels.ts";
import { invalidRequest, Refusal, valueOrThrow } from "../common/refusal.ts";
import type { GenerationLifecycle } from "../generation/lifecycle.ts";
import type { BodyReader } from "../request/body-reader.ts";
import { failureIn, InteractionStream, interactionOf, ownFailureOf } from "../response/interactions.ts";
import type { AnswerTranslation } from "../response/translated-response.ts";
import type { RequestBodies } from "../server/request-bodies.ts";
import type { Storing } from "../stored/storing.ts";
import { beginAnswer, type GenerationRoutes } from "./generations.ts";
import { ownerOf } from "./stored.ts";

export interface InteractionRoutesOptions {
  generations: GenerationLifecycle;
  bodies: RequestBodies;
  reader: BodyReader;
  storing: Storing;
  detached: DetachedGenerations;
  /** Bytes of whole answers that wait for their end. */
  recorded: Capacity;
}

type WithId = { Params: { id: string }; Querystring: { stream?: string; include_input?: string } };

export function addInteractionRoutes(
  server: FastifyInstance,
  options: InteractionRoutesOptions,
  posts: Pick<GenerationRoutes, "checkEarly" | "beginBackground">,
): void {
  const { storing, detached } = options;
  for (const version of googleVersions) {
    const path = `/${version}/interactions`;
    server.post(
      path,
      { onRequest: (request, _reply, done) => posts.checkEarly(request, responses, done) },
      (request, reply) => inOwnWords(() => begin(options, posts, request, reply)),
    );
    server.get<WithId>(`${path}/:id`, (request) =>
      inOwnWords(async () => {
        const { id } = request.params;
        if (request.query.stream === "true") throw new Refusal(notStreamed);
        const owner = ownerOf(request, storing, "Response");
        const { response } = valueOrThrow(await storing.responses.find(owner, id));
        const input = request.query.include_input === "true" ? await storing.responses.inputOf(owner, id) : undefined;
        return interactionOf(
          parsedObject(response) ?? {},
          input && elementsOf(input).map((item) => parsedObject(item) ?? {}),
        );
      }),
    );
    server.delete<WithId>(`${path}/:id`, (request) =>
      inOwnWords(async () => {
        valueOrThrow(await detached.remove(ownerOf(request, storing, "Response"), request.params.id));
        return {};
      }),
    );
    server.post<WithId>(`${path}/:id/cancel`, (request) =>
      inOwnWords(async () =>
        interactionOf(valueOrThrow(await detached.cancel(ownerOf(request, storing, "Response"), request.params.id))),
      ),
    );
  }
}

const notStreamed = invalidRequest("A stored interaction cannot be streamed: get it without 'stream'.", "stream");
const noBackgroundStream = invalidRequest(
  "An interaction in the background cannot be streamed: create it without 'stream', and poll it with GET.",
  "stream",
);

async function begin(
  { generations, bodies, reader, storing, recorded }: InteractionRoutesOptions,
  posts: Pick<GenerationRoutes, "beginBackground">,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<unknown> {
  const { caller, bodyClaim } = request;
  const key = caller.id;
  const { bytes, streams } = valueOrThrow(await bodyClaim.during(reader.readInteraction(request.bytes, key)));
  valueOrThrow(bodies.reserve(request, bytes.length));
  const reading = reader.read(responses, bytes, { key });
  const resolved = valueOrThrow(
    await bodyClaim.during(Promise.resolve(storing.resolve(request, responses, bytes, reading))),
  );
  if (resolved.body.background === true) {
    if (streams) throw new Refusal(noBackgroundStream);
    const response = await posts.beginBackground(request, reply, resolved, undefined);
    return interactionOf((response && parsedObject(response)) ?? {});
  }
  const framing = streams ? "sse" : "whole";
  const { layers, ...answer } = storing.answered(request, responses, resolved, { framing });
  const translated = { translation: translation(), streams, claim: recorded.claim(key) };
  const { body, demand } = resolved;
  return beginAnswer(generations, request, reply, {
    endpoint: responses,
    model: String(body.model),
    demand,
    source: resolved,
    bytes: resolved.bytes,
    labels: labelsOf(caller, request.headers, body),
    ...answer,
    layers: { sink: reply.raw, translation: translated, ...layers },
  });
}

function translation(): AnswerTranslation {
  const stream = new InteractionStream();
  return {
    streamType: contentTypes.sse,
    keepAlive: () => geminiProfile.keepAlive,
    textOf: (data) => stream.textOf(data),
    wholeOf(body) {
      const response = parsedObject(body);
      return response && jsonOf(interactionOf(response));
    },
    errorOf: (status, body) => geminiProfile.errorBodyOf(failureIn(parsedObject(body) ?? {}, status), ""),
    failureOf: (message) => geminiProfile.errorBodyOf({ code: "internal", message }, ""),
  };
}

/** Names in an error are those of the caller's request. */
async function inOwnWords<Value>(work: () => Promise<Value>): Promise<Value> {
  try {
    return await work();
  } catch (error) {
    throw error instanceof Refusal ? new Refusal(ownFailureOf(error.failure), error.headers) : error;
  }
}
