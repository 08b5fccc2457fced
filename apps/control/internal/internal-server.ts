/**
 * The server for requests of ingresses: they have authenticated the caller, and sign what they say
 * about it. Bodies are streams. An answer is in the format of the caller's API; a failure is
 * neutral, and the ingress gives it the format of the caller's dialect.
 */
import { rm } from "node:fs/promises";
import { maxHeaderSize } from "node:http";
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from "fastify";
import type { Logger } from "pino";
import {
  type CallerClaims,
  InternalVerifier,
  internalFailureHeader,
  internalSignatureHeader,
} from "#access/internal-signature.ts";
import { type Failure, internalFailure, statuses } from "#dialects/errors.ts";
import type { Clock } from "#service/clock.ts";
import { listen } from "#service/operations.ts";
import { TokenBuckets } from "#service/token-buckets.ts";
import { callersMax } from "../bounds.ts";

declare module "fastify" {
  interface FastifyRequest {
    /** The caller whose ingress sends the request. */
    claims: CallerClaims;
  }
}

interface InternalServerOptions {
  secret: string;
  /** Calls of one key. */
  callsPerMinute: number;
  clock: Clock;
  log: Logger;
}

/** A server without routes. */
export function createInternalServer({ secret, callsPerMinute, clock, log }: InternalServerOptions): FastifyInstance {
  const verifier = new InternalVerifier(secret);
  const calls = new TokenBuckets({
    ...{ max: callsPerMinute, everyMs: 60_000 / callsPerMinute, keysMax: callersMax },
    clock: () => clock.epoch(),
  });
  // A longer URL does not pass Node's parser.
  const routerOptions = { maxParamLength: maxHeaderSize };
  const server = Fastify({ forceCloseConnections: true, requestTimeout: 0, routerOptions });
  server.decorateRequest("claims");
  server.addHook("onRequest", async (request, reply) => {
    const signed = { receiver: "control", method: request.method, url: request.url } as const;
    const claims = verifier.verify(request.headers[internalSignatureHeader], signed, clock.epoch());
    if (claims === undefined) return reply.code(401).send();
    request.claims = claims as CallerClaims;
    if (request.url.includes("%00")) return sendFailure(reply, noNul);
    // Generations have limits of their own.
    const retryAfterSeconds = request.url.startsWith(attachmentPrefix) ? 0 : calls.take(request.claims.key);
    if (retryAfterSeconds > 0) return sendFailure(reply, { ...tooManyCalls, retryAfterSeconds });
  });
  server.removeAllContentTypeParsers();
  server.addContentTypeParser("*", (_request, body, done) => done(null, body));
  server.setErrorHandler((error, request, reply) => {
    log.error({ err: error, path: request.routeOptions.url }, "a request of an ingress failed");
    return sendFailure(reply, internalFailure);
  });
  server.setNotFoundHandler(({ method }: FastifyRequest, reply) =>
    sendFailure(reply, { code: "path_not_found", message: `There is no ${method} here.` }),
  );
  return server;
}

/** The beginning of the paths of files that requests name. */
export const attachmentPrefix = "/attachments/";

/** The database knows no text with a NUL. */
const noNul: Failure = { code: "not_found", message: "There is nothing whose name has a NUL character." };

const tooManyCalls: Failure = {
  code: "rate_limited",
  message: "This API key has made too many requests for files; wait a little.",
};

export const sendFailure = (reply: FastifyReply, failure: Failure): FastifyReply =>
  reply.code(statuses[failure.code]).header(internalFailureHeader, "1").send(failure);

/** `address` is `<host>:<port>`, or `unix:<path>`. Resolves to it as ingresses call it. */
export async function listenInternally(server: FastifyInstance, address: string): Promise<string> {
  const [, path] = /^unix:(.+)$/.exec(address) ?? [];
  if (path === undefined) {
    const colon = address.lastIndexOf(":");
    const host = address.slice(0, colon).replaceAll(/[[\]]/g, "");
    return listen(server, host, Number(address.slice(colon + 1)), "CONTROL_INTERNAL_ADDRESS");
  }
  // A process that was killed leaves its socket behind.
  await rm(path, { force: true });
  await server.listen({ path });
  return address;
}
