/** docs/clients-matrix.md: what a run of all clients printed. */
import { readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type ConversationDialect, conversationDialects } from "#dialects/dialect.ts";
import type { Client } from "./client.ts";

/** The names of a client's checks on one upstream. */
export interface Cell {
  passed: string[];
  /** With their errors. */
  failed: string[];
}

export interface Row {
  client: Client;
  /** The packages with their versions. */
  packages: string;
  cells: Map<ConversationDialect, Cell>;
  /** Why it did not run. */
  skipped?: string;
}

function markOf(cell: Cell | undefined): string {
  if (cell === undefined) return "–";
  const { passed, failed } = cell;
  return failed.length === 0 ? `${passed.length} ✓` : `${passed.length} ✓ ${failed.length} ✗`;
}

const cellsOf = (rows: readonly Row[]): string[][] =>
  rows.map(({ client, packages, cells, skipped }) => [
    client.name,
    packages,
    ...conversationDialects.map((upstream) => (skipped === undefined ? markOf(cells.get(upstream)) : "skipped")),
  ]);

export const tableOf = (rows: readonly Row[]): string => tableWith(cellsOf(rows));

function tableWith(rows: readonly string[][]): string {
  const lines = [["client", "packages", ...conversationDialects], ...rows];
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

/** The first line of an error, without the addresses and ids of this run. */
const plain = (error: string): string =>
  (error.split("\n")[0] as string)
    .replaceAll(/127\.0\.0\.1:\d+/g, "127.0.0.1")
    .replaceAll(/\b(resp|msg|rs|fc|conv|req|cmp|gen)_\w+/g, "$1_…")
    .replaceAll(tmpdir(), "…")
    .replaceAll(/[*_`<>|]/g, "\\$&")
    .slice(0, 300);

function failuresOf(rows: readonly Row[]): string[] {
  return rows.flatMap(({ client, packages, cells }) =>
    [...cells].flatMap(([upstream, { failed }]) =>
      failed.map((error) => `- ${client.name} (${packages}) on ${upstream}: ${plain(error)}`),
    ),
  );
}

function checksOf(rows: readonly Row[]): string[] {
  const byClient = new Map<string, Set<string>>();
  for (const { client, cells } of rows) {
    const names = byClient.get(client.name) ?? new Set();
    byClient.set(client.name, names);
    for (const { passed, failed } of cells.values())
      for (const name of [...passed, ...failed.map((error) => error.split(":")[0] as string)]) names.add(name);
  }
  return [...byClient].map(([client, names]) => `- **${client}**: ${[...names].join(", ")}`);
}

const page = join(import.meta.dirname, "..", "..", "docs", "clients-matrix.md");

/** The lines of a section of the page before. */
const linesIn = (text: string, heading: string): string[] =>
  (text.split(`## ${heading}\n`)[1]?.split("\n## ")[0] ?? "").split("\n").filter((line) => line.startsWith("- "));

/** The new items take the place of the old ones of the same clients; all others stay. */
function merged<Item>(
  olds: readonly Item[],
  news: readonly Item[],
  { names, nameOf }: { names: readonly string[]; nameOf: (item: Item) => string | undefined },
): Item[] {
  const place = olds.findIndex((old) => names.includes(nameOf(old) ?? ""));
  const kept = (items: readonly Item[]) => items.filter((old) => !names.includes(nameOf(old) ?? ""));
  const before = place < 0 ? kept(olds) : kept(olds.slice(0, place));
  return [...before, ...news, ...(place < 0 ? [] : kept(olds.slice(place)))];
}

/**
 * Writes the page, whether all checks passed or not. Of a run of some clients, only their rows are
 * new.
 */
export async function writeMatrix(rows: readonly Row[], isWhole: boolean): Promise<void> {
  const before = isWhole ? "" : await readFile(page, "utf8");
  const names = rows.map(({ client }) => client.name);
  const oldTable = before
    .split("\n")
    .filter((line) => line.startsWith("| "))
    .slice(2)
    .map((line) =>
      line
        .slice(2, -2)
        .split(" | ")
        .map((cell) => cell.trim()),
    );
  let table = oldTable;
  for (const name of new Set(names))
    table = merged(table, cellsOf(rows.filter(({ client }) => client.name === name)), {
      names: [name],
      nameOf: ([first]) => first,
    });
  const mergedLines = (heading: string, news: string[], form: RegExp) => {
    const nameOf = (line: string) => form.exec(line)?.[1];
    let lines = linesIn(before, heading);
    for (const name of new Set(names))
      lines = merged(
        lines,
        news.filter((line) => nameOf(line) === name),
        { names: [name], nameOf },
      );
    return lines;
  };
  const failures = mergedLines("Failed checks", failuresOf(rows), /^- (.+?) \(/);
  const skipped = mergedLines(
    "Skipped clients",
    rows.flatMap(({ client, skipped }) => (skipped === undefined ? [] : [`- ${client.name}: ${plain(skipped)}`])),
    /^- (.+?): /,
  );
  const checks = mergedLines("Checks", checksOf(rows), /^- \*\*(.+?)\*\*: /);
  const text = `# Clients: the last run

\`npm run test:clients:all -- --write\` generates this page: it installs each client, in its newest version and in the version that
\`test/all-clients/pinned.ts\` names, and runs its checks against a simulated upstream of each dialect. A row stands for both if they are the
same. With a word before \`--write\`, only the rows of the clients with this word in their names are new. A cell counts the checks that passed (✓) and failed (✗), each with plain streams and with resumable ones. Clients that could not be installed are skipped.

${tableWith(table)}

## Failed checks

${failures.length === 0 ? "None." : failures.join("\n")}

## Skipped clients

${skipped.length === 0 ? "None." : skipped.join("\n")}

## Checks

${checks.join("\n")}
`;
  await writeFile(page, text);
}
