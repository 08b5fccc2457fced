/**
 * Conversations that callers keep at the gateway:
 * https://platform.openai.com/docs/api-reference/conversations
 */
import { randomBytes } from "node:crypto";
import { jsonListOf } from "#dialects/openai-responses/stored-references.ts";
import { withMembers } from "#wire/json/spans.ts";
import { conversationChangesMax, conversationItemsMax } from "../common/bounds.ts";
import { type Item, itemOf, listIn, valueIn } from "../common/items.ts";
import { invalidRequest, Refusal, type Result } from "../common/refusal.ts";
import { notFoundOf } from "./not-found.ts";
import type { SealedStore, StoreOwner } from "./sealed-store.ts";

interface ConversationHead {
  id: string;
  object: "conversation";
  /** Whole seconds since 1970. */
  created_at: number;
  metadata: unknown;
}

export interface Conversation {
  head: ConversationHead;
  items: readonly Item[];
}

interface StoredConversation extends Conversation {
  version: number;
}

/** Requests are refused for an unknown id, and if there is no space. */
export class Conversations {
  readonly #store: SealedStore;

  constructor(store: SealedStore) {
    this.#store = store;
  }

  /** `createdAt` in whole seconds since 1970. */
  async create(
    owner: StoreOwner,
    items: readonly Buffer[],
    metadata: unknown,
    createdAt: number,
  ): Promise<Result<Conversation>> {
    const id = `conv_${randomBytes(24).toString("hex")}`;
    const head: ConversationHead = { id, object: "conversation", created_at: createdAt, metadata };
    const conversation = { head, items: items.map((bytes) => itemOf(bytes)) };
    return (await this.#put(owner, conversation, 0)) ?? conversation;
  }

  async find(owner: StoreOwner, id: string): Promise<Result<StoredConversation>> {
    const [stored] = isConversationId(id) ? await this.#store.read(owner, [id]) : [];
    if (stored === undefined) return notFoundOf("Conversation", id);
    const head = valueIn(stored.value, "head") as ConversationHead;
    const items = listIn(stored.value, "items").map((bytes) => itemOf(bytes));
    return { head, items, version: stored.version };
  }

  async setMetadata(owner: StoreOwner, id: string, metadata: unknown): Promise<Result<Conversation>> {
    return this.#change(owner, id, ({ head, items }) => ({ head: { ...head, metadata }, items }));
  }

  /**
   * Returns the added items with their ids. An item whose id the conversation has already receives
   * a new one.
   */
  async add(owner: StoreOwner, id: string, items: readonly Buffer[]): Promise<Result<readonly Item[]>> {
    const newItems = items.map((bytes) => itemOf(bytes));
    const changed = await this.#change(owner, id, (conversation) => ({
      ...conversation,
      items: [...conversation.items, ...withNewIds(newItems, new Set(conversation.items.map((item) => item.id)))],
    }));
    return changed instanceof Refusal ? changed : changed.items.slice(changed.items.length - items.length);
  }

  async removeItem(owner: StoreOwner, id: string, itemId: string): Promise<Result<Conversation>> {
    return this.#change(owner, id, (conversation) => {
      const items = conversation.items.filter((item) => item.id !== itemId);
      return items.length === conversation.items.length ? notFoundOf("Item", itemId) : { ...conversation, items };
    });
  }

  async remove(owner: StoreOwner, id: string): Promise<Refusal | undefined> {
    const isRemoved = isConversationId(id) && (await this.#store.remove(owner, id));
    return isRemoved ? undefined : notFoundOf("Conversation", id);
  }

  async #change(
    owner: StoreOwner,
    id: string,
    change: (conversation: Conversation) => Result<Conversation>,
  ): Promise<Result<Conversation>> {
    for (let attempt = 0; attempt < conversationChangesMax; attempt++) {
      const before = await this.find(owner, id);
      if (before instanceof Refusal) return before;
      const changed = change(before);
      if (changed instanceof Refusal) return changed;
      const stored = await this.#put(owner, changed, before.version);
      if (stored !== undefined) return stored;
    }
    return new Refusal({
      code: "unavailable",
      message: "Other requests change this conversation at the moment; try again.",
      retryAfterSeconds: 1,
    });
  }

  /** Undefined if another version was stored meanwhile. */
  async #put(
    owner: StoreOwner,
    { head, items }: Conversation,
    replaces: number,
  ): Promise<Result<Conversation> | undefined> {
    if (items.length > conversationItemsMax) return new Refusal(tooManyItems);
    const value = Buffer.concat([
      Buffer.from(`{"head":${JSON.stringify(head)},"items":`),
      jsonListOf(items.map(({ bytes }) => bytes)),
      Buffer.from("}"),
    ]);
    const stored = await this.#store.put(owner, {
      id: head.id,
      value,
      aliases: items.map((item) => item.id),
      replaces,
    });
    if (stored === "full")
      return new Refusal({
        code: "unprocessable",
        message: "There is no space to store this conversation: it is too large, or the gateway's memory is full.",
      });
    return stored === "conflict" ? undefined : { head, items };
  }
}

/** The items, with new ids in place of those that are taken, by another item or by one of them. */
const withNewIds = (items: readonly Item[], taken: Set<string>): Item[] =>
  items.map((item) => {
    const named = taken.has(item.id) ? itemOf(withMembers(item.bytes, "id", () => undefined)) : item;
    taken.add(named.id);
    return named;
  });

export const tooManyItems = invalidRequest(
  `A conversation holds at most ${conversationItemsMax} items; begin another one.`,
  "conversation",
);

export const isConversationId = (id: string): boolean => id.startsWith("conv_");
