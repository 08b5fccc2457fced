/**
 * `npm run size`: how much code there is, in TypeScript tokens for each folder. Comments,
 * formatting and the length of names do not count. `npm run size -- <commit>` compares with an
 * earlier commit.
 */
import { execFileSync } from "node:child_process";
import { globSync, readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { SyntaxKind } from "typescript/unstable/ast";
import { createScanner } from "typescript/unstable/ast/scanner";

const root = resolve(import.meta.dirname, "..");
const isSource = (file: string) => /^(apps|libs|test|infra|docs)\/.*\.(tsx?|js)$/.test(file);

/** After these tokens a slash divides; after all others it begins a regular expression. */
const endsOperand = new Set([
  SyntaxKind.Identifier,
  SyntaxKind.PrivateIdentifier,
  SyntaxKind.NumericLiteral,
  SyntaxKind.BigIntLiteral,
  SyntaxKind.StringLiteral,
  SyntaxKind.RegularExpressionLiteral,
  SyntaxKind.NoSubstitutionTemplateLiteral,
  SyntaxKind.TemplateTail,
  SyntaxKind.CloseParenToken,
  SyntaxKind.CloseBracketToken,
  SyntaxKind.ThisKeyword,
]);
const closers = new Set([SyntaxKind.CloseParenToken, SyntaxKind.CloseBracketToken, SyntaxKind.CloseBraceToken]);

/** The number of tokens of a source text. A trailing comma is formatting and does not count. */
function tokensOf(text: string): number {
  const scanner = createScanner(true, undefined, text);
  /** The open braces: whether each belongs to a template literal. */
  const braces: boolean[] = [];
  let tokens = 0;
  let previous = SyntaxKind.Unknown;
  for (let token = scanner.scan(); token !== SyntaxKind.EndOfFile; token = scanner.scan()) {
    const isSlash = token === SyntaxKind.SlashToken || token === SyntaxKind.SlashEqualsToken;
    if (isSlash && !endsOperand.has(previous)) token = scanner.reScanSlashToken();
    if (token === SyntaxKind.TemplateHead) braces.push(true);
    else if (token === SyntaxKind.OpenBraceToken) braces.push(false);
    else if (token === SyntaxKind.CloseBraceToken && braces.at(-1) === true) {
      token = scanner.reScanTemplateToken(false);
      if (token === SyntaxKind.TemplateTail) braces.pop();
    } else if (token === SyntaxKind.CloseBraceToken) braces.pop();
    if (previous === SyntaxKind.CommaToken && closers.has(token)) tokens--;
    tokens++;
    previous = token;
  }
  return tokens;
}

/** Tokens by folder: two levels deep for apps and libs, one for the rest. */
function sizesOf(files: readonly string[], read: (file: string) => string): Map<string, number> {
  const sizes = new Map<string, number>();
  for (const file of files.filter(isSource)) {
    const folders = dirname(file).split("/");
    const folder = folders.slice(0, /^(apps|libs)$/.test(folders[0] as string) ? 2 : 1).join("/");
    sizes.set(folder, (sizes.get(folder) ?? 0) + tokensOf(read(file)));
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
