/** Splits a JSON object into the elements of an array in it, within bounded memory. */
import { backslash, closeBrace, closeBracket, comma, openBrace, openBracket, quote } from "./json/bytes.ts";
import { Collector, type InputLine, isBlank, noBytes } from "./lines.ts";

/** A part of a body: an element of the array at the path, or all other bytes. */
export type BodyPart = ({ kind: "element" } & InputLine) | { kind: "rest"; bytes: Buffer };

const nameBytesMax = 256;

/**
 * Splits a JSON object in which the array at `path` is large: yields its elements one by one, and
 * at the end the object with an empty array in its place. There is no such end if the bytes break
 * off, or if the rest or an element is too long: then it reads no further. Checks only the
 * structure around the elements. `spelling` of a name in the JSON is the name in `path`.
 */
export async function* elementsOf(
  chunks: AsyncIterable<Buffer>,
  path: readonly string[],
  bounds: { elementBytesMax: number; restBytesMax: number },
  spelling: (name: string) => string = (name) => name,
): AsyncGenerator<BodyPart> {
  const element = new Collector(bounds.elementBytesMax);
  const rest = new Collector(bounds.restBytesMax);
  const text = new Collector(nameBytesMax);
  /** The last string at each depth outside of the array; before a container it is its name. */
  const names: string[] = [];
  const insideDepth = path.length + 1;
  let number = 0;
  let depth = 0;
  let isInside = false;
  let inString = false;
  let isEscaped = false;
  const isNamed = () => !isInside && depth <= path.length;
  for await (const chunk of chunks) {
    let from = 0;
    const collect = (to: number) => {
      (isInside ? element : rest).add(chunk.subarray(from, to));
      from = to;
    };
    const elementEnd = (at: number): BodyPart => {
      collect(at);
      return { kind: "element", number: ++number, bytes: element.take() };
    };
    for (let at = 0; at < chunk.length; at++) {
      const byte = chunk[at] as number;
      if (inString) {
        if (isNamed()) text.add(chunk.subarray(at, at + 1));
        if (isEscaped) isEscaped = false;
        else if (byte === backslash) isEscaped = true;
        else if (byte === quote) {
          inString = false;
          if (isNamed()) names[depth] = (text.take() ?? noBytes).subarray(0, -1).toString();
        }
      } else if (byte === quote) inString = true;
      else if (byte === openBrace || byte === openBracket) {
        const isArray = byte === openBracket && depth === path.length && !isInside;
        if (isArray && path.every((name, index) => spelling(names[index + 1] ?? "") === name)) {
          collect(at + 1);
          isInside = true;
        }
        depth++;
        if (isNamed()) names[depth] = "";
      } else if (byte === closeBrace || byte === closeBracket) {
        if (isInside && depth === insideDepth) {
          const last = elementEnd(at) as InputLine & BodyPart;
          if (last.bytes === undefined || !isBlank(last.bytes)) yield last;
          if (last.bytes === undefined) return;
          isInside = false;
        }
        depth--;
      } else if (byte === comma && isInside && depth === insideDepth) {
        const part = elementEnd(at);
        yield part;
        if (part.bytes === undefined) return;
        from = at + 1;
      }
    }
    collect(chunk.length);
    if (element.isOver) yield { kind: "element", number: number + 1, bytes: undefined };
    if (element.isOver || rest.isOver) return;
  }
  const bytes = rest.take();
  if (depth === 0 && bytes !== undefined && bytes.length > 0) yield { kind: "rest", bytes };
}
