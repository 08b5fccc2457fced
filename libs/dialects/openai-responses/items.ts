/**
 * The input items of OpenAI's Responses format, in both directions:
 * https://platform.openai.com/docs/api-reference/responses/create#responses_create-input
 */

import { defined, type JsonObject, listOf, objectOf, textOf } from "#wire/json/parse.ts";
import {
  attachmentOf,
  checkedBase64,
  checkedPicture,
  dataUrlOf,
  documentTextOf,
  titleOf,
} from "../neutral/attachments.ts";
import { cacheIn, markFor } from "../neutral/cache-marks.ts";
import { refuse } from "../neutral/field-support.ts";
import type { ModelTraits } from "../neutral/model-traits.ts";
import {
  type CallPart,
  type FilePart,
  isMedia,
  type Message,
  type Part,
  type ReasoningPart,
  type ResultPart,
  type TextPart,
  type Tool,
} from "../neutral/neutral.ts";
import {
  inputOfText,
  inputTextOf,
  resultContentOf,
  textOfCall,
  toolNamed,
  toolNameOf,
  wholeInputOf,
} from "../neutral/tools.ts";
import { unwrappedSignature } from "../neutral/wrapped-signature.ts";
import { audioOf, documentSourceOf, imageOf, mediaUrlOf } from "../openai/parts.ts";
import { clientCallIn, clientOutputIn, clientTypeOf } from "./client-tools.ts";
import { compactionWarning, itemsOf, unreadableCompaction } from "./stateless.ts";
import { neutralNameOf } from "./tools.ts";

export const dialect = "openai-responses";

/** Instructions before the first other item belong to the request; later ones stay in place. */
export function decodeInput(
  body: JsonObject,
  tools: readonly Tool[],
): { system: TextPart[]; messages: Message[]; warnings: string[] } {
  const system: TextPart[] = [];
  const messages: Message[] = [];
  const warnings: string[] = [];
  const called = new Map<string, string>();
  /** By the id of a call's item, which some outputs name. */
  const callIds = new Map<string, string>();
  if (textOf(body.instructions) !== undefined)
    system.push({ kind: "text", text: body.instructions as string, path: "instructions" });
  const wholePath = typeof body.input === "string" ? "input" : undefined;
  for (const [place, value] of itemsOf(body.input).entries()) {
    const path = wholePath ?? `input[${place}]`;
    const item = objectOf(value);
    const turn = (role: Message["role"], parts: Part[]) => messages.push({ role, parts, path });
    switch (item.type) {
      case undefined:
      case null:
      case "message": {
        const { role } = item;
        const parts = partsOf(item.content, wholePath ?? `${path}.content`);
        if (role === "assistant")
          turn(
            role,
            parts.map((part) => (part.kind === "text" || part.kind === "refusal" ? part : refuse(part.path))),
          );
        else if (role === "user")
          turn(
            role,
            parts.map((part) => (part.kind === "refusal" ? { ...part, kind: "text" as const } : part)),
          );
        else if (role !== "system" && role !== "developer") refuse(`${path}.role`);
        else if (messages.length === 0) for (const part of parts) system.push(checkedText(part));
        else turn("system", parts.map(checkedText));
        break;
      }
      case "function_call":
      case "custom_tool_call": {
        const { call_id: callId, name, namespace, arguments: input, input: text } = item;
        const call: CallPart = {
          kind: "call",
          id: String(callId),
          name: neutralNameOf(tools, String(name), namespace),
          input: item.type === "custom_tool_call" ? inputOfText(textOfCall(inputTextOf(text))) : wholeInputOf(input),
          path,
        };
        called.set(call.id, call.name);
        turn("assistant", [call]);
        break;
      }
      case "function_call_output":
      case "custom_tool_call_output": {
        const callId = String(item.call_id);
        const name =
          called.get(callId) ??
          (textOf(item.name) === undefined ? "" : neutralNameOf(tools, item.name as string, item.namespace));
        turn("user", [
          {
            kind: "result",
            callId,
            name,
            content: partsOf(resultContentOf(item.output), `${path}.output`).map(checkedResult),
            isError: false,
            path,
          },
        ]);
        break;
      }
      case "reasoning":
        turn("assistant", [reasoningOf(item, path)]);
        break;
      case "image_generation_call": {
        const { result, output_format: format } = item;
        if (textOf(result) === undefined) {
          warnings.push(`${path} is an image without its bytes (result), so the model does not see it.`);
          break;
        }
        const source = {
          kind: "data" as const,
          mimeType: `image/${textOf(format) ?? "png"}`,
          data: checkedBase64(result as string, `${path}.result`),
        };
        turn("assistant", [{ kind: "image", source, path: `${path}.result` }]);
        break;
      }
      case "agent_message": {
        const parts = partsOf(item.content, `${path}.content`);
        if (parts.some((part) => part.kind === "text" && part.text === unreadableMessage))
          warnings.push(`${path} is encrypted for models of its vendor, so the model does not see all of it.`);
        turn("user", parts);
        break;
      }
      case "compaction":
      case "context_compaction":
      case "compaction_summary": {
        const note: TextPart = { kind: "text", text: unreadableCompaction, path };
        if (messages.length === 0) system.push(note);
        else turn("system", [note]);
        warnings.push(compactionWarning(path));
        break;
      }
      case "additional_tools":
      case "configuration_update":
        break;
      default: {
        const call = clientCallIn(item, tools);
        const output = clientOutputIn(item, path, tools);
        const native = { dialect, value: item } as const;
        const id = textOf(item.call_id) ?? textOf(item.id);
        if (
          ofVendor.test(String(item.type)) ||
          ((call ?? output) !== undefined && (item.execution === "server" || id === undefined))
        )
          break;
        if (call !== undefined && id !== undefined) {
          const name = tools.find((tool) => clientTypeOf(tool) === call.type)?.name ?? toolNameOf(tools, call.type);
          for (const key of [id, textOf(item.id) ?? id]) called.set(key, name);
          if (textOf(item.id) !== undefined) callIds.set(item.id as string, id);
          turn("assistant", [{ kind: "call", id, name, input: call.input, native, path }]);
          break;
        }
        if (output !== undefined && id !== undefined) {
          const callId = callIds.get(id) ?? id;
          turn("user", [{ kind: "result", callId, name: called.get(callId) ?? "", ...output, native, path }]);
          break;
        }
        refuse(
          path,
          `is an item of the type ${JSON.stringify(item.type)}, which the upstream of this model does not support`,
        );
      }
    }
  }
  return { system, messages, warnings };
}

/**
 * Items of a vendor's own tools in earlier turns are left out; the answers that they led to stay.
 */
const ofVendor =
  /^(?:web_search_call|file_search_call|code_interpreter_call|mcp_\w+|(?:program|multi_agent_call)(?:_output)?)$/;

/** Stands for the part of an agent's message that only its vendor can decrypt. */
const unreadableMessage = "(This part is encrypted for another model.)";

function partsOf(content: unknown, path: string): Part[] {
  if (typeof content === "string") return [{ kind: "text", text: content, path }];
  return listOf(content).map((value, place) => partOf(objectOf(value), `${path}[${place}]`));
}

function partOf(part: JsonObject, path: string): Part {
  const cache = cacheIn(part);
  switch (part.type) {
    case "input_text":
    case "output_text":
    case "text":
      return { kind: "text", text: String(part.text), path, ...cache };
    case "refusal":
      return { kind: "refusal", text: String(part.refusal), path };
    case "input_image": {
      const { image_url: url, detail } = part;
      const own = `${path}.image_url`;
      return { ...imageOf(textOf(url) ?? refuse(own, "is missing"), detail, own), ...cache };
    }
    case "image_url": {
      // From chat completions: https://github.com/langchain-ai/langchainjs/issues/11248
      const isPlain = typeof part.image_url === "string";
      const { url, detail } = isPlain ? { url: part.image_url, detail: part.detail } : objectOf(part.image_url);
      const own = isPlain ? `${path}.image_url` : `${path}.image_url.url`;
      return { ...imageOf(textOf(url) ?? refuse(own, "is missing"), detail, own), ...cache };
    }
    case "input_file":
      return { ...fileOf(part, path), ...cache };
    case "input_audio":
      return audioOf(part.input_audio, path);
    case "input_video":
      return mediaUrlOf("video", part.video_url, `${path}.video_url`);
    case "encrypted_content": {
      // Codex calls a message so although a model of another vendor wrote it as plain text.
      // https://github.com/ollama/ollama/issues/18286
      const text = String(part.encrypted_content);
      return { kind: "text", text: text.startsWith("gAAAA") ? unreadableMessage : text, path };
    }
    default:
      return refuse(`${path}.type`);
  }
}

/** A document by address, as a data URL, or as bare base64 whose file name gives the type. */
function fileOf({ file_data: data, file_url: url, filename }: JsonObject, path: string): FilePart {
  const name = textOf(filename);
  const named = name !== undefined && { name };
  if (textOf(url) !== undefined)
    return {
      kind: "file",
      source: attachmentOf(url as string, `${path}.file_url`),
      ...named,
      path: `${path}.file_url`,
    };
  const own = `${path}.file_data`;
  const bytes = textOf(data) ?? refuse(own, "is missing");
  return { kind: "file", source: documentSourceOf(bytes, name, own), ...named, path: own };
}

const checkedText = (part: Part) => (part.kind === "text" ? part : refuse(part.path, "must be text"));

const checkedResult = (part: Part) => (part.kind === "text" || isMedia(part) ? part : refuse(part.path));

/**
 * The visible reasoning is only a summary; a model of another dialect finds its own reasoning in
 * the wrapped signature.
 */
function reasoningOf({ id, summary, content, encrypted_content: data }: JsonObject, path: string): ReasoningPart {
  const envelope = unwrappedSignature(textOf(data) ?? "");
  if (envelope !== undefined)
    return { kind: "reasoning", text: envelope.text ?? "", signature: envelope.signature, path };
  const text = thinkingTextOf(summary, content);
  if (textOf(data) === undefined) return { kind: "reasoning", text, path };
  return {
    kind: "reasoning",
    text,
    signature: { dialect, data: data as string, ...defined({ itemId: textOf(id) }) },
    path,
  };
}

/** The parts of a reasoning item's summary and content, separated by blank lines. */
export const thinkingTextOf = (summary: unknown, content: unknown) =>
  [...listOf(summary), ...listOf(content)].flatMap((part) => textOf(objectOf(part).text) ?? []).join("\n\n");

/** Turns as items; adjacent message parts of a turn become one message. */
export function encodeItems(
  turns: readonly Message[],
  tools: readonly Tool[],
  marks: ModelTraits["cacheMarks"] = "none",
): object[] {
  const takesText = (name: string) => toolNamed(tools, name)?.takesText === true;
  const items: object[] = [];
  for (const { role, parts } of turns) {
    let content: JsonObject[] = [];
    const close = () => {
      const speaker = role === "system" ? "developer" : role;
      if (content.length > 0) items.push({ type: "message", role: speaker, content: contentOf(content) });
      content = [];
    };
    for (const part of parts) {
      const item =
        (part.kind === "call" || part.kind === "result") && part.native?.dialect === dialect
          ? part.native.value
          : itemOf(part, takesText, marks);
      if (item === "content") content.push(encodePart(part, role, marks));
      else if (item !== undefined) {
        close();
        items.push(item);
      }
    }
    close();
  }
  return items;
}

/**
 * Texts of the assistant are one text: in parts, strict servers require an id and a status of their
 * message (https://github.com/openai/codex/issues/12669) and annotations of each
 * (https://github.com/BerriAI/litellm/issues/35213).
 */
const contentOf = (parts: readonly JsonObject[]) =>
  parts.every(({ type }) => type === "output_text") ? parts.map(({ text }) => text).join("") : parts;

/**
 * The item of a part that is not in a message; undefined for reasoning of another dialect, which
 * this dialect's models cannot read.
 */
function itemOf(
  part: Part,
  takesText: (name: string) => boolean,
  marks: ModelTraits["cacheMarks"],
): object | "content" | undefined {
  switch (part.kind) {
    case "call":
      return takesText(part.name)
        ? { type: "custom_tool_call", call_id: part.id, name: part.name, input: textOfCall(part.input) }
        : {
            type: "function_call",
            call_id: part.id,
            name: part.name,
            arguments: part.input === "" ? "{}" : part.input,
          };
    case "result":
      return {
        type: takesText(part.name) ? "custom_tool_call_output" : "function_call_output",
        call_id: part.callId,
        output: outputOf(part, marks),
      };
    case "reasoning": {
      const { text, signature } = part;
      if (signature?.dialect !== dialect) return undefined;
      const id = signature.itemId !== undefined && { id: signature.itemId };
      return {
        type: "reasoning",
        ...id,
        summary: text === "" ? [] : [{ type: "summary_text", text }],
        encrypted_content: signature.data,
      };
    }
    default:
      return "content";
  }
}

function outputOf({ content: inner, isError, cache }: ResultPart, marks: ModelTraits["cacheMarks"]): string | object[] {
  const mark = isError ? "Error: " : "";
  const content =
    cache === undefined ? inner : inner.map((part, place) => (place === inner.length - 1 ? { ...part, cache } : part));
  const isMarked = marks === "breakpoint" && content.some((part) => part.cache !== undefined);
  if (!isMarked && content.every((part) => part.kind === "text"))
    return `${mark}${content.map(({ text }) => text).join("\n")}`;
  const parts = content.map((part) => encodePart(part, "user", marks));
  return isError ? [{ type: "input_text", text: mark.trimEnd() }, ...parts] : parts;
}

/** Breakpoints are for what the model reads, not for what it wrote. */
const encodePart = (part: Part, role: Message["role"], marks: ModelTraits["cacheMarks"]): JsonObject => ({
  ...unmarkedPart(part, role),
  ...(role !== "assistant" && marks === "breakpoint" && markFor(part, marks)),
});

function unmarkedPart(part: Part, role: Message["role"]): object {
  switch (part.kind) {
    case "text":
      return role === "assistant"
        ? { type: "output_text", text: part.text, annotations: [] }
        : { type: "input_text", text: part.text };
    case "refusal":
      return { type: "refusal", refusal: part.text };
    case "image":
      return {
        type: "input_image",
        image_url: part.source.kind === "url" ? part.source.url : dataUrlOf(checkedPicture(part.source, part.path)),
        detail: part.detail ?? "auto",
      };
    case "file":
      return encodeFile(part);
    case "audio":
    case "video":
      return refuse(part.path, `is ${part.kind}, which the upstream of this model does not support`);
    default:
      return refuse(part.path);
  }
}

function encodeFile({ source, name }: FilePart): object {
  if (source.kind === "url") return { type: "input_file", file_url: source.url };
  if (source.mimeType === "text/plain") return { type: "input_text", text: titleOf(name) + documentTextOf(source) };
  return { type: "input_file", filename: name ?? "document.pdf", file_data: dataUrlOf(source) };
}
