/**
 * Client libraries: a script in `python` or `javascript`, or the program in `go` or `java`, runs
 * the checks of each, and prints a line of JSON for every check.
 */
import { join } from "node:path";
import { type Client, families, type Installed, type Registry, runProgram } from "./client.ts";

const timeoutMs = 120_000;

interface Library {
  name: string;
  /** gpt-5 unless told otherwise. */
  family?: Client["family"];
  packages: string[];
  /** In `python` or `javascript`; or the program `go` or `java`. */
  script: string;
  args?: string[];
  upstreams?: Client["upstreams"];
}

interface Report {
  check: string;
  /** null: passed. */
  error: string | null;
}

function reportsIn(stdout: string): Report[] {
  const lines = stdout.split("\n").slice(0, -1);
  return lines.filter((line) => line.startsWith('{"check"')).map((line) => JSON.parse(line) as Report);
}

const registryOf = (script: string): Registry =>
  script === "go" ? "go" : script === "java" ? "maven" : script.endsWith(".py") ? "pypi" : "npm";

/** The program of a script, with its first arguments. */
function commandOf(script: string, { scripts, python, go, classPath }: Installed): [string, ...string[]] {
  switch (registryOf(script)) {
    case "go":
      return [go];
    case "maven":
      // Compiling less is faster for a short run.
      return ["java", "-XX:TieredStopAtLevel=1", "-cp", classPath, "Clients"];
    case "pypi":
      return [python, join(scripts, "python", script)];
    case "npm":
      return [process.execPath, join(scripts, "javascript", script)];
  }
}

function clientOf({ name, family = "gpt-5", packages, script, args = [], upstreams }: Library): Client {
  return {
    name,
    family,
    registry: registryOf(script),
    packages,
    ...(upstreams && { upstreams }),
    async check({ folder, gateway, model, slow, broken, paused, reasoner, installed, signal }) {
      const [program, ...first] = commandOf(script, installed);
      const environment = {
        PATH: process.env.PATH,
        HOME: folder,
        SLUICE_URL: gateway.url,
        SLUICE_KEY: gateway.key,
        SLUICE_MODEL: model,
        SLUICE_SLOW_MODEL: slow,
        SLUICE_BROKEN_MODEL: broken,
        SLUICE_PAUSED_MODEL: paused,
        SLUICE_REASONER: reasoner,
      };
      const { code, stdout, output } = await runProgram(program, [...first, ...args], {
        cwd: folder,
        environment,
        timeoutMs,
        signal,
      });
      const reports = reportsIn(stdout);
      const failed = reports.flatMap(({ check, error }) => (error === null ? [] : [`${check}: ${error}`]));
      if ((code !== 0 && failed.length === 0) || reports.length === 0)
        failed.push(`the script ended with ${code} after ${reports.length} checks`);
      return { passed: reports.filter(({ error }) => error === null).map(({ check }) => check), failed, output };
    },
  };
}

const aiSdk = (
  provider: string,
  call: string,
  { family = "gpt-5", argument = provider }: { family?: Client["family"]; argument?: string } = {},
): Library => ({
  name: `AI SDK, ${call}`,
  family,
  packages: ["ai", `@ai-sdk/${provider}`],
  script: "ai-sdk.js",
  args: [argument],
});

const langchain4j = (vendor: string, artifact: string, family: Client["family"]): Library => ({
  name: `LangChain4j, ${vendor}`,
  family,
  packages: [`dev.langchain4j:${artifact}`],
  script: "java",
  args: [artifact],
});

const libraries: Library[] = [
  { name: "OpenAI's JavaScript client", packages: ["openai"], script: "openai-client.js" },
  { name: "OpenAI's Python client", packages: ["openai"], script: "openai_client.py" },
  {
    name: "Anthropic's JavaScript client",
    family: "claude-opus-5",
    packages: ["@anthropic-ai/sdk"],
    script: "anthropic-client.js",
  },
  {
    name: "Google's JavaScript client",
    family: "gemini-3-pro",
    packages: ["@google/genai"],
    script: "google-genai-client.js",
  },
  {
    name: "Anthropic's Python client",
    family: "claude-opus-5",
    packages: ["anthropic"],
    script: "anthropic_client.py",
  },
  {
    name: "Google's Python client",
    family: "gemini-3-pro",
    packages: ["google-genai"],
    script: "google_genai_client.py",
  },
  { name: "OpenAI Agents SDK, Python", packages: ["openai-agents"], script: "openai_agents.py" },
  { name: "OpenAI Agents SDK, JavaScript", packages: ["@openai/agents", "openai"], script: "openai-agents.js" },
  aiSdk("openai", '`openai("…")`'),
  aiSdk("openai", '`openai("…")` with `store: false`', { argument: "openai.unstored" }),
  aiSdk("openai", '`openai.chat("…")`', { argument: "openai.chat" }),
  aiSdk("openai-compatible", "`openai-compatible`"),
  aiSdk("anthropic", "`anthropic`", { family: "claude-opus-5" }),
  aiSdk("google", "`google`", { family: "gemini-3-pro" }),
  { name: "OpenAI's JavaScript client for Azure", packages: ["openai"], script: "azure-client.js" },
  aiSdk("azure", "`azure`"),
  {
    name: "Anthropic's JavaScript client for Vertex AI",
    family: "claude-opus-5",
    packages: ["@anthropic-ai/vertex-sdk", "google-auth-library"],
    script: "anthropic-client.js",
    args: ["vertex"],
  },
  {
    name: "Cohere's JavaScript client",
    packages: ["cohere-ai"],
    script: "cohere-client.js",
    upstreams: ["openai-chat"],
  },
  { ...aiSdk("cohere", "`cohere`"), script: "cohere-client.js", args: ["ai-sdk"], upstreams: ["openai-chat"] },
  { name: "Cohere's Python client", packages: ["cohere"], script: "cohere_client.py", upstreams: ["openai-chat"] },
  {
    name: "OpenAI's JavaScript client, audio",
    packages: ["openai"],
    script: "audio-client.js",
    upstreams: ["openai-chat"],
  },
  {
    name: "OpenAI's Python client, audio",
    packages: ["openai"],
    script: "audio_client.py",
    upstreams: ["openai-chat"],
  },
  {
    ...aiSdk("openai", "`openai`, audio"),
    script: "audio-client.js",
    args: ["ai-sdk"],
    upstreams: ["openai-chat"],
  },
  { name: "Ollama's Python client", packages: ["ollama"], script: "ollama_client.py" },
  { name: "Ollama's JavaScript client", packages: ["ollama"], script: "ollama-client.js" },
  {
    name: "LangChain for Python, `ChatOpenAI`",
    packages: ["langchain", "langchain-openai"],
    script: "langchain_client.py",
    args: ["chat"],
  },
  {
    name: "LangChain for Python, `ChatOpenAI` with `use_responses_api`",
    packages: ["langchain", "langchain-openai"],
    script: "langchain_client.py",
    args: ["responses"],
  },
  {
    name: "LangChain for JavaScript, `ChatOpenAI`",
    packages: ["langchain", "@langchain/core", "@langchain/openai"],
    script: "langchain-client.js",
    args: ["chat"],
  },
  {
    name: "LangChain for JavaScript, `ChatOpenAI` with `useResponsesApi`",
    packages: ["langchain", "@langchain/core", "@langchain/openai"],
    script: "langchain-client.js",
    args: ["responses"],
  },
  {
    name: "LangChain for Python, `ChatAnthropic`",
    family: "claude-opus-5",
    packages: ["langchain", "langchain-anthropic"],
    script: "langchain_client.py",
    args: ["anthropic"],
  },
  { name: "OpenAI's Go client", packages: ["github.com/openai/openai-go/v3"], script: "go", args: ["openai"] },
  {
    name: "Anthropic's Go client",
    family: "claude-opus-5",
    packages: ["github.com/anthropics/anthropic-sdk-go"],
    script: "go",
    args: ["anthropic"],
  },
  {
    name: "Google's Go client",
    family: "gemini-3-pro",
    packages: ["google.golang.org/genai"],
    script: "go",
    args: ["google"],
  },
  { name: "OpenAI's Java client", packages: ["com.openai:openai-java"], script: "java", args: ["openai"] },
  {
    name: "Anthropic's Java client",
    family: "claude-opus-5",
    packages: ["com.anthropic:anthropic-java"],
    script: "java",
    args: ["anthropic"],
  },
  {
    name: "Google's Java client",
    family: "gemini-3-pro",
    packages: ["com.google.genai:google-genai"],
    script: "java",
    args: ["google"],
  },
  langchain4j("OpenAI", "langchain4j-open-ai", "gpt-5"),
  langchain4j("Anthropic", "langchain4j-anthropic", "claude-opus-5"),
  langchain4j("Gemini", "langchain4j-google-ai-gemini", "gemini-3-pro"),
  ...(["openai", "anthropic", "gemini"] as const).map(
    (provider, index): Library => ({
      name: `LiteLLM, \`${provider}/…\``,
      family: families[index] as Client["family"],
      packages: ["litellm"],
      script: "litellm_client.py",
      args: [provider],
    }),
  ),
  ...(
    [
      ["OpenAIChatModel", "gpt-5"],
      ["OpenAIResponsesModel", "gpt-5"],
      ["AnthropicModel", "claude-opus-5"],
      ["GoogleModel", "gemini-3-pro"],
    ] as const
  ).map(
    ([kind, family]): Library => ({
      name: `Pydantic AI, \`${kind}\``,
      family,
      packages: ["pydantic-ai"],
      script: "pydantic_ai_client.py",
      args: [kind],
    }),
  ),
];

export const libraryClients: Client[] = libraries.map(clientOf);
