/**
 * Small faults, one at a time, in the text of a source file, like typical slips. Biome formats the
 * sources, so spaces tell operators from the rest; Lua inside TypeScript is changed as well.
 */

export interface Mutant {
  /** Counted from 1. */
  line: number;
  before: string;
  after: string;
  /** The whole file, changed. */
  text: string;
}

const swaps: readonly (readonly [RegExp, string])[] = [
  [/ < /g, " <= "],
  [/ <= /g, " < "],
  [/ > /g, " >= "],
  [/ >= /g, " > "],
  [/ === /g, " !== "],
  [/ !== /g, " === "],
  [/ == /g, " ~= "],
  [/ ~= /g, " == "],
  [/ && /g, " || "],
  [/ \|\| /g, " && "],
  [/ and /g, " or "],
  [/ or /g, " and "],
  [/ \+ /g, " - "],
  [/ - /g, " + "],
  [/ \* /g, " / "],
  [/ \/ /g, " * "],
  [/ \+= /g, " -= "],
  [/ -= /g, " += "],
  [/(?<=\w)\+\+/g, "--"],
  [/(?<=\w)--/g, "++"],
  [/\bMath\.max\(/g, "Math.min("],
  [/\bMath\.min\(/g, "Math.max("],
  [/\btrue\b/g, "false"],
  [/\bfalse\b/g, "true"],
  [/(?<=[( ])!(?=[\w(])/g, ""],
];

/** Statements that are left out: calls, assignments and early ends. */
const omissions: readonly RegExp[] = [
  /^\s+(?:void )?(?:this\.)?#?[\w.#?]+\(.*\);$/,
  /^\s+(?:this\.)?#?[\w.#]+ (?:=|\+=|-=|\?\?=|\|\|=) .*;$/,
  /^\s+(?:else )?if \(.*\) (?:return|continue|break)\b.*;$/,
  /^\s*redis\.call\(.*\)$/,
];

const isProse = (line: string): boolean => /^\s*(?:\/\/|\/\*|\*|import |export (?:interface|type) )/.test(line);
/** Is this place within a text in quotes, or in a comment at the line's end? */
const isQuoted = (line: string, at: number): boolean => {
  const before = line.slice(0, at);
  return (before.match(/"/g)?.length ?? 0) % 2 === 1 || before.includes(" // ");
};

export function mutantsOf(source: string): Mutant[] {
  const lines = source.split("\n");
  const mutants: Mutant[] = [];
  const add = (index: number, after: string) => {
    const before = lines[index] as string;
    const text = lines.with(index, after).join("\n");
    mutants.push({ line: index + 1, before: before.trim(), after: after.trim(), text });
  };
  for (const [index, line] of lines.entries()) {
    if (isProse(line)) continue;
    for (const [pattern, replacement] of swaps)
      for (const { index: at, 0: operator } of line.matchAll(pattern))
        if (!isQuoted(line, at)) add(index, line.slice(0, at) + replacement + line.slice(at + operator.length));
    if (omissions.some((pattern) => pattern.test(line))) add(index, line.trimStart().startsWith("redis.") ? "" : ";");
  }
  return mutants;
}
