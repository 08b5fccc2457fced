/**
 * The routes to a caller's stored responses and conversations:
 * https://platform.openai.com/docs/api-reference/responses/get,
 * https://platform.openai.com/docs/api-reference/conversations
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import Type from "typebox";
import { conversationItem, responsesRequestSchema } from "#dialects/openai-responses/schema.ts";
import type { Clock } from "#service/clock.ts";
import { textOf } from "#wire/json/parse.ts";
import type { DetachedGenerations } from "../background/detached.ts";
import type { LogFollower } from "../background/log-follower.ts";
import { conversationBodyBytesMax } from "../common/bounds.ts";
import { type Item, inputItemsIn, listIn, pageOf, shownOf, valueIn } from "../common/items.ts";
import { invalidRequest, Refusal, valueOrThrow } from "../common/refusal.ts";
import { readObject } from "../request/body.ts";
import type { Conversation } from "../stored/conversations.ts";
import { notFoundOf, repeatedItem, storesNothing } from "../stored/not-found.ts";
import type { StoreOwner } from "../stored/sealed-store.ts";
import type { Storing } from "../stored/storing.ts";

const { metadata } = responsesRequestSchema.properties;
/**
 * Items of one request, at most:
 * https://platform.openai.com/docs/api-reference/conversations/create
 */
const itemsPerRequestMax = 20;
const items = Type.Unsafe<unknown[]>({
  type: ["array", "null"],
  items: conversationItem,
  maxItems: itemsPerRequestMax,
});
const creationSchema = Type.Object({ items: Type.Optional(items), metadata });
const updateSchema = Type.Required(Type.Object({ metadata }));
const itemsSchema = Type.Object({ items });

type WithId = { Params: { id: string } };
type WithItem = { Params: { id: string; item: string } };

export interface StoredRoutesOptions {
  storing: Storing;
  detached: DetachedGenerations;
  follower: LogFollower;
  clock: Clock;
}

export function addStoredRoutes(
  server: FastifyInstance,
  { storing, detached, follower, clock }: StoredRoutesOptions,
): void {
  addResponseRoutes(server, { storing, detached, follower });
  addConversationRoutes(server, storing, clock);
}

function addResponseRoutes(
  server: FastifyInstance,
  { storing, detached, follower }: Omit<StoredRoutesOptions, "clock">,
): void {
  const { responses } = storing;
  server.get<WithId>("/v1/responses/:id", async (request, reply) => {
    const owner = ownerOf(request, storing, "Response");
    const { id } = request.params;
    const { response } = valueOrThrow(await responses.find(owner, id));
    const { stream, starting_after: after } = request.query as { stream?: string; starting_after?: string };
    if (stream !== "true") return sendJson(reply, response);
    if (after !== undefined && !/^\d{1,9}$/.test(after)) throw new Refusal(badStart);
    valueOrThrow(await follower.follow(request, reply, { owner, id, after: Number(after ?? -1) }, notStreamed));
  });
  server.get<WithId>("/v1/responses/:id/input_items", async (request, reply) => {
    const owner = ownerOf(request, storing, "Response");
    const { id } = request.params;
    valueOrThrow(await responses.find(owner, id));
    return sendPage(reply, inputItemsIn(id, await responses.inputOf(owner, id)), request);
  });
  server.delete<WithId>("/v1/responses/:id", async (request) => {
    const { id } = request.params;
    valueOrThrow(await detached.remove(ownerOf(request, storing, "Response"), id));
    return { id, object: "response", deleted: true };
  });
  server.post<WithId>("/v1/responses/:id/cancel", async (request) => {
    return valueOrThrow(await detached.cancel(ownerOf(request, storing, "Response"), request.params.id));
  });
}

/** Clients recognize these words. */
const notStreamed = {
  code: "invalid_request",
  upstreamCode: "invalid_request_error",
  message:
    "This response cannot be streamed because it was not created with background=true. (A background response can be streamed if it was created with stream=true.)",
  param: "stream",
} as const;
const badStart = invalidRequest("'starting_after' must be the sequence number of an event.", "starting_after");

function addConversationRoutes(server: FastifyInstance, storing: Storing, clock: Clock): void {
  const { conversations } = storing;
  const owner = (request: FastifyRequest) => ownerOf(request, storing, "Conversation");
  const options = { bodyLimit: conversationBodyBytesMax };
  server.post("/v1/conversations", options, async (request) => {
    const body = request.bytes.length === 0 ? {} : bodyOf(request, creationSchema);
    const createdAt = Math.floor(clock.epoch() / 1_000);
    const newItems = itemsOf(request);
    return valueOrThrow(await conversations.create(owner(request), newItems, body.metadata ?? {}, createdAt)).head;
  });
  server.get<WithId>(
    "/v1/conversations/:id",
    async (request) => valueOrThrow(await conversations.find(owner(request), request.params.id)).head,
  );
  server.post<WithId>("/v1/conversations/:id", options, async (request) => {
    const { metadata } = bodyOf(request, updateSchema);
    return valueOrThrow(await conversations.setMetadata(owner(request), request.params.id, metadata)).head;
  });
  server.delete<WithId>("/v1/conversations/:id", async (request) => {
    const { id } = request.params;
    valueOrThrow(await conversations.remove(owner(request), id));
    return { id, object: "conversation.deleted", deleted: true };
  });
  server.get<WithId>("/v1/conversations/:id/items", async (request, reply) => {
    const conversation = valueOrThrow(await conversations.find(owner(request), request.params.id));
    return sendPage(reply, conversation.items, request);
  });
  server.post<WithId>("/v1/conversations/:id/items", options, async (request, reply) => {
    bodyOf(request, itemsSchema);
    const added = valueOrThrow(await conversations.add(owner(request), request.params.id, itemsOf(request)));
    return sendPage(reply, added, { query: { order: "asc", limit: itemsPerRequestMax } });
  });
  server.get<WithItem>("/v1/conversations/:id/items/:item", async (request, reply) => {
    const { id, item } = request.params;
    return sendJson(reply, itemIn(valueOrThrow(await conversations.find(owner(request), id)), item));
  });
  server.delete<WithItem>("/v1/conversations/:id/items/:item", async (request) => {
    const { id, item } = request.params;
    return valueOrThrow(await conversations.removeItem(owner(request), id, item)).head;
  });
}

/** Throws Refusal for a caller whose group stores nothing: every id is unknown. */
export function ownerOf(request: FastifyRequest, storing: Storing, what: "Response" | "Conversation"): StoreOwner {
  const owner = storing.ownerOf(request);
  if (owner !== undefined) return owner;
  const { id } = request.params as { id?: string };
  throw id === undefined ? storesNothing("conversation") : notFoundOf(what, id);
}

const bodyOf = ({ bytes }: FastifyRequest, schema: object) => valueOrThrow(readObject(bytes, schema));

/** The items of a request. Throws Refusal for two with the same id. */
function itemsOf({ bytes }: FastifyRequest): Buffer[] {
  const newItems = listIn(bytes, "items");
  const ids = newItems.map((item) => textOf(valueIn(item, "id")));
  const place = ids.findIndex((id, index) => id !== undefined && ids.indexOf(id) < index);
  if (place >= 0) throw repeatedItem(String(ids[place]), `items[${place}].id`);
  return newItems;
}

function itemIn({ items: all }: Conversation, id: string): Buffer {
  const storedItem = all.find((item) => item.id === id);
  if (storedItem === undefined) throw notFoundOf("Item", id);
  return shownOf(storedItem);
}

const sendJson = (reply: FastifyReply, body: Buffer) => reply.type("application/json").send(body);

function sendPage(reply: FastifyReply, all: readonly Item[], { query }: { query: unknown }) {
  return sendJson(reply, valueOrThrow(pageOf(all, query as Record<string, unknown>)));
}
