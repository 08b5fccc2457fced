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
  environment(run: Run): Record<string, string>;
}

const clientOf = (agent: CommandLine): Client => ({
  name: agent.name,
  family: "gpt-5",
  registry: "npm",
  packages: [agent.package],
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
    const isTold = /returned/.test(output);
    if (code === 0 && written.trim() === "it-works" && isTold) return { passed: [check], failed: [], output };
    const reason = `exit ${code}, the tool ${written === "" ? "did not run" : "ran"}, the answer ${isTold ? "came" : "did not come"}`;
    return { passed: [], failed: [`${check} (${reason})`], output };
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

const writeSettings = async (folder: string, file: string, text: string) => {
  await mkdir(folder);
  await writeFile(join(folder, file), text);
};

const agents: CommandLine[] = [
  {
    name: "Codex CLI",
    package: "@openai/codex",
    bin: "codex",
    prepare: ({ folder, gateway }) =>
      writeSettings(
        join(folder, ".codex"),
        "config.toml",
        `model_provider = "sluice"\n[model_providers.sluice]\nname = "sluice"\nbase_url = "${gateway.url}/v1"\nenv_key = "SLUICE_KEY"\nwire_api = "responses"\n`,
      ),
    args: codexArgs,
    environment: ({ gateway, folder }) => ({ SLUICE_KEY: gateway.key, CODEX_HOME: join(folder, ".codex") }),
  },
  {
    name: "Codex CLI over WebSocket",
    package: "@openai/codex",
    bin: "codex",
    prepare: ({ folder, gateway }) =>
      writeSettings(join(folder, ".codex"), "config.toml", `openai_base_url = "${gateway.url}/v1"\n`),
    args: codexArgs,
    environment: ({ gateway, folder }) => ({ CODEX_API_KEY: gateway.key, CODEX_HOME: join(folder, ".codex") }),
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
];

export const commandLines: Client[] = agents.map(clientOf);
