/** The command-line agents people use, headless: each completes a task with a tool call. */
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type Client, type Run, runProgram } from "./client.ts";

const timeoutMs = 120_000;
const proof = "proof.txt";
const command = `echo it-works > ${proof}`;
const check = "a task with a tool call";

interface CommandLine {
  name: string;
  package: string;
  bin: string;
  prepare?(run: Run): Promise<void>;
  args(run: Run): string[];
  upstreams?: Client["upstreams"];
  /** Text that the output must show in place of the tool's result, and the name of the check. */
  shows?: { check: string; text: RegExp };
  environment(run: Run): Record<string, string>;
}

const clientOf = (agent: CommandLine): Client => ({
  name: agent.name,
  family: "gpt-5",
  registry: "npm",
  packages: [agent.package],
  ...(agent.upstreams && { upstreams: agent.upstreams }),
  async check(run) {
    const { folder, installed, signal } = run;
    await agent.prepare?.(run);
    const environment = { PATH: process.env.PATH, HOME: folder, ...agent.environment(run) };
    const { code, output } = await runProgram(join(installed.binaries, agent.bin), agent.args(run), {
      cwd: folder,
      environment,
      timeoutMs,
      signal,
    });
    const written = await readFile(join(folder, proof), "utf8").catch(() => "");
    const isTold = agent.shows === undefined ? /returned/.test(output) : agent.shows.text.test(output);
    const name = agent.shows?.check ?? check;
    if (code === 0 && written.trim() === "it-works" && isTold) return { passed: [name], failed: [], output };
    const reason = `exit ${code}, the tool ${written === "" ? "did not run" : "ran"}, the answer ${isTold ? "came" : "did not come"}`;
    return { passed: [], failed: [`${name} (${reason})`], output };
  },
});

const codexArgs = ({ model }: Run) => [
  "exec",
  "--skip-git-repo-check",
  "--dangerously-bypass-approvals-and-sandbox",
  "-m",
  model,
  `Use exec_command to run "${command}".`,
];

/** Every answer is above it. */
const compactTokens = "model_auto_compact_token_limit = 1000\n";
const compaction = { check: "compaction in the middle of a task", text: /context compacted[\s\S]*You said:/ };

const ownProvider = ({ folder, gateway }: Run) =>
  writeSettings(
    join(folder, ".codex"),
    "config.toml",
    `model_provider = "sluice"\n[model_providers.sluice]\nname = "sluice"\nbase_url = "${gateway.url}/v1"\nenv_key = "SLUICE_KEY"\nwire_api = "responses"\n`,
  );
const openaiProvider = ({ folder, gateway }: Run, more = "") =>
  writeSettings(join(folder, ".codex"), "config.toml", `openai_base_url = "${gateway.url}/v1"\n${more}`);
const codexEnvironment = ({ gateway, folder }: Run) => ({
  SLUICE_KEY: gateway.key,
  CODEX_API_KEY: gateway.key,
  CODEX_HOME: join(folder, ".codex"),
});
const codex = { package: "@openai/codex", bin: "codex", args: codexArgs, environment: codexEnvironment };

const writeSettings = async (folder: string, file: string, text: string) => {
  await mkdir(folder);
  await writeFile(join(folder, file), text);
};

const agents: CommandLine[] = [
  { ...codex, name: "Codex CLI", prepare: ownProvider },
  { ...codex, name: "Codex CLI over WebSocket", prepare: (run) => openaiProvider(run) },
  {
    ...codex,
    name: "Codex CLI, compaction",
    prepare: (run) => openaiProvider(run, compactTokens),
    // Where a dialect joins the task and the summary to one turn, the simulator begins the task
    // again.
    upstreams: ["openai-chat", "openai-responses"],
    shows: compaction,
  },
  {
    name: "Claude Code",
    package: "@anthropic-ai/claude-code",
    bin: "claude",
    args: ({ model }) => ["-p", `Use Bash to run "${command}".`, "--model", model, "--allowedTools", "Bash"],
    environment: ({ gateway, model }) => ({
      ANTHROPIC_BASE_URL: gateway.url,
      ANTHROPIC_AUTH_TOKEN: gateway.key,
      ANTHROPIC_SMALL_FAST_MODEL: model,
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
      DISABLE_AUTOUPDATER: "1",
    }),
  },
  {
    name: "Gemini CLI",
    package: "@google/gemini-cli",
    bin: "gemini",
    prepare: ({ folder }) =>
      writeSettings(
        join(folder, ".gemini"),
        "settings.json",
        '{"security":{"auth":{"selectedType":"gemini-api-key"}}}',
      ),
    args: ({ model }) => [
      "-m",
      model,
      "--skip-trust",
      "--approval-mode",
      "yolo",
      "-p",
      `Use run_shell_command to run "${command}".`,
    ],
    environment: ({ gateway }) => ({ GOOGLE_GEMINI_BASE_URL: gateway.url, GEMINI_API_KEY: gateway.key }),
  },
  {
    name: "opencode",
    package: "opencode-ai",
    bin: "opencode",
    prepare: ({ folder, gateway, model }) => {
      const options = { baseURL: `${gateway.url}/v1`, apiKey: gateway.key };
      const sluice = { npm: "@ai-sdk/openai-compatible", options, models: { [model]: {} } };
      const settings = { provider: { sluice }, autoupdate: false, share: "disabled", permission: { bash: "allow" } };
      return writeFile(join(folder, "opencode.json"), JSON.stringify(settings));
    },
    // It quotes an argument that has white space.
    args: ({ model }) => ["run", "--model", `sluice/${model}`, ...`Use bash to run "${command}".`.split(" ")],
    environment: () => ({ OPENCODE_DISABLE_MODELS_FETCH: "1", OPENCODE_DISABLE_AUTOUPDATE: "1" }),
  },
  {
    name: "Qwen Code",
    package: "@qwen-code/qwen-code",
    bin: "qwen",
    args: ({ model }) => [
      "--yolo",
      "--auth-type",
      "openai",
      "--model",
      model,
      `Use run_shell_command to run "${command}".`,
    ],
    environment: ({ gateway }) => ({ OPENAI_BASE_URL: `${gateway.url}/v1`, OPENAI_API_KEY: gateway.key }),
  },
  {
    name: "pi",
    package: "@earendil-works/pi-coding-agent",
    bin: "pi",
    prepare: async ({ folder, gateway, model }) => {
      const models = [{ id: model, name: model, contextWindow: 128_000, maxTokens: 32_000 }];
      const sluice = { baseUrl: `${gateway.url}/v1`, apiKey: gateway.key, api: "openai-completions", models };
      await writeSettings(join(folder, ".pi"), "models.json", JSON.stringify({ providers: { sluice } }));
    },
    args: ({ model }) => ["-p", "--provider", "sluice", "--model", model, `Use bash to run "${command}".`],
    environment: ({ folder }) => ({ PI_CODING_AGENT_DIR: join(folder, ".pi"), PI_OFFLINE: "1" }),
  },
];

export const commandLines: Client[] = agents.map(clientOf);
