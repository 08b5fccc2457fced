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
  const invalid = (message: string): { failure: Failure } => ({ failure: { code: "invalid_request", message } });
  try {
    const read = parseWithin(bytes, requestBounds);
    if (!("value" in read)) return invalid(faultMessageOf(read));
    const value = plainObjectOf(read.value);
    if (value !== undefined) return { value };
  } catch {
    // It is no JSON.
  }
  return invalid("The body is not a JSON object.");
}
