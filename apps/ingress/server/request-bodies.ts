/**
 * Receives request bodies: bounds the size of each, its minimum rate, and the memory of all
 * together. A handler gets the bytes without their content coding, in `request.bytes`;
 * body-reader.ts parses them.
 */
import type { ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { PassThrough, type Readable, Transform } from "node:stream";
import type { FastifyInstance, FastifyReply, FastifyRequest, RequestPayload } from "fastify";
import type { Failure } from "#dialects/errors.ts";
import type { EventSink } from "#events/event-stream.ts";
import type { IngressEvents } from "#events/ingress-events.ts";
import type { Clock } from "#service/clock.ts";
import { LiveMap } from "#service/live-map.ts";
import { fileRequestMs, smallBodyBytesMax } from "../common/bounds.ts";
import type { Capacity, Claim } from "../common/capacity.ts";
import type { IngressConfig } from "../common/config.ts";
import { overloadOf, tooLarge, tooLate, tooSlow } from "../common/failures.ts";
import { Refusal, valueOrThrow } from "../common/refusal.ts";
import { acceptedCodings, codingOf, decoderOf, unknownCoding } from "./content-codings.ts";
import { UploadPace, uploadCheckMsOf } from "./upload-pace.ts";

/**
 * A large body reserves this many times the bytes that have arrived, up to its Content-Length: a
 * fast sender soon has its memory reserved, and a slow one can't reserve memory that it does not
 * use.
 */
const reservedAhead = 4;

export const noBytes = Buffer.alloc(0);

declare module "fastify" {
  interface FastifyRequest {
    /** The handler takes the body as it arrives, in `request.body`. */
    isStreamed: boolean;
    /** The body, decompressed; empty where there is none. */
    bytes: Buffer;
    /** The request's part of the memory for bodies; its generation takes it over. */
    bodyClaim: Claim;
    /** The body while it arrives; undefined otherwise. */
    upload: { body: RequestPayload; isFollowed: boolean } | undefined;
  }
}

export interface RequestBodiesOptions {
  config: Pick<IngressConfig, "bodyBytesMax" | "requestTimeoutMs" | "uploadBytesPerSecondMin" | "uploadGraceMs">;
  /** Bytes of request bodies in this process. */
  capacity: Capacity;
  events: EventSink<IngressEvents>;
  clock: Clock;
}

interface Upload {
  socket: Socket;
  body: RequestPayload;
  pace: UploadPace;
  /** When it must have arrived. */
  until: number;
}

export class RequestBodies {
  readonly #options: RequestBodiesOptions;
  readonly #uploads = new LiveMap<string, Upload>();
  /** The uploads that began in this turn of the event loop: most are over by its end. */
  readonly #begun: FastifyRequest[] = [];

  constructor(options: RequestBodiesOptions) {
    this.#options = options;
  }

  /** How often `tick` must be called. */
  get checkEveryMs(): number {
    return uploadCheckMsOf(this.#options.config);
  }

  /** Ends the uploads that are too slow, or take too long. */
  tick(now: number): void {
    for (const { socket, body, pace, until } of this.#uploads.values())
      if (pace.isTooSlow(socket.bytesRead, now)) cutOff(body, new Refusal(tooSlow(this.#options.config)));
      else if (now > until) cutOff(body, new Refusal(tooLate));
  }

  /** Makes the server accept JSON bodies. */
  addTo(server: FastifyInstance): void {
    server.decorateRequest("isStreamed", false);
    server.decorateRequest("bytes");
    server.decorateRequest("bodyClaim");
    server.decorateRequest("upload");
    server.addHook("preParsing", (request, reply, payload, done) => done(null, this.#receive(request, reply, payload)));
    server.removeAllContentTypeParsers();
    server.addContentTypeParser("application/json", { parseAs: "buffer" }, this.#keepBytes);
  }

  /** Makes the routes of a scope accept forms, too; only some of them read JSON. */
  takeForms(scope: FastifyInstance): void {
    scope.addContentTypeParser("multipart/form-data", { parseAs: "buffer" }, this.#keepBytes);
  }

  /** Makes the routes of a scope read a body of any type, or of none. */
  takeAnyType(scope: FastifyInstance): void {
    scope.addContentTypeParser("*", { parseAs: "buffer" }, this.#keepBytes);
  }

  /** Makes the routes of a scope take any body as a stream. */
  takeStreams(scope: FastifyInstance): void {
    scope.addHook("onRequest", (request, _reply, done) => {
      request.isStreamed = true;
      done();
    });
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser("*", (_request, body, done) => done(null, body));
  }

  /** Opens the request's claim on the memory for bodies. Call it once its caller is known. */
  open(request: FastifyRequest): void {
    request.bodyClaim = this.#options.capacity.claim(request.caller.id);
  }

  /**
   * Reserves this many bytes for a request, unless it has reserved more. Returns a refusal when its
   * key gets no more.
   */
  reserve({ bodyClaim, caller }: FastifyRequest, bytes: number): Refusal | undefined {
    const shortage = bodyClaim.hold(Math.max(bytes, bodyClaim.amount));
    return shortage && overloadOf(this.#options.events, shortage, { limit: "bodies", keyId: caller.id });
  }

  /** The upload is complete or refused: its rate no longer matters. */
  uploadEnded(request: FastifyRequest): void {
    if (request.upload?.isFollowed) this.#uploads.delete(request.id);
    request.upload = undefined;
  }

  /** Follows those that need more than one turn of the event loop. */
  readonly #followBegun = () => {
    const { config, clock } = this.#options;
    const now = clock.now();
    for (const { id, raw, upload, isStreamed } of this.#begun.splice(0)) {
      if (upload === undefined || raw.complete) continue;
      upload.isFollowed = true;
      const { socket } = raw;
      const until = now + (isStreamed ? fileRequestMs : config.requestTimeoutMs);
      this.#uploads.set(id, { socket, body: upload.body, pace: new UploadPace(config, socket.bytesRead, now), until });
    }
  };

  /** The response is closed: releases what the request still holds. */
  close(request: FastifyRequest): void {
    this.uploadEnded(request);
    (request.bodyClaim as Claim | undefined)?.end();
  }

  #receive(request: FastifyRequest, reply: FastifyReply, payload: RequestPayload): RequestPayload {
    const body = request.isStreamed ? this.#passed(request, payload) : this.#admit(request, reply, payload);
    // https://www.rfc-editor.org/rfc/rfc9110#section-10.1.1
    if (request.headers.expect !== undefined && request.raw.httpVersion !== "1.0") reply.raw.writeContinue();
    if (!request.raw.complete && !reply.raw.closed) {
      request.upload = { body, isFollowed: false };
      if (this.#begun.push(request) === 1) setImmediate(this.#followBegun);
    }
    return body;
  }

  /** Returns the stream of the body. Throws Refusal before any of it is read. */
  #admit(request: FastifyRequest, reply: FastifyReply, payload: RequestPayload): RequestPayload {
    const { config, events } = this.#options;
    const { headers, bodyClaim } = request;
    const isChunked = headers["transfer-encoding"] !== undefined;
    const coding = codingOf(headers["content-encoding"]);
    if (isChunked && coding === undefined) return this.#counted(request, reply.raw, payload);
    const announced = Number(headers["content-length"] ?? 0);
    if (announced > config.bodyBytesMax) throw new Refusal(tooLarge(config.bodyBytesMax));
    if (coding !== undefined && (isChunked || announced > 0)) return this.#decoded(request, reply, payload, coding);
    if (announced <= smallBodyBytesMax) {
      valueOrThrow(this.reserve(request, announced));
      return payload;
    }
    const shortage = bodyClaim.shortageFor(announced);
    if (shortage !== undefined) throw overloadOf(events, shortage, { limit: "bodies", keyId: request.caller.id });
    valueOrThrow(this.reserve(request, smallBodyBytesMax));
    return this.#counted(request, reply.raw, payload, announced);
  }

  /**
   * A body in a content coding: its decoded bytes are bounded and reserved, and as many encoded
   * ones may arrive.
   */
  #decoded(request: FastifyRequest, reply: FastifyReply, payload: RequestPayload, coding: string): Transform {
    const { bodyBytesMax } = this.#options.config;
    const decoder = decoderOf(coding);
    if (decoder === undefined) {
      reply.header("accept-encoding", acceptedCodings);
      throw new Refusal(unknownCoding);
    }
    const counter = this.#counter(request, reply.raw);
    // Fastify compares the Content-Length with this number of bytes.
    const body = Object.assign(counter, { receivedEncodedLength: 0 });
    payload.on("data", (chunk: Buffer) => {
      body.receivedEncodedLength += chunk.length;
      if (body.receivedEncodedLength > bodyBytesMax) counter.destroy(new Refusal(tooLarge(bodyBytesMax)));
    });
    const discardRest = () => {
      payload.unpipe(decoder);
      payload.resume();
    };
    decoder.once("error", (error) => counter.destroy(error));
    // Nothing else listens for errors while no handler reads the body.
    counter.once("error", discardRest);
    counter.once("close", () => {
      decoder.destroy();
      discardRest();
    });
    destroyWithCaller(counter, request, payload);
    payload.pipe(decoder).pipe(counter);
    return body;
  }

  /**
   * A body that reserves its bytes as they arrive. The rest of a refused body is read and
   * discarded.
   */
  #counted(request: FastifyRequest, response: ServerResponse, body: RequestPayload, announced?: number): Transform {
    const counter = this.#counter(request, response, announced);
    counter.once("error", () => body.resume());
    destroyWithCaller(counter, request, body);
    return body.pipe(counter);
  }

  /** A body that its handler takes as it arrives; the receiver bounds its size. */
  #passed(request: FastifyRequest, body: RequestPayload): Transform {
    if (codingOf(request.headers["content-encoding"]) !== undefined) throw new Refusal(codedUpload);
    const passed = new PassThrough();
    passed.once("end", () => this.uploadEnded(request));
    destroyWithCaller(passed, request, body);
    return body.pipe(passed);
  }

  /** Passes bytes on, bounds and reserves them. */
  #counter(request: FastifyRequest, response: ServerResponse, announced?: number): Transform {
    const { bodyBytesMax } = this.#options.config;
    let bytes = 0;
    const arrived = (length: number) => {
      bytes += length;
      if (bytes > bodyBytesMax) return new Refusal(tooLarge(bodyBytesMax));
      if (response.writableEnded || response.destroyed) return undefined;
      return this.reserve(request, announced === undefined ? bytes : Math.min(announced, reservedAhead * bytes));
    };
    return new Transform({
      transform: (chunk: Buffer, _encoding, done) => done(arrived(chunk.length), chunk),
    });
  }

  readonly #keepBytes = (
    request: FastifyRequest,
    bytes: Buffer,
    done: (error: Error | null, body?: unknown) => void,
  ): void => {
    this.uploadEnded(request);
    const refusal = this.reserve(request, bytes.length);
    if (refusal === undefined) request.bytes = bytes;
    done(refusal ?? null);
  };
}

const codedUpload: Failure = {
  code: "unsupported_media_type",
  message: "Send files without 'Content-Encoding'.",
};

function destroyWithCaller(counter: Transform, { raw }: FastifyRequest, payload: Readable): void {
  payload.once("close", () => {
    if (!raw.complete) counter.destroy();
  });
}

/** Makes the reader of a body fail with this error. */
function cutOff(body: RequestPayload, error: Refusal): void {
  // Destroying the request itself would break its connection before the response is sent.
  if (body instanceof Transform) body.destroy(error);
  else if (body.listenerCount("error") > 0) body.emit("error", error);
}
