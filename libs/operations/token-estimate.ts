/**
 * Estimates the tokens of a prompt without its upstream: texts, tools and schemas by one of
 * OpenAI's public vocabularies, images and documents by their size. The work is bounded: a long
 * text is estimated from evenly spread samples.
 */
import { imageSize } from "image-size";
import type { Attachment, NeutralRequest, Part } from "#dialects/neutral/neutral.ts";
import { tokenizedLengthMax } from "./bounds.ts";

/** A tokenizer's work grows with the square of a run's length, so runs are cut. */
const run = /\s?\S{1,100}|\s{1,100}/g;
const messageTokens = 4;
/**
 * Anthropic's rule for images, which is close to those of other vendors:
 * https://docs.anthropic.com/en/docs/build-with-claude/vision
 */
const pixelsPerToken = 750;
const imageTokensMax = 1_600;
const imageTokensUnknown = 800;
const bytesPerDocumentToken = 40;

/** The vocabulary takes about 70 MB and a moment to load, so it is loaded on first use. */
const loadTokenizer = () => import("gpt-tokenizer/encoding/o200k_base");

/** The tokens of a whole prompt, at least 1. */
export async function estimatedTokensOf({ system, messages, tools, settings }: NeutralRequest): Promise<number> {
  const texts: string[] = [];
  let others = messages.length * messageTokens;
  const count = (part: Part) => {
    switch (part.kind) {
      case "text":
      case "refusal":
      case "reasoning":
        texts.push(part.text);
        break;
      case "call":
        texts.push(part.name, part.input);
        break;
      case "result":
        part.content.forEach(count);
        break;
      case "image":
        others += imageTokensOf(part.source);
        break;
      case "file":
        others += Math.ceil(documentTokensOf(part.source));
        break;
      case "audio":
      case "video":
        others += recordingTokensOf(part.source);
        break;
      default:
        part satisfies never;
    }
  };
  system.forEach(count);
  for (const { parts } of messages) parts.forEach(count);
  for (const { name, description = "", parameters } of tools)
    texts.push(name, description, parameters === undefined ? "" : JSON.stringify(parameters));
  if (settings.format?.value.kind === "schema") texts.push(JSON.stringify(settings.format.value.schema));
  return Math.max(1, Math.round(others + (await textTokensOf(texts))));
}

/** The tokens of texts without a conversation. */
export async function textTokensOf(texts: readonly string[]): Promise<number> {
  const { countTokens } = await loadTokenizer();
  const text = texts.join("\n");
  const sample = text.length <= tokenizedLengthMax ? text : sampleOf(text);
  let tokens = 0;
  for (const [chunk] of sample.matchAll(run)) tokens += countTokens(chunk);
  return text.length === 0 ? 0 : tokens * (text.length / sample.length);
}

/** Evenly spread samples of a text. */
function sampleOf(text: string): string {
  const chunks = 20;
  const step = Math.floor(text.length / chunks);
  return Array.from({ length: chunks }, (_, index) =>
    text.slice(index * step, index * step + tokenizedLengthMax / chunks),
  ).join("");
}

function imageTokensOf(source: Attachment): number {
  if (source.kind === "url") return imageTokensUnknown;
  try {
    const { width, height } = imageSize(Buffer.from(source.data.slice(0, 65_536), "base64"));
    return Math.min(imageTokensMax, Math.ceil((width * height) / pixelsPerToken));
  } catch {
    return imageTokensUnknown;
  }
}

const recordingTokensOf = (source: Attachment) =>
  source.kind === "url" ? imageTokensUnknown : Math.ceil(source.data.length / 100);

const documentTokensOf = (source: Attachment) =>
  source.kind === "url" ? imageTokensUnknown : (source.data.length * 3) / 4 / bytesPerDocumentToken;
