/** Reads JSON bodies, which are small. */
import type { Readable } from "node:stream";
import type { FastifyRequest } from "fastify";
import type { Failure } from "#dialects/errors.ts";
import { type JsonObject, parsedObject } from "#wire/json/parse.ts";
import { internalBodyBytesMax } from "../bounds.ts";

export async function readJsonObject({
  body,
}: Pick<FastifyRequest, "body">): Promise<{ value: JsonObject } | { failure: Failure }> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of (body ?? []) as Readable) {
    bytes += chunk.length;
    if (bytes > internalBodyBytesMax)
      return { failure: { code: "body_too_large", message: `The body is larger than ${internalBodyBytesMax} bytes.` } };
    chunks.push(chunk);
  }
  const value = parsedObject(Buffer.concat(chunks));
  return value === undefined
    ? { failure: { code: "invalid_request", message: "The body is not a JSON object." } }
    : { value };
}
