/** Client libraries: a script in `python` or `javascript` plays the checks of each, and prints a line of JSON for every check. */
import { join } from "node:path";
import { type Client, runProgram } from "./client.ts";

const timeoutMs = 120_000;

interface Library {
  name: string;
  packages: string[];
  /** In `python` or `javascript`. */
  script: string;
  args?: string[];
}

interface Report {
  check: string;
  /** null: passed. */
  error: string | null;
}

function reportsIn(stdout: string): Report[] {
  const lines = stdout.split("\n").filter((line) => line.startsWith('{"check"'));
  return lines.map((line) => JSON.parse(line) as Report);
}

function clientOf({ name, packages, script, args = [] }: Library): Client {
  const isPython = script.endsWith(".py");
  return {
    name,
    registry: isPython ? "pypi" : "npm",
    packages,
    async play({ folder, gateway, model, reasoner, installed, signal }) {
      const file = join(installed.scripts, isPython ? "python" : "javascript", script);
      const environment = {
        PATH: process.env.PATH,
        HOME: folder,
        SLUICE_URL: gateway.url,
        SLUICE_KEY: gateway.key,
        SLUICE_MODEL: model,
        SLUICE_REASONER: reasoner,
      };
      const program = isPython ? installed.python : process.execPath;
      const { code, stdout, output } = await runProgram(program, [file, ...args], { cwd: folder, environment, timeoutMs, signal });
      const reports = reportsIn(stdout);
      const failed = reports.flatMap(({ check, error }) => (error === null ? [] : [`${check}: ${error}`]));
      if ((code !== 0 && failed.length === 0) || reports.length === 0) failed.push(`the script ended with ${code} after ${reports.length} checks`);
      return { passed: reports.filter(({ error }) => error === null).map(({ check }) => check), failed, output };
    },
  };
}

const aiSdk = (provider: string, call: string, argument = provider): Library => ({
  name: `AI SDK, ${call}`,
  packages: ["ai", `@ai-sdk/${provider}`],
  script: "ai-sdk.js",
  args: [argument],
});

const libraries: Library[] = [
  { name: "OpenAI's Python client", packages: ["openai"], script: "openai_client.py" },
  { name: "Anthropic's Python client", packages: ["anthropic"], script: "anthropic_client.py" },
  { name: "Google's Python client", packages: ["google-genai"], script: "google_genai_client.py" },
  { name: "OpenAI Agents SDK, Python", packages: ["openai-agents"], script: "openai_agents.py" },
  { name: "OpenAI Agents SDK, JavaScript", packages: ["@openai/agents"], script: "openai-agents.js" },
  aiSdk("openai", '`openai("…")` with `store: false`'),
  aiSdk("openai", '`openai.chat("…")`', "openai.chat"),
  aiSdk("openai-compatible", "`openai-compatible`"),
  aiSdk("anthropic", "`anthropic`"),
  aiSdk("google", "`google`"),
  { name: "LangChain, `ChatOpenAI`", packages: ["langchain", "langchain-openai"], script: "langchain_client.py", args: ["chat"] },
  {
    name: "LangChain, `ChatOpenAI` with `use_responses_api`",
    packages: ["langchain", "langchain-openai"],
    script: "langchain_client.py",
    args: ["responses"],
  },
  { name: "LangChain, `ChatAnthropic`", packages: ["langchain", "langchain-anthropic"], script: "langchain_client.py", args: ["anthropic"] },
];

export const libraryClients: Client[] = libraries.map(clientOf);
