/**
 * Parts of the vendors' APIs that this gateway does not have, and what serves the same end:
 * https://platform.openai.com/docs/api-reference, https://platform.claude.com/docs/en/api/overview,
 * https://ai.google.dev/api, https://docs.ollama.com/api
 */
import type { ConversationDialect } from "#dialects/dialect.ts";

interface Part {
  /** The beginning of the path without its version, or a method of Google's. */
  path: RegExp;
  /** A plural. */
  what: string;
  /** A sentence. */
  instead?: string | Partial<Record<ConversationDialect, string>>;
}

const fileParts = {
  "openai-chat":
    "Send the file itself in the request: as 'file_data' of a file or input_file part, or as a data URL of an image.",
  "openai-responses": "Send the file itself in the request: as 'file_data' of an input_file part.",
  "anthropic-messages": "Send the file itself in the request: as the base64 source of a document or image block.",
  gemini: "Send the file itself in the request: as 'inlineData' of a part.",
};
const background =
  "Send each request by itself; 'background: true' at POST /v1/responses queues one and keeps its answer.";
const catalogue = "The operator's catalogue decides which models there are; GET /v1/models lists them.";
const search = "Put what was found into the request; POST /v1/embeddings and POST /v1/rerank help to find it.";
const conversations = "Use POST /v1/responses with 'previous_response_id', or with POST /v1/conversations.";
const own = "Offer your own functions as tools, and run their calls.";

/** The first that matches counts. */
const parts: readonly Part[] = [
  {
    path: /^\/(messages\/batches|batches|batchPredictionJobs)(\/|:|$)|^\/projects\/.*\/batchPredictionJobs|:(asyncB|b)atch\w+$/,
    what: "batches",
    instead: {
      "openai-chat": background,
      "anthropic-messages": "Send each request by itself to POST /v1/messages.",
      gemini: "Send each request by itself, as generateContent or batchEmbedContents.",
    },
  },
  { path: /^(\/(files|uploads)(\/|:|$)|\/upload(\/|$))/, what: "stored files", instead: fileParts },
  { path: /^\/(cachedContents)(\/|:|$)/, what: "stored prompts", instead: "Send the whole prompt with every request." },
  { path: /^\/(assistants|threads)(\/|$)/, what: "assistants and threads", instead: conversations },
  { path: /^\/(agents|sessions|environments|vaults)(\/|:|$)/, what: "hosted agents" },
  { path: /^\/(chatkit)(\/|$)/, what: "ChatKit's sessions", instead: conversations },
  {
    path: /^\/(vector_stores|fileSearchStores|corpora|ragStores|memory_stores)(\/|:|$)/,
    what: "stores to search in",
    instead: search,
  },
  {
    path: /^\/(fine_tuning|fine-tunes|tunedModels|tuningJobs)(\/|:|$)/,
    what: "fine-tuning of models",
    instead: catalogue,
  },
  { path: /^\/(evals|graders)(\/|$)/, what: "evaluations" },
  { path: /^\/(containers|skills)(\/|:|$)/, what: "hosted containers and skills", instead: own },
  {
    path: /^\/videos(\/|$)|:(predictLongRunning|fetchPredictOperation)$/,
    what: "videos",
    instead: "Images are made at POST /v1/images/generations.",
  },
  {
    path: /:predict$/,
    what: "predictions",
    instead: "Images are made at POST /v1/images/generations, or by generateContent.",
  },
  {
    path: /^\/(organizations?|dashboard)(\/|$)/,
    what: "administration with API keys of models",
    instead: "The console and its API do that; GET /v1/usage shows the key's own usage.",
  },
  { path: /^\/(complete)$/, what: "Anthropic's legacy completions", instead: "Use POST /v1/messages." },
  { path: /^\/(edits|engines)(\/|$)/, what: "this legacy API", instead: "Use POST /v1/chat/completions." },
  { path: /^\/(operations|webhooks|prompts|user_profiles)(\/|:|$)/, what: "objects of this kind" },
  {
    path: /^\/api\/(pull|push|create|copy|delete|blobs)(\/|$)/,
    what: "changes of the models",
    instead: catalogue,
  },
];

/**
 * Says what the gateway does not support, for the rest of a path behind its versions; undefined for
 * other paths.
 */
export function unsupportedPartOf(rest: string, dialect: ConversationDialect): string | undefined {
  const part = parts.find(({ path }) => path.test(rest));
  if (part === undefined) return undefined;
  const { what, instead } = part;
  const advice = typeof instead === "string" ? instead : instead?.[dialect];
  return `This gateway does not support ${what}.${advice === undefined ? "" : ` ${advice}`}`;
}
