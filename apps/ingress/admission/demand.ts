/** How much a request asks for, according to its body: the base of the estimate that is reserved of its caller's limits. */
import type { Operation } from "#dialects/dialect.ts";
import { objectOf } from "#dialects/json.ts";

export interface Demand {
  /** Output tokens of each choice, where the caller bounds them. */
  outputTokensMax: number | undefined;
  /** Output tokens of each choice where the caller does not bound them; undefined for text. */
  mediaTokens: number | undefined;
  /** How many answers the caller asks for. */
  choices: number;
  /** Input tokens of pictures, recordings and documents whose content is not in the body, or is a form's. */
  attachedTokens: number;
}

/** More answers than any upstream gives to one request. */
const choicesMax = 1_000;
/** Output tokens for 1024 × 1024 pixels: https://platform.openai.com/docs/guides/image-generation#cost-and-latency. Where no number is published, four times the highest. */
const imageTokens: Record<string, number> = {
  low: 272,
  medium: 1_056,
  standard: 1_056,
  high: 4_160,
  hd: 4_160,
  auto: 4_160,
};
const imageTokensDefault = 16_640;
const imagePixels = 1_024 * 1_024;
/** The largest of the sizes that `auto` stands for. */
const autoPixels = 1_024 * 1_536;
const partialImageTokens = 100;
/** The largest picture as input, at high fidelity. */
const inputImageTokens = 6_240;
/** For a file that is sent by its address. An image is less at every vendor, a long document more. */
const referenceTokens = 2_000;
/** Speech or images in a conversation: the most that the models for them produce. */
const spokenTokens = 16_384;

type Body = Record<string, unknown>;

export function demandOf(operation: Operation, body: Body): Demand {
  const isPicture = operation === "image-generation" || operation === "image-edit";
  return {
    outputTokensMax: isPicture ? undefined : outputTokensMaxOf(body),
    mediaTokens: isPicture ? pictureTokensOf(body) : speaks(body) ? spokenTokens : undefined,
    choices: choicesOf(body),
    attachedTokens:
      operation === "image-edit" ? filesOf(body) * inputImageTokens : referencesIn(body) * referenceTokens,
  };
}

const googleConfigOf = (body: Body): Body => objectOf(body.generationConfig ?? body.generation_config);
const isCount = (value: unknown): value is number =>
  typeof value === "number" && Number.isSafeInteger(value) && value > 0;

/** The bound that the body sets, in any dialect; undefined where it sets none. */
function outputTokensMaxOf(body: Body): number | undefined {
  const google = googleConfigOf(body);
  return [
    body.max_completion_tokens,
    body.max_output_tokens,
    body.max_tokens,
    google.maxOutputTokens,
    google.max_output_tokens,
  ].find(isCount);
}

function choicesOf(body: Body): number {
  const google = googleConfigOf(body);
  const asked = [body.n, google.candidateCount, google.candidate_count].find(isCount) ?? 1;
  return Math.min(choicesMax, asked * (isCount(body.frame_count) ? body.frame_count : 1));
}

function pictureTokensOf({ quality, size, partial_images: partial }: Body): number {
  const [, width, height] = /^(\d{1,5})x(\d{1,5})$/.exec(String(size ?? "")) ?? [];
  const pixels = width === undefined ? autoPixels : Number(width) * Number(height);
  const tokens = imageTokens[String(quality ?? "auto")] ?? imageTokensDefault;
  return Math.ceil((tokens * pixels) / imagePixels) + (isCount(partial) ? partial * partialImageTokens : 0);
}

/** In a parsed form, each file is represented by its MIME type. */
const filesOf = ({ image, mask }: Body): number =>
  (Array.isArray(image) ? image.length : 0) + (mask === undefined ? 0 : 1);

function speaks(body: Body): boolean {
  const google = googleConfigOf(body);
  const modalities = [body.modalities, google.responseModalities, google.response_modalities].find(Array.isArray) ?? [];
  return modalities.some((modality) => String(modality).toLowerCase() !== "text");
}

/** The members of all dialects' messages that refer to a file. */
const references = new Set(["image_url", "video_url", "audio_url", "file_url", "file_id", "fileUri", "file_uri"]);
const isReference = (value: unknown): boolean => typeof value === "string" && value !== "" && !/^data:/i.test(value);

/** Counts the files that are sent by address or id: they use more of the model's input than of the body. */
function referencesIn({ messages, input, contents }: Body): number {
  let count = 0;
  const left: unknown[] = [messages, input, contents];
  while (left.length > 0) {
    const value = left.pop();
    if (typeof value !== "object" || value === null) continue;
    for (const [name, member] of Object.entries(value)) {
      if (references.has(name)) count += Number(isReference(member) || isReference(objectOf(member).url));
      else if (name === "source" && objectOf(member).type === "url") count += Number(isReference(objectOf(member).url));
      left.push(member);
    }
  }
  return count;
}
