/**
 * Stored responses and conversations as requests use them: references are replaced by their
 * content, and answers are recorded.
 */
import type { FastifyRequest } from "fastify";
import type { Catalogue } from "#catalogue/catalogue.ts";
import type { Framing, StorageFields } from "#dialects/codec.ts";
import { inputListOf, type StoredReferences } from "#dialects/openai-responses/stored-references.ts";
import { storedResponseBytesMax } from "../common/bounds.ts";
import type { Capacity } from "../common/capacity.ts";
import { compact, responses, type ServedEndpoint } from "../common/endpoints.ts";
import { Refusal, type Result } from "../common/refusal.ts";
import { Sealing } from "../common/sealing.ts";
import type { ReadBody } from "../request/body.ts";
import type { BodyReader } from "../request/body-reader.ts";
import type { CompactionForm } from "../response/compacted-response.ts";
import type { RecordingOptions } from "../response/recorded-response.ts";
import type { ResponseLayers } from "../response/response-for.ts";
import type { RequestBodies } from "../server/request-bodies.ts";
import type { Conversations } from "./conversations.ts";
import { storesNothing } from "./not-found.ts";
import type { StoreOwner } from "./sealed-store.ts";
import type { Expansion, StoredResponses } from "./stored-responses.ts";

export interface StoringOptions {
  catalogue(): Catalogue;
  bodies: RequestBodies;
  reader: BodyReader;
  responses: StoredResponses;
  conversations: Conversations;
  /** Bytes held for answers that are being recorded. */
  recorded: Capacity;
}

/** A request's body with its references replaced by their content, read and checked. */
export interface ResolvedBody extends ReadBody {
  bytes: Buffer;
  /** Undefined for a body without references. */
  expansion: Expansion | undefined;
}

type Reading = Result<ReadBody>;

export interface Answered {
  framing: Framing;
  storage?: StorageFields;
  layers?: Pick<ResponseLayers, "recording" | "compaction">;
}

export class Storing {
  readonly responses: StoredResponses;
  readonly conversations: Conversations;
  readonly #options: StoringOptions;

  constructor(options: StoringOptions) {
    this.#options = options;
    this.responses = options.responses;
    this.conversations = options.conversations;
  }

  /** Undefined if the caller's group stores nothing. */
  ownerOf(request: FastifyRequest): StoreOwner | undefined {
    const stores = this.#options.catalogue().groups.get(request.caller.group)?.storesResponses ?? true;
    // A batch has no API key that could seal what is stored.
    return stores && request.batchLine === undefined ? sealerOf(request) : undefined;
  }

  /**
   * The body with its references replaced by their content, read and checked; synchronous if there
   * are none. `bytes` is the body, and `reading` the result of reading it.
   */
  resolve(
    request: FastifyRequest,
    endpoint: ServedEndpoint,
    bytes: Buffer,
    reading: Reading | Promise<Reading>,
  ): Result<ResolvedBody> | Promise<Result<ResolvedBody>> {
    if (reading instanceof Promise) return reading.then((read) => this.resolve(request, endpoint, bytes, read));
    if (reading instanceof Refusal) return reading;
    const { references, ...read } = reading;
    if (references === undefined) return { ...read, bytes, expansion: undefined };
    return this.#expand(request, endpoint, bytes, references);
  }

  async #expand(
    request: FastifyRequest,
    endpoint: ServedEndpoint,
    bytes: Buffer,
    references: StoredReferences,
  ): Promise<Result<ResolvedBody>> {
    const { bodies, reader, responses: stored } = this.#options;
    const owner = isOfStored(references) ? this.ownerOf(request) : sealerOf(request);
    if (owner === undefined) return storesNothing(paramOf(references));
    const expansion = await stored.expand(owner, bytes, references, {
      isCompactEndpoint: endpoint === compact,
      reserve: (length) => bodies.reserve(request, length),
    });
    if (expansion instanceof Refusal) return expansion;
    const read = await reader.read(endpoint, expansion.body, { key: request.caller.id });
    return read instanceof Refusal ? read : { ...read, bytes: expansion.body, expansion };
  }

  /**
   * The framing of the answer to this request, what it says of its storage, and the layers that
   * compact and store it if the request asks for that. `previousId` is the response that the
   * request continues.
   */
  answered(
    request: FastifyRequest,
    endpoint: ServedEndpoint,
    resolved: ResolvedBody,
    { framing, previousId = resolved.expansion?.chain.at(-1) }: { framing: Framing; previousId?: string | undefined },
  ): Answered {
    if (endpoint !== responses && endpoint !== compact) return { framing };
    const { compacts, conversationId } = resolved.expansion ?? {};
    const recording = endpoint === responses ? this.#recording(request, resolved, framing) : undefined;
    const storage = storageOf({ isStored: recording !== undefined, previousId, conversationId });
    if (compacts === undefined) return { framing, storage, layers: { recording } };
    const { sealing, keyId } = sealerOf(request);
    const form: CompactionForm = endpoint === compact ? compacts : framing === "whole" ? "whole" : "sse";
    const compaction = { form, sealing, claim: this.#options.recorded.claim(keyId) };
    return { framing: "whole", storage, layers: { recording, compaction } };
  }

  /** How the answer is stored once it is complete; undefined if nothing is to be stored. */
  #recording(
    request: FastifyRequest,
    { bytes, body, expansion }: ResolvedBody,
    framing: Framing,
  ): RecordingOptions | undefined {
    const owner = body.store === false ? undefined : this.ownerOf(request);
    if (owner === undefined) return undefined;
    const items = expansion?.input ?? inputListOf(bytes);
    if (items.length > storedResponseBytesMax) return undefined;
    const claim = this.#options.recorded.claim(owner.keyId);
    if (claim.hold(items.length) !== undefined) return undefined;
    const input = Buffer.from(items);
    const { chain = [], conversationId } = expansion ?? {};
    return {
      streams: framing !== "whole",
      claim,
      ownBytes: input.length,
      store: (id, response) => this.#options.responses.save(owner, { id, chain, conversationId, input, response }),
    };
  }
}

function sealerOf({ caller, apiKey }: FastifyRequest): StoreOwner {
  return { keyId: caller.id, sealing: Sealing.of(apiKey, caller.id) };
}

interface Storage {
  isStored: boolean;
  previousId: string | undefined;
  conversationId?: string | undefined;
}

/**
 * The statements of an answer about its storage, and about the stored objects that its request
 * names.
 */
export const storageOf = ({ isStored, previousId, conversationId }: Storage): StorageFields => ({
  ...(isStored && { store: true }),
  ...(previousId !== undefined && { previous_response_id: previousId }),
  ...(conversationId !== undefined && { conversation: { id: conversationId } }),
});

const isOfStored = ({ responseId, conversationId, items }: StoredReferences): boolean =>
  responseId !== undefined || conversationId !== undefined || items.length > 0;

const paramOf = ({ responseId, conversationId, items }: StoredReferences): string =>
  responseId !== undefined
    ? "previous_response_id"
    : conversationId !== undefined
      ? "conversation"
      : `input[${items[0]?.place}]`;
