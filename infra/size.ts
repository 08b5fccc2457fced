/**
 * `npm run size`: how much code there is, in TypeScript tokens for each folder. Comments,
 * formatting and the length of names do not count. `npm run size -- <commit>` compares with an
 * earlier commit.
 */
import { execFileSync } from "node:child_process";
import { globSync, readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { tokensIn } from "./tokens.ts";

const root = resolve(import.meta.dirname, "..");
const isSource = (file: string) => /^(apps|libs|test|infra|docs)\/.*\.(tsx?|js)$/.test(file);

/** Tokens by folder: two levels deep for apps and libs, one for the rest. */
function sizesOf(files: readonly string[], read: (file: string) => string): Map<string, number> {
  const sizes = new Map<string, number>();
  for (const file of files.filter(isSource)) {
    const folders = dirname(file).split("/");
    const folder = folders.slice(0, /^(apps|libs)$/.test(folders[0] as string) ? 2 : 1).join("/");
    sizes.set(folder, (sizes.get(folder) ?? 0) + [...tokensIn(read(file))].length);
  }
  return sizes;
}

const git = (...args: string[]) => execFileSync("git", args, { cwd: root, encoding: "utf8", maxBuffer: 1 << 28 });
const now = sizesOf(globSync("{apps,libs,test,infra,docs}/**/*.{ts,tsx,js}", { cwd: root }), (file) =>
  readFileSync(join(root, file), "utf8"),
);
const [commit] = process.argv.slice(2);
const before =
  commit === undefined
    ? undefined
    : sizesOf(git("ls-tree", "-r", "--name-only", commit).split("\n"), (file) => git("show", `${commit}:${file}`));

const isProduct = (folder: string) => /^(apps|libs)\//.test(folder);
const totalOf = (sizes: Map<string, number>) =>
  [...sizes].reduce((sum, [folder, tokens]) => (isProduct(folder) ? sum + tokens : sum), 0);
const line = (name: string, tokens = 0, earlier?: number) => {
  const change = earlier === undefined || earlier === 0 ? "" : `${(((tokens - earlier) / earlier) * 100).toFixed(1)} %`;
  process.stdout.write(`${name.padEnd(20)}${String(tokens).padStart(9)}${change.padStart(10)}\n`);
};
for (const folder of [...new Set([...now.keys(), ...(before?.keys() ?? [])])].toSorted())
  line(folder, now.get(folder), before?.get(folder));
line("apps and libs", totalOf(now), before && totalOf(before));
