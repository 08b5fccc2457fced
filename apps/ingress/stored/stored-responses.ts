/**
 * Responses that are stored for their callers, as OpenAI's Responses do by default (`store`), and requests that refer to them:
 * https://platform.openai.com/docs/guides/conversation-state
 */
import type { Failure } from "#dialects/errors.ts";
import { jsonBytesOf, listOf, objectOf, objectSpansOf, parsedObject, textOf } from "#dialects/json.ts";
import {
  isCompaction,
  isTrigger,
  ownContentOf,
  summaryItemOf,
  summaryTask,
  withoutAnswerSettings,
} from "#dialects/openai-responses/compaction.ts";
import {
  inputItemsOf,
  jsonListOf,
  type StoredReferences,
  withInput,
} from "#dialects/openai-responses/stored-references.ts";
import { chainMax } from "../bounds.ts";
import { tooLarge } from "../http/failures.ts";
import { Refused } from "../http/refused.ts";
import { isStorableName } from "./bounded-store.ts";
import { compactionName } from "./compacted-response.ts";
import type { Conversations } from "./conversations.ts";
import { asSent, type Item, itemOf, listIn, valueIn } from "./items.ts";
import { foreignCompaction, itemNotFound, notFoundOf, previousNotFound, previousNotOver } from "./not-found.ts";
import type { SealedStore, StoreOwner } from "./sealed-store.ts";

/** A request with its references replaced by their content. */
export interface Expansion {
  body: Buffer;
  /** The ids of the responses that it continues, oldest first. */
  chain: readonly string[];
  conversationId: string | undefined;
  /** Its own items, with references replaced. */
  items: readonly Buffer[];
  /** Set for a request to compact its conversation: the body then asks for a summary. The items of the conversation that are the user's messages. */
  compacts: { messages: readonly object[] } | undefined;
}

/** A response to store, with its request. `response` is the JSON object that its caller receives. */
export interface ResponseToStore extends Pick<Expansion, "chain" | "conversationId" | "items"> {
  id: string;
  response: Buffer;
}

/** A stored response. */
interface StoredResponse {
  chain: readonly string[];
  /** Its own items, without those of the chain. */
  input: readonly Item[];
  response: Buffer;
}

export class StoredResponses {
  readonly #store: SealedStore;
  readonly #conversations: Conversations;
  readonly #bodyBytesMax: number;

  /** `bodyBytesMax` bounds a request with its references replaced by their content. */
  constructor(store: SealedStore, conversations: Conversations, bodyBytesMax: number) {
    this.#store = store;
    this.#conversations = conversations;
    this.#bodyBytesMax = bodyBytesMax;
  }

  /** Throws Refused, with OpenAI's codes, for a reference to something that is not stored. */
  async expand(
    owner: StoreOwner,
    body: Buffer,
    references: StoredReferences,
    isCompactEndpoint: boolean,
  ): Promise<Expansion> {
    const { responseId, conversationId } = references;
    const asked = textOf(valueIn(body, "model"));
    const chain = responseId === undefined ? [] : await this.#chainOf(owner, responseId);
    const before = await this.#itemsOfChain(owner, chain, asked);
    if (conversationId !== undefined)
      before.push(...(await this.#conversations.find(owner, conversationId)).items.map(({ bytes }) => bytes));
    const items = await this.#ownItems(owner, body, references, asked);
    const bytes = [...before, ...items].reduce((sum, { length }) => sum + length, 0);
    if (bytes > this.#bodyBytesMax) throw new Refused(tooLarge(this.#bodyBytesMax));
    const sent = (list: readonly Buffer[]) => list.map((item) => unfolded(asSent(item), owner));
    const common = { chain, conversationId, items };
    if (!isCompactEndpoint && !isTrigger(items.at(-1)))
      return { ...common, body: withInput(body, sent(before), sent(items)), compacts: undefined };
    const compacted = isTrigger(items.at(-1)) ? items.slice(0, -1) : items;
    return {
      ...common,
      body: withoutAnswerSettings(withInput(body, sent(before), [...sent(compacted), summaryTask])),
      compacts: { messages: [...before, ...compacted].flatMap(userMessageOf) },
    };
  }

  /** Stores a response with its input, if there is space for it and Redis answers. Never rejects. */
  async save(owner: StoreOwner, { id, chain, conversationId, items, response }: ResponseToStore): Promise<void> {
    if (!isStorableName(id) || id.startsWith("conv_")) return;
    const input = items.map(itemOf);
    const output = listIn(response, "output").map(itemOf);
    const value = encoded({ chain, input, response: withFields(response, chain.at(-1), conversationId) });
    const aliases = [...input, ...output].map((item) => item.id);
    await Promise.all([
      chain.length < chainMax && this.#store.put(owner, { id, value, aliases }).catch(() => undefined),
      conversationId !== undefined &&
        this.#conversations
          .add(
            owner,
            conversationId,
            [...input, ...output].map(({ bytes }) => bytes),
          )
          .catch(() => undefined),
    ]);
  }

  /** Stores a response that has no answer yet, with its input. Throws Refused where there is no space for it. */
  async begin(owner: StoreOwner, { id, chain, conversationId, items, response }: ResponseToStore): Promise<void> {
    const input = items.map(itemOf);
    const value = encoded({ chain, input, response: withFields(response, chain.at(-1), conversationId) });
    const stored = await this.#store.put(owner, { id, value, aliases: input.map((item) => item.id), replaces: 0 });
    if (typeof stored !== "number") throw new Refused(noSpace);
  }

  /** Replaces a response that has no answer yet; `change` returns undefined to leave it. Returns the response that is stored afterwards. Throws Refused. */
  async update(
    owner: StoreOwner,
    id: string,
    change: (response: Record<string, unknown>) => Record<string, unknown> | undefined,
  ): Promise<Record<string, unknown>> {
    for (;;) {
      const [found] = await this.#store.read(owner, [id]);
      if (found === undefined) throw new Refused(notFoundOf("Response", id));
      const { chain, input, response } = decoded(found.value);
      const before = parsedObject(response) ?? {};
      const after = isOver(before) ? undefined : change(before);
      if (after === undefined) return before;
      const output = listOf(after.output).map((item) => itemOf(Buffer.from(JSON.stringify(item))));
      const value = encoded({ chain, input, response: Buffer.from(JSON.stringify(after)) });
      const aliases = [...input, ...output].map((item) => item.id);
      const stored = await this.#store.put(owner, { id, value, aliases, replaces: found.version });
      if (stored === "full") throw new Refused(noSpace);
      if (stored === "conflict") continue;
      const conversationId = textOf(objectOf(after.conversation).id);
      if (conversationId !== undefined && isOver(after))
        await this.#conversations
          .add(
            owner,
            conversationId,
            [...input, ...output].map(({ bytes }) => bytes),
          )
          .catch(() => undefined);
      return after;
    }
  }

  /** The JSON of a stored response. Throws Refused. */
  async find(owner: StoreOwner, id: string): Promise<StoredResponse> {
    const [found] = await this.#store.read(owner, [id]);
    if (found === undefined || id.startsWith("conv_")) throw new Refused(notFoundOf("Response", id));
    return decoded(found.value);
  }

  /** Throws Refused. */
  async remove(owner: StoreOwner, id: string): Promise<void> {
    if (id.startsWith("conv_") || !(await this.#store.remove(owner, id))) throw new Refused(notFoundOf("Response", id));
  }

  /** The ids of the response and of those before it. */
  async #chainOf(owner: StoreOwner, id: string): Promise<string[]> {
    const [found] = id.startsWith("conv_") ? [] : await this.#store.read(owner, [id]);
    if (found === undefined) throw new Refused(previousNotFound(id));
    const { chain, response } = decoded(found.value);
    if (!isOver({ status: valueIn(response, "status") })) throw new Refused(previousNotOver(id));
    return [...chain, id];
  }

  async #itemsOfChain(owner: StoreOwner, chain: readonly string[], asked: string | undefined): Promise<Buffer[]> {
    const found = await this.#store.read(owner, chain);
    const turns = found.map((one, index) => {
      if (one === undefined) throw new Refused(previousNotFound(chain[index] as string));
      const { input, response } = decoded(one.value);
      return { input: input.map(({ bytes }) => bytes), output: readableOutputOf(response, asked) };
    });
    // A compaction item replaces everything before it.
    const latest = turns.findLastIndex(({ output }) => output.some(isCompaction));
    return turns.flatMap(({ input, output }, index) =>
      index < latest ? [] : index === latest ? output : [...input, ...output],
    );
  }

  /** The items of the request itself, with references to items replaced by the items. */
  async #ownItems(
    owner: StoreOwner,
    body: Buffer,
    { items: references }: StoredReferences,
    asked: string | undefined,
  ): Promise<Buffer[]> {
    const own = inputItemsOf(body);
    if (references.length === 0) return own;
    const idByPlace = new Map(references.map(({ place, id }) => [place, id]));
    const stored = await this.#itemsById(owner, [...new Set(idByPlace.values())]);
    return own.flatMap((item, place) => {
      const id = idByPlace.get(place);
      if (id === undefined) return [item];
      const found = stored.get(id);
      if (found === undefined) throw new Refused(itemNotFound(id));
      return isReadable(found.bytes, found.model, asked) ? [found.bytes] : [];
    });
  }

  async #itemsById(
    owner: StoreOwner,
    ids: readonly string[],
  ): Promise<Map<string, Item & { model: string | undefined }>> {
    const holders = await this.#store.idsOf(owner, ids.filter(isStorableName));
    const holderIds = [...new Set(holders.filter((id) => id !== undefined))];
    const found = await this.#store.read(owner, holderIds);
    return new Map(found.flatMap((one) => (one === undefined ? [] : namedItemsIn(one.value))));
  }
}

/** Has the response its answer, or will it have none? */
const isOver = ({ status }: Record<string, unknown>): boolean => status !== "queued" && status !== "in_progress";

const noSpace: Failure = {
  code: "overloaded",
  message: "The gateway has no space to store this response; try again later.",
};

/** The items of a stored response or conversation, by their ids. */
function namedItemsIn(value: Buffer): [string, Item & { model: string | undefined }][] {
  const { input, response } = decoded(value);
  const model = textOf(valueIn(response, "model"));
  return [...listIn(value, "items").map(itemOf), ...input, ...listIn(response, "output").map(itemOf)].map((item) => [
    item.id,
    { ...item, model },
  ]);
}

/** Replaces the gateway's compaction item by its summary. Throws Refused for an item that was made for another API key. */
function unfolded(item: Buffer, { sealing }: StoreOwner): Buffer {
  const sealed = ownContentOf(item);
  if (sealed === undefined) return item;
  const summary = sealing.open(compactionName, sealed);
  if (summary === undefined) throw new Refused(foreignCompaction);
  return summaryItemOf(summary.toString("utf8"));
}

function userMessageOf(bytes: Buffer): object[] {
  const item = parsedObject(itemOf(bytes).bytes);
  return item?.type === "message" && item.role === "user" ? [item] : [];
}

/** Only the model that produced reasoning can use it: https://platform.openai.com/docs/guides/reasoning#keeping-reasoning-items-in-context */
const isReadable = (item: Buffer, model: string | undefined, asked: string | undefined): boolean =>
  model === asked || !item.includes('"reasoning"') || parsedObject(item)?.type !== "reasoning";

function readableOutputOf(response: Buffer, asked: string | undefined): Buffer[] {
  const model = textOf(valueIn(response, "model"));
  return listIn(response, "output").filter((item) => isReadable(item, model, asked));
}

/** The response object as a later GET returns it. */
function withFields(response: Buffer, previousId: string | undefined, conversationId: string | undefined): Buffer {
  const fields = {
    ...parsedObject(response),
    store: true,
    previous_response_id: previousId ?? null,
    conversation: conversationId === undefined ? null : { id: conversationId },
  };
  return jsonBytesOf(fields);
}

function encoded({ chain, input, response }: StoredResponse): Buffer {
  return Buffer.concat([
    Buffer.from(`{"chain":${JSON.stringify(chain)},"input":`),
    jsonListOf(input.map(({ bytes }) => bytes)),
    Buffer.from(',"response":'),
    response,
    Buffer.from("}"),
  ]);
}

function decoded(value: Buffer): StoredResponse {
  const span = objectSpansOf(value, ["response"])?.members.response;
  return {
    chain: (valueIn(value, "chain") ?? []) as string[],
    input: listIn(value, "input").map(itemOf),
    response: span === undefined ? Buffer.from("{}") : value.subarray(span.start, span.end),
  };
}
