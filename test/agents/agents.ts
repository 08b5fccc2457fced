/**
 * Command-line agents and client libraries through the gateway, on an upstream of each dialect. `npm run test:agents` installs their newest versions from
 * the public registries, beside the project and not into it, and prints a table with the versions; it exits with 1 when a check failed.
 * `npm run test:agents -- LangChain` runs those whose name contains the word; `-- --write` puts the table of a complete run into docs/clients.md.
 */
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type ConversationDialect, conversationDialects } from "#dialects/dialect.ts";
import { startGateway } from "../support/gateway.ts";
import { type Client, families } from "./client.ts";
import { commandLines } from "./command-lines.ts";
import { install } from "./install.ts";
import { libraryClients } from "./libraries.ts";

const interrupted = new AbortController();
for (const signal of ["SIGINT", "SIGTERM"] as const)
  process.once(signal, () => interrupted.abort(new Error(`interrupted by ${signal}`)));
process.stdout.on("error", (error) => interrupted.abort(error));

const modelOf = (upstream: ConversationDialect) => `sim-${upstream}`;
const reasonerOf = (upstream: ConversationDialect, family: Client["family"]) => `${family}-${upstream}`;

function catalogue(): string {
  const upstreams = conversationDialects.map(
    (dialect) =>
      `  ${dialect}: { dialect: ${dialect}, circuitBreakerFailuresMax: 0, baseUrl: "\${SIMULATOR_URL}/${dialect === "gemini" ? "v1beta" : "v1"}" }`,
  );
  const line = (id: string, upstream: ConversationDialect, model: string, more = "") =>
    `  - { id: ${id}, retries: 0, contextWindow: 128000, outputTokensMax: 32000, ${more}prices: { inputPerMillion: 0, outputPerMillion: 0 }, route: [{ upstream: ${upstream}, model: "${model};rate=0;first=0" }] }`;
  const models = conversationDialects.flatMap((upstream) => [
    line(modelOf(upstream), upstream, "sim-text"),
    ...families.map((family) =>
      line(
        reasonerOf(upstream, family),
        upstream,
        "sim-reasoning",
        "capabilities: [text, streaming, tools, json, reasoning], ",
      ),
    ),
  ]);
  return `groups: { default: { models: ["*"] } }\nupstreams:\n${upstreams.join("\n")}\nmodels:\n${models.join("\n")}\n`;
}

interface Row {
  client: Client;
  cells: string[];
}

function tableOf(rows: Row[], versions: Map<string, string>): string {
  const packagesOf = ({ packages }: Client) => packages.map((name) => `${name} ${versions.get(name)}`).join(", ");
  const lines = [
    ["client", "packages", ...conversationDialects],
    ...rows.map(({ client, cells }) => [client.name, packagesOf(client), ...cells]),
  ];
  const widths = (lines[0] as string[]).map((_, column) =>
    Math.max(...lines.map((line) => (line[column] as string).length)),
  );
  const isText = (column: number) => column < 2;
  const padded = (line: string[]) =>
    line.map((cell, column) => {
      const missing = (widths[column] as number) - cell.length;
      const before = isText(column) ? 0 : Math.floor(missing / 2);
      return " ".repeat(before) + cell + " ".repeat(missing - before);
    });
  const rule = widths.map((width, column) => (isText(column) ? "-".repeat(width) : `:${"-".repeat(width - 2)}:`));
  const [head, ...body] = lines.map(padded);
  return [head as string[], rule, ...body].map((line) => `| ${line.join(" | ")} |`).join("\n");
}

async function writeTable(table: string): Promise<void> {
  const file = join(import.meta.dirname, "..", "..", "docs", "clients.md");
  const text = await readFile(file, "utf8");
  const [begin, end] = ["<!-- npm run test:agents -- --write -->\n", "<!-- end -->"];
  const [before, place = "", ...more] = text.split(begin);
  if (more.length > 0 || !place.includes(end))
    throw new Error("docs/clients.md must mark exactly one place for the table");
  await writeFile(file, `${before}${begin}\n${table}\n\n${place.slice(place.indexOf(end))}`);
}

const only = process.argv.slice(2).find((argument) => argument !== "--write");
const writes = process.argv.includes("--write");
if (writes && only !== undefined) throw new Error("--write is for a run of all clients");
const clients = [...commandLines, ...libraryClients].filter(({ name }) => only === undefined || name.includes(only));
if (clients.length === 0) throw new Error(`no client is named ${only}`);

console.log("installing the clients…");
const { installed, versions } = await install(clients, interrupted.signal);
for (const [name, version] of versions) console.log(`  ${name} ${version}`);

await using gateway = await startGateway({ catalogue: catalogue() });

/** Whether all checks passed. */
async function passes(client: Client, upstream: ConversationDialect): Promise<boolean> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-agent-"));
  try {
    const began = performance.now();
    const run = {
      folder,
      gateway,
      model: modelOf(upstream),
      reasoner: reasonerOf(upstream, client.family),
      installed,
      signal: interrupted.signal,
    };
    const { passed, failed, output } = await client.check(run);
    const isGood = failed.length === 0;
    console.log(
      `${isGood ? "ok  " : "FAIL"} ${client.name} on ${upstream}, ${Math.round(performance.now() - began)} ms: ${passed.join(", ")}`,
    );
    for (const check of failed) console.log(`  failed: ${check}`);
    if (!isGood) console.log(output.replaceAll(/^/gm, "  | "));
    return isGood;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

const rows: Row[] = [];
for (const client of clients) {
  const cells: string[] = [];
  for (const upstream of conversationDialects) cells.push((await passes(client, upstream)) ? "✓" : "✗");
  rows.push({ client, cells });
}

const isFailed = rows.some(({ cells }) => cells.includes("✗"));
const table = tableOf(rows, versions);
console.log(`\n${table}`);
if (writes && !isFailed) await writeTable(table);
process.exitCode = isFailed ? 1 : 0;
