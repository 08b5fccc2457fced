/**
 * Command-line agents and client libraries through the gateway, on an upstream of each dialect. `npm run test:clients:all` installs them from the public
 * registries, beside the project and not into it: in their newest versions, and again in those of `pinned.ts` where they differ. It prints a table with the
 * versions, and exits with 1 when a check failed. `npm run test:clients:all -- LangChain` runs the clients whose name contains the word; `-- --write` writes
 * docs/clients-matrix.md after a run of all clients.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type ConversationDialect, conversationDialects } from "#dialects/dialect.ts";
import { startGateway } from "../support/gateway.ts";
import { catalogue, modelOf, reasonerOf, slowOf } from "./catalogue.ts";
import type { Client } from "./client.ts";
import { commandLines } from "./command-lines.ts";
import { type Installation, install, type VersionSet } from "./install.ts";
import { libraryClients } from "./libraries.ts";
import { type Cell, type Row, tableOf, writeMatrix } from "./matrix.ts";
import { pinned } from "./pinned.ts";

const interrupted = new AbortController();
for (const signal of ["SIGINT", "SIGTERM"] as const)
  process.once(signal, () => interrupted.abort(new Error(`interrupted by ${signal}`)));
process.stdout.on("error", (error) => interrupted.abort(error));

const only = process.argv.slice(2).find((argument) => argument !== "--write");
const writes = process.argv.includes("--write");
if (writes && only !== undefined) throw new Error("--write is for a run of all clients");
const clients = [...commandLines, ...libraryClients].filter(({ name }) => only === undefined || name.includes(only));
if (clients.length === 0) throw new Error(`no client is named ${only}`);

async function installed(set: VersionSet, some: Client[]): Promise<Installation> {
  console.log(`installing ${set} versions…`);
  const installation = await install(some, set, interrupted.signal);
  for (const versions of Object.values(installation.versions))
    for (const [name, version] of versions) console.log(`  ${name} ${version}`);
  return installation;
}

const newest = await installed("newest", clients);
const isOlder = ({ registry, packages }: Client) =>
  packages.some((name) => {
    const version = pinned[registry][name];
    return version !== undefined && version !== newest.versions[registry].get(name);
  });
const older = clients.filter(isOlder);
const runs = clients.map((client) => ({ client, installation: newest }));
if (older.length > 0) {
  const installation = await installed("pinned", older);
  runs.push(...older.map((client) => ({ client, installation })));
}

await using gateway = await startGateway({
  catalogue: catalogue(),
  workers: ["chat=64,image=4,audio=8,background=16"],
});

async function cellOf(client: Client, upstream: ConversationDialect, installation: Installation): Promise<Cell> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-client-"));
  try {
    const began = performance.now();
    const run = {
      folder,
      gateway,
      model: modelOf(upstream),
      slow: slowOf(upstream),
      reasoner: reasonerOf(upstream, client.family),
      installed: installation,
      signal: interrupted.signal,
    };
    const { passed, failed, output } = await client.check(run);
    const isGood = failed.length === 0;
    console.log(
      `${isGood ? "ok  " : "FAIL"} ${client.name} on ${upstream}, ${Math.round(performance.now() - began)} ms: ${passed.join(", ")}`,
    );
    for (const check of failed) console.log(`  failed: ${check}`);
    if (!isGood) console.log(output.replaceAll(/^/gm, "  | "));
    return { passed, failed };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

const rows: Row[] = [];
for (const { client, installation } of runs) {
  const versions = installation.versions[client.registry];
  const packages = client.packages.map((name) => `${name} ${versions.get(name)}`).join(", ");
  const cells = new Map<ConversationDialect, Cell>();
  for (const upstream of client.upstreams ?? conversationDialects)
    cells.set(upstream, await cellOf(client, upstream, installation));
  rows.push({ client, packages, cells });
}

console.log(`\n${tableOf(rows)}`);
if (writes) await writeMatrix(rows);
process.exitCode = rows.some(({ cells }) => [...cells.values()].some(({ failed }) => failed.length > 0)) ? 1 : 0;
