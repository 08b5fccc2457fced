/**
 * The paths under which clients of clouds and of LiteLLM call a vendor's API, and the paths that
 * serve them here. The server rewrites each request's path before routing, so no route exists
 * twice.
 *
 * - Azure: https://learn.microsoft.com/azure/ai-foundry/openai/reference
 * - Vertex AI: https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/inference and,
 *   for Anthropic's models, …/partner-models/claude/use-claude
 * - Gemini's Live API: https://ai.google.dev/api/live
 * - Google's base URL for OpenAI's clients: https://ai.google.dev/gemini-api/docs/openai
 * - LiteLLM, which has most endpoints without their version, too:
 *   https://github.com/BerriAI/litellm/blob/main/litellm/proxy/_types.py (LiteLLMRoutes)
 */
import { isJsonType } from "#wire/form.ts";
import { jsonBytesOf } from "#wire/json/parse.ts";
import { withMembers, withValues } from "#wire/json/spans.ts";

export interface ServedPath {
  /** With its query. */
  url: string;
  /** The model that the path names; it replaces the one of the body. */
  model?: string;
}

/**
 * `/openai/…`, `/openai/v1/…` and `/openai/deployments/<model>/…`, also behind one of Google's
 * versions.
 */
const openai = /^(?:\/v1(?:alpha|beta1?)?)?\/openai(?:\/v1(?=\/)|\/deployments\/([^/]+)(?=\/))?(\/.*)$/;
const vertex =
  /^\/v1(?:beta1?)?(?:\/projects\/[^/]+\/locations\/[^/]+)?\/publishers\/(google|anthropic)\/models\/([^/]+):([A-Za-z]+)$/;

/** Google's clients call Live under any version, and some write the slash twice. */
const live = /^\/{1,2}ws\/google\.ai\.generativelanguage\.v1(?:alpha|beta)?(\.GenerativeService\.BidiGenerateContent)$/;

/** Google's methods that create batches are served beside the batches. */
const batches = /^\/v1(?:alpha|beta1?)?\/models\/(.+:(?:batchGenerateContent|asyncBatchEmbedContent))$/;

/** Anthropic's endpoints are not among them. */
const versionless =
  /^\/(?:(interactions)|chat\/completions|completions|embeddings|images|audio|moderations|models|responses|realtime|files|batches)(?=\/|$)/;

/** Every other path of them contains one of these. */
const vendors = /\/openai|\/ws\/|:/;

/** Where a URL (a path with its query) is served. Every other URL is served as it is. */
export function servedPathOf(url: string): ServedPath {
  const question = url.indexOf("?");
  const path = question < 0 ? url : url.slice(0, question);
  const [isVersionless, googleOnly] = versionless.exec(path) ?? [];
  if (isVersionless !== undefined) return servedPathOf(`${googleOnly === undefined ? "/v1" : "/v1beta"}${url}`);
  if (!vendors.test(path)) return { url };
  const query = question < 0 ? "" : url.slice(question);
  const [, liveMethod] = live.exec(path) ?? [];
  if (liveMethod !== undefined) return { url: `/ws/google.ai.generativelanguage.v1beta${liveMethod}${query}` };
  const [, batchCall] = batches.exec(path) ?? [];
  if (batchCall !== undefined) return { url: `/v1beta/batches/${batchCall}${query}` };
  const azure = openai.exec(path);
  if (azure !== null) {
    const [, deployment, rest = ""] = azure;
    return { url: `/v1${rest}${query}`, ...(deployment !== undefined && { model: decoded(deployment) }) };
  }
  const [, publisher, model = "", method = ""] = vertex.exec(path) ?? [];
  if (publisher === "google") return { url: `/v1beta1/models/${model}:${method}${query}` };
  if (publisher === "anthropic" && /^(?:streamR|r)awPredict$/.test(method))
    return model === "count-tokens"
      ? { url: `/v1/messages/count_tokens${query}` }
      : { url: `/v1/messages${query}`, model: decoded(model) };
  return { url };
}

/**
 * The path that a client of Azure with a wrong endpoint meant, and where it would be served;
 * undefined for other paths.
 */
export function azurePathOf(path: string): { meant: string; served: string } | undefined {
  const prefix = /^(?:\/(?:v1|openai|deployments\/[^/]+)(?=\/))+/.exec(path)?.[0] ?? "";
  if (!/\/(?:openai|deployments\/[^/]+)(?:\/|$)/.test(prefix)) return undefined;
  const rest = path.slice(prefix.length).replace(/\/$/, "");
  const deployment = prefix.match(/\/deployments\/[^/]+/g)?.at(-1) ?? "/v1";
  return { meant: `/openai${deployment}${rest}`, served: `/v1${rest}` };
}

/**
 * The body of a request whose path was rewritten, as the path's endpoint expects it. All other
 * bytes stay unchanged, and forms as a whole: `formType` is their content type.
 */
export function servedBodyOf(bytes: Buffer, { model }: ServedPath, formType?: string): Buffer {
  if (formType !== undefined && !isJsonType(formType)) return bytes;
  const bare = withMembers(bytes, "anthropic_version", () => undefined);
  return model === undefined ? bare : withValues(bare, { model: jsonBytesOf(model) });
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
