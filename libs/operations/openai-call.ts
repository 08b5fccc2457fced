/**
 * The common part of single calls between a caller and an upstream of OpenAI's formats: the model's
 * name, the usage, and errors.
 */
import type { WholeAnswer, WireRequest } from "#dialects/codec.ts";
import { openaiUsageOf } from "#dialects/openai/parts.ts";
import { withMember } from "#dialects/relay/verbatim.ts";
import { isErrorBody, upstreamErrorOf } from "#dialects/upstream-errors/upstream-errors.ts";
import { countedUsage, plainUsageOf, tokensOf, type Usage } from "#dialects/usage.ts";
import { flagIn } from "#wire/form.ts";
import { type JsonObject, jsonBytesOf, objectOf } from "#wire/json/parse.ts";
import { withValues } from "#wire/json/spans.ts";

/** The object with this model, whether or not it named one. All other bytes stay unchanged. */
export const withModel = (bytes: Buffer, model: string) => withValues(bytes, { model: jsonBytesOf(model) });

/** The caller's JSON with the upstream's model name. */
export const requestFor = (path: string, bytes: Buffer, model: string): WireRequest => ({
  path,

  body: withModel(bytes, model),
});

/**
 * The caller's form with the upstream's model name, and with `stream` as OpenAI spells it; all
 * other fields and files stay unchanged, in their order. Modifies `form`.
 */
export async function formRequestOf(form: FormData, path: string, model: string): Promise<WireRequest> {
  form.set("model", model);
  const stream = form.getAll("stream").at(-1);
  if (typeof stream === "string") form.set("stream", String(flagIn(stream)));
  const response = new Response(form);
  return {
    path,
    // Includes the boundary.
    headers: { "content-type": response.headers.get("content-type") as string },
    body: Buffer.from(await response.arrayBuffer()),
  };
}

/** The upstream's JSON with the catalogue's id of the model, if it names one. */
export const namedAnswerOf = (bytes: Buffer, model: string) => withMember(bytes, ["model"], jsonBytesOf(model));

/** The error in a body with a success status, or a body that is no answer. */
export const errorIn = (body: JsonObject | undefined): WholeAnswer =>
  body !== undefined && isErrorBody(body) ? { kind: "error", error: upstreamErrorOf(body) } : { kind: "malformed" };

/**
 * Tokens as servers of these formats report them; undefined if there are none. Voyage and Jina
 * count the total alone, which is input: https://docs.voyageai.com/reference/embeddings-api
 */
export const reportedUsageOf = (value: unknown): Usage | undefined =>
  countedUsage(openaiUsageOf(value)) ?? countedUsage(plainUsageOf(tokensOf(objectOf(value).total_tokens)));
