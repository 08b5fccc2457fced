/**
 * The code and the settings of clients, with names such as `$model` in the place of values.
 * docs/clients.md has the settings of each client.
 */

/** A text for a file, a form or, with null, a terminal. */
type Template = readonly [file: string | null, code: string];

/** Clients with code or settings of their own; the others are programs with a vendor's library. */
export const clientTemplates = {
  "ai-sdk": [
    [null, "npm install ai @ai-sdk/openai-compatible"],
    [
      "hello.mjs",
      `import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { streamText } from "ai";

const sluice = createOpenAICompatible({ name: "sluice", baseURL: $v1, apiKey: $key });
const { textStream } = streamText({ model: sluice($model), prompt: $prompt });
for await (const text of textStream) process.stdout.write(text);`,
    ],
  ],
  langchain: [
    [null, "pip install langchain-openai"],
    [
      "hello.py",
      `from langchain_openai import ChatOpenAI

model = ChatOpenAI(
    model=$model,
    api_key=$key,
    base_url=$v1,
)
for chunk in model.stream($prompt):
    print(chunk.text, end="", flush=True)`,
    ],
  ],
  codex: [
    [
      "~/.codex/config.toml",
      `model = $model
model_provider = "sluice"

[model_providers.sluice]
name = "Sluice"
base_url = $v1
env_key = "SLUICE_KEY"
wire_api = "responses"`,
    ],
    [
      null,
      `export SLUICE_KEY=$key
codex`,
    ],
  ],
  "claude-code": [
    [
      null,
      `export ANTHROPIC_BASE_URL=$baseUrl
export ANTHROPIC_AUTH_TOKEN=$key
export ANTHROPIC_SMALL_FAST_MODEL=$model
claude --model $model`,
    ],
  ],
  "gemini-cli": [
    ["~/.gemini/settings.json", '{ "security": { "auth": { "selectedType": "gemini-api-key" } } }'],
    [
      null,
      `export GOOGLE_GEMINI_BASE_URL=$baseUrl
export GEMINI_API_KEY=$key
gemini -m $model`,
    ],
  ],
  opencode: [
    [
      "opencode.json",
      `{
  "$schema": "https://opencode.ai/config.json",
  "model": $sluiceModel,
  "provider": {
    "sluice": {
      "npm": "@ai-sdk/openai-compatible",
      "name": "Sluice",
      "options": { "baseURL": $v1, "apiKey": $key },
      "models": { $model: { "name": $model } }
    }
  }
}`,
    ],
    [null, "opencode"],
  ],
  cline: [
    [
      "Settings → API Configuration",
      `API Provider: OpenAI Compatible
Base URL: $v1
API Key: $key
Model ID: $model`,
    ],
  ],
} as const satisfies Record<string, readonly Template[]>;

const openaiJavascript = `import OpenAI from "openai";

const client = new OpenAI($client);
`;
const openaiPython = `from openai import OpenAI

client = OpenAI($client)
`;

/**
 * A streamed request of each dialect by its vendor's library, which prints the text of the answer.
 */
export const programs = {
  "openai-chat": {
    javascript: `${openaiJavascript}const stream = await client.chat.completions.create($body);
for await (const { choices } of stream) process.stdout.write(choices[0]?.delta.content ?? "");`,
    python: `${openaiPython}stream = client.chat.completions.create($body)
for chunk in stream:
    if chunk.choices:
        print(chunk.choices[0].delta.content or "", end="", flush=True)`,
  },
  "openai-responses": {
    javascript: `${openaiJavascript}const stream = await client.responses.create($body);
for await (const event of stream)
  if (event.type === "response.output_text.delta") process.stdout.write(event.delta);`,
    python: `${openaiPython}stream = client.responses.create($body)
for event in stream:
    if event.type == "response.output_text.delta":
        print(event.delta, end="", flush=True)`,
  },
  "anthropic-messages": {
    javascript: `import Anthropic from "@anthropic-ai/sdk";

const client = new Anthropic($client);
const stream = await client.messages.create($body);
for await (const event of stream)
  if (event.type === "content_block_delta" && event.delta.type === "text_delta")
    process.stdout.write(event.delta.text);`,
    python: `from anthropic import Anthropic

client = Anthropic($client)
stream = client.messages.create($body)
for event in stream:
    if event.type == "content_block_delta" and event.delta.type == "text_delta":
        print(event.delta.text, end="", flush=True)`,
  },
  gemini: {
    javascript: `import { GoogleGenAI } from "@google/genai";

const ai = new GoogleGenAI($client);
const stream = await ai.models.generateContentStream($body);
for await (const chunk of stream) process.stdout.write(chunk.text ?? "");`,
    python: `from google import genai

client = genai.Client($client)
stream = client.models.generate_content_stream($body)
for chunk in stream:
    print(chunk.text or "", end="", flush=True)`,
  },
};

/**
 * Operations besides conversations: the path, and the call of OpenAI's libraries where they have
 * one.
 */
export const operations = {
  image: {
    path: "/v1/images/generations",
    javascript: `import { writeFile } from "node:fs/promises";
${openaiJavascript}const result = await client.images.generate($body);
await writeFile("image.png", Buffer.from(result.data[0].b64_json, "base64"));`,
    python: `import base64

${openaiPython}result = client.images.generate($body)
open("image.png", "wb").write(base64.b64decode(result.data[0].b64_json))`,
  },
  embedding: {
    path: "/v1/embeddings",
    javascript: `${openaiJavascript}const result = await client.embeddings.create($body);
console.log(result.data[0].embedding);`,
    python: `${openaiPython}result = client.embeddings.create($body)
print(result.data[0].embedding)`,
  },
  speech: {
    path: "/v1/audio/speech",
    javascript: `import { writeFile } from "node:fs/promises";
${openaiJavascript}const result = await client.audio.speech.create($body);
await writeFile("speech.mp3", Buffer.from(await result.arrayBuffer()));`,
    python: `${openaiPython}result = client.audio.speech.create($body)
result.write_to_file("speech.mp3")`,
  },
  moderation: {
    path: "/v1/moderations",
    javascript: `${openaiJavascript}const result = await client.moderations.create($body);
console.log(result.results[0]);`,
    python: `${openaiPython}result = client.moderations.create($body)
print(result.results[0])`,
  },
  rerank: { path: "/v1/rerank", javascript: "", python: "" },
  transcription: {
    path: "/v1/audio/transcriptions",
    javascript: `import { createReadStream } from "node:fs";
${openaiJavascript}const file = createReadStream("speech.mp3");
const result = await client.audio.transcriptions.create({ model: $model, file });
console.log(result.text);`,
    python: `${openaiPython}result = client.audio.transcriptions.create(model=$model, file=open("speech.mp3", "rb"))
print(result.text)`,
  },
} as const;

/** `$end` has the options after the body. */
export const curlTemplate = `curl $options$url \\
  -H $authorization \\
  -H 'Content-Type: application/json' \\
  -d $body$end`;
export const curlFormTemplate = `curl $url \\
  -H $authorization \\
  -F $modelField -F file=@speech.mp3`;
