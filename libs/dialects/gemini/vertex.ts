/**
 * Vertex AI has the service tier in a header in place of the body's `serviceTier`
 * (https://cloud.google.com/vertex-ai/generative-ai/docs/flex-paygo,
 * https://cloud.google.com/vertex-ai/generative-ai/docs/priority-paygo), and counts the tokens of a
 * conversation without a request around it
 * (https://cloud.google.com/vertex-ai/docs/reference/rpc/google.cloud.aiplatform.v1#counttokensrequest).
 */
import { jsonBytesOf, objectOf, parsedObject, textOf } from "#wire/json/parse.ts";
import { tierOf } from "../neutral/service-tier.ts";
import { withoutFields } from "../repairs/omitted-fields.ts";
import { vertexCallIds } from "../repairs/strict-upstreams.ts";

const field = "serviceTier";
const countedRequest = "generateContentRequest";
const header = "x-vertex-ai-llm-shared-request-type";

interface RequestParts {
  headers?: Record<string, string> | undefined;
  body: Buffer;
}

/** The same request where it names no tier and counts no tokens. */
export function vertexRequestOf<Request extends RequestParts>(request: Request): Request {
  const body = vertexCountOf(request.body);
  return withVertexTier(body === request.body ? request : { ...request, body });
}

function vertexCountOf(bytes: Buffer): Buffer {
  if (!bytes.includes(`"${countedRequest}"`)) return bytes;
  const {
    contents,
    systemInstruction,
    system_instruction: system = systemInstruction,
    tools,
  } = objectOf(parsedObject(bytes)?.[countedRequest]);
  const count = { contents, systemInstruction: system, tools };
  return contents === undefined ? bytes : withoutFields(jsonBytesOf(count), vertexCallIds);
}

function withVertexTier<Request extends RequestParts>(request: Request): Request {
  if (!request.body.includes(`"${field}"`)) return request;
  const tier = tierOf(textOf(parsedObject(request.body)?.[field]));
  const named = tier === undefined || tier === "standard" ? {} : { [header]: tier };
  return { ...request, headers: { ...request.headers, ...named }, body: withoutFields(request.body, [field]) };
}
