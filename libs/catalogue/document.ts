/** Reads YAML and keeps the position of each value. */
import {
  Composer,
  type CST,
  type Document,
  isAlias,
  isMap,
  isNode,
  isScalar,
  isSeq,
  Lexer,
  LineCounter,
  type Node,
  Parser,
  visit,
} from "yaml";
import { CatalogueFault, type Finding, pathTextOf } from "./fault.ts";

/** The largest accepted file. */
export const fileBytesMax = 4 * 1024 * 1024;
/** The most tokens of YAML: 4 MiB of usual settings have 1.6 million. Reading takes so long. */
const tokensMax = 2_000_000;
/** The most values of a file in which each alias is replaced by its anchor's value. */
const valuesMax = 1_000_000;
/** The most mistakes that are listed. */
const mistakesMax = 100;

export interface CatalogueDocument {
  /** The plain value of the file; the caller may change it. */
  value: unknown;
  /** Describes the findings by their positions in the file. */
  faultOf(findings: readonly Finding[]): CatalogueFault;
}

/**
 * Parses YAML 1.2 in UTF-8: one document, with aliases and merge keys.
 * Throws CatalogueFault for anything else; `file` is its name in messages.
 */
export function readDocument(bytes: Uint8Array, file: string): CatalogueDocument {
  const text = textOf(bytes, file);
  const lines = new LineCounter();
  const placeOf = (offset: number) => {
    const { line, col } = lines.linePos(offset);
    return { line: Math.max(line, 1), column: Math.max(col, 1) };
  };
  const lineAt = (offset: number, what: string) => {
    const { line, column } = placeOf(offset);
    return `${file}:${line}:${column}: ${what}`;
  };
  const faultAt = (offset: number, what: string) => new CatalogueFault(lineAt(offset, what));

  // The library compares each key with all before it, so it does not look for repeated ones.
  const composer = new Composer({ stringKeys: true, merge: true, uniqueKeys: false, logLevel: "error" });
  const [document, other] = composer.compose(tokensOf(text, { file, lines, faultAt }), true, text.length);
  if (document === undefined) throw faultAt(0, "the catalogue is empty");
  const [mistake, ...mistakes] = [...document.errors, ...document.warnings, ...repeatedKeysIn(document)]
    .slice(0, mistakesMax)
    .map(({ pos, message }) => lineAt(pos[0], oneLine(message)));
  if (mistake !== undefined) throw new CatalogueFault(mistake, ...mistakes);
  if (other !== undefined) throw faultAt(other.range[0], "the file has multiple documents");
  resolveAliases(document, faultAt);
  let value: unknown;
  try {
    value = document.toJS();
  } catch (error) {
    throw faultAt(0, oneLine((error as Error).message));
  }
  if (value === null) throw faultAt(0, "the catalogue is empty");

  const offsetOf = ({ path, atKey }: Finding): number => {
    let node: Node | null = document.contents;
    let offset = node?.range?.[0] ?? 0;
    for (const [depth, step] of path.entries()) {
      let next: unknown;
      if (isSeq(node)) next = node.items[Number(step)];
      if (isMap(node)) {
        const pair = node.items.find(({ key }) => isScalar(key) && key.value === step);
        next = atKey && depth === path.length - 1 ? pair?.key : pair?.value;
      }
      if (!isNode(next)) return offset;
      node = next;
      offset = node.range?.[0] ?? offset;
    }
    return offset;
  };

  return {
    value,
    faultOf: (findings) => {
      const [first, ...others] = findings
        .map((finding) => ({ finding, offset: offsetOf(finding) }))
        .sort((a, b) => a.offset - b.offset)
        .slice(0, mistakesMax)
        .map(({ finding, offset }) => {
          const path = pathTextOf(finding.path);
          return lineAt(offset, `${path && `${path}: `}${oneLine(finding.text)}`);
        });
      if (first === undefined) throw new TypeError("faultOf needs at least one finding");
      return new CatalogueFault(first, ...others);
    },
  };
}

interface TokensContext {
  file: string;
  lines: LineCounter;
  faultAt(offset: number, what: string): CatalogueFault;
}

/** Stops at the first bound and at the first text that is no YAML. */
function* tokensOf(text: string, { file, lines, faultAt }: TokensContext): Generator<CST.Token> {
  const parser = new Parser(lines.addNewLine);
  let tokens = 0;
  lines.addNewLine(0);
  for (const token of new Lexer().lex(text)) {
    if (++tokens > tokensMax) throw new CatalogueFault(`${file}: more than ${tokensMax} tokens of YAML`);
    yield* checked(parser.next(token));
  }
  yield* checked(parser.end());

  function* checked(parsed: Iterable<CST.Token>): Generator<CST.Token> {
    for (const token of parsed) {
      if (token.type === "error") throw faultAt(token.offset, oneLine(token.message));
      yield token;
    }
  }
}

function textOf(bytes: Uint8Array, file: string): string {
  if (bytes.length > fileBytesMax) throw new CatalogueFault(`${file}: larger than ${fileBytesMax} bytes`);
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new CatalogueFault(`${file}: not UTF-8 text`);
  }
}

/** The keys that a mapping has twice. */
function repeatedKeysIn(document: Document): { pos: [number]; message: string }[] {
  const repeated: { pos: [number]; message: string }[] = [];
  visit(document, {
    Map(_, { items }) {
      const keys = new Set<unknown>();
      for (const { key } of items) {
        if (!isScalar(key) || key.value === mergeKey) continue;
        if (keys.has(key.value)) repeated.push({ pos: [key.range?.[0] ?? 0], message: "Map keys must be unique" });
        keys.add(key.value);
      }
    },
  });
  return repeated;
}

const mergeKey = "<<";

/**
 * Puts the value of its anchor in the place of each alias: for each one the library would look
 * through all of them.
 */
function resolveAliases(document: Document, faultAt: TokensContext["faultAt"]): void {
  const byName = new Map<string, Node>();
  /** The values in each node with an anchor; absent while it is not complete. */
  const sizes = new Map<unknown, number>();
  const resolved = <T>(node: T): T => {
    if (!isAlias(node)) return node;
    const target = byName.get(node.source);
    const size = sizes.get(target);
    const place = node.range?.[0] ?? 0;
    if (target === undefined) throw faultAt(place, `the alias *${node.source} has no anchor before it`);
    if (size === undefined) throw faultAt(place, `the alias *${node.source} is inside its own anchor`);
    // Mistakes are shown where the alias is.
    const value: T = Object.create(target, { range: { value: node.range } });
    sizes.set(value, size);
    return value;
  };
  const sizeOf = (node: unknown): number => {
    let size = sizes.get(node) ?? 1;
    if (!isNode(node) || sizes.has(node)) return size;
    if (!isAlias(node) && node.anchor !== undefined) byName.set(node.anchor, node);
    if (isMap(node))
      for (const pair of node.items) {
        pair.key = resolved(pair.key);
        size += sizeOf(pair.key);
        pair.value = resolved(pair.value);
        size += sizeOf(pair.value);
      }
    else if (isSeq(node))
      for (const [index, item] of node.items.entries()) {
        const value = resolved(item);
        node.items[index] = value;
        size += sizeOf(value);
      }
    if (!isAlias(node) && node.anchor !== undefined) sizes.set(node, size);
    return size;
  };
  if (sizeOf(resolved(document.contents)) > valuesMax)
    throw faultAt(0, `more than ${valuesMax} values, each alias being one of its anchor's`);
}

const oneLine = (text: string) => text.replaceAll(/\s+/g, " ").trim();
