/** Small JSON bodies of requests that ingresses pass on. */
import type { FastifyRequest } from "fastify";
import { type JsonObject, parsedObject } from "#wire/json/parse.ts";
import { batchBodyBytesMax } from "../bounds.ts";

/** Undefined for a body that is no JSON object, or too large. */
export async function readJson({ body }: FastifyRequest): Promise<JsonObject | undefined> {
  const parts: Buffer[] = [];
  let length = 0;
  for await (const part of (body ?? []) as AsyncIterable<Buffer>) {
    length += part.length;
    if (length > batchBodyBytesMax) return undefined;
    parts.push(part);
  }
  return parsedObject(Buffer.concat(parts));
}
