/**
 * Versions that are tested besides the newest ones, so that a client that is not updated keeps
 * working.
 */
import type { Registry } from "./client.ts";

export const pinned: Record<Registry, Readonly<Record<string, string>>> = {
  npm: {
    "@ai-sdk/azure": "4.0.85",
    "@ai-sdk/cohere": "4.0.52",
    "@ai-sdk/openai": "4.0.118",
    "@anthropic-ai/sdk": "1.14.0",
    "@anthropic-ai/vertex-sdk": "1.1.3",
    "@earendil-works/pi-coding-agent": "1.3.0",
    "@google/genai": "3.3.0",
    "@openai/codex": "0.169.0",
    ai: "7.0.173",
    "cohere-ai": "8.1.0",
    ollama: "0.6.4",
    openai: "7.57.0",
  },
  pypi: {
    anthropic: "2.14.0",
    cohere: "7.3.1",
    "google-genai": "3.6.1",
    ollama: "0.6.3",
    openai: "3.57.0",
    "openai-agents": "0.24.0",
  },
  go: {
    "github.com/anthropics/anthropic-sdk-go": "v1.84.0",
    "github.com/openai/openai-go/v3": "v3.98.0",
    "google.golang.org/genai": "v1.77.0",
  },
  maven: {
    "com.anthropic:anthropic-java": "3.14.0",
    "com.google.genai:google-genai": "2.0.0",
    "com.openai:openai-java": "4.101.0",
  },
};
