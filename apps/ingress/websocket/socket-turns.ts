/**
 * The turns on one WebSocket, one at a time. Each is a generation like that of a POST request, and
 * may continue the previous turn.
 */

import { setImmediate } from "node:timers/promises";
import type { FastifyRequest } from "fastify";
import type { AnswerContext } from "#dialects/codec.ts";
import type { ErrorCode } from "#dialects/errors.ts";
import { responseBodyOf } from "#dialects/openai-responses/answer.ts";
import { responsesEndpoint } from "#dialects/openai-responses/profile.ts";
import { inputItemsOf } from "#dialects/openai-responses/stored-references.ts";
import type { EventSink } from "#events/event-stream.ts";
import type { IngressEvents, RequestEnded } from "#events/ingress-events.ts";
import type { Clock } from "#service/clock.ts";
import { listOf, objectOf, textOf } from "#wire/json/parse.ts";
import { objectSpansOf, readSpan } from "#wire/json/spans.ts";
import type { Admission } from "../admission/admission.ts";
import { steeringBytesMax, unreadAnswersMax } from "../common/bounds.ts";
import type { Capacity } from "../common/capacity.ts";
import type { IngressConfig } from "../common/config.ts";
import { responses } from "../common/endpoints.ts";
import { tooLarge } from "../common/failures.ts";
import { labelsOf } from "../common/labels.ts";
import { invalidRequest, Refusal, type Result, refusalOf, valueOrThrow } from "../common/refusal.ts";
import type { GenerationLifecycle } from "../generation/lifecycle.ts";
import { readJson } from "../request/body.ts";
import { type BodyReader, isReadAtOnce } from "../request/body-reader.ts";
import { bodyOf, type CallerFrame, frameOf, itemsOf, socketFailure, turnOf } from "../request/socket-frame.ts";
import { type SocketPort, SocketResponse, TurnFormat, type TurnPort } from "../response/socket-response.ts";
import { authenticateCaller, type KeyDirectory, unidentified } from "../server/authentication.ts";
import type { RequestBodies } from "../server/request-bodies.ts";
import { callerLeftStatus } from "../server/server.ts";
import { type ResolvedBody, type Storing, storageOf } from "../stored/storing.ts";
import { Conversation } from "./conversation.ts";

const noBackground = invalidRequest(
  "'background' is not supported on WebSockets: POST the request instead.",
  "background",
);

export interface TurnsOptions {
  config: IngressConfig;
  clock: Clock;
  events: EventSink<IngressEvents>;
  keys: KeyDirectory;
  admission: Admission;
  generations: GenerationLifecycle;
  bodies: RequestBodies;
  reader: BodyReader;
  storing: Storing;
  /** Bytes of the conversations that are kept. */
  conversations: Capacity;
}

/** A turn whose body is not read yet. */
interface PendingTurn {
  frame: CallerFrame;
  requestId: string;
  /** The items of its input, after those before it on this connection. */
  items: readonly Buffer[];
  bytes: Buffer;
  /** The answer that it continues. */
  previousId: string | undefined;
  generates: boolean;
}

/** The connection, as its turns use it. */
export interface TurnsPort extends Pick<TurnPort, "send">, SocketPort {
  /** Sends a frame that the gateway itself wrote. */
  sendOwn(frame: Buffer): void;
}

export class Turns {
  /** How many turns were answered or begun. */
  count = 0;
  /** When the last turn ended, or began. */
  lastAt: number;
  readonly #request: FastifyRequest;
  readonly #options: TurnsOptions;
  readonly #port: TurnsPort;
  readonly #conversation: Conversation;
  /** The response of the running turn, and complete ones that are not fully sent. */
  readonly #unread = new Set<SocketResponse>();
  #left = false;
  #running: { response: SocketResponse; requestId: string; startedAt: number } | undefined;

  constructor(request: FastifyRequest, options: TurnsOptions, port: TurnsPort) {
    this.#request = request;
    this.#options = options;
    this.#port = port;
    this.#conversation = new Conversation(options.conversations.claim(request.caller.id));
    this.lastAt = options.clock.now();
  }

  get isRunning(): boolean {
    return this.#running !== undefined;
  }

  /**
   * Throws Refusal for a frame that cannot be answered. A large frame is read until the promise
   * settles, and the next frame must wait for that.
   */
  receive(frame: CallerFrame, requestId: string): Promise<void> | undefined {
    switch (frame.type) {
      case "response.create":
        return this.#create(frame, requestId);
      case "response.steer":
        this.#refuseSteering(frame);
        return undefined;
      default:
        throw refusalOf("'type' must be response.create.", "type");
    }
  }

  /** The caller has read the bytes that were sent. */
  drained(): void {
    this.#running?.response.drained();
  }

  /** The connection is closed. */
  leave(): void {
    this.#left = true;
    this.#over(callerLeftStatus);
    for (const response of this.#unread) response.close();
    this.#conversation.forget();
  }

  #create(frame: CallerFrame, requestId: string): Promise<void> | undefined {
    if (this.#running !== undefined || this.#unread.size >= unreadAnswersMax)
      throw new Refusal(
        socketFailure(
          "response_in_progress",
          "Another response of this connection is in progress: wait for its end, or open a second connection.",
        ),
      );
    const { keys, clock } = this.#options;
    const request = this.#request;
    // The key may have been revoked since the connection was opened.
    const now = clock.epoch();
    if (!authenticateCaller(keys, now, request)) throw new Refusal(unidentified(request, keys, now));
    const { previousId, generates } = valueOrThrow(turnOf(frame));
    const before = previousId === undefined ? undefined : this.#conversation.upTo(previousId);
    const items = [...(before ?? []), itemsOf(frame)];
    // An answer that this connection does not have may be stored: the body then keeps its reference
    // to it.
    const readBody = () =>
      this.#read({
        frame,
        requestId,
        items,
        previousId,
        generates,
        bytes: bodyOf(frame, before === undefined ? undefined : items),
      });
    // Copying many bytes gets its own turn of the event loop.
    return isReadAtOnce({ length: items.reduce((sum, { length }) => sum + length, 0) })
      ? readBody()
      : setImmediate().then(readBody);
  }

  #read(turn: PendingTurn): Promise<void> | undefined {
    const { config, bodies, reader, storing } = this.#options;
    const request = this.#request;
    const { bytes } = turn;
    if (bytes.length > config.bodyBytesMax) throw new Refusal(tooLarge(config.bodyBytesMax));
    valueOrThrow(bodies.reserve(request, bytes.length));
    const read = reader.read(responses, bytes, { key: request.caller.id });
    const resolved = storing.resolve(request, responses, bytes, read);
    const begin = (body: Result<ResolvedBody>) => this.#begin(turn, valueOrThrow(body));
    if (resolved instanceof Promise) return request.bodyClaim.during(resolved).then(begin);
    begin(resolved);
    return undefined;
  }

  #begin({ frame, requestId, items: turnItems, previousId, generates }: PendingTurn, resolved: ResolvedBody): void {
    if (this.#left) return;
    const { admission, generations, storing } = this.#options;
    const request = this.#request;
    const { body, demand, bytes, expansion } = resolved;
    const items = expansion === undefined ? turnItems : inputItemsOf(bytes);
    const model = String(body.model);
    if (body.background === true) throw new Refusal(noBackground);
    if (generates) {
      const response = this.#responseFor(frame.streamId);
      const { layers, ...answer } = storing.answered(request, responses, resolved, { framing: "sse", previousId });
      const refusal = generations.begin(
        {
          http: request,
          requestId,
          endpoint: responses,
          model,
          demand,
          bytes,
          labels: labelsOf(request.caller, request.headers, body),
          ...answer,
          layers: { sink: response, ...layers },
        },
        resolved,
      );
      if (refusal !== undefined) response.close();
      valueOrThrow(refusal);
      this.#unread.add(response);
      response.once("close", () => this.#unread.delete(response));
      this.#running = { response, requestId, startedAt: this.#options.clock.now() };
      this.#conversation.begin(items);
    } else {
      const { id } = valueOrThrow(admission.modelFor(request, model));
      this.#conversation.begin(items);
      this.#answerWarmUp(frame.streamId, requestId, {
        model: id,
        body,
        storage: storageOf({ isStored: false, previousId }),
      });
    }
    this.count++;
    this.lastAt = this.#options.clock.now();
  }

  #responseFor(streamId: string | undefined): SocketResponse {
    const format = new TurnFormat({
      streamId,
      send: this.#port.send,
      passed: (type, data) => this.#remember(type, data),
      over: (status) => this.#over(status),
    });
    return new SocketResponse(format, this.#port);
  }

  /** A warm-up turn needs no answer, only an id that the next turn can continue from. */
  #answerWarmUp(
    streamId: string | undefined,
    requestId: string,
    turn: Pick<AnswerContext, "model" | "body" | "storage">,
  ): void {
    const id = requestId.replace("req_", "");
    const request = { system: [], messages: [], tools: [], settings: {} };
    const context = {
      ...turn,
      id,
      request,
      framing: "sse",
      createdAt: Math.floor(this.#options.clock.epoch() / 1_000),
    } as const;
    const created = responseBodyOf(context, [], { status: "in_progress" }, null);
    const completed = responseBodyOf(context, [], { status: "completed" }, undefined);
    this.#port.sendOwn(frameOf({ type: "response.created", sequence_number: 0, response: created }, streamId));
    this.#port.sendOwn(frameOf({ type: "response.completed", sequence_number: 1, response: completed }, streamId));
    this.#conversation.complete(String(objectOf(completed).id), []);
    this.#emitEnded({ requestId, status: 200, outcome: "answered" });
  }

  /**
   * Steering has its own failure event; an error event would look like the end of the running
   * response.
   */
  #refuseSteering({ bytes, streamId }: CallerFrame): void {
    if (bytes.length > steeringBytesMax) throw new Refusal(tooLarge(steeringBytesMax));
    const { input, previous_response_id } = objectOf(valueOrThrow(readJson(bytes)));
    const error = {
      type: "invalid_request_error",
      code: "steering_not_supported",
      message: "This gateway does not steer responses that are in progress.",
    };
    this.#port.sendOwn(
      frameOf(
        { type: "response.steer.failed", sequence_number: 0, error, steer: { previous_response_id, input } },
        streamId,
      ),
    );
  }

  /** Keeps the data that the next turn may continue from. */
  #remember(type: string | undefined, data: Buffer): void {
    switch (type) {
      case "response.output_item.done": {
        const { output_index: place, item } = membersOf(data, ["output_index", "item"]);
        if (typeof place === "number") this.#conversation.add(place, item);
        return;
      }
      case "response.completed":
      case "response.incomplete": {
        const { id, output } = objectOf(membersOf(data, ["response"]).response);
        const responseId = textOf(id);
        if (responseId !== undefined) this.#conversation.complete(responseId, listOf(output));
        return;
      }
    }
  }

  #over(status: number): void {
    if (this.#running === undefined) return;
    const { requestId, startedAt } = this.#running;
    this.lastAt = this.#options.clock.now();
    this.#running = undefined;
    this.#emitEnded({ requestId, status, outcome: "generation", durationMs: this.lastAt - startedAt });
    this.#conversation.abandon();
  }

  #emitEnded(turn: Parameters<typeof turnEndedOf>[1]): void {
    this.#options.events.emit("requestEnded", turnEndedOf(this.#request, turn));
  }
}

/** The event for the end of a turn, on the connection that `request` opened. */
export const turnEndedOf = (
  { caller, headers }: FastifyRequest,
  turn: Pick<RequestEnded, "requestId" | "status" | "outcome"> & { durationMs?: number; errorCode?: ErrorCode },
): RequestEnded => ({
  transport: "websocket",
  method: undefined,
  path: responsesEndpoint.path,
  keyId: caller.id,
  group: caller.group,
  account: caller.account,
  ...labelsOf(caller, headers),
  errorCode: undefined,
  durationMs: undefined,
  retries: undefined,
  trace: undefined,
  ...turn,
});

/** The values of these members of an object. */
function membersOf<Name extends string>(data: Buffer, names: readonly Name[]): Partial<Record<Name, unknown>> {
  const spans = objectSpansOf(data, names)?.all ?? [];
  return Object.fromEntries(spans.map((span) => [span.name, readSpan(data, span)])) as Partial<Record<Name, unknown>>;
}
