/**
 * Responses that are stored for their callers, as OpenAI's Responses do by default (`store`), and
 * requests that refer to them: https://platform.openai.com/docs/guides/conversation-state
 */
import type { Failure } from "#dialects/errors.ts";
import {
  isCompaction,
  isTrigger,
  ownContentOf,
  summaryItemOf,
  summaryTask,
  withoutAnswerSettings,
} from "#dialects/openai-responses/compaction.ts";
import {
  elementsOf,
  inputItemsOf,
  jsonListOf,
  type StoredReferences,
  withInput,
  withoutRepeated,
} from "#dialects/openai-responses/stored-references.ts";
import { jsonBytesOf, objectOf, parsedObject, textOf } from "#wire/json/parse.ts";
import { objectSpansOf } from "#wire/json/spans.ts";
import { chainMax, conversationItemsLeft, conversationItemsMax, storedResponseBytesMax } from "../common/bounds.ts";
import { tooLarge } from "../common/failures.ts";
import { asSent, type Item, itemOf, listIn, shownOf, valueIn } from "../common/items.ts";
import { Refusal, type Result, valuesOf } from "../common/refusal.ts";
import { compactionName } from "../response/compacted-response.ts";
import { type AliasClaim, isStorableName, type StoredValue } from "./bounded-store.ts";
import { type Conversations, isConversationId, tooManyItems } from "./conversations.ts";
import { foreignCompaction, notFoundOf, previousNotOver, unknownItem, unknownPrevious } from "./not-found.ts";
import { logIdOf, type SealedStore, type StoreOwner } from "./sealed-store.ts";

/** A request with its references replaced by their content. */
export interface Expansion {
  body: Buffer;
  /** The ids of the responses that it continues, oldest first. */
  chain: readonly string[];
  conversationId: string | undefined;
  /**
   * Its own items as a JSON array, with references replaced, and without what a client repeats of
   * the items before.
   */
  input: Buffer;
  /**
   * Set for a request to compact its conversation: the body then asks for a summary. The items of
   * the conversation that are the user's messages.
   */
  compacts: { messages: readonly object[] } | undefined;
}

/**
 * A response to store, with its request. `response` is the JSON object that its caller receives,
 * which says how it is stored.
 */
export interface ResponseToStore extends Pick<Expansion, "chain" | "conversationId" | "input"> {
  id: string;
  response: Buffer;
}

/**
 * A stored response. Its input is its detail, so that a reference to an item of the answer does not
 * read it.
 */
interface StoredResponse {
  /** The ids of the responses that it continues, oldest first. */
  chain: readonly string[];
  /** The fingerprint of the request, for responses that were begun without their answer. */
  fingerprint?: string;
  /** The alias that such a response has claimed. */
  claimedAlias?: string;
  response: Buffer;
}

/** Conversations, and the values that belong to responses, are stored beside them. */
const isResponseId = (id: string): boolean => /^[A-Za-z0-9]/.test(id) && !isConversationId(id);

type Reserve = (bytes: number) => Refusal | undefined;
/** Reserves memory for the values with these ids. */
type ReserveFor = (ids: readonly string[]) => Promise<Refusal | undefined>;

export interface ExpansionOptions {
  /** The request compacts its conversation without a trigger. */
  isCompactEndpoint: boolean;
  /** Reserves memory for so many bytes. */
  reserve: Reserve;
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

  /** Refuses a reference to something that is not stored, with OpenAI's codes. */
  async expand(
    owner: StoreOwner,
    body: Buffer,
    references: StoredReferences,
    { isCompactEndpoint, reserve }: ExpansionOptions,
  ): Promise<Result<Expansion>> {
    const { responseId, conversationId } = references;
    const model = textOf(valueIn(body, "model"));
    const chain = responseId === undefined ? [] : await this.#chainOf(owner, responseId);
    if (chain instanceof Refusal) return chain;
    const ids = [...chain, ...(conversationId === undefined ? [] : [conversationId])];
    const chainBytes = body.length + (await this.#store.bytesOf(owner, ids, { hasDetails: true }));
    const refusal = this.#reserve(chainBytes, reserve);
    if (refusal !== undefined) return refusal;
    const before =
      conversationId === undefined
        ? await this.#itemsOfChain(owner, chain, model)
        : await this.#itemsOfConversation(owner, conversationId);
    if (before instanceof Refusal) return before;
    const own = await this.#ownItems(owner, body, references, {
      model,
      reserve: async (ids) =>
        this.#reserve(chainBytes + (await this.#store.bytesOf(owner, ids, { hasDetails: false })), reserve),
    });
    if (own instanceof Refusal) return own;
    const items = withoutRepeated(before, own);
    const isFull = before.length + items.length > conversationItemsMax - conversationItemsLeft;
    if (conversationId !== undefined && isFull) return new Refusal(tooManyItems);
    // Larger than what was reserved where the request refers to one item many times.
    const bytes = [...before, ...items].reduce((sum, { length }) => sum + length, 0);
    if (bytes > this.#bodyBytesMax) return new Refusal(tooLarge(this.#bodyBytesMax));
    const endsInTrigger = isTrigger(items.at(-1));
    const all = [...before, ...(endsInTrigger ? items.slice(0, -1) : items)];
    const sent = valuesOf(all.map((item) => unfolded(asSent(item), owner)));
    if (sent instanceof Refusal) return sent;
    const compacts = isCompactEndpoint || endsInTrigger ? { messages: all.flatMap(userMessageOf) } : undefined;
    const expanded =
      compacts === undefined ? withInput(body, sent) : withoutAnswerSettings(withInput(body, [...sent, summaryTask]));
    return reserve(expanded.length) ?? { chain, conversationId, input: jsonListOf(items), body: expanded, compacts };
  }

  /**
   * Stores a response with its input, if it is not too large, there is space for it and Redis
   * answers. Never rejects.
   */
  async save(owner: StoreOwner, { id, chain, conversationId, input, response }: ResponseToStore): Promise<void> {
    if (!isStorableName(id) || !isResponseId(id)) return;
    const output = listIn(response, "output");
    const value = encoded({ chain, response });
    const isStored = chain.length < chainMax && value.length + input.length <= storedResponseBytesMax;
    const stored = { id, value, detail: input, aliases: idsIn(output) };
    await Promise.all([
      isStored && this.#store.put(owner, stored).catch(() => undefined),
      this.#addTo(owner, conversationId, [...elementsOf(input), ...output]),
    ]);
  }

  /**
   * Stores a response that has no answer yet, with its input. False where another one has the alias
   * that it claims. A response for which there is no space is refused.
   */
  async begin(
    owner: StoreOwner,
    toStore: ResponseToStore,
    { fingerprint, claim }: { fingerprint: string; claim: AliasClaim | undefined },
  ): Promise<Result<boolean>> {
    const { id, chain, input, response } = toStore;
    if (input.length > storedResponseBytesMax) return new Refusal(tooLarge(storedResponseBytesMax));
    const value = encoded({ chain, fingerprint, ...(claim && { claimedAlias: claim.alias }), response });
    const stored = await this.#store.put(owner, { id, value, detail: input, claim, replaces: 0 });
    return stored === "full" ? new Refusal(noSpace) : stored !== "conflict";
  }

  /**
   * Replaces a response that has no answer yet; `change` returns undefined to leave it. Returns the
   * response that is stored afterwards.
   */
  async update(
    owner: StoreOwner,
    id: string,
    change: (response: Record<string, unknown>) => Record<string, unknown> | undefined,
  ): Promise<Result<Record<string, unknown>>> {
    for (;;) {
      const storedValue = await this.#read(owner, id);
      if (storedValue === undefined) return notFoundOf("Response", id);
      const { response, ...kept } = decoded(storedValue.value);
      const before = parsedObject(response) ?? {};
      const after = isOver(before) ? undefined : change(before);
      if (after === undefined) return before;
      const changed = jsonBytesOf(after);
      const output = listIn(changed, "output");
      const value = encoded({ ...kept, response: changed });
      const stored = await this.#store.put(owner, {
        id,
        value,
        aliases: [kept.claimedAlias ?? [], idsIn(output)].flat(),
        replaces: storedValue.version,
        isEnd: isOver(after),
      });
      if (stored === "full") return new Refusal(noSpace);
      if (stored === "conflict") continue;
      const conversationId = textOf(objectOf(after.conversation).id);
      if (isOver(after) && conversationId !== undefined)
        await this.#addTo(owner, conversationId, [...elementsOf(await this.inputOf(owner, id)), ...output]);
      return after;
    }
  }

  async #addTo(owner: StoreOwner, conversationId: string | undefined, items: readonly Buffer[]): Promise<void> {
    if (conversationId !== undefined)
      await this.#conversations.add(owner, conversationId, items).catch(() => undefined);
  }

  /** Reserves memory for values before they are read. Returns a refusal if they are too large. */
  #reserve(bytes: number, reserve: Reserve): Refusal | undefined {
    return bytes > this.#bodyBytesMax ? new Refusal(tooLarge(this.#bodyBytesMax)) : reserve(bytes);
  }

  async #read(owner: StoreOwner, id: string): Promise<StoredValue | undefined> {
    const [stored] = isResponseId(id) ? await this.#store.read(owner, [id]) : [];
    return stored;
  }

  /** The JSON of a stored response. */
  async find(owner: StoreOwner, id: string): Promise<Result<StoredResponse>> {
    const stored = await this.#read(owner, id);
    return stored === undefined ? notFoundOf("Response", id) : decoded(stored.value);
  }

  /** The input of a stored response as a JSON array; an empty one if it is not stored any more. */
  async inputOf(owner: StoreOwner, id: string): Promise<Buffer> {
    const [input] = await this.#store.details(owner, [id]);
    return input ?? jsonListOf([]);
  }

  async remove(owner: StoreOwner, id: string): Promise<Refusal | undefined> {
    const ids = !isResponseId(id) ? [] : [id, logIdOf(id)];
    const [isRemoved] = await Promise.all(ids.map((one) => this.#store.remove(owner, one)));
    return isRemoved === true ? undefined : notFoundOf("Response", id);
  }

  /** The ids of the response and of those before it. */
  async #chainOf(owner: StoreOwner, id: string): Promise<Result<string[]>> {
    const stored = await this.#read(owner, id);
    if (stored === undefined) return unknownPrevious(id);
    const { chain, response } = decoded(stored.value);
    return isOver({ status: valueIn(response, "status") }) ? [...chain, id] : previousNotOver(id);
  }

  async #itemsOfChain(
    owner: StoreOwner,
    chain: readonly string[],
    model: string | undefined,
  ): Promise<Result<Buffer[]>> {
    const [responses, inputs] = await Promise.all([this.#store.read(owner, chain), this.#store.details(owner, chain)]);
    const turns: Buffer[][] = [];
    let isCompacted = false;
    for (const [index, id] of [...chain.entries()].toReversed()) {
      const [one, input] = [responses[index], inputs[index]];
      const output = one === undefined ? undefined : readableOutputOf(decoded(one.value).response, model);
      // A compaction item stands for everything before it. A model that can't read a vendor's item
      // gets that instead, if it is still there.
      const item = output?.find(isCompaction);
      const isStandIn = item !== undefined && (ownContentOf(item) !== undefined || modelOf(one) === model);
      if (output !== undefined && isStandIn) return [output, ...turns.toReversed()].flat();
      isCompacted ||= item !== undefined;
      if (output === undefined || input === undefined) {
        if (!isCompacted) return unknownPrevious(id);
        if (output !== undefined) turns.push(output);
        break;
      }
      turns.push([...elementsOf(input), ...output]);
    }
    return turns.toReversed().flat();
  }

  async #itemsOfConversation(owner: StoreOwner, id: string): Promise<Result<Buffer[]>> {
    const conversation = await this.#conversations.find(owner, id);
    if (conversation instanceof Refusal) return conversation;
    const items = conversation.items.map(({ bytes }) => bytes);
    // A compaction item stands for everything before it.
    return items.slice(Math.max(0, items.findLastIndex(isCompaction)));
  }

  /** The items of the request itself, with references to items replaced by the items. */
  async #ownItems(
    owner: StoreOwner,
    body: Buffer,
    { items: references }: StoredReferences,
    { model, reserve }: { model: string | undefined; reserve: ReserveFor },
  ): Promise<Result<Buffer[]>> {
    const own = inputItemsOf(body);
    if (references.length === 0) return own;
    const idByPlace = new Map(references.map(({ place, id }) => [place, id]));
    const stored = await this.#itemsById(owner, [...new Set(idByPlace.values())], reserve);
    if (stored instanceof Refusal) return stored;
    return own.flatMap((item, place) => {
      const id = idByPlace.get(place);
      if (id === undefined) return [item];
      const { bytes, model: itemModel } = stored.get(id) as NamedItem;
      return isReadable(bytes, itemModel, model) ? [bytes] : [];
    });
  }

  /** Refuses an id that is not stored. */
  async #itemsById(
    owner: StoreOwner,
    ids: readonly string[],
    reserve: ReserveFor,
  ): Promise<Result<Map<string, NamedItem>>> {
    const holders = await this.#store.idsOf(owner, ids.filter(isStorableName));
    const holderIds = [...new Set(holders.filter((id) => id !== undefined))];
    const refusal = await reserve(holderIds);
    if (refusal !== undefined) return refusal;
    const holderValues = await this.#store.read(owner, holderIds);
    const items = new Map(holderValues.flatMap((one) => (one === undefined ? [] : namedItemsIn(one.value))));
    const unknown = ids.find((id) => !items.has(id));
    return unknown === undefined ? items : unknownItem(unknown);
  }
}

/** Has the response its answer, or will it have none? */
export const isOver = ({ status }: Record<string, unknown>): boolean => status !== "queued" && status !== "in_progress";

const noSpace: Failure = {
  code: "overloaded",
  message: "The gateway has no space to store this response; try again later.",
};

/** An item, and the model that it is from. */
interface NamedItem extends Item {
  model: string | undefined;
}

/** The items of a stored response or conversation, by their ids. */
function namedItemsIn(value: Buffer): [string, NamedItem][] {
  const { response } = decoded(value);
  const model = textOf(valueIn(response, "model"));
  const items = [...listIn(value, "items"), ...listIn(response, "output")].map((bytes) => itemOf(bytes));
  return items.map((item) => [item.id, { ...item, model }]);
}

/**
 * Replaces the gateway's compaction item by its summary. Refuses an item that was made for another
 * API key.
 */
function unfolded(item: Buffer, { sealing }: StoreOwner): Result<Buffer> {
  const sealed = ownContentOf(item);
  if (sealed === undefined) return item;
  const summary = sealing.open(compactionName, sealed);
  return summary === undefined ? foreignCompaction() : summaryItemOf(summary.toString("utf8"));
}

const modelOf = (stored: { value: Buffer } | undefined): string | undefined =>
  stored && textOf(valueIn(decoded(stored.value).response, "model"));

function userMessageOf(bytes: Buffer): object[] {
  const item = parsedObject(shownOf(itemOf(bytes)));
  return item?.type === "message" && item.role === "user" ? [item] : [];
}

/**
 * Only the model that produced reasoning can use it:
 * https://platform.openai.com/docs/guides/reasoning#keeping-reasoning-items-in-context
 */
const isReadable = (item: Buffer, model: string | undefined, readerModel: string | undefined): boolean =>
  model === readerModel || !item.includes('"reasoning"') || parsedObject(item)?.type !== "reasoning";

function readableOutputOf(response: Buffer, readerModel: string | undefined): Buffer[] {
  const model = textOf(valueIn(response, "model"));
  return listIn(response, "output").filter((item) => isReadable(item, model, readerModel));
}

const encoded = ({ response, ...head }: StoredResponse): Buffer =>
  Buffer.concat([Buffer.from(`{"head":${JSON.stringify(head)},"response":`), response, Buffer.from("}")]);

function decoded(value: Buffer): StoredResponse {
  const span = objectSpansOf(value, ["response"])?.members.response;
  return {
    chain: [],
    ...(valueIn(value, "head") as Omit<StoredResponse, "response"> | undefined),
    response: span === undefined ? Buffer.from("{}") : value.subarray(span.start, span.end),
  };
}

const idsIn = (items: readonly Buffer[]): string[] => items.flatMap((item) => textOf(valueIn(item, "id")) ?? []);
