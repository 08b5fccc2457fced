/** Stored responses and conversations as requests use them: references are replaced by their content, and answers are recorded. */
import type { FastifyRequest } from "fastify";
import type { Catalogue } from "#catalogue/catalogue.ts";
import type { Framing } from "#dialects/codec.ts";
import { inputListOf, type StoredReferences } from "#dialects/openai-responses/stored-references.ts";
import type { Clock } from "#service/clock.ts";
import type { Capacity } from "../admission/capacity.ts";
import { storedResponseBytesMax } from "../bounds.ts";
import type { AnswerResponse } from "../generation/generation-response.ts";
import { apiKeyOf, type KeyDirectory } from "../http/authentication.ts";
import type { BodyRead, ReadBody } from "../http/body.ts";
import type { BodyReader } from "../http/body-reader.ts";
import { compact, responses, type ServedEndpoint } from "../http/endpoints.ts";
import { Refused } from "../http/refused.ts";
import type { RequestBodies } from "../http/request-bodies.ts";
import { CompactedResponse } from "./compacted-response.ts";
import type { Conversations } from "./conversations.ts";
import { storesNothing } from "./not-found.ts";
import { RecordedResponse } from "./recorded-response.ts";
import type { StoreOwner } from "./sealed-store.ts";
import { Sealing } from "./sealing.ts";
import type { Expansion, StoredResponses } from "./stored-responses.ts";

export interface StoringOptions {
  catalogue(): Catalogue;
  keys: KeyDirectory;
  clock: Clock;
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

type Reading = BodyRead<ReadBody>;

export class Storing {
  readonly responses: StoredResponses;
  readonly conversations: Conversations;
  readonly #options: StoringOptions;

  constructor(options: StoringOptions) {
    this.#options = options;
    this.responses = options.responses;
    this.conversations = options.conversations;
  }

  /** The API key of a request. Throws Refused if it is no longer valid. */
  apiKeyOf(request: FastifyRequest): string {
    return apiKeyOf(this.#options.keys, this.#options.clock.epoch(), request);
  }

  /** Undefined if the caller's group stores nothing. Throws Refused if the key is no longer valid. */
  ownerOf(request: FastifyRequest): StoreOwner | undefined {
    const stores = this.#options.catalogue().groups.get(request.caller.group)?.storesResponses ?? true;
    return stores ? this.#sealerOf(request) : undefined;
  }

  #sealerOf(request: FastifyRequest): StoreOwner {
    const { id } = request.caller;
    return { keyId: id, sealing: Sealing.of(this.apiKeyOf(request), id) };
  }

  /**
   * The body with its references replaced by their content, read and checked; synchronous if there are none. `bytes` is the body, and `reading` the result of
   * reading it. Throws Refused, or rejects with it.
   */
  resolve(
    request: FastifyRequest,
    endpoint: ServedEndpoint,
    bytes: Buffer,
    reading: Reading | Promise<Reading>,
  ): ResolvedBody | Promise<ResolvedBody> {
    if (reading instanceof Promise) return reading.then((read) => this.resolve(request, endpoint, bytes, read));
    const { references, ...read } = readOrThrow(reading);
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
    const owner = isOfStored(references) ? this.ownerOf(request) : this.#sealerOf(request);
    if (owner === undefined) throw new Refused(storesNothing(paramOf(references)));
    const expansion = await stored.expand(owner, bytes, references, {
      isCompactEndpoint: endpoint === compact,
      reserve: (length) => bodies.reserve(request, length),
    });
    bodies.reserve(request, expansion.body.length);
    const read = readOrThrow(await reader.read(endpoint, expansion.body, { key: request.caller.id }));
    return { ...read, bytes: expansion.body, expansion };
  }

  /** The framing and the response for the answer of this request. The response compacts and stores the answer if the request asks for it. */
  answered(
    request: FastifyRequest,
    resolved: ResolvedBody,
    given: AnswerResponse,
    framing: Framing,
    endpoint: ServedEndpoint,
  ): { response: AnswerResponse; framing: Framing } {
    const response = endpoint === responses ? this.#recorded(request, resolved, given, framing !== "whole") : given;
    const compacts = resolved.expansion?.compacts;
    if (compacts === undefined) return { response, framing };
    const { sealing, keyId } = this.#sealerOf(request);
    const form = endpoint === compact ? compacts : framing === "whole" ? "whole" : "sse";
    const held = this.#options.recorded.claim(keyId);
    return { response: new CompactedResponse(response, form, sealing, held), framing: "whole" };
  }

  /** A response that stores the answer once it is complete; the given one if nothing is to be stored. */
  #recorded(
    request: FastifyRequest,
    { bytes, body, expansion }: ResolvedBody,
    response: AnswerResponse,
    streams: boolean,
  ): AnswerResponse {
    if (body.store === false) return response;
    const owner = this.ownerOf(request);
    if (owner === undefined) return response;
    const given = expansion?.input ?? inputListOf(bytes);
    if (given.length > storedResponseBytesMax) return response;
    const input = Buffer.from(given);
    const ownBytes = input.length;
    const held = this.#options.recorded.claim(owner.keyId);
    if (held.hold(ownBytes) !== undefined) return response;
    const { chain = [], conversationId } = expansion ?? {};
    return new RecordedResponse(response, {
      streams,
      held,
      ownBytes,
      store: (id, answered) =>
        this.#options.responses.save(owner, { id, chain, conversationId, input, response: answered }),
    });
  }
}

/** Throws Refused for an invalid body. */
function readOrThrow(read: Reading): ReadBody {
  if (read.kind === "refused") throw new Refused(read.failure);
  return read.value;
}

const isOfStored = ({ responseId, conversationId, items }: StoredReferences): boolean =>
  responseId !== undefined || conversationId !== undefined || items.length > 0;

const paramOf = ({ responseId, conversationId, items }: StoredReferences): string =>
  responseId !== undefined
    ? "previous_response_id"
    : conversationId !== undefined
      ? "conversation"
      : `input[${items[0]?.place}]`;
