/** Reads JSON bodies, which are small. */
import type { Readable } from "node:stream";
import type { FastifyRequest } from "fastify";
import type { Failure } from "#dialects/errors.ts";
import { boundedBytes } from "#wire/bounded-bytes.ts";
import { faultMessageOf, parseWithin, requestBounds } from "#wire/json/bounds.ts";
import { type JsonObject, plainObjectOf } from "#wire/json/parse.ts";
import { internalBodyBytesMax } from "../bounds.ts";

export async function readJsonObject(
  { body }: Pick<FastifyRequest, "body">,
  bytesMax = internalBodyBytesMax,
): Promise<{ value: JsonObject } | { failure: Failure }> {
  const bytes = await boundedBytes((body ?? []) as Readable, bytesMax);
  if (bytes === undefined)
    return { failure: { code: "body_too_large", message: `The body is larger than ${bytesMax} bytes.` } };
  let message = "The body is not a JSON object.";
  try {
    const read = parseWithin(bytes, requestBounds);
    const value = "value" in read ? plainObjectOf(read.value) : undefined;
    if (value !== undefined) return { value };
    if (!("value" in read)) message = faultMessageOf(read);
  } catch {
    // It is no JSON.
  }
  return { failure: { code: "invalid_request", message } };
}
