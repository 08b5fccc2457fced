/**
 * Compresses answers that are read, in the thread pool: a page of the log shrinks to a twentieth.
 * Answers of changes, which may show a new key, stay as they are.
 */
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import type { FastifyInstance } from "fastify";
import { compressedBytesMin } from "../bounds.ts";

const compressed = promisify(gzip);
/** Large answers are worth little more time than this. */
const level = 4;

export function addCompression(server: FastifyInstance): void {
  server.addHook("onSend", async (request, reply, payload) => {
    if (request.method !== "GET" || !(typeof payload === "string" || Buffer.isBuffer(payload))) return payload;
    if (payload.length < compressedBytesMin || reply.hasHeader("content-encoding")) return payload;
    if (!/^(text\/|application\/json)/.test(String(reply.getHeader("content-type")))) return payload;
    const varies = reply.getHeader("vary");
    reply.header("vary", varies === undefined ? "accept-encoding" : `${String(varies)}, accept-encoding`);
    if (!/\bgzip\b(?!;q=0)/.test(String(request.headers["accept-encoding"]))) return payload;
    reply.header("content-encoding", "gzip").removeHeader("content-length");
    return compressed(payload, { level });
  });
}
