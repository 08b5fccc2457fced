/** Messages and their parts in OpenAI's chat-completions format, in both directions. */

import {
  defined,
  isPresent,
  type JsonObject,
  listOf,
  objectOf,
  plainObjectOf,
  someOf,
  stringOf,
  textOf,
} from "#wire/json/parse.ts";
import { partsOfBlock } from "../anthropic-messages/blocks.ts";
import type { AnswerContext, Target } from "../codec.ts";
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
import { withTextResults } from "../neutral/history.ts";
import type { ModelTraits } from "../neutral/model-traits.ts";
import {
  type Attachment,
  type AudioPart,
  type CallPart,
  type FilePart,
  type ImagePart,
  isMedia,
  type Message,
  type Part,
  type ReasoningPart,
  type ResultPart,
  type TextPart,
  type Tool,
  textsIn,
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
import { unwrappedSignature, wrappedSignatureOf } from "../neutral/wrapped-signature.ts";
import { audioOf, documentSourceOf, imageOf, isAddress, mediaUrlOf } from "../openai/parts.ts";
import { callSignatureOf, ReasoningReader, reasoningFieldsOf } from "./reasoning.ts";
import { alternatingMessages, type WireMessage } from "./turns.ts";

/** Instructions before the first other message belong to the request; later ones stay in place. */
export function decodeMessages(
  values: readonly unknown[],
  tools: readonly Tool[],
): { system: TextPart[]; messages: Message[] } {
  const system: TextPart[] = [];
  const messages: Message[] = [];
  const called = new Map<string, string>();
  /**
   * Calls of the assistant's last turn without a result so far; results without an id are matched
   * in order.
   */
  const open = new Set<string>();
  for (const [place, value] of values.entries()) {
    const path = `messages[${place}]`;
    const message = objectOf(value);
    switch (message.role) {
      case "system":
      case "developer": {
        const parts = withMark(textPartsOf(message.content, `${path}.content`), message);
        if (messages.length === 0) for (const part of parts) system.push(part);
        else messages.push({ role: "system", parts, path });
        break;
      }
      case "user":
        messages.push({
          role: "user",
          parts: withMark(partsOf(message.content, `${path}.content`, tools, called).map(checkedUser), message),
          path,
        });
        break;
      case "assistant": {
        const parts = withMark(assistantPartsOf(message, path, tools), message);
        if (messages.at(-1)?.role !== "assistant") open.clear();
        for (const part of parts)
          if (part.kind === "call") {
            called.set(part.id, part.name);
            open.add(part.id);
          }
        messages.push({ role: "assistant", parts, path });
        break;
      }
      case "tool": {
        const callId = textOf(message.tool_call_id) ?? open.values().next().value ?? "";
        open.delete(callId);
        const content = partsOf(resultContentOf(message.content), `${path}.content`).map((part) =>
          part.kind === "text" || isMedia(part) ? part : refuse(part.path, "must be text or an attachment"),
        );
        messages.push({
          role: "user",
          parts: [
            {
              kind: "result",
              callId,
              name: called.get(callId) ?? "",
              content,
              isError: false,
              path,
              ...cacheIn(message),
            },
          ],
          path,
        });
        break;
      }
      default:
        refuse(`${path}.role`);
    }
  }
  return { system, messages };
}

/** `called` has the names of the earlier calls, for results among the blocks. */
function partsOf(
  content: unknown,
  path: string,
  tools: readonly Tool[] = [],
  called: ReadonlyMap<string, string> = new Map(),
): Part[] {
  if (typeof content === "string") return [{ kind: "text", text: content, path }];
  const values = plainObjectOf(content) === undefined ? content : [content];
  return listOf(values).flatMap((value, place) => {
    const part = objectOf(value);
    const own = `${path}[${place}]`;
    const standard = standardPartOf(part, own);
    if (standard !== undefined) return withMark([standard], part);
    const parts = isBlock(part) ? partsOfBlock(part, own, tools, called) : [partOf(part, own)];
    return withMark(parts, part);
  });
}

/**
 * The parts with a mark of theirs or of their message, which some clients write in place of its
 * last part's.
 */
function withMark<Any extends Part>(parts: Any[], message: JsonObject): Any[] {
  const last = parts.at(-1);
  return last === undefined ? parts : [...parts.slice(0, -1), { ...last, ...cacheIn(message) }];
}

const blockTypes = ["tool_use", "tool_result", "image", "document", "search_result", "redacted_thinking"];

/** Some agents leave blocks of Anthropic's Messages in the messages of this format. */
const isBlock = ({ type, thinking }: JsonObject) =>
  blockTypes.includes(String(type)) || (type === "thinking" && typeof thinking === "string");

const standardKinds = ["image", "file", "audio", "video"] as const;

/**
 * An attachment in LangChain's form for every vendor, which some of its integrations leave as it is
 * (https://github.com/langchain-ai/langchain/pull/37112,
 * https://github.com/langchain-ai/langchain/pull/30746), or in that of MCP; undefined for any other
 * part.
 */
function standardPartOf(part: JsonObject, path: string): Part | undefined {
  const kind = standardKinds.find((name) => name === part.type);
  const member = ["base64", "data", "url"].find((name) => typeof part[name] === "string");
  if (kind === undefined || member === undefined) return undefined;
  const own = `${path}.${member}`;
  const value = String(part[member]);
  const mimeType = textOf(part.mime_type) ?? textOf(part.mimeType) ?? "application/octet-stream";
  const source: Attachment = isAddress(value)
    ? attachmentOf(value, own)
    : { kind: "data", mimeType: mimeType.toLowerCase(), data: checkedBase64(value, own) };
  return { kind, source, ...defined({ name: kind === "file" ? stringOf(part.filename) : undefined }), path: own };
}

/**
 * Blocks of other vendors' answers that LangChain leaves in the content, although the message has
 * the calls beside it: https://github.com/langchain-ai/langchainjs/pull/11245,
 * https://github.com/langchain-ai/langchain-aws/pull/1218
 */
const callBlocks = /^(?:(?:invalid_)?tool_call(?:_chunk)?|input_json_delta|function_?call)$/i;
const isCopy = ({ type, id }: JsonObject, calls: ReadonlySet<unknown>) =>
  type === "tool_use" ? calls.has(id) : calls.size > 0 && callBlocks.test(String(type));
/** Reasoning that no model reads again, and tools that a vendor ran. */
const unreadBlocks =
  /^(?:thinking|reasoning(?:_content)?|server_tool_\w+|\w+_tool_result|non_standard|executable_?code|code_?execution_?result)$/i;
const unread = { type: "reasoning" };

/** `field` holds the document; LiteLLM's clients have addresses in place of ids. */
function documentOf(file: JsonObject, path: string, field = documentFieldIn(file)): Part {
  const { [field]: data, filename } = file;
  const own = `${path}.${field}`;
  if (typeof data !== "string" || (field === "file_id" && !isAddress(data)))
    return refuse(own, "names a file at another service; send the file itself as file_data");
  return {
    kind: "file",
    source: documentSourceOf(data, filename, own),
    ...defined({ name: stringOf(filename) }),
    path,
  };
}

const documentFieldIn = (file: JsonObject) =>
  ["file_data", "file_url"].find((field) => typeof file[field] === "string") ?? "file_id";

/**
 * A part of this format, or of OpenAI's Responses, which some clients and gateways write here. A
 * document is also a part of Mistral's (https://docs.mistral.ai/capabilities/document_ai/document_qna)
 * and GLM's (https://docs.z.ai/guides/vlm/glm-4.5v).
 */
function partOf(part: JsonObject, path: string): Part {
  switch (part.type) {
    case "text":
    case "input_text":
    case "output_text":
      return { kind: "text", text: String(part.text), path };
    case "refusal":
      return { kind: "refusal", text: String(part.refusal), path };
    case "image_url":
    case "input_image": {
      const isPlain = typeof part.image_url === "string";
      const { url, detail } = isPlain ? { url: part.image_url, detail: part.detail } : objectOf(part.image_url);
      const own = isPlain ? `${path}.image_url` : `${path}.image_url.url`;
      return imageOf(String(url), detail, own);
    }
    case "input_audio":
      return audioOf(part.input_audio, path);
    case "video_url":
      return mediaUrlOf("video", part.video_url, `${path}.video_url`);
    case "audio_url":
      return mediaUrlOf("audio", part.audio_url, `${path}.audio_url`);
    case "file":
      return documentOf(objectOf(part.file), `${path}.file`);
    case "input_file":
      return documentOf(part, path);
    case "document_url":
    case "file_url": {
      const value = part[part.type];
      const [url, own] = typeof value === "string" ? [value, part.type] : [objectOf(value).url, `${part.type}.url`];
      return documentOf({ [own]: url, filename: part.document_name }, path, own);
    }
    default:
      return unreadBlocks.test(String(part.type)) ? { kind: "reasoning", text: "", path } : refuse(`${path}.type`);
  }
}

const ofAssistant: Part["kind"][] = ["refusal", "reasoning", "call"];
const checkedUser = (part: Part) =>
  ofAssistant.includes(part.kind) ? refuse(part.path, "is only allowed in an assistant message") : part;
const checkedAssistant = (part: Part) =>
  part.kind === "text" || part.kind === "image" || ofAssistant.includes(part.kind)
    ? part
    : refuse(part.path, "is only allowed in a user message");

function textPartsOf(content: unknown, path: string): TextPart[] {
  return partsOf(content, path).map((part) => (part.kind === "text" ? part : refuse(part.path, "must be text")));
}

function assistantPartsOf(message: JsonObject, path: string, tools: readonly Tool[]): Part[] {
  if (isPresent(message.audio)) refuse(`${path}.audio`);
  const thoughts = listOf(message.reasoning_details).map((detail, place) =>
    thoughtOf(objectOf(detail), `${path}.reasoning_details[${place}]`),
  );
  const parts: Part[] = thoughts.some(({ part }) => part !== undefined)
    ? thoughts.flatMap(({ part, callId }) => (part === undefined || callId !== undefined ? [] : [part]))
    : plainThoughtOf(message, path);
  const calls = listOf(message.tool_calls).map(objectOf);
  const ids = new Set(calls.map(({ id }) => id));
  const content = Array.isArray(message.content)
    ? message.content.map((block) => (isCopy(objectOf(block), ids) ? unread : block))
    : message.content;
  if (isPresent(content))
    for (const part of partsOf(content, `${path}.content`, tools))
      if (part.kind !== "reasoning" || part.signature !== undefined) parts.push(checkedAssistant(part));
  for (const [place, value] of listOf(message.images).entries()) {
    const url = textOf(objectOf(objectOf(value).image_url).url);
    const own = `${path}.images[${place}].image_url.url`;
    if (url !== undefined) parts.push(imageOf(url, undefined, own));
  }
  if (textOf(message.refusal) !== undefined)
    parts.push({ kind: "refusal", text: message.refusal as string, path: `${path}.refusal` });
  const thoughtBefore = new Map(thoughts.toReversed().map(({ callId, part }) => [callId, part]));
  for (const [place, call] of calls.entries()) {
    const { id, type, function: called, custom } = call;
    if (isPresent(type) && type !== "function" && type !== "custom") refuse(`${path}.tool_calls[${place}].type`);
    const { name, arguments: input } = objectOf(called);
    const { name: customName, input: text } = objectOf(custom);
    const before = typeof id === "string" ? thoughtBefore.get(id) : undefined;
    const signature = callSignatureOf(call);
    if (before !== undefined) parts.push(before);
    else if (signature !== undefined)
      parts.push({ kind: "reasoning", text: "", signature, path: `${path}.tool_calls[${place}].extra_content` });
    const neutralName = toolNameOf(tools, String(name ?? customName));
    const isText = typeof input === "string" && toolNamed(tools, neutralName)?.textAsArguments === true;
    parts.push({
      kind: "call",
      id: textOf(id) ?? `call_${path}_${place}`.replace(/\W/g, "_"),
      name: neutralName,
      input: isText
        ? inputOfText(textOfCall(input))
        : isPresent(called)
          ? wholeInputOf(input)
          : inputOfText(textOfCall(inputTextOf(text))),
      path: `${path}.tool_calls[${place}]`,
    });
  }
  return parts;
}

/** The reasoning of a message as its server sent it. */
function plainThoughtOf(message: JsonObject, path: string): ReasoningPart[] {
  const reader = new ReasoningReader();
  const text = reader.read(message) ?? "";
  const signature = reader.take();
  return signature === undefined ? [] : [{ kind: "reasoning", text, signature, path }];
}

/**
 * The reasoning of an assistant's message, from the fields that servers of this dialect share
 * (`reasoning_details` and `reasoning_content`), if it has a wrapped signature. `id` names the call
 * it belongs to.
 */
function thoughtOf(detail: JsonObject, path: string): { part: ReasoningPart | undefined; callId: string | undefined } {
  const envelope = unwrappedSignature(textOf(detail.signature) ?? textOf(detail.data) ?? "");
  if (envelope === undefined) return { part: undefined, callId: undefined };
  const part: ReasoningPart = {
    kind: "reasoning",
    text: textOf(detail.text) ?? envelope.text ?? "",
    signature: envelope.signature,
    path,
  };
  return { part, callId: textOf(detail.id) };
}

/**
 * The `reasoning_details` entry of signed reasoning; `callId` names its call, if it belongs to a
 * single one.
 */
export function reasoningDetailOf(
  { text, signature }: Pick<ReasoningPart, "text"> & Required<Pick<ReasoningPart, "signature">>,
  context: AnswerContext,
  index: number,
  callId?: string,
) {
  const id = callId !== undefined && { id: callId };
  return text === ""
    ? {
        type: "reasoning.encrypted",
        data: wrappedSignatureOf(signature, undefined, context.upstreamModel),
        ...id,
        format: signature.dialect,
        index,
      }
    : {
        type: "reasoning.text",
        text,
        signature: wrappedSignatureOf(signature, undefined, context.upstreamModel),
        ...id,
        format: signature.dialect,
        index,
      };
}

/**
 * Turns as messages. Tool results become separate messages, and their attachments follow in a
 * user's message.
 */
export function encodeTurns(system: readonly TextPart[], turns: readonly Message[], target: Target): object[] {
  const messages: WireMessage[] = [];
  const marks = target.traits.cacheMarks;
  const isAmongCalls = turns.some(({ parts }) => parts.some(({ kind }) => kind === "call"));
  if (system.length > 0) messages.push({ role: "system", content: instructionsOf(system, marks) });
  for (const { role, parts } of turns)
    switch (role) {
      case "system":
        messages.push({ role: "system", content: instructionsOf(parts, marks) });
        break;
      case "assistant":
        if (parts.some(({ kind }) => kind !== "reasoning")) messages.push(encodeAssistant(parts, target, isAmongCalls));
        break;
      case "user":
        for (const message of encodeUser(parts, marks)) messages.push(message);
        break;
      default:
        role satisfies never;
    }
  return target.traits.turns === "alternating" ? alternatingMessages(messages) : messages;
}

type MarkKind = ModelTraits["cacheMarks"];

/**
 * Some servers take instructions as a text only, so they are parts only if one of them is marked.
 */
function instructionsOf(parts: readonly Part[], marks: MarkKind): string | object[] {
  if (marks === "none" || !parts.some(({ cache }) => cache !== undefined)) return joined(parts);
  return parts.map((part) => encodePart(part, marks));
}

const joined = (parts: readonly Part[]) => textsIn(parts).join("\n\n");

function encodeAssistant(parts: readonly Part[], { model, traits }: Target, isAmongCalls: boolean): WireMessage {
  const texts = textsIn(parts);
  const refusals = textsIn(parts, "refusal");
  const { fields, thinking, ofCalls } = reasoningFieldsOf(parts, model, { ...traits, isAmongCalls });
  const calls = parts
    .filter((part) => part.kind === "call")
    .map((part, place) => ({ ...encodeCall(part), extra_content: ofCalls[place] }));
  const text = texts.length > 0 ? texts.join("") : null;
  const mark = markFor(parts.findLast(({ cache }) => cache !== undefined) ?? {}, traits.cacheMarks);
  const isMarked = text !== null && Object.keys(mark).length > 0;
  return {
    role: "assistant",
    content:
      thinking.length > 0 || isMarked
        ? [...thinking, ...(text === null ? [] : [{ type: "text", text, ...mark }])]
        : text,
    ...fields,
    refusal: refusals.length > 0 ? refusals.join("") : undefined,
    tool_calls: someOf(calls),
  };
}

const encodeCall = ({ id, name, input }: CallPart) => ({
  id,
  type: "function",
  function: { name, arguments: input === "" ? "{}" : input },
});

function encodeUser(parts: readonly Part[], marks: MarkKind): WireMessage[] {
  const ordered = withTextResults(parts);
  const messages: WireMessage[] = ordered.flatMap((part) =>
    part.kind === "result" ? [encodeResult(part, marks)] : [],
  );
  const others = ordered.filter((part) => part.kind !== "result");
  if (others.length === 0) return messages;
  const content =
    others.every((part) => part.kind === "text" && (marks === "none" || part.cache === undefined)) &&
    others.length === 1
      ? (others[0] as TextPart).text
      : others.map((part) => encodePart(part, marks));
  return [...messages, { role: "user", content }];
}

function encodeResult(result: ResultPart, marks: MarkKind): WireMessage {
  const { callId, content, isError } = result;
  const text = textsIn(content).join("\n");
  const whole = isError ? `Error: ${text}` : text;
  const mark = markFor(result, marks);
  const isMarked = whole !== "" && Object.keys(mark).length > 0;
  return {
    role: "tool",
    tool_call_id: callId,
    content: isMarked ? [{ type: "text", text: whole, ...mark }] : whole,
  };
}

const encodePart = (part: Part, marks: MarkKind): object => ({ ...unmarkedPart(part), ...markFor(part, marks) });

function unmarkedPart(part: Part): object {
  switch (part.kind) {
    case "text":
      return { type: "text", text: part.text };
    case "image":
      return encodeImage(part);
    case "file":
      return encodeFile(part);
    case "audio":
      return encodeAudio(part);
    case "video":
      return { type: "video_url", video_url: { url: urlOf(part.source) } };
    default:
      return refuse(part.path);
  }
}

const urlOf = (source: Attachment) => (source.kind === "url" ? source.url : dataUrlOf(source));

const audioFormats: Record<string, string> = { mpeg: "mp3", wave: "wav", mp4: "m4a" };

/** OpenAI takes wav and mp3, other servers more formats and, in a field of their own, addresses. */
function encodeAudio({ source }: AudioPart): object {
  if (source.kind === "url") return { type: "audio_url", audio_url: { url: source.url } };
  const format = source.mimeType.replace(/^audio\/(?:x-|vnd\.)?/, "");
  return { type: "input_audio", input_audio: { data: source.data, format: audioFormats[format] ?? format } };
}

const encodeImage = ({ source, detail, path }: ImagePart) => ({
  type: "image_url",
  image_url: {
    url: source.kind === "url" ? source.url : dataUrlOf(checkedPicture(source, path)),
    detail,
  },
});

function encodeFile({ source, name, path }: FilePart): object {
  if (source.kind === "url")
    return refuse(path, "must be sent as data: the upstream of this model does not fetch documents");
  if (source.mimeType === "text/plain") return { type: "text", text: titleOf(name) + documentTextOf(source) };
  return { type: "file", file: { filename: name ?? "document.pdf", file_data: dataUrlOf(source) } };
}
