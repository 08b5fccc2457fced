/** The ingress's own failures, and the mapping of Fastify's errors to failures. */
import type { ServerResponse } from "node:http";
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { type KeyRecord, type KeyState, stateOf } from "#access/record.ts";
import { type Failure, internalFailure } from "#dialects/errors.ts";
import { profiles } from "#dialects/profiles.ts";
import { invalidFieldOf, type ValidationFault } from "#dialects/request-schema/invalid-field.ts";
import type { EventSink } from "#events/event-stream.ts";
import type { IngressEvents } from "#events/ingress-events.ts";
import type { OperatorControl } from "#service/operator-controls.ts";
import { printable } from "#wire/json/bounds.ts";
import type { Capacity, Claim, Shortage } from "./capacity.ts";
import type { IngressConfig } from "./config.ts";
import { dialectOf, modelCallIn, pathOf, versionedPathOf } from "./endpoints.ts";
import { invalidRequest, Refusal, type Result } from "./refusal.ts";
import { unsupportedPartOf } from "./unsupported-paths.ts";
import { azurePathOf } from "./vendor-paths.ts";

const keyAdvice = "Send a key of this gateway as 'Authorization: Bearer <key>', x-api-key, x-goog-api-key or api-key.";

// Clients recognise these by OpenAI's wording: https://platform.openai.com/docs/guides/error-codes

export const missingKey: Failure = { code: "missing_key", message: `You didn't provide an API key. ${keyAdvice}` };

export const invalidKey: Failure = { code: "invalid_key", message: `Incorrect API key provided. ${keyAdvice}` };

/** For Google's clients, to whom a bearer token is no API key. */
export const invalidToken: Failure = { ...invalidKey, code: "invalid_token" };

const otherKey = "Use another key of this gateway.";

/** For a key that was valid once. Only its holder can send it, so it is told what happened. */
const endOfKey: Record<KeyState, (record: KeyRecord) => string> = {
  live: () => "it was not valid a moment ago. Send the request again.",
  expired: ({ expiresAt = 0 }) => `it expired at ${new Date(expiresAt).toISOString()}. ${otherKey}`,
  revoked: () => `it was revoked. ${otherKey}`,
  disabled: () => "its account is disabled. An operator of this gateway can enable it.",
};

export const endedKey = (record: KeyRecord, now: number): Failure => ({
  ...invalidKey,
  message: `Incorrect API key provided: ${endOfKey[stateOf(record, now)](record)}`,
});

export const addressNotAllowed = (address: string): Failure => ({
  code: "address_not_allowed",
  message: `This key may not be used from the address ${address}. Its operator can allow it with 'addresses' of the key.`,
});

export const unavailable: Failure = {
  code: "unavailable",
  message: "The gateway is not accepting requests at the moment; try again in a moment.",
  retryAfterSeconds: 1,
};

/** Redis refused a command, or did not answer it in time: callers get `unavailable`. */
export class RedisUnavailable extends Error {}

/** In place of an error of Redis, which says nothing about what it was asked for. */
export function redisIsAway(): never {
  throw new RedisUnavailable();
}

export const workerLost: Failure = {
  code: "worker_lost",
  message: "The process that ran this request was lost; send it again.",
};

/** Begins with the words by which clients recognise an invalid key. */
export const revokedKey: Failure = {
  code: "invalid_key",
  message: "Incorrect API key provided: it was revoked while this request was running.",
};

/** `reason`: why the queue is paused; undefined if it is not. */
export const waitExpired = (retryAfterSeconds: number, reason: string | undefined): Failure => ({
  code: "overloaded",
  message:
    reason === undefined
      ? "The request waited too long for a worker; try again later."
      : `The request waited too long, because an operator paused this model's queue: ${reason}`,
  retryAfterSeconds,
});

export const waitTooLong = (retryAfterSeconds: number): Failure => ({
  code: "overloaded",
  message: "The request would wait longer for a worker than it may; try again later.",
  retryAfterSeconds,
});

/**
 * Without a time at which the queue accepts requests again, nobody knows it: callers ask again
 * every minute.
 */
export const queueDraining = ({ reason, until }: Pick<OperatorControl, "reason" | "until">, now: number): Failure => ({
  code: "unavailable",
  message: `This model accepts no new requests at the moment: ${reason}`,
  retryAfterSeconds: until === undefined ? 60 : Math.max(1, Math.ceil((until - now) / 1_000)),
});

export const queueCleared = (reason: string): Failure => ({
  code: "stopped",
  message: `An operator ended the requests that waited for this model: ${reason}`,
  retryAfterSeconds: 1,
});

export const stoppedByOperator = (reason: string): Failure => ({
  code: "stopped",
  message: `An operator stopped this request: ${reason}`,
});

export const tooLarge = (bytesMax: number): Failure => ({
  code: "body_too_large",
  message: `The body is larger than ${bytesMax} bytes.`,
});

export const tooLate: Failure = { code: "request_timeout", message: "The request did not arrive in time." };

export const tooSlow = ({ uploadBytesPerSecondMin }: Pick<IngressConfig, "uploadBytesPerSecondMin">): Failure => ({
  code: "request_timeout",
  message: `The request arrived too slowly: send at least ${uploadBytesPerSecondMin} bytes per second, without long pauses.`,
});

export const otherRequest: Failure = {
  code: "unprocessable",
  message: "This idempotency-key was used with another request; use a new one for each.",
  param: "idempotency-key",
};

/**
 * By limit, as in the metrics: the message if the caller's key exceeds its share, and the one if
 * the ingress is full.
 */
const overloads = {
  bodies: {
    key: "This API key's requests have reached their share of the gateway's memory. Wait until some of them finish, then send this one again.",
    ingress: "The gateway's memory for requests is full; try again in a moment.",
  },
  generations: {
    key: "This API key has reached its share of running requests. Wait until some of them finish, then send this one again.",
    ingress: "The gateway has reached its limit of running requests; try again in a moment.",
  },
  waiting: {
    key: "This API key has reached its share of requests waiting for this model. Wait until some of them finish, then send this one again.",
    ingress: "Too many requests are waiting; try again in a moment.",
  },
  followers: {
    key: "This API key reads as many running or stored streams as one key may. Wait until some of them have ended.",
    ingress: "The gateway sends as many running or stored streams as it can; try again in a moment.",
  },
  files: {
    key: "This API key uploads and downloads as many files at once as one key may. Wait until some of them have ended.",
    ingress: "The gateway passes on as many files as it can; try again in a moment.",
  },
  websockets: {
    key: "This API key has reached its share of WebSockets. Close some of them, or use POST instead.",
    ingress: "The gateway has reached its limit of WebSockets; use POST instead.",
  },
} satisfies Record<string, Record<Shortage, string>>;

/** The limits that keys share, as in the metrics. */
export const sharedLimits = [...Object.keys(overloads), "answers"];

interface Overload {
  limit: keyof typeof overloads;
  keyId: string;
  retryAfterSeconds?: number;
}

/** Reports that a limit was reached; returns the refusal of the caller. */
export function overloadOf(
  events: EventSink<IngressEvents>,
  scope: Shortage,
  { limit, keyId, retryAfterSeconds = 1 }: Overload,
): Refusal {
  events.emit("limitReached", { limit, scope, keyId });
  return new Refusal({ code: "overloaded", message: overloads[limit][scope], retryAfterSeconds });
}

/** Takes one slot of a capacity for a key, until the response is closed. */
export function holdSlot(
  response: ServerResponse,
  capacity: Capacity,
  events: EventSink<IngressEvents>,
  overload: Overload,
): Result<Claim> {
  const slot = capacity.claim(overload.keyId);
  const shortage = slot.hold(1);
  if (shortage !== undefined) return overloadOf(events, shortage, overload);
  response.once("close", () => slot.end());
  return slot;
}

export const unsupportedMediaType: Failure = {
  code: "unsupported_media_type",
  message:
    "Send the body as JSON, with 'Content-Type: application/json'. Endpoints that take images or recordings want a form, with 'multipart/form-data'.",
};

export function failureOf(error: FastifyError, bodyBytesMax = 0): Failure {
  if (error instanceof RedisUnavailable) return unavailable;
  switch (error.code) {
    case "FST_ERR_CTP_BODY_TOO_LARGE":
      return tooLarge(bodyBytesMax);
    case "FST_ERR_CTP_INVALID_MEDIA_TYPE":
      return unsupportedMediaType;
    case "FST_ERR_CTP_EMPTY_JSON_BODY":
    case "FST_ERR_CTP_INVALID_CONTENT_LENGTH":
      return invalidRequest("The body is empty, or shorter than its Content-Length.");
    case "FST_ERR_BAD_URL":
    case "FST_ERR_MAX_PARAM_LENGTH":
      return { code: "path_not_found", message: "The path is not a valid URL path." };
    default:
      return error.statusCode === 400 ? invalidRequest("The request could not be read.") : internalFailure;
  }
}

/** The failure of a request whose body does not match its endpoint's schema. */
export function invalidBodyOf(fault: ValidationFault): Failure {
  const { param, message } = invalidFieldOf(fault);
  return { code: "invalid_request", message, ...(param !== "" && { param }) };
}

export function notFoundOf(request: FastifyRequest, reply: FastifyReply, server: FastifyInstance): Failure {
  const path = pathOf(request.url);
  const methodsOf = (url: string) =>
    (["GET", "HEAD", "POST"] as const).filter((method) => server.findRoute({ url, method }) !== null);
  // A route with an id would match an empty one.
  const allowed = path.endsWith("/") ? [] : methodsOf(path);
  if (allowed.length > 0) {
    reply.header("allow", allowed.join(", "));
    return {
      code: "method_not_allowed",
      message: `${request.method} is not allowed here; use ${allowed.join(" or ")}.`,
    };
  }
  const isServed = (url: string) => methodsOf(url).length > 0;
  const azure = azurePathOf(pathOf(request.originalUrl));
  if (azure !== undefined)
    return pathNotFoundOf(request, isServed(azure.served) ? azure.meant : undefined, azureEndpointAdvice);
  return pathNotFoundOf(request, meantPathOf(path, isServed));
}

const azureEndpointAdvice =
  "Set the endpoint of Azure's client to this gateway's address without a path; a base URL ends with /openai or /openai/v1.";

/** `meant` is the path that the client should use, if one is known. */
export function pathNotFoundOf(
  { method, url, originalUrl, headers }: FastifyRequest,
  meant: string | undefined,
  pathAdvice?: string,
): Failure {
  const dialect = dialectOf(url, headers);
  const unsupported = unsupportedPartOf(versionedPathOf(pathOf(url)).rest, dialect);
  const advice =
    meant === undefined
      ? unsupported === undefined
        ? ""
        : ` ${unsupported}`
      : ` The path is ${printable(meant)}. ${pathAdvice ?? profiles[dialect].baseUrlAdvice}`;
  return {
    code: "path_not_found",
    message: `There is no ${method} ${printable(pathOf(originalUrl))} here.${advice}`,
  };
}

/**
 * The path that a client with a wrong base URL meant; undefined if there is none. `isServed` tells
 * whether a path has a route.
 */
function meantPathOf(path: string, isServed: (url: string) => boolean): string | undefined {
  const { rest } = versionedPathOf(path);
  const call = modelCallIn(rest);
  const meant = `${call === undefined ? "/v1" : "/v1beta"}${rest}`;
  return rest !== "" &&
    meant !== path &&
    (call !== undefined || isServed(rest.startsWith("/models/") ? "/v1/models/*" : meant))
    ? meant
    : undefined;
}
