/**
 * Command-line agents and client libraries through the gateway, on an upstream of each dialect.
 * `npm run test:clients:all` installs them from the public registries, beside the project and not
 * into it: in their newest versions, and again in those of `pinned.ts` where they differ. It prints
 * a table with the versions, and exits with 1 when a check failed. Clients that cannot be installed
 * here are skipped, with the reason. Each client runs twice, also with a key whose streams can be
 * resumed. `npm run test:clients:all -- LangChain` runs the clients whose name contains the word;
 * `--write` writes what was run into docs/clients-matrix.md.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type ConversationDialect, conversationDialects } from "#dialects/dialect.ts";
import { endAll } from "../support/at-end.ts";
import { startFilesGateway } from "../support/files.ts";
import {
  brokenOf,
  catalogue,
  keepAliveMs,
  modelOf,
  pausedOf,
  reasonerOf,
  resumableGroup,
  slowOf,
} from "./catalogue.ts";
import type { Client, Outcome } from "./client.ts";
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
const clients = [...commandLines, ...libraryClients].filter(({ name }) => only === undefined || name.includes(only));
if (clients.length === 0) throw new Error(`no client is named ${only}`);

async function installed(set: VersionSet, some: Client[]): Promise<Installation> {
  console.log(`installing ${set} versions…`);
  const installation = await install(some, set, interrupted.signal);
  for (const versions of Object.values(installation.versions))
    for (const [name, version] of versions) console.log(`  ${name} ${version}`);
  for (const [{ name }, reason] of installation.missing) console.log(`  skipped: ${name}: ${reason}`);
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

// Ends the database, after the gateway: there are no tests here whose end would.
await using _database = { [Symbol.asyncDispose]: endAll };
await using service = await startFilesGateway({
  catalogue: catalogue(),
  withBatches: true,
  workers: ["chat=64,image=4,audio=8,background=16"],
  environment: { KEEP_ALIVE_MS: String(keepAliveMs) },
});
const { gateway } = service;
const keys = [await service.addAccount("plain"), await service.addAccount("resumable", resumableGroup)];

async function outcomeOf(client: Client, upstream: ConversationDialect, installed: Installation, key: string) {
  const folder = await mkdtemp(join(tmpdir(), "sluice-client-"));
  try {
    return await client.check({
      folder,
      gateway: { url: gateway.url, key },
      model: modelOf(upstream),
      slow: slowOf(upstream),
      broken: brokenOf(upstream),
      paused: pausedOf(upstream),
      reasoner: reasonerOf(upstream, client.family),
      installed,
      signal: interrupted.signal,
    });
  } finally {
    await rm(folder, { recursive: true, force: true, maxRetries: 3 });
  }
}

/** A check passed if it did with both keys. */
async function cellOf(client: Client, upstream: ConversationDialect, installation: Installation): Promise<Cell> {
  const began = performance.now();
  const outcomes = await Promise.all(keys.map((key) => outcomeOf(client, upstream, installation, key)));
  const [plain, resumable] = outcomes as [Outcome, Outcome];
  const passed = plain.passed.filter((check) => resumable.passed.includes(check));
  const failed = [...plain.failed, ...resumable.failed.map((check) => `${check} (with resumable streams)`)];
  const isGood = failed.length === 0;
  console.log(
    `${isGood ? "ok  " : "FAIL"} ${client.name} on ${upstream}, ${Math.round(performance.now() - began)} ms: ${passed.join(", ")}`,
  );
  for (const check of failed) console.log(`  failed: ${check}`);
  for (const { output, failed } of outcomes) if (failed.length > 0) console.log(output.replaceAll(/^/gm, "  | "));
  return { passed, failed };
}

const rows: Row[] = [];
for (const { client, installation } of runs) {
  const skipped = installation.missing.get(client);
  if (skipped !== undefined) {
    rows.push({ client, packages: client.packages.join(", "), cells: new Map(), skipped });
    continue;
  }
  const versions = installation.versions[client.registry];
  const packages = client.packages.map((name) => `${name} ${versions.get(name)}`).join(", ");
  const cells = new Map<ConversationDialect, Cell>();
  const upstreams = client.upstreams ?? conversationDialects;
  const all = await Promise.all(upstreams.map((upstream) => cellOf(client, upstream, installation)));
  for (const [place, upstream] of upstreams.entries()) cells.set(upstream, all[place] as Cell);
  rows.push({ client, packages, cells });
}

console.log(`\n${tableOf(rows)}`);
if (writes) await writeMatrix(rows, only === undefined);
process.exitCode = rows.some(({ cells }) => [...cells.values()].some(({ failed }) => failed.length > 0)) ? 1 : 0;
