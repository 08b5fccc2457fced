/** Versions that are tested besides the newest ones, so that a client that is not updated keeps working. */
import type { Registry } from "./client.ts";

export const pinned: Record<Registry, Readonly<Record<string, string>>> = {
  npm: {
    "@ai-sdk/azure": "4.0.85",
    "@ai-sdk/cohere": "4.0.52",
    "@ai-sdk/openai": "4.0.118",
    "@anthropic-ai/sdk": "1.12.0",
    "@anthropic-ai/vertex-sdk": "1.1.3",
    "@earendil-works/pi-coding-agent": "1.3.0",
    "@google/genai": "3.1.0",
    "@openai/codex": "0.169.0",
    ai: "7.0.173",
    "cohere-ai": "8.1.0",
    ollama: "0.6.4",
    openai: "7.57.0",
  },
  pypi: {
    anthropic: "2.12.0",
    cohere: "7.3.1",
    "google-genai": "3.4.0",
    ollama: "0.6.3",
    openai: "3.54.0",
    "openai-agents": "0.24.0",
  },
  go: {},
  maven: {},
};
