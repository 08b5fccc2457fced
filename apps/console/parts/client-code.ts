/** Code and settings to paste into clients. */
import type { Dialect } from "../playground/conversation.ts";
import { clientTemplates, curlFormTemplate, curlTemplate, operations, programs } from "./client-code.templates.ts";

/** The purposes for which a model is called. */
export const kinds = ["chat", "image", "embedding", "speech", "transcription", "moderation", "rerank"] as const;
export type Kind = (typeof kinds)[number];

/**
 * Chat, if the catalogue does not say what the model can do. Undefined for models without an
 * operation that snippets show, such as realtime sessions.
 */
export const kindOf = (capabilities: readonly string[]): Kind | undefined =>
  capabilities.length === 0 || capabilities.includes("text")
    ? "chat"
    : kinds.find((kind) => capabilities.includes(kind));

export interface SnippetInput {
  /** Without /v1. */
  baseUrl: string;
  key: string;
  model: string;
  prompt: string;
  /** The dialect of curl, which speaks any. */
  dialect: Dialect;
}

/** A text to paste into a file, a terminal (`file` is null) or a form. */
export interface Snippet {
  file: string | null;
  code: string;
}

export const clientNames = {
  "openai-python": "Python: openai",
  "anthropic-python": "Python: anthropic",
  "google-python": "Python: google-genai",
  "openai-javascript": "JavaScript: openai",
  "anthropic-javascript": "JavaScript: @anthropic-ai/sdk",
  "google-javascript": "JavaScript: @google/genai",
  curl: "curl",
  "ai-sdk": "AI SDK",
  langchain: "LangChain",
  codex: "Codex",
  "claude-code": "Claude Code",
  "gemini-cli": "Gemini CLI",
  opencode: "opencode",
  cline: "Cline",
} as const;
export type Client = keyof typeof clientNames;

const openaiClients = ["openai-python", "openai-javascript", "curl"] as const satisfies Client[];
export const clientsFor = (kind: Kind): readonly Client[] =>
  kind === "chat" ? (Object.keys(clientNames) as Client[]) : kind === "rerank" ? ["curl"] : openaiClients;

/** The dialect that a client speaks; undefined for curl, which speaks any. */
export const dialectOf = (client: Client): Dialect | undefined =>
  client.startsWith("anthropic") || client === "claude-code"
    ? "anthropic-messages"
    : client.startsWith("google") || client === "gemini-cli"
      ? "gemini"
      : client === "codex"
        ? "openai-responses"
        : client === "curl"
          ? undefined
          : "openai-chat";

/** A program's language, with the vendor's library for the dialect. */
export type Language = "curl" | "python" | "javascript";

interface Gateway {
  baseUrl: string;
  key: string;
}

type Body = Record<string, unknown>;
type Values = Record<string, unknown>;

/** Puts values in the places of a template, each as its language writes it. */
const filled = (template: string, values: Values, quote: (value: unknown) => string): string =>
  template.replaceAll(/\$(\w+)/g, (place, name: string) => (name in values ? quote(values[name]) : place));

/** The text of a value in a file, which its name tells apart. */
function quoteFor(file: string | null): (value: unknown) => string {
  if (file === null) return (value) => sh(String(value));
  if (file.endsWith(".py")) return (value) => (typeof value === "object" ? pyArguments(value as Body) : py(value));
  return file.includes(".") ? js : String;
}

const snippet = (file: string | null, template: string, values: Values): Snippet => ({
  file,
  code: filled(template, values, quoteFor(file)),
});

const packages = {
  openai: { python: "openai", javascript: "openai" },
  anthropic: { python: "anthropic", javascript: "@anthropic-ai/sdk" },
  google: { python: "google-genai", javascript: "@google/genai" },
};
const installers = { python: "pip install", javascript: "npm install" };
const files = { python: "hello.py", javascript: "hello.mjs" };

export function snippetsOf(client: Client, kind: Kind, input: SnippetInput): Snippet[] {
  const { baseUrl, key, model, prompt } = input;
  const [vendor, language] = client.split("-") as [keyof typeof packages, "python" | "javascript"];
  if (client in clientTemplates) {
    const values = { baseUrl, v1: `${baseUrl}/v1`, key, model, prompt, sluiceModel: `sluice/${model}` };
    const templates = clientTemplates[client as keyof typeof clientTemplates];
    return templates.map(([file, template]) => snippet(file, template, values));
  }
  const install = () => snippet(null, `${installers[language]} ${packages[vendor][language]}`, {});
  if (kind !== "chat") {
    if (client === "curl") return [operationCurl(kind, input)];
    const values = { client: clientOf("openai-chat", language, input), body: bodyOf(kind, input), model };
    return [install(), snippet(files[language], operations[kind][language], values)];
  }
  const dialect = dialectOf(client) ?? input.dialect;
  if (client !== "curl")
    return [install(), ...requestCode(language, dialect, input, { ...basicRequest(dialect, input, true), model })];
  const { path, body } = basicRequest(dialect, input, false);
  return [curl(input, path, body)];
}

/** The shortest request of a dialect. */
function basicRequest(
  dialect: Dialect,
  { model, prompt }: { model: string; prompt: string },
  isStreamed: boolean,
): { path: string; body: Body } {
  const stream = isStreamed && { stream: true };
  const messages = [{ role: "user", content: prompt }];
  switch (dialect) {
    case "openai-chat":
      return { path: "/v1/chat/completions", body: { model, messages, ...stream } };
    case "openai-responses":
      return { path: "/v1/responses", body: { model, input: prompt, ...stream } };
    case "anthropic-messages":
      return { path: "/v1/messages", body: { model, max_tokens: 1_024, messages, ...stream } };
    case "gemini":
      return {
        path: `/v1beta/models/${encodeURIComponent(model)}:generateContent`,
        body: { contents: [{ role: "user", parts: [{ text: prompt }] }] },
      };
  }
}

/**
 * Code that sends a streamed request of the dialect and prints the text of its answer; curl prints
 * the events.
 */
export function requestCode(
  language: Language,
  dialect: Dialect,
  gateway: Gateway,
  { path, body, model }: { path: string; body: Body; model: string },
): Snippet[] {
  if (language === "curl") return [curl(gateway, path, body)];
  const values = {
    client: clientOf(dialect, language, gateway),
    body: dialect === "gemini" ? geminiArguments(body, model) : body,
  };
  const { file, code } = snippet(files[language], programs[dialect][language], values);
  return [{ file, code: code.includes("b64decode(") ? `from base64 import b64decode\n\n${code}` : code }];
}

/** The arguments of a library's client. */
function clientOf(dialect: Dialect, language: "python" | "javascript", { baseUrl, key }: Gateway): Body {
  const isPython = language === "python";
  if (dialect === "gemini")
    return isPython ? { api_key: key, http_options: { base_url: baseUrl } } : { apiKey: key, httpOptions: { baseUrl } };
  const url = dialect === "anthropic-messages" ? baseUrl : `${baseUrl}/v1`;
  return isPython ? { base_url: url, api_key: key } : { baseURL: url, apiKey: key };
}

/**
 * Google's libraries take the fields of `generationConfig` and the others besides the contents as
 * one `config`.
 */
function geminiArguments({ contents, generationConfig, ...others }: Body, model: string): Body {
  const config = { ...(generationConfig as Body | undefined), ...others };
  return { model, contents: plainText(contents) ?? contents, ...(Object.keys(config).length > 0 && { config }) };
}

/** The text of contents that are a single text. */
function plainText(contents: unknown): string | undefined {
  const turns = contents as { parts: { text?: string }[] }[];
  const [part] = turns[0]?.parts ?? [];
  return turns.length === 1 && turns[0]?.parts.length === 1 ? part?.text : undefined;
}

/** The body of an operation besides conversations. */
function bodyOf(kind: Exclude<Kind, "chat">, { model, prompt }: SnippetInput): Body {
  switch (kind) {
    case "image":
      return { model, prompt, size: "1024x1024" };
    case "speech":
      return { model, voice: "alloy", input: prompt };
    case "rerank":
      return { model, query: prompt, documents: ["a green pear", "a red apple"] };
    default:
      return { model, input: prompt };
  }
}

function operationCurl(kind: Exclude<Kind, "chat">, input: SnippetInput): Snippet {
  const { path } = operations[kind];
  if (kind !== "transcription")
    return curl(input, path, bodyOf(kind, input), kind === "speech" ? " \\\n  --output speech.mp3" : "");
  return snippet(null, curlFormTemplate, { ...addressOf(input, path), modelField: `model=${input.model}` });
}

const addressOf = ({ baseUrl, key }: Gateway, path: string) => ({
  url: `${baseUrl}${path}`,
  authorization: `Authorization: Bearer ${key}`,
});

function curl(gateway: Gateway, path: string, body: Body, end = ""): Snippet {
  const options = "stream" in body || path.endsWith("alt=sse") ? "-N " : "";
  const template = curlTemplate.replace("$options", options).replace("$end", end);
  return snippet(null, template, { ...addressOf(gateway, path), body: json(body) });
}

/** A word of a POSIX shell. */
const sh = (text: string): string => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
const json = (value: unknown): string => written(value, { ...jsonWords, isKeyQuoted: true });
const js = (value: unknown): string => written(value, { ...jsonWords, isKeyQuoted: false });
const py = (value: unknown): string =>
  written(value, { true: "True", false: "False", null: "None", isKeyQuoted: true });

/** Keyword arguments. */
function pyArguments(values: Body): string {
  const each = Object.entries(values)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${name}=${indented(pyArgument(value))}`);
  const short = each.join(", ");
  return !short.includes("\n") && short.length <= lineMax ? short : `\n    ${each.join(",\n    ")},\n`;
}
const pyArgument = (value: unknown): string =>
  // Google's library takes bytes where the wire has base64.
  py(value).replaceAll(/("mimeType": "[^"]*",\s*"data": )("[A-Za-z0-9+/=]*")/g, "$1b64decode($2)");

interface Words {
  true: string;
  false: string;
  null: string;
  isKeyQuoted: boolean;
}
const jsonWords = { true: "true", false: "false", null: "null" };
const lineMax = 88;

/** Short values on one line, long ones with a line for each item. */
function written(value: unknown, words: Words): string {
  if (value === true) return words.true;
  if (value === false) return words.false;
  if (value === null || value === undefined) return words.null;
  if (typeof value !== "object") return JSON.stringify(value);
  const isList = Array.isArray(value);
  const items = isList
    ? value.map((item) => written(item, words))
    : Object.entries(value)
        .filter(([, item]) => item !== undefined)
        .map(([name, item]) => {
          const isPlain = !words.isKeyQuoted && /^[A-Za-z_$][\w$]*$/.test(name);
          return `${isPlain ? name : JSON.stringify(name)}: ${written(item, words)}`;
        });
  const [open, close] = isList ? ["[", "]"] : words.true === "True" || words.isKeyQuoted ? ["{", "}"] : ["{ ", " }"];
  if (items.length === 0) return isList ? "[]" : "{}";
  const short = `${open}${items.join(", ")}${close}`;
  if (!short.includes("\n") && short.length <= lineMax) return short;
  return `${open.trim()}\n${items.map((item) => `  ${indented(item, 2)}`).join(",\n")}\n${close.trim()}`;
}

/** Moves all lines but the first to the right. Texts have no line ends of their own. */
const indented = (text: string, by = 4): string => text.replaceAll("\n", `\n${" ".repeat(by)}`);
