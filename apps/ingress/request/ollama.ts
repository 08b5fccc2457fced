/**
 * Requests of Ollama's clients as requests for chat completions and embeddings:
 * https://docs.ollama.com/api
 */

import Type from "typebox";
import {
  name,
  nullable,
  optional,
  optionalFlag,
  optionalInteger,
  optionalList,
  optionalObject,
  optionalTexts,
  text,
} from "#dialects/request-schema/schema-parts.ts";
import { isObject, jsonBytesOf, listOf, objectOf, someOf, textOf } from "#wire/json/parse.ts";
import { Refusal, type Result } from "../common/refusal.ts";
import { readObject } from "./body.ts";

/** The endpoints that run a model. */
export const modelPaths = ["/api/chat", "/api/generate", "/api/embed", "/api/embeddings"] as const;
export type ModelPath = (typeof modelPaths)[number];

export interface OllamaRequest {
  /** The body for the endpoint that serves it; undefined for a request that only loads a model. */
  bytes: Buffer | undefined;
  /** As the caller wrote it. */
  model: string;
  streams: boolean;
  showsThinking: boolean;
  /** Set for a request without a prompt: the caller loads the model in advance, or unloads it. */
  loads: "load" | "unload";
}

type Body = Record<string, unknown>;

const texts = optionalList(text);
/** The options of the same name and meaning in chat completions. */
const numbers = ["temperature", "top_p", "seed", "presence_penalty", "frequency_penalty"];
const common = {
  model: name,
  stream: optionalFlag,
  think: optional({ type: ["boolean", "string", "null"] }),
  format: optional({ type: ["string", "object", "null"], if: { type: "string" }, then: { enum: ["json", ""] } }),
  logprobs: optionalFlag,
  top_logprobs: optionalInteger(0, 20),
  options: optionalObject({
    stop: { type: ["string", "array", "null"] },
    num_predict: nullable("integer"),
    ...Object.fromEntries(numbers.map((option) => [option, nullable("number")])),
  }),
};
const message = Type.Object({
  role: Type.Enum(["system", "user", "assistant", "tool"]),
  ...optionalTexts("content", "tool_name"),
  images: texts,
  tool_calls: optionalList({ type: "object", required: ["function"] }),
});

const schemas: Record<ModelPath, object> = {
  "/api/chat": Type.Object({
    ...common,
    messages: Type.Optional(Type.Array(message)),
    tools: optionalList({}),
  }),
  "/api/generate": Type.Object({
    ...common,
    ...optionalTexts("prompt", "system"),
    images: texts,
    suffix: optional(nullable("string", { maxLength: 0 })),
    raw: optional(nullable("boolean", { enum: [false, null] })),
  }),
  "/api/embed": Type.Object({
    model: name,
    input: Type.Unsafe<unknown>({ type: ["string", "array"], items: text }),
    dimensions: optional(nullable("integer")),
  }),
  "/api/embeddings": Type.Object({ model: name, prompt: text }),
};

/** `llama3:latest` and `llama3` are the same model. */
export const modelIdOf = (name: string): string => name.replace(/:latest$/, "");

/** Pure. Reads and checks a body, and translates it. */
export function readOllamaRequest(path: ModelPath, sent: Buffer): Result<OllamaRequest> {
  const body = readObject(sent, schemas[path]);
  if (body instanceof Refusal) return body;
  const name = String(body.model);
  const model = modelIdOf(name);
  const messages =
    path === "/api/chat" ? messagesOf(listOf(body.messages)) : path === "/api/generate" ? promptOf(body) : undefined;
  const translated = messages === undefined ? embeddingsOf(path, body, model) : chatOf(body, model, messages);
  return {
    bytes: messages?.length === 0 ? undefined : jsonBytesOf(translated),
    model: name,
    streams: messages !== undefined && body.stream !== false,
    showsThinking: body.think !== false,
    loads: body.keep_alive === 0 || body.keep_alive === "0" ? "unload" : "load",
  };
}

function embeddingsOf(path: ModelPath, { input, prompt, dimensions }: Body, model: string): Body {
  return path === "/api/embeddings"
    ? { model, input: prompt, encoding_format: "float" }
    : { model, input, encoding_format: "float", dimensions: dimensions ?? undefined };
}

/**
 * Options that only tune how a server runs or samples, such as `num_ctx` and `top_k`, are left out.
 */
function chatOf(body: Body, model: string, messages: object[]): Body {
  const options = objectOf(body.options);
  const streams = body.stream !== false;
  const alternatives = Number(body.top_logprobs ?? 0);
  const effort = body.think === true ? "medium" : textOf(body.think);
  return {
    model,
    messages,
    ...(streams && { stream: true, stream_options: { include_usage: true } }),
    tools: someOf(listOf(body.tools)),
    response_format: formatOf(body.format),
    ...Object.fromEntries(
      [...numbers, "stop"].filter((name) => options[name] != null).map((name) => [name, options[name]]),
    ),
    max_completion_tokens: Number(options.num_predict) > 0 ? options.num_predict : undefined,
    reasoning_effort: effort,
    logprobs: body.logprobs === true || alternatives > 0 || undefined,
    top_logprobs: alternatives || undefined,
  };
}

function formatOf(format: unknown): Body | undefined {
  if (format === "json") return { type: "json_object" };
  return isObject(format) ? { type: "json_schema", json_schema: { name: "answer", schema: format } } : undefined;
}

function promptOf({ prompt, system, images }: Body): object[] {
  const text = textOf(prompt) ?? "";
  if (text === "" && listOf(images).length === 0) return [];
  return [
    ...(textOf(system) === undefined ? [] : [{ role: "system", content: system }]),
    { role: "user", content: contentOf(text, images) },
  ];
}

/** Ollama's calls have no ids: a result belongs to the first call of its tool that has none. */
function messagesOf(messages: unknown[]): object[] {
  let open: { id: string; name: string }[] = [];
  let calls = 0;
  return messages.map(objectOf).map(({ role, content, images, tool_calls, tool_name }) => {
    const text = textOf(content) ?? "";
    if (role === "tool") {
      const { id } = open.find(({ name }) => name === tool_name) ?? open[0] ?? {};
      open = open.filter((call) => call.id !== id);
      return { role, content: text, tool_call_id: id };
    }
    if (role !== "assistant") return { role, content: contentOf(text, images) };
    const made = listOf(tool_calls).map((call) => {
      const { name, arguments: input } = objectOf(objectOf(call).function);
      return { id: `call_${calls++}`, type: "function", function: { name, arguments: JSON.stringify(input ?? {}) } };
    });
    open = made.map(({ id, function: { name } }) => ({ id, name: String(name) }));
    return { role, content: text, tool_calls: someOf(made) };
  });
}

function contentOf(text: string, images: unknown): unknown {
  const addresses = listOf(images).map((image) => ({
    type: "image_url",
    image_url: { url: dataUrlOf(String(image)) },
  }));
  if (addresses.length === 0) return text;
  return [...(text === "" ? [] : [{ type: "text", text }]), ...addresses];
}

/** How the base64 of an image begins, by its type. */
const imageBeginnings = { "/9j/": "jpeg", R0lGOD: "gif", UklGR: "webp" };

function dataUrlOf(image: string): string {
  if (image.startsWith("data:")) return image;
  const [, type = "png"] = Object.entries(imageBeginnings).find(([start]) => image.startsWith(start)) ?? [];
  return `data:image/${type};base64,${image}`;
}
