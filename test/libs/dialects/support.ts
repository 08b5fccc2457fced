/** The common part of the dialects' request tests. */
import Fastify from "fastify";
import type { AnswerContext } from "#dialects/codec.ts";
import { codecs } from "#dialects/codecs.ts";
import type { ConversationDialect } from "#dialects/dialect.ts";
import { Refusal } from "#dialects/neutral/field-support.ts";
import type { NeutralRequest } from "#dialects/neutral/neutral.ts";
import { targetOf } from "../../support/target.ts";

/** A server that answers "taken" where a body fits the path's schema, with no change to it. */
export function schemaServer(schemas: Record<string, object>) {
  const server = Fastify({
    ajv: {
      customOptions: {
        coerceTypes: false,
        useDefaults: false,
        removeAdditional: false,
        allErrors: false,
        strict: false,
        verbose: true,
      },
    },
  });
  for (const [path, body] of Object.entries(schemas)) server.post(path, { schema: { body } }, async () => "taken");
  return server;
}

/** The field that a refusal names, or "taken". */
export function refusalOf(act: () => unknown): string {
  try {
    act();
  } catch (error) {
    if (error instanceof Refusal) return error.param;
    throw error;
  }
  return "taken";
}

/** A request without the places of its values, to compare what they say. */
export const withoutPaths = (value: unknown): unknown =>
  JSON.parse(JSON.stringify(value, (key, inner) => (key === "path" ? undefined : inner)));

/** The body that an upstream of a dialect gets for a request. */
export const wireOf = (request: NeutralRequest, dialect: ConversationDialect): Record<string, unknown> =>
  JSON.parse(codecs[dialect].encodeRequest(request, "whole", targetOf(dialect, "upstream-name")).body.toString());

/** The context of an answer to a request. */
export const contextOf = (request: NeutralRequest): AnswerContext => ({
  id: "1",
  model: "m",
  createdAt: 1,
  framing: "sse",
  request,
  body: {},
});
