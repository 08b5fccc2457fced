/**
 * Vertex AI has the service tier in a header in place of the body's `serviceTier`:
 * https://cloud.google.com/vertex-ai/generative-ai/docs/flex-paygo and
 * https://cloud.google.com/vertex-ai/generative-ai/docs/priority-paygo.
 */
import { parsedObject, textOf } from "#wire/json/parse.ts";
import { tierOf } from "../neutral/service-tier.ts";
import { withoutFields } from "../repairs/omitted-fields.ts";

const field = "serviceTier";
const header = "x-vertex-ai-llm-shared-request-type";

interface RequestParts {
  headers?: Record<string, string> | undefined;
  body: Buffer;
}

/** The same request where it names no tier. */
export function withVertexTier<Request extends RequestParts>(request: Request): Request {
  if (!request.body.includes(`"${field}"`)) return request;
  const tier = tierOf(textOf(parsedObject(request.body)?.[field]));
  const named = tier === undefined || tier === "standard" ? {} : { [header]: tier };
  return { ...request, headers: { ...request.headers, ...named }, body: withoutFields(request.body, [field]) };
}
