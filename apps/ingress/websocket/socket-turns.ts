/** The turns on one WebSocket: one at a time, each a generation like that of a POST request, which may go on from the one before it. */
import { setImmediate } from "node:timers/promises";
import type { FastifyInstance, FastifyRequest } from "fastify";
import { listOf, objectOf, objectSpansOf, readSpan, textOf } from "#dialects/json.ts";
import { responseBodyOf, usageBodyOf } from "#dialects/openai-responses/answer.ts";
import type { Admission } from "../admission/admission.ts";
import type { Capacity } from "../admission/capacity.ts";
import type { IngressConfig } from "../config.ts";
import { type BodyRead, type ReadBody, readJson } from "../http/body.ts";
import { type BodyReader, isReadAtOnce } from "../http/body-reader.ts";
import { responsesEndpoint, responsesPath } from "../http/endpoints.ts";
import { tooLarge } from "../http/failures.ts";
import { callerLeftStatus, Refused } from "../http/requests.ts";
import type { IngressMetrics } from "../metrics.ts";
import { Conversation } from "./conversation.ts";
import { bodyOf, type CallerFrame, frameOf, itemsOf, socketFailure, turnOf } from "./socket-frame.ts";
import { SocketResponse, type TurnPort } from "./socket-response.ts";

/** How many answers may wait to be read; then the next turn must wait. */
const unreadMax = 4;
/** Bytes of a frame that steers: it is refused, and what it holds goes back with the refusal. */
const steerBytesMax = 64 * 1024;

export interface TurnsOptions {
  server: FastifyInstance;
  config: IngressConfig;
  admission: Admission;
  bodies: BodyReader;
  metrics: IngressMetrics;
  /** Bytes of conversations. */
  kept: Capacity;
}

/** A turn on its way to its beginning, but for its body. */
interface Checked {
  frame: CallerFrame;
  requestId: string;
  items: Buffer[];
  bytes: Buffer;
  generates: boolean;
}

/** What a connection does for its turns. */
export interface TurnsPort extends Pick<TurnPort, "send" | "isFull" | "terminate"> {
  /** Sends what no upstream was asked for. */
  say(frame: Buffer): void;
}

export class Turns {
  /** Answered and begun ones. */
  count = 0;
  /** When the last one ended, or began. */
  lastAt: number;
  readonly #request: FastifyRequest;
  readonly #options: TurnsOptions;
  readonly #port: TurnsPort;
  readonly #conversation: Conversation;
  /** The running one, and those that are over but not sent to their end. */
  readonly #unread = new Set<SocketResponse>();
  #left = false;
  #running: { response: SocketResponse; startedAt: number } | undefined;

  constructor(request: FastifyRequest, options: TurnsOptions, port: TurnsPort, now: number) {
    this.#request = request;
    this.#options = options;
    this.#port = port;
    this.#conversation = new Conversation(options.kept.claim(request.caller.id));
    this.lastAt = now;
  }

  get isRunning(): boolean {
    return this.#running !== undefined;
  }

  /** Throws Refused for what can't be answered. A large frame takes until the promise settles; the next one must wait for that. */
  receive(frame: CallerFrame, requestId: string): Promise<void> | undefined {
    switch (frame.type) {
      case "response.create":
        return this.#create(frame, requestId);
      case "response.steer":
        this.#refuseSteering(frame);
        return undefined;
      default:
        throw new Refused({ code: "invalid_request", message: "'type' must be response.create.", param: "type" });
    }
  }

  /** The caller has read what there was. */
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
    if (this.#running !== undefined || this.#unread.size >= unreadMax)
      throw new Refused(
        socketFailure(
          "response_in_progress",
          "Another response of this connection is in progress: wait for its end, or open a second connection.",
        ),
      );
    const { server } = this.#options;
    const request = this.#request;
    request.caller = server.callerOf(request);
    const { previousId, generates } = turnOf(frame);
    const before = previousId === undefined ? [] : this.#conversation.upTo(previousId);
    if (before === undefined)
      throw new Refused(
        socketFailure(
          "previous_response_not_found",
          "previous_response_id does not name the latest response of this connection, or that was too large to be kept: send the whole input instead.",
          "previous_response_id",
        ),
      );
    const items = [...before, itemsOf(frame)];
    const readBody = () =>
      this.#read({
        frame,
        requestId,
        items,
        generates,
        bytes: bodyOf(frame, previousId === undefined ? undefined : items),
      });
    // To copy many bytes takes a turn of the event loop of its own.
    return isReadAtOnce({ length: items.reduce((sum, { length }) => sum + length, 0) })
      ? readBody()
      : setImmediate().then(readBody);
  }

  #read(checked: Checked): Promise<void> | undefined {
    const { server, config, bodies } = this.#options;
    const request = this.#request;
    const { bytes } = checked;
    if (bytes.length > config.bodyBytesMax) throw new Refused(tooLarge(config.bodyBytesMax));
    server.reserve(request, bytes.length);
    const begin = (read: BodyRead<ReadBody>) => this.#begin(checked, read);
    const read = bodies.read(responsesEndpoint, bytes, { key: request.caller.id });
    if (read instanceof Promise) return request.held.during(read).then(begin);
    begin(read);
    return undefined;
  }

  #begin({ frame, requestId, items, bytes, generates }: Checked, read: BodyRead<ReadBody>): void {
    if (this.#left) return;
    if (read.kind === "refused") throw new Refused(read.failure);
    const { admission } = this.#options;
    const request = this.#request;
    const { body, demand } = read.value;
    const model = String(body.model);
    if (generates) {
      const asked = { request, requestId, endpoint: responsesEndpoint, model, framing: "sse", demand, bytes } as const;
      const response = this.#responseFor(frame.streamId);
      admission.begin({ ...asked, response });
      this.#unread.add(response);
      response.once("close", () => this.#unread.delete(response));
      this.#running = { response, startedAt: performance.now() };
      this.#conversation.begin(items);
    } else {
      const { id } = admission.modelFor(request, model);
      this.#conversation.begin(items);
      this.#answerWithout(frame.streamId, { id: requestId.replace("req_", ""), model: id, body });
    }
    this.count++;
    this.lastAt = performance.now();
  }

  #responseFor(streamId: string | undefined): SocketResponse {
    return new SocketResponse({
      ...this.#port,
      streamId,
      passed: (type, data) => this.#remember(type, data),
      over: (status) => this.#over(status),
    });
  }

  /** Callers that warm up want no answer, but an id to go on from. */
  #answerWithout(
    streamId: string | undefined,
    { id, model, body }: { id: string; model: string; body: Record<string, unknown> },
  ): void {
    const request = { system: [], messages: [], tools: [], settings: {} };
    const context = { id, model, body, request, framing: "sse", createdAt: Math.floor(Date.now() / 1_000) } as const;
    const created = responseBodyOf(context, [], { status: "in_progress" }, null);
    const completed = responseBodyOf(context, [], { status: "completed" }, usageBodyOf(undefined));
    this.#port.say(frameOf({ type: "response.created", sequence_number: 0, response: created }, streamId));
    this.#port.say(frameOf({ type: "response.completed", sequence_number: 1, response: completed }, streamId));
    this.#conversation.complete(String(objectOf(completed).id), []);
    this.#options.metrics.requests.inc({ path: responsesPath, status: 200 });
  }

  /** The dialect has a word for what can't be steered; an error would be taken for the end of the response that is in progress. */
  #refuseSteering({ bytes, streamId }: CallerFrame): void {
    if (bytes.length > steerBytesMax) throw new Refused(tooLarge(steerBytesMax));
    const read = readJson(bytes);
    if (read.kind === "refused") throw new Refused(read.failure);
    const { input, previous_response_id } = objectOf(read.value);
    const error = {
      type: "invalid_request_error",
      code: "steering_not_supported",
      message: "This gateway does not steer responses that are in progress.",
    };
    this.#port.say(
      frameOf(
        { type: "response.steer.failed", sequence_number: 0, error, steer: { previous_response_id, input } },
        streamId,
      ),
    );
  }

  /** Notes what the next turn may go on from. */
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
        const given = textOf(id);
        if (given !== undefined) this.#conversation.complete(given, listOf(output));
        return;
      }
    }
  }

  #over(status: number): void {
    if (this.#running === undefined) return;
    const { metrics } = this.#options;
    this.lastAt = performance.now();
    metrics.requests.inc({ path: responsesPath, status });
    metrics.duration.observe({ path: responsesPath }, (this.lastAt - this.#running.startedAt) / 1_000);
    this.#running = undefined;
    this.#conversation.abandon();
  }
}

/** The values of these members of an object. */
function membersOf<Name extends string>(data: Buffer, names: readonly Name[]): Partial<Record<Name, unknown>> {
  const spans = objectSpansOf(data, names)?.all ?? [];
  return Object.fromEntries(spans.map((span) => [span.name, readSpan(data, span)])) as Partial<Record<Name, unknown>>;
}
