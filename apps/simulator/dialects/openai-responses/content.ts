/** Reads the content of an item: a text, or parts with images and files. */
import Type, { type Static } from "typebox";
import { describedUrl } from "../../answer/attachments.ts";
import { promptTokensOf } from "../../answer/chunks.ts";
import { imageTokens } from "../../answer/question.ts";
import { nullableText, text as textShape } from "../shape.ts";
import { missing, type Reader, readerAmong, readerOf, refused, unsupported } from "./reading.ts";

export interface Content {
  text: string;
  /** By media type and size, or by address. */
  images: string[];
  /** By media type and size, or by address. */
  documents: string[];
  tokens: number;
}

/** The tokens of a file: rough but constant. */
const fileTokens = 258;

/** `contentOf` checks the parts. */
export const content = Type.Union([textShape, Type.Array(Type.Object({ type: textShape }))]);

const imageUrl = /^(?:https?:\/\/|data:image\/(?:png|jpeg|webp|gif);base64,[A-Za-z0-9+/]+={0,2}$)/;

export const textContentOf = (text: string): Content => ({
  text,
  images: [],
  documents: [],
  tokens: promptTokensOf(text),
});

const textPart = readerOf(Type.Object({ text: textShape }), ({ text }) => textContentOf(text));

const imagePart = readerOf(Type.Object({ image_url: nullableText, file_id: nullableText }), (image, at): Content => {
  const { image_url: url, file_id: id } = image;
  if (url && !imageUrl.test(url))
    refused(
      `${at}.image_url`,
      `Invalid '${at}.image_url'. Expected an address or a base64-encoded data URL with an image MIME type.`,
      "invalid_value",
    );
  if (!url && !id) missing(`${at}.image_url`);
  return {
    text: "",
    images: [url ? describedUrl(url) : `file ${id}`],
    documents: [],
    tokens: imageTokens,
  };
});

const fileMembers = {
  file_data: nullableText,
  file_url: nullableText,
  file_id: nullableText,
};

const filePart = readerOf(Type.Object(fileMembers), ({ file_data: data, file_url: url, file_id: id }, at): Content => {
  const address = data || url;
  if (!address && !id) missing(`${at}.file_data`);
  return {
    text: "",
    images: [],
    documents: [address ? describedUrl(address) : `file ${id}`],
    tokens: fileTokens,
  };
});

const ofCaller: Record<string, Reader<Content>> = {
  input_text: textPart,
  input_image: imagePart,
  input_file: filePart,
};
const ofModel: Record<string, Reader<Content>> = {
  output_text: textPart,
  refusal: readerOf(Type.Object({ refusal: textShape }), ({ refusal }) => textContentOf(refusal)),
};

/** The content of the caller, or of an answer that it sends back. */
export function contentOf(said: Static<typeof content>, at: string, { byModel }: { byModel: boolean }): Content {
  if (typeof said === "string") return textContentOf(said);
  const readers = byModel ? ofModel : ofCaller;
  const whole: Content = { text: "", images: [], documents: [], tokens: 0 };
  for (const [index, part] of said.entries()) {
    const place = `${at}[${index}]`;
    const read = readerAmong(readers, part.type);
    if (read === undefined) return unsupported(`${place}.type`, part.type, Object.keys(readers));
    const one = read(part, place);
    whole.text += one.text;
    whole.images.push(...one.images);
    whole.documents.push(...one.documents);
    whole.tokens += one.tokens;
  }
  return whole;
}
