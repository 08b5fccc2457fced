/** Code and settings to paste into clients. docs/clients.md has the settings of each client. */
import type { Dialect } from "../playground/conversation.ts";

/** What a model is called for. */
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
  /** Of curl. */
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

interface Place {
  baseUrl: string;
  key: string;
}

type Body = Record<string, unknown>;

export function snippetsOf(client: Client, kind: Kind, input: SnippetInput): Snippet[] {
  const { baseUrl, key, model, prompt } = input;
  const v1 = `${baseUrl}/v1`;
  const [vendor, language] = client.split("-");
  if (kind !== "chat")
    return operationSnippets(kind, client === "curl" ? "curl" : (language as "python" | "javascript"), input);
  switch (client) {
    case "curl": {
      const { path, body } = basicRequest(input.dialect, input, false);
      return [curl(input, path, body)];
    }
    case "ai-sdk":
      return [
        terminal("npm install ai @ai-sdk/openai-compatible"),
        {
          file: "hello.mjs",
          code: lines(
            'import { createOpenAICompatible } from "@ai-sdk/openai-compatible";',
            'import { streamText } from "ai";',
            "",
            `const sluice = createOpenAICompatible(${js({ name: "sluice", baseURL: v1, apiKey: key })});`,
            `const { textStream } = streamText({ model: sluice(${js(model)}), prompt: ${js(prompt)} });`,
            "for await (const text of textStream) process.stdout.write(text);",
          ),
        },
      ];
    case "langchain":
      return [
        terminal("pip install langchain-openai"),
        {
          file: "hello.py",
          code: lines(
            "from langchain_openai import ChatOpenAI",
            "",
            `model = ChatOpenAI(${pyArguments({ model, api_key: key, base_url: v1 })})`,
            `for chunk in model.stream(${py(prompt)}):`,
            '    print(chunk.text, end="", flush=True)',
          ),
        },
      ];
    case "codex":
      return [
        {
          file: "~/.codex/config.toml",
          code: lines(
            `model = ${JSON.stringify(model)}`,
            'model_provider = "sluice"',
            "",
            "[model_providers.sluice]",
            'name = "Sluice"',
            `base_url = ${JSON.stringify(v1)}`,
            'env_key = "SLUICE_KEY"',
            'wire_api = "responses"',
          ),
        },
        terminal(`export SLUICE_KEY=${sh(key)}`, "codex"),
      ];
    case "claude-code":
      return [
        terminal(
          `export ANTHROPIC_BASE_URL=${sh(baseUrl)}`,
          `export ANTHROPIC_AUTH_TOKEN=${sh(key)}`,
          `export ANTHROPIC_SMALL_FAST_MODEL=${sh(model)}`,
          `claude --model ${sh(model)}`,
        ),
      ];
    case "gemini-cli":
      return [
        {
          file: "~/.gemini/settings.json",
          code: json({ security: { auth: { selectedType: "gemini-api-key" } } }),
        },
        terminal(
          `export GOOGLE_GEMINI_BASE_URL=${sh(baseUrl)}`,
          `export GEMINI_API_KEY=${sh(key)}`,
          `gemini -m ${sh(model)}`,
        ),
      ];
    case "opencode":
      return [
        {
          file: "opencode.json",
          code: json({
            $schema: "https://opencode.ai/config.json",
            model: `sluice/${model}`,
            provider: {
              sluice: {
                npm: "@ai-sdk/openai-compatible",
                name: "Sluice",
                options: { baseURL: v1, apiKey: key },
                models: { [model]: { name: model } },
              },
            },
          }),
        },
        terminal("opencode"),
      ];
    case "cline":
      return [
        {
          file: "Settings → API Configuration",
          code: lines("API Provider: OpenAI Compatible", `Base URL: ${v1}`, `API Key: ${key}`, `Model ID: ${model}`),
        },
      ];
    default: {
      const dialect = dialectOf(client) ?? "openai-chat";
      const { body } = basicRequest(dialect, input, true);
      const install = { python: "pip install", javascript: "npm install" }[language as "python" | "javascript"];
      const package_ = packages[vendor as keyof typeof packages][language as "python" | "javascript"];
      return [
        terminal(`${install} ${package_}`),
        ...requestCode(language as Language, dialect, input, { path: "", body, model }),
      ];
    }
  }
}

const packages = {
  openai: { python: "openai", javascript: "openai" },
  anthropic: { python: "anthropic", javascript: "@anthropic-ai/sdk" },
  google: { python: "google-genai", javascript: "@google/genai" },
};

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
  place: Place,
  { path, body, model }: { path: string; body: Body; model: string },
): Snippet[] {
  if (language === "curl") return [curl(place, path, body)];
  const code =
    language === "python" ? pythonOf(dialect, place, body, model) : javascriptOf(dialect, place, body, model);
  return [{ file: language === "python" ? "hello.py" : "hello.mjs", code }];
}

function javascriptOf(dialect: Dialect, { baseUrl, key }: Place, body: Body, model: string): string {
  const openai = [
    'import OpenAI from "openai";',
    "",
    `const client = new OpenAI(${js({ baseURL: `${baseUrl}/v1`, apiKey: key })});`,
  ];
  switch (dialect) {
    case "openai-chat":
      return lines(
        ...openai,
        `const stream = await client.chat.completions.create(${js(body)});`,
        'for await (const { choices } of stream) process.stdout.write(choices[0]?.delta.content ?? "");',
      );
    case "openai-responses":
      return lines(
        ...openai,
        `const stream = await client.responses.create(${js(body)});`,
        "for await (const event of stream)",
        '  if (event.type === "response.output_text.delta") process.stdout.write(event.delta);',
      );
    case "anthropic-messages":
      return lines(
        'import Anthropic from "@anthropic-ai/sdk";',
        "",
        `const client = new Anthropic(${js({ baseURL: baseUrl, apiKey: key })});`,
        `const stream = await client.messages.create(${js(body)});`,
        "for await (const event of stream)",
        '  if (event.type === "content_block_delta" && event.delta.type === "text_delta")',
        "    process.stdout.write(event.delta.text);",
      );
    case "gemini":
      return lines(
        'import { GoogleGenAI } from "@google/genai";',
        "",
        `const ai = new GoogleGenAI(${js({ apiKey: key, httpOptions: { baseUrl } })});`,
        `const stream = await ai.models.generateContentStream(${js(geminiArguments(body, model))});`,
        'for await (const chunk of stream) process.stdout.write(chunk.text ?? "");',
      );
  }
}

function pythonOf(dialect: Dialect, { baseUrl, key }: Place, body: Body, model: string): string {
  const openai = [
    "from openai import OpenAI",
    "",
    `client = OpenAI(${pyArguments({ base_url: `${baseUrl}/v1`, api_key: key })})`,
  ];
  switch (dialect) {
    case "openai-chat":
      return lines(
        ...openai,
        `stream = client.chat.completions.create(${pyArguments(body)})`,
        "for chunk in stream:",
        "    if chunk.choices:",
        '        print(chunk.choices[0].delta.content or "", end="", flush=True)',
      );
    case "openai-responses":
      return lines(
        ...openai,
        `stream = client.responses.create(${pyArguments(body)})`,
        "for event in stream:",
        '    if event.type == "response.output_text.delta":',
        '        print(event.delta, end="", flush=True)',
      );
    case "anthropic-messages":
      return lines(
        "from anthropic import Anthropic",
        "",
        `client = Anthropic(${pyArguments({ base_url: baseUrl, api_key: key })})`,
        `stream = client.messages.create(${pyArguments(body)})`,
        "for event in stream:",
        '    if event.type == "content_block_delta" and event.delta.type == "text_delta":',
        '        print(event.delta.text, end="", flush=True)',
      );
    case "gemini": {
      const call = pyArguments(geminiArguments(body, model));
      return lines(
        ...(call.includes("b64decode(") ? ["from base64 import b64decode", ""] : []),
        "from google import genai",
        "",
        `client = genai.Client(api_key=${py(key)}, http_options={"base_url": ${py(baseUrl)}})`,
        `stream = client.models.generate_content_stream(${call})`,
        "for chunk in stream:",
        '    print(chunk.text or "", end="", flush=True)',
      );
    }
  }
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

/** Operations other than conversations, by OpenAI's libraries. */
function operationSnippets(kind: Exclude<Kind, "chat">, language: Language, input: SnippetInput): Snippet[] {
  const { baseUrl, key, model, prompt } = input;
  const call: { path: string; body: Body; method: string; javascript: string[]; python: string[] } = {
    image: {
      path: "/v1/images/generations",
      body: { model, prompt, size: "1024x1024" },
      method: "images.generate",
      javascript: ['await writeFile("image.png", Buffer.from(result.data[0].b64_json, "base64"));'],
      python: ['open("image.png", "wb").write(base64.b64decode(result.data[0].b64_json))'],
    },
    embedding: {
      path: "/v1/embeddings",
      body: { model, input: prompt },
      method: "embeddings.create",
      javascript: ["console.log(result.data[0].embedding);"],
      python: ["print(result.data[0].embedding)"],
    },
    speech: {
      path: "/v1/audio/speech",
      body: { model, voice: "alloy", input: prompt },
      method: "audio.speech.create",
      javascript: ['await writeFile("speech.mp3", Buffer.from(await result.arrayBuffer()));'],
      python: ['result.write_to_file("speech.mp3")'],
    },
    moderation: {
      path: "/v1/moderations",
      body: { model, input: prompt },
      method: "moderations.create",
      javascript: ["console.log(result.results[0]);"],
      python: ["print(result.results[0])"],
    },
    rerank: {
      path: "/v1/rerank",
      body: { model, query: prompt, documents: ["a green pear", "a red apple"] },
      method: "",
      javascript: [],
      python: [],
    },
    transcription: { path: "/v1/audio/transcriptions", body: { model }, method: "", javascript: [], python: [] },
  }[kind];
  const v1 = `${baseUrl}/v1`;
  const isForm = kind === "transcription";
  const isFile = kind === "image" || kind === "speech";
  switch (language) {
    case "curl":
      if (isForm)
        return [
          terminal(
            `curl ${sh(`${baseUrl}${call.path}`)} \\`,
            `  -H ${sh(`Authorization: Bearer ${key}`)} \\`,
            `  -F ${sh(`model=${model}`)} -F file=@speech.mp3`,
          ),
        ];
      return [curl(input, call.path, call.body, kind === "speech" ? " \\\n  --output speech.mp3" : "")];
    case "javascript":
      return [
        terminal("npm install openai"),
        {
          file: "hello.mjs",
          code: lines(
            ...(isForm ? ['import { createReadStream } from "node:fs";'] : []),
            ...(isFile ? ['import { writeFile } from "node:fs/promises";'] : []),
            'import OpenAI from "openai";',
            "",
            `const client = new OpenAI(${js({ baseURL: v1, apiKey: key })});`,
            ...(isForm
              ? [
                  'const file = createReadStream("speech.mp3");',
                  `const result = await client.audio.transcriptions.create({ model: ${js(model)}, file });`,
                  "console.log(result.text);",
                ]
              : [`const result = await client.${call.method}(${js(call.body)});`, ...call.javascript]),
          ),
        },
      ];
    case "python":
      return [
        terminal("pip install openai"),
        {
          file: "hello.py",
          code: lines(
            ...(kind === "image" ? ["import base64", ""] : []),
            "from openai import OpenAI",
            "",
            `client = OpenAI(${pyArguments({ base_url: v1, api_key: key })})`,
            ...(isForm
              ? [
                  `result = client.audio.transcriptions.create(model=${py(model)}, file=open("speech.mp3", "rb"))`,
                  "print(result.text)",
                ]
              : [`result = client.${call.method}(${pyArguments(call.body)})`, ...call.python]),
          ),
        },
      ];
  }
}

const lines = (...texts: string[]): string => texts.join("\n");
const terminal = (...texts: string[]): Snippet => ({ file: null, code: lines(...texts) });

const curl = ({ baseUrl, key }: Place, path: string, body: Body, more = ""): Snippet =>
  terminal(
    `curl ${"stream" in body || path.endsWith("alt=sse") ? "-N " : ""}${sh(`${baseUrl}${path}`)} \\`,
    `  -H ${sh(`Authorization: Bearer ${key}`)} \\`,
    `  -H ${sh("Content-Type: application/json")} \\`,
    `  -d ${sh(json(body))}${more}`,
  );

/** A word of a POSIX shell. */
const sh = (text: string): string => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
const json = (value: unknown): string => written(value, { ...jsonWords, isKeyQuoted: true });
const js = (value: unknown): string => written(value, { ...jsonWords, isKeyQuoted: false });
const py = (value: unknown): string =>
  written(value, { true: "True", false: "False", null: "None", isKeyQuoted: true });

/** Keyword arguments. */
function pyArguments(values: Body): string {
  const each = Object.entries(values).map(([name, value]) => `${name}=${indented(pyArgument(value))}`);
  const short = each.map((text) => text).join(", ");
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
