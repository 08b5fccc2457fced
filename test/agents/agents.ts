/**
 * The command-line agents people use, headless, through the gateway: each completes a task with a tool call, on an upstream of its own dialect and on
 * one of every other. `npm run test:agents` installs them (from the npm registry, beside the project, not into it) and prints a table with their versions;
 * it exits with 1 when one failed.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type ConversationDialect, conversationDialects } from "#wire/dialect.ts";
import { type Gateway, startGateway } from "../support/gateway.ts";

const runTimeoutMs = 120_000;
const proof = "proof.txt";
const command = `echo it-works > ${proof}`;

interface Run {
  /** A fresh folder, also its home. */
  folder: string;
  gateway: Gateway;
  model: string;
}

interface Agent {
  name: string;
  package: string;
  bin: string;
  own: ConversationDialect;
  prepare?(run: Run): Promise<void>;
  args(run: Run): string[];
  environment(run: Run): Record<string, string>;
}

const agents: Agent[] = [
  {
    name: "Codex CLI",
    package: "@openai/codex",
    bin: "codex",
    own: "openai-responses",
    prepare: ({ folder, gateway }) =>
      mkdir(join(folder, ".codex")).then(() =>
        writeFile(
          join(folder, ".codex", "config.toml"),
          `model_provider = "sluice"\n[model_providers.sluice]\nname = "sluice"\nbase_url = "${gateway.url}/v1"\nenv_key = "SLUICE_KEY"\nwire_api = "responses"\n`,
        ),
      ),
    args: ({ model }) => ["exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "-m", model, `Use exec_command to run "${command}".`],
    environment: ({ gateway, folder }) => ({ SLUICE_KEY: gateway.key, CODEX_HOME: join(folder, ".codex") }),
  },
  {
    name: "Codex CLI, WebSocket",
    package: "@openai/codex",
    bin: "codex",
    own: "openai-responses",
    prepare: ({ folder, gateway }) =>
      mkdir(join(folder, ".codex")).then(() => writeFile(join(folder, ".codex", "config.toml"), `openai_base_url = "${gateway.url}/v1"\n`)),
    args: ({ model }) => ["exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "-m", model, `Use exec_command to run "${command}".`],
    environment: ({ gateway, folder }) => ({ CODEX_API_KEY: gateway.key, CODEX_HOME: join(folder, ".codex") }),
  },
  {
    name: "Claude Code",
    package: "@anthropic-ai/claude-code",
    bin: "claude",
    own: "anthropic-messages",
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
    own: "gemini",
    prepare: ({ folder }) =>
      mkdir(join(folder, ".gemini")).then(() => writeFile(join(folder, ".gemini", "settings.json"), '{"security":{"auth":{"selectedType":"gemini-api-key"}}}')),
    args: ({ model }) => ["-m", model, "--skip-trust", "--approval-mode", "yolo", "-p", `Use run_shell_command to run "${command}".`],
    environment: ({ gateway }) => ({ GOOGLE_GEMINI_BASE_URL: gateway.url, GEMINI_API_KEY: gateway.key }),
  },
];

interface Ended {
  code: number | null;
  output: string;
}

async function run(file: string, args: string[], cwd: string, environment: Record<string, string>): Promise<Ended> {
  const child = spawn(file, args, { cwd, env: { PATH: process.env.PATH, HOME: cwd, ...environment }, stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  for (const stream of [child.stdout, child.stderr])
    stream.on("data", (chunk: Buffer) => {
      output = (output + chunk.toString()).slice(-20_000);
    });
  const timer = setTimeout(() => child.kill("SIGKILL"), runTimeoutMs);
  await once(child, "close");
  clearTimeout(timer);
  return { code: child.exitCode, output };
}

const tools = join(tmpdir(), "sluice-agents");
await mkdir(tools, { recursive: true });
await writeFile(join(tools, "package.json"), '{"private":true}');
console.log("installing the agents…");
const packages = [...new Set(agents.map((agent) => agent.package))];
const installed = await run(
  "npm",
  ["install", "--no-audit", "--no-fund", ...packages.map((name) => `${name}@latest`)],
  tools,
  process.env as Record<string, string>,
);
if (installed.code !== 0) throw new Error(`npm install: ${installed.output}`);

const versionOf = async (name: string) =>
  (JSON.parse(await readFile(join(tools, "node_modules", name, "package.json"), "utf8")) as { version: string }).version;

const line = (dialect: ConversationDialect) =>
  `  - { id: sim-${dialect}, retries: 0, contextWindow: 128000, outputTokensMax: 32000, prices: { inputPerMillion: 0, outputPerMillion: 0 }, route: [{ upstream: ${dialect}, model: "sim-text;rate=0;first=0" }] }`;
const upstreams = conversationDialects.map(
  (dialect) => `  ${dialect}: { dialect: ${dialect}, circuitFailuresMax: 0, baseUrl: "\${SIMULATOR_URL}/${dialect === "gemini" ? "v1beta" : "v1"}" }`,
);
const gateway = await startGateway({
  catalogue: `groups: { default: { models: ["*"] } }\nupstreams:\n${upstreams.join("\n")}\nmodels:\n${conversationDialects.map(line).join("\n")}\n`,
});

const only = process.argv[2];
let failed = false;
const rows: string[] = [];
for (const agent of agents.filter(({ name }) => only === undefined || name.includes(only))) {
  const cells: string[] = [];
  for (const upstream of conversationDialects) {
    const folder = await mkdtemp(join(tmpdir(), "sluice-agent-"));
    const one: Run = { folder, gateway, model: `sim-${upstream}` };
    await agent.prepare?.(one);
    const began = performance.now();
    const { code, output } = await run(join(tools, "node_modules", ".bin", agent.bin), agent.args(one), folder, agent.environment(one));
    const worked = await readFile(join(folder, proof), "utf8").catch(() => "");
    const told = /returned/.test(output);
    const good = code === 0 && worked.trim() === "it-works" && told;
    cells.push(good ? "✓" : "✗");
    console.log(`${good ? "ok  " : "FAIL"} ${agent.name} on ${upstream}: ${Math.round(performance.now() - began)} ms`);
    if (!good) {
      failed = true;
      console.log(
        `  exit ${code}, the tool ${worked === "" ? "did not run" : "ran"}, the answer ${told ? "came" : "did not come"}\n${output.replaceAll(/^/gm, "  | ")}`,
      );
    }
    await rm(folder, { recursive: true, force: true });
  }
  rows.push(`| ${agent.name} | ${await versionOf(agent.package)} | ${cells.join(" | ")} |`);
}
await gateway[Symbol.asyncDispose]();
console.log(
  `\n| agent | version | ${conversationDialects.join(" | ")} |\n| --- | --- | ${conversationDialects.map(() => ":-:").join(" | ")} |\n${rows.join("\n")}`,
);
process.exitCode = failed ? 1 : 0;
