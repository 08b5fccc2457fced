/**
 * Passes requests on to control, as streams in both directions: control has what callers upload.
 * The caller is authenticated here; a signature tells control who it is.
 */
import { Agent, request as httpRequest, type IncomingMessage, type RequestOptions } from "node:http";
import type { Readable } from "node:stream";
import type { FastifyReply, FastifyRequest } from "fastify";
import {
  type CallerClaims,
  type InternalClaims,
  internalFailureHeader,
  internalNameHeader,
  internalSignatureHeader,
  signInternal,
} from "#access/internal-signature.ts";
import type { Failure } from "#dialects/errors.ts";
import type { Clock } from "#service/clock.ts";
import { boundedBytes } from "#wire/bounded-bytes.ts";
import { controlFailureBytesMax, controlSilenceMs } from "../common/bounds.ts";
import { unavailable } from "../common/failures.ts";
import { Refusal, type Result, valueOrThrow } from "../common/refusal.ts";

interface ControlLinkOptions {
  /** `http://<host>:<port>`, or `unix:<path>`. */
  url: string;
  secret: string;
  clock: Clock;
}

export interface LinkedFile {
  name: string;
  /** The media type that its sender gave it. */
  type: string;
  bytes: Buffer;
}

/** A request to control on behalf of a caller. */
interface Sent {
  method: string;
  path: string;
  headers: Record<string, string | string[] | undefined>;
  body?: Readable | undefined;
  claims?: InternalClaims | undefined;
}

/** The account of a key whose record names none, as control imports it. */
const defaultAccount = "default";

export class ControlLink {
  readonly #options: ControlLinkOptions;
  readonly #target: RequestOptions;
  readonly #agent = new Agent({ keepAlive: true });

  constructor(options: ControlLinkOptions) {
    this.#options = options;
    const [, socketPath] = /^unix:(.+)$/.exec(options.url) ?? [];
    const { hostname, port } = new URL(socketPath === undefined ? options.url : "http://control");
    this.#target = socketPath === undefined ? { hostname: hostname.replaceAll(/[[\]]/g, ""), port } : { socketPath };
  }

  close(): void {
    this.#agent.destroy();
  }

  /**
   * Sends a caller's request to control as one for `path`, with its query, and the answer back.
   * Control also gets these `claims`. Rejects with a Refusal if control refuses or does not answer.
   */
  async forward(
    request: FastifyRequest,
    reply: FastifyReply,
    { path, claims }: { path: string; claims?: InternalClaims },
  ): Promise<FastifyReply> {
    const body = request.body as Readable | undefined;
    const headers = passedHeadersOf(request.headers);
    const answer = valueOrThrow(await this.#send(request, { method: request.method, path, headers, body, claims }));
    for (const [name, value] of Object.entries(answer.headers))
      if (value !== undefined && !ownHeaders.has(name)) reply.header(name, value);
    return reply.code(answer.statusCode ?? 500).send(answer);
  }

  /**
   * A file of the caller's account; undefined for one with more than `bytesMax` bytes. Rejects if
   * the answer breaks off.
   */
  async fileOf(request: FastifyRequest, id: string, bytesMax: number): Promise<Result<LinkedFile | undefined>> {
    const answer = await this.#send(request, { method: "GET", path: `/attachments/${id}`, headers: {} });
    if (answer instanceof Refusal) return answer;
    if (Number(answer.headers["content-length"]) > bytesMax) {
      answer.destroy();
      return undefined;
    }
    const name = decodeURIComponent(String(answer.headers[internalNameHeader] ?? ""));
    const bytes = await boundedBytes(answer, bytesMax);
    return bytes && { name, type: String(answer.headers["content-type"] ?? ""), bytes };
  }

  /** The answer of control, as soon as it begins, unless it is a failure. */
  async #send(request: FastifyRequest, sent: Sent): Promise<Result<IncomingMessage>> {
    try {
      const answer = await this.#answerTo(request, sent);
      if (answer.headers[internalFailureHeader] !== undefined) return new Refusal(await failureIn(answer));
      return answer.statusCode === 401 ? new Refusal(controlUnreachable) : answer;
    } catch (error) {
      return error instanceof Refusal ? error : new Refusal(controlUnreachable);
    }
  }

  /** Resolves when control answers, which may be before it has the whole body. */
  #answerTo(request: FastifyRequest, sent: Sent): Promise<IncomingMessage> {
    const { method, path, headers, body } = sent;
    const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
    const outgoing = httpRequest({
      ...this.#target,
      agent: this.#agent,
      method,
      path,
      timeout: controlSilenceMs,
      headers: { ...headers, [internalSignatureHeader]: this.#signatureOf(request, sent) },
    });
    outgoing.once("response", resolve);
    outgoing.once("error", reject);
    outgoing.once("timeout", () => outgoing.destroy(new Error("control is silent")));
    if (body === undefined) outgoing.end();
    else {
      body.once("error", (error) => {
        reject(error);
        outgoing.destroy();
      });
      body.once("close", () => {
        if (!body.readableEnded) outgoing.destroy();
      });
      body.pipe(outgoing);
      // The rest of a body that control refuses is read and discarded.
      outgoing.once("response", ({ headers: { [internalFailureHeader]: failure } }) => {
        if (failure !== undefined) body.unpipe(outgoing).resume();
      });
    }
    return promise;
  }

  #signatureOf({ caller, id, protocol, host }: FastifyRequest, { method, path: url, claims: more }: Sent): string {
    const claims: CallerClaims = {
      key: caller.id,
      account: caller.account ?? defaultAccount,
      group: caller.group,
      request: id,
      origin: `${protocol}://${host}`,
      ...more,
    };
    const { secret, clock } = this.#options;
    return signInternal(secret, { receiver: "control", method, url }, claims, clock.epoch());
  }
}

const controlUnreachable: Failure = {
  ...unavailable,
  message: "The gateway's store of files cannot be reached at the moment; try again in a moment.",
};

/** Headers of a caller that control reads. */
const passedHeaders = ["content-type", "content-length", "transfer-encoding"];

const passedHeadersOf = (headers: FastifyRequest["headers"]) =>
  Object.fromEntries(
    Object.entries(headers).filter(([name]) => passedHeaders.includes(name) || name.startsWith("x-goog-upload-")),
  );

/** Headers of a connection, which are not passed on. */
const ownHeaders = new Set(["connection", "keep-alive", "transfer-encoding", "date"]);

async function failureIn(answer: IncomingMessage): Promise<Failure> {
  const bytes = await boundedBytes(answer, controlFailureBytesMax);
  return bytes === undefined ? controlUnreachable : (JSON.parse(bytes.toString()) as Failure);
}
