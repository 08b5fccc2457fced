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
  const lineAt = (offset: number, what: string) => {
    const { line, column } = placeOf(offset);
    return `${file}:${line}:${column}: ${what}`;
  };
  const faultAt = (offset: number, what: string) => new CatalogueFault(lineAt(offset, what));

  const [mistake, ...mistakes] = [...document.errors, ...document.warnings].map(({ pos, message }) =>
    lineAt(pos[0], oneLine(message)),
  );
  if (mistake !== undefined) throw new CatalogueFault(mistake, ...mistakes);
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
        .sort((a, b) => a.offset - b.offset)
        .map(({ finding, offset }) => {
          const path = pathTextOf(finding.path);
          return lineAt(offset, `${path && `${path}: `}${oneLine(finding.text)}`);
        });
      if (first === undefined) throw new TypeError("faultOf needs at least one finding");
      return new CatalogueFault(first, ...others);
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
