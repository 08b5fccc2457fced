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
import { Refused, type Result, valueOrThrow } from "../common/refused.ts";
import { Sealing } from "../common/sealing.ts";
import type { ReadBody } from "../request/body.ts";
import type { BodyReader } from "../request/body-reader.ts";
import { CompactedResponse } from "../response/compacted-response.ts";
import type { AnswerResponse } from "../response/generation-response.ts";
import { RecordedResponse } from "../response/recorded-response.ts";
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

interface Answered {
  response: AnswerResponse;
  framing: Framing;
  storage?: StorageFields;
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
    return stores ? sealerOf(request) : undefined;
  }

  /**
   * The body with its references replaced by their content, read and checked; synchronous if there
   * are none. `bytes` is the body, and `reading` the result of reading it. Throws Refused, or
   * rejects with it.
   */
  resolve(
    request: FastifyRequest,
    endpoint: ServedEndpoint,
    bytes: Buffer,
    reading: Reading | Promise<Reading>,
  ): ResolvedBody | Promise<ResolvedBody> {
    if (reading instanceof Promise) return reading.then((read) => this.resolve(request, endpoint, bytes, read));
    const { references, ...read } = valueOrThrow(reading);
    if (references === undefined) return { ...read, bytes, expansion: undefined };
    return this.#expand(request, endpoint, bytes, references);
  }

  async #expand(
    request: FastifyRequest,
    endpoint: ServedEndpoint,
    bytes: Buffer,
    references: StoredReferences,
  ): Promise<ResolvedBody> {
    const { bodies, reader, responses: stored } = this.#options;
    const owner = isOfStored(references) ? this.ownerOf(request) : sealerOf(request);
    if (owner === undefined) throw new Refused(storesNothing(paramOf(references)));
    const expansion = await stored.expand(owner, bytes, references, {
      isCompactEndpoint: endpoint === compact,
      reserve: (length) => bodies.reserve(request, length),
    });
    const read = valueOrThrow(await reader.read(endpoint, expansion.body, { key: request.caller.id }));
    return { ...read, bytes: expansion.body, expansion };
  }

  /**
   * The framing and the response for the answer of this request, and what the answer says of its
   * storage. The response compacts and stores the answer if the request asks for it. `previousId`
   * is the response that the request continues.
   */
  answered(
    request: FastifyRequest,
    resolved: ResolvedBody,
    given: AnswerResponse,
    framing: Framing,
    endpoint: ServedEndpoint,
    previousId = resolved.expansion?.chain.at(-1),
  ): Answered {
    if (endpoint !== responses && endpoint !== compact) return { response: given, framing };
    const { compacts, conversationId } = resolved.expansion ?? {};
    const recorded = endpoint === responses ? this.#recorded(request, resolved, given, framing !== "whole") : undefined;
    const storage = storageOf(recorded !== undefined, previousId, conversationId);
    const response = recorded ?? given;
    if (compacts === undefined) return { response, framing, storage };
    const { sealing, keyId } = sealerOf(request);
    const form = endpoint === compact ? compacts : framing === "whole" ? "whole" : "sse";
    const held = this.#options.recorded.claim(keyId);
    return { response: new CompactedResponse(response, form, sealing, held), framing: "whole", storage };
  }

  /**
   * A response that stores the answer once it is complete; undefined if nothing is to be stored.
   */
  #recorded(
    request: FastifyRequest,
    { bytes, body, expansion }: ResolvedBody,
    response: AnswerResponse,
    streams: boolean,
  ): AnswerResponse | undefined {
    const owner = body.store === false ? undefined : this.ownerOf(request);
    if (owner === undefined) return undefined;
    const given = expansion?.input ?? inputListOf(bytes);
    if (given.length > storedResponseBytesMax) return undefined;
    const held = this.#options.recorded.claim(owner.keyId);
    if (held.hold(given.length) !== undefined) return undefined;
    const input = Buffer.from(given);
    const { chain = [], conversationId } = expansion ?? {};
    return new RecordedResponse(response, {
      streams,
      held,
      ownBytes: input.length,
      store: (id, answered) =>
        this.#options.responses.save(owner, { id, chain, conversationId, input, response: answered }),
    });
  }
}

function sealerOf({ caller, apiKey }: FastifyRequest): StoreOwner {
  return { keyId: caller.id, sealing: Sealing.of(apiKey, caller.id) };
}

/** What an answer says of its storage, and of the stored objects that its request names. */
export const storageOf = (isStored: boolean, previousId?: string, conversationId?: string): StorageFields => ({
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
