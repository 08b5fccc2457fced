/**
 * Content blocks of requests in Anthropic's Messages format, both ways:
 * https://platform.claude.com/docs/en/api/messages/create
 */

import { defined, listOf, objectOf, someOf, textOf } from "#wire/json/parse.ts";
import { attachmentOf, checkedBase64, documentTextOf } from "../neutral/attachments.ts";
import { cacheControlOf, markedIn } from "../neutral/cache-marks.ts";
import { refuse } from "../neutral/field-support.ts";
import {
  type CallPart,
  type FilePart,
  type ImagePart,
  isMedia,
  type MediaPart,
  type Part,
  type ReasoningPart,
  type ResultPart,
  type Signature,
  type TextPart,
  type Tool,
} from "../neutral/neutral.ts";
import { argumentsOf, resultContentOf, toolNameOf, wholeInputOf } from "../neutral/tools.ts";
import { isWrappedSignature, unwrappedSignature } from "../neutral/wrapped-signature.ts";
import { cacheOf, type WireBlock } from "./cache.ts";

export const dialect = "anthropic-messages";

const isInner = (part: Part): part is TextPart | MediaPart => part.kind === "text" || isMedia(part);

/** The neutral parts of the caller's blocks, in a message, a tool result or the system prompt. */
export function partsOf(
  content: unknown,
  path: string,
  tools: readonly Tool[],
  called: ReadonlyMap<string, string>,
): Part[] {
  if (typeof content === "string") return [{ kind: "text", text: content, path }];
  return listOf(content).flatMap((value, place) => {
    const block = objectOf(value);
    const parts = partsOfBlock(block, `${path}[${place}]`, tools, called);
    const last = parts.at(-1);
    if (last !== undefined) Object.assign(last, cacheOf(block.cache_control));
    return parts;
  });
}

/** The neutral parts of one block. */
export function partsOfBlock(
  block: WireBlock,
  path: string,
  tools: readonly Tool[],
  called: ReadonlyMap<string, string>,
): Part[] {
  switch (block.type) {
    case "text":
      return [{ kind: "text", text: String(block.text), path }];
    case "image": {
      const source = objectOf(block.source);
      return [{ kind: "image", source: checkedSource(source, path), path: `${path}.source` }];
    }
    case "document":
      return documentOf(block, path);
    case "search_result": {
      const texts = listOf(block.content).map((inner) => String(objectOf(inner).text));
      return [{ kind: "text", text: [`${block.title} (${block.source})`, ...texts].join("\n"), path }];
    }
    case "tool_reference":
      return [{ kind: "text", text: `The tool ${block.tool_name} is available.`, path }];
    case "tool_use":
      return [
        {
          kind: "call",
          id: String(block.id),
          name: toolNameOf(tools, String(block.name)),
          input: inputOf(block.input),
          path,
        },
      ];
    case "tool_result": {
      const callId = String(block.tool_use_id);
      const content = partsOf(resultContentOf(block.content), `${path}.content`, tools, called).map((part) =>
        isInner(part) ? part : refuse(part.path),
      );
      return [
        { kind: "result", callId, name: called.get(callId) ?? "", content, isError: block.is_error === true, path },
      ];
    }
    case "thinking":
    case "redacted_thinking":
      return thoughtOf(block, path);
    case "compaction": {
      const summary = textOf(block.content);
      const text = `Summary of the conversation so far:\n\n${summary}`;
      return summary === undefined ? [] : [{ kind: "text", text, path: `${path}.content` }];
    }
    case "fallback":
    case "tool_addition":
    case "tool_removal":
      return [];
    default:
      if (ofVendor.test(String(block.type))) return [];
      return refuse(
        path,
        `is a block of the type ${JSON.stringify(block.type)}, which the upstream of this model does not support`,
      );
  }
}

/**
 * Blocks of a vendor's own tools in earlier turns are left out; the answers that they led to stay.
 */
const ofVendor =
  /^(?:server_tool_use|mcp_tool_use|mcp_tool_result|(?:web_search|web_fetch|code_execution|bash_code_execution|text_editor_code_execution|tool_search_tool|tool_search|advisor)_(?:tool_)?result)$/;

/** A call's input as JSON text; "" for none. */
export function inputOf(input: unknown): string {
  const text = wholeInputOf(input);
  return text === "{}" ? "" : text;
}

function checkedSource(source: WireBlock, path: string): ImagePart["source"] {
  switch (source.type) {
    case "base64":
      return {
        kind: "data",
        mimeType: String(source.media_type).toLowerCase(),
        data: checkedBase64(String(source.data), `${path}.source.data`),
      };
    case "url": {
      const url = String(source.url);
      return /^https?:\/\//i.test(url)
        ? attachmentOf(url, `${path}.source.url`)
        : refuse(`${path}.source.url`, "must be an http(s) address");
    }
    case "file":
      return refuse(`${path}.source.file_id`, "names a file at another service; send the file itself as base64");
    default:
      return refuse(`${path}.source.type`);
  }
}

/**
 * Citations are ignored, and the caller is told so: models of other vendors do not report what they
 * cite.
 */
function documentOf({ source: value, title, context }: WireBlock, path: string): Part[] {
  const source = objectOf(value);
  const about: Part[] =
    textOf(context) === undefined ? [] : [{ kind: "text", text: context as string, path: `${path}.context` }];
  if (source.type === "content") {
    const parts = partsOf(source.content, `${path}.source.content`, [], new Map()).map((part) =>
      isInner(part) ? part : refuse(part.path),
    );
    return [
      ...about,
      ...(textOf(title) === undefined ? [] : [{ kind: "text" as const, text: title as string, path: `${path}.title` }]),
      ...parts,
    ];
  }
  const plain = {
    kind: "data" as const,
    mimeType: "text/plain",
    data: Buffer.from(String(source.data)).toString("base64"),
  };
  const file: FilePart = {
    kind: "file",
    source: source.type === "text" ? plain : checkedSource(source, path),
    ...defined({ name: textOf(title) }),
    path: `${path}.source`,
  };
  return [...about, file];
}

/** Thinking without a signature has only its text. */
function thoughtOf({ type, thinking, signature: proof, data }: WireBlock, path: string): ReasoningPart[] {
  const sealed = textOf(type === "thinking" ? proof : data);
  const text = textOf(thinking) ?? "";
  if (sealed === undefined) return text === "" ? [] : [{ kind: "reasoning", text, path }];
  if (!isWrappedSignature(sealed)) {
    const signature: Signature = { dialect, data: sealed, ...(type === "redacted_thinking" && { redacted: true }) };
    return [{ kind: "reasoning", text, signature, path }];
  }
  const envelope = unwrappedSignature(sealed);
  return envelope === undefined
    ? []
    : [{ kind: "reasoning", text: text === "" ? (envelope.text ?? "") : text, signature: envelope.signature, path }];
}

const imageTypes = ["image/jpeg", "image/png", "image/gif", "image/webp"];

/**
 * A part as a block; `idOf` gives the wire id for a caller's call id. Throws Refusal for a part
 * that the format cannot express.
 */
export function encodePart(part: Part, idOf: (part: CallPart | ResultPart) => string): WireBlock {
  switch (part.kind) {
    case "text":
    case "refusal":
      return { type: "text", text: part.text, ...cacheControlOf(part) };
    case "image":
      return { type: "image", source: encodeImageSource(part), ...cacheControlOf(part) };
    case "file":
      return {
        type: "document",
        source: encodeFileSource(part),
        title: part.name,
        ...cacheControlOf(part),
      };
    case "audio":
    case "video":
      return refuse(part.path, `is ${part.kind}, which the upstream of this model does not support`);
    case "reasoning":
      return thinkingBlockOf(part.text, part.signature as Signature);
    case "call":
      return {
        type: "tool_use",
        id: idOf(part),
        name: part.name,
        input: inputObjectOf(part.input),
        ...cacheControlOf(part),
      };
    case "result":
      return {
        type: "tool_result",
        tool_use_id: idOf(part),
        content: someOf(part.content.map(({ cache: _, ...inner }) => encodePart(inner, idOf))),
        ...(part.isError &&
          (part.content.length > 0 ? { is_error: true } : { content: "The call failed.", is_error: true })),
        // Anthropic refuses marks inside of a result: https://github.com/BerriAI/litellm/issues/41954
        ...cacheControlOf(markedIn(part)),
      };
    default:
      return part satisfies never;
  }
}

/** A reasoning block of this dialect, exactly as the upstream sent it. */
export const thinkingBlockOf = (text: string, { data, redacted }: Signature): WireBlock =>
  redacted === true ? { type: "redacted_thinking", data } : { type: "thinking", thinking: text, signature: data };

/**
 * A call's input as an object. Input that is not an object, as some models and truncated answers
 * produce, is wrapped as one member.
 */
export const inputObjectOf = (input: string) => argumentsOf(input) ?? { _raw: input };

function encodeImageSource({ source, path }: ImagePart): WireBlock {
  if (source.kind === "url") return { type: "url", url: source.url };
  const mimeType = source.mimeType === "image/jpg" ? "image/jpeg" : source.mimeType;
  if (!imageTypes.includes(mimeType))
    refuse(path, "must be a JPEG, PNG, GIF or WebP image for the upstream of this model");
  return { type: "base64", media_type: mimeType, data: source.data };
}

function encodeFileSource({ source, path }: FilePart): WireBlock {
  if (source.kind === "url") return { type: "url", url: source.url };
  if (source.mimeType.startsWith("text/"))
    return { type: "text", media_type: "text/plain", data: documentTextOf(source) };
  if (source.mimeType !== "application/pdf") refuse(path, "must be a PDF or text for the upstream of this model");
  return { type: "base64", media_type: source.mimeType, data: source.data };
}
