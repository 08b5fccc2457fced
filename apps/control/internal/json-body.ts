/** Reads JSON bodies, which are small. */
import type { Readable } from "node:stream";
import type { FastifyRequest } from "fastify";
import type { Failure } from "#dialects/errors.ts";
import { boundedBytes } from "#wire/bounded-bytes.ts";
import { type JsonObject, parsedObject } from "#wire/json/parse.ts";
import { internalBodyBytesMax } from "../bounds.ts";

export async function readJsonObject({
  body,
}: Pick<FastifyRequest, "body">): Promise<{ value: JsonObject } | { failure: Failure }> {
  const bytes = await boundedBytes((body ?? []) as Readable, internalBodyBytesMax);
  if (bytes === undefined)
    return { failure: { code: "body_too_large", message: `The body is larger than ${internalBodyBytesMax} bytes.` } };
  const value = parsedObject(bytes);
  return value === undefined
    ? { failure: { code: "invalid_request", message: "The body is not a JSON object." } }
    : { value };
}
