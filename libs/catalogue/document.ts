/** Reads YAML and keeps the position of each value. */
import { isAlias, isMap, isScalar, isSeq, LineCounter, type Node, parseDocument } from "yaml";
import { CatalogueFault, type Finding, pathTextOf } from "./fault.ts";

/** The largest accepted file. */
export const fileBytesMax = 4 * 1024 * 1024;
/**
 * The most aliases that a file may resolve. An alias inside an anchor counts once for each use of
 * the anchor.
 */
const aliasesMax = 10_000;

export interface CatalogueDocument {
  /** The plain value of the file; the caller may change it. */
  value: unknown;
  /** Describes the first of the findings, by its position in the file, in one line. */
  faultOf(findings: readonly Finding[]): CatalogueFault;
}

/**
 * Parses YAML 1.2 in UTF-8: one document, with aliases and merge keys.
 * Throws CatalogueFault for anything else; `file` is its name in messages.
 */
export function readDocument(bytes: Uint8Array, file: string): CatalogueDocument {
  const text = textOf(bytes, file);
  const lines = new LineCounter();
  const document = parseDocument(text, {
    lineCounter: lines,
    stringKeys: true,
    merge: true,
    prettyErrors: false,
    logLevel: "error",
  });
  const placeOf = (offset: number) => {
    const { line, col } = lines.linePos(offset);
    return { line: Math.max(line, 1), column: Math.max(col, 1) };
  };
  const faultAt = (offset: number, what: string) => {
    const { line, column } = placeOf(offset);
    return new CatalogueFault(`${file}:${line}:${column}: ${what}`);
  };

  const [mistake] = [...document.errors, ...document.warnings];
  if (mistake) throw faultAt(mistake.pos[0], oneLine(mistake.message));
  let value: unknown;
  try {
    value = document.toJS({ maxAliasCount: aliasesMax });
  } catch (error) {
    throw faultAt(0, oneLine((error as Error).message));
  }
  if (value === null) throw faultAt(0, "the catalogue is empty");

  const offsetOf = ({ path, atKey }: Finding): number => {
    let node: Node | null = document.contents;
    let offset = node?.range?.[0] ?? 0;
    for (const [depth, step] of path.entries()) {
      if (isAlias(node)) node = node.resolve(document) ?? null;
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
        .sort((a, b) => a.offset - b.offset);
      if (!first) throw new TypeError("faultOf needs at least one finding");
      const path = pathTextOf(first.finding.path);
      const more = others.length === 0 ? "" : ` (and ${others.length} more)`;
      return faultAt(first.offset, `${path && `${path}: `}${oneLine(first.finding.text)}${more}`);
    },
  };
}

function textOf(bytes: Uint8Array, file: string): string {
  if (bytes.length > fileBytesMax) throw new CatalogueFault(`${file}: larger than ${fileBytesMax} bytes`);
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new CatalogueFault(`${file}: not UTF-8 text`);
  }
}

const isNode = (value: unknown): value is Node => isScalar(value) || isMap(value) || isSeq(value) || isAlias(value);

const oneLine = (text: string) => text.replaceAll(/\s+/g, " ").trim();
