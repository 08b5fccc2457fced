/**
 * The pages on which an answer is based, in the words of every dialect:
 * https://platform.openai.com/docs/guides/tools-web-search#output-and-citations,
 * https://platform.claude.com/docs/en/agents-and-tools/tool-use/web-search-tool#citations,
 * https://ai.google.dev/gemini-api/docs/google-search#understanding-the-grounding-response,
 * https://docs.perplexity.ai/api-reference/chat-completions-post
 *
 * Addresses and titles pass to every dialect. Places in files and documents that only their vendor
 * knows do not.
 */
import { defined, type JsonObject, listOf, objectOf, textOf } from "#wire/json/parse.ts";
import { type AnswerEvent, type Block, type Citation, eventsOf } from "./neutral.ts";
import { wrappedSignatureMark } from "./wrapped-signature.ts";

function citationOf(url: unknown, title: unknown, quote?: unknown, span?: Citation["span"]): Citation[] {
  const address = textOf(url);
  return address === undefined
    ? []
    : [{ url: address, ...defined({ title: textOf(title), quote: textOf(quote), span }) }];
}

/** OpenAI's `url_citation`: Responses has its members beside the type, chat completions inside. */
export function openaiCitationsIn(annotations: unknown): Citation[] {
  return listOf(annotations)
    .map(objectOf)
    .flatMap((annotation) => {
      if (annotation.type !== "url_citation") return [];
      const {
        url,
        title,
        content,
        start_index: start,
        end_index: end,
      } = objectOf(annotation.url_citation ?? annotation);
      // Servers that know no place write zeros: https://openrouter.ai/docs/features/web-search
      const span = { start: placeOf(start), end: placeOf(end) };
      return citationOf(url, title, content, span.start < span.end ? span : undefined);
    });
}

/** The pages of a whole answer that names no places, as Perplexity's and xAI's models do. */
export const sourcesIn = ({ search_results: results, citations }: JsonObject): Citation[] =>
  listOf(results ?? citations).flatMap((source) =>
    typeof source === "string"
      ? citationOf(source, undefined)
      : citationOf(objectOf(source).url, objectOf(source).title),
  );

/** A citation of a text block in Anthropic's Messages. */
export function anthropicCitationsIn(citations: unknown): Citation[] {
  return listOf(citations)
    .map(objectOf)
    .flatMap(({ url, source, title, cited_text: quote }) =>
      citationOf(url ?? (/^https?:\/\//.test(String(source)) ? source : undefined), title, quote),
    );
}

/**
 * The mark in the place of the vendor's own reference to a result of its search. Its vendor refuses
 * it, so it does not go back there (see anthropic-messages/foreign.ts).
 */
export const anthropicCitationOf = ({ url, title, quote }: Citation) => ({
  type: "web_search_result_location",
  url,
  title: title ?? null,
  encrypted_index: wrappedSignatureMark,
  cited_text: quote ?? "",
});

/** True for a citation that the gateway wrote. */
export const isForeignCitation = (citation: unknown) => objectOf(citation).encrypted_index === wrappedSignatureMark;

/** Google's grounding of an answer's text, whose places are bytes of UTF-8; spans count from it. */
export function geminiCitationsIn(metadata: JsonObject, text: TextPlaces): Citation[] {
  const pages = listOf(metadata.groundingChunks).map((chunk) => {
    const { uri, title } = objectOf(objectOf(chunk).web ?? objectOf(chunk).maps);
    return citationOf(uri, title)[0];
  });
  const supports = listOf(metadata.groundingSupports).map(objectOf);
  if (supports.length === 0) return pages.filter((page) => page !== undefined);
  return supports.flatMap(({ segment, groundingChunkIndices: indices }) => {
    const { startIndex, endIndex } = objectOf(segment);
    const span = { start: text.pointsAt(placeOf(startIndex)), end: text.pointsAt(placeOf(endIndex)) };
    return listOf(indices).flatMap((index) => {
      const page = pages[Number(index)];
      return page === undefined ? [] : [{ ...page, ...(span.start < span.end && { span }) }];
    });
  });
}

const placeOf = (value: unknown) => (Number.isSafeInteger(value) ? Math.max(0, value as number) : 0);

/** The members of an answer in Google's format with these citations. */
export function groundingOf({ citations, places }: CitedText): JsonObject {
  const pages = new Map<string, { index: number; title: string | undefined }>();
  const segments = new Map<string, { segment: object; indices: Set<number> }>();
  for (const { url, title, start, end } of citations) {
    const page = pages.get(url) ?? { index: pages.size, title };
    page.title ??= title;
    pages.set(url, page);
    const segment = { startIndex: places.bytesAt(start), endIndex: places.bytesAt(end) };
    const key = `${segment.startIndex} ${segment.endIndex}`;
    const support = segments.get(key) ?? { segment, indices: new Set() };
    support.indices.add(page.index);
    segments.set(key, support);
  }
  return {
    groundingChunks: [...pages].map(([uri, { title }]) => ({ web: { uri, title } })),
    groundingSupports: [...segments.values()].map(({ segment, indices }) => ({
      segment,
      groundingChunkIndices: [...indices],
    })),
  };
}

/** A citation with its place in the text of a whole answer, in code points. */
type PlacedCitation = Omit<Citation, "span"> & NonNullable<Citation["span"]>;

/** OpenAI's annotation, as Responses writes it. */
export const openaiCitationOf = ({ url, title, start, end }: PlacedCitation) => ({
  start_index: start,
  end_index: end,
  title: title ?? "",
  url,
});

/** The citations of a text block, placed in it. */
export const placedInBlock = (citations: readonly Citation[] | undefined, text: string): PlacedCitation[] =>
  citations === undefined ? [] : placedIn(citations, codePointsIn(text));

/** The citations of a block that has so many code points, and begins at `from`. */
const placedIn = (citations: readonly Citation[], length: number, from = 0): PlacedCitation[] =>
  citations.map(({ span = { start: 0, end: length }, ...citation }) => ({
    ...citation,
    start: from + Math.min(span.start, length),
    end: from + Math.min(span.end, length),
  }));

/** The texts of an answer together, as far as its citations need them. */
export class CitedText {
  readonly citations: PlacedCitation[] = [];
  readonly places = new TextPlaces();
  /** Where the open block begins. */
  #start = 0;
  /** The citations of the open block. */
  #open: Citation[] = [];

  /** The event of a text block. */
  push(event: AnswerEvent): void {
    switch (event.kind) {
      case "block":
        this.#start = this.places.points;
        break;
      case "delta":
        this.places.add(event.text);
        break;
      case "citation":
        this.#open.push(event.citation);
        break;
      case "block-end":
        if (this.#open.length > 0) this.#place();
        break;
    }
  }

  #place(): void {
    const length = this.places.points - this.#start;
    for (const citation of placedIn(this.#open, length, this.#start)) this.citations.push(citation);
    this.#open = [];
  }
}

/** The texts of a whole answer; empty without citations. */
export function citedTextOf(blocks: readonly Block[]): CitedText {
  const text = new CitedText();
  const texts = blocks.filter((block) => block.kind === "text");
  if (texts.some(({ citations }) => citations !== undefined))
    for (const event of eventsOf({ blocks: texts, finish: "stop" })) text.push(event);
  return text;
}

/** A part of a text in which code points and bytes differ, and where it begins. */
interface WideText {
  points: number;
  bytes: number;
  text: string;
}

/** So many characters are counted for a place. */
const wideLengthMax = 512;

/**
 * Places in a growing text, in code points and in bytes of UTF-8. Keeps only the parts in which
 * they differ, which are short: an answer may have thousands of places.
 */
export class TextPlaces {
  points = 0;
  bytes = 0;
  readonly #wide: WideText[] = [];

  add(text: string): void {
    for (let at = 0; at < text.length; ) {
      const end = at + wideLengthMax;
      const isPair = (text.charCodeAt(end - 1) & 0xfc00) === 0xd800;
      const part = text.slice(at, isPair ? end + 1 : end);
      this.#add(part);
      at += part.length;
    }
  }

  #add(text: string): void {
    const bytes = Buffer.byteLength(text);
    const isWide = bytes !== text.length;
    if (isWide) this.#wide.push({ points: this.points, bytes: this.bytes, text });
    this.points += isWide ? codePointsIn(text) : bytes;
    this.bytes += bytes;
  }

  bytesAt(points: number): number {
    const part = this.#lastUpTo("points", points);
    if (part === undefined) return points;
    const own = [...part.text].slice(0, points - part.points);
    return part.bytes + Buffer.byteLength(own.join("")) + (points - part.points - own.length);
  }

  pointsAt(bytes: number): number {
    const part = this.#lastUpTo("bytes", bytes);
    if (part === undefined) return bytes;
    const all = Buffer.from(part.text);
    const own = all.subarray(0, bytes - part.bytes);
    return part.points + codePointsIn(own.toString()) + (bytes - part.bytes - own.length);
  }

  /** The last part that begins at this place or before it. */
  #lastUpTo(unit: "points" | "bytes", place: number): WideText | undefined {
    let [low, high] = [0, this.#wide.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#wide[middle] as WideText)[unit] <= place) low = middle + 1;
      else high = middle;
    }
    return this.#wide[low - 1];
  }
}

/** The number of Unicode code points in a text. */
function codePointsIn(text: string): number {
  let count = text.length;
  for (let at = 1; at < text.length; at++)
    if ((text.charCodeAt(at) & 0xfc00) === 0xdc00 && (text.charCodeAt(at - 1) & 0xfc00) === 0xd800) count--;
  return count;
}
