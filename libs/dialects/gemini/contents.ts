/**
 * The turns of a conversation in Google's Gemini format, in both directions:
 * https://ai.google.dev/api/caching#Content
 */

import { isPresent, type JsonObject, objectOf, someOf, textOf } from "#wire/json/parse.ts";
import { titleOf } from "../neutral/attachments.ts";
import { refuse } from "../neutral/field-support.ts";
import { openingTurn } from "../neutral/history.ts";
import type { ModelTraits } from "../neutral/model-traits.ts";
import {
  type CallPart,
  type ImagePart,
  isMedia,
  type Message,
  type Part,
  type ResultPart,
  type TextPart,
  type Tool,
  turnsOf,
} from "../neutral/neutral.ts";
import { toolNameOf } from "../neutral/tools.ts";
import { bypassOf, encodeModelTurn, ModelTurn } from "./model-turn.ts";
import { itemsOf } from "./names.ts";
import { detailOf, encodeMedia, mediaOf, mintedOf, nothingIn, responseOf, resultOf } from "./parts.ts";

export function decodeSystem(value: unknown): TextPart[] {
  return itemsOf(objectOf(value).parts, "systemInstruction.parts").map(([part, path]) => {
    const { text } = objectOf(part);
    return typeof text === "string" ? { kind: "text", text, path } : refuse(path, "must be text");
  });
}

/**
 * `detail` applies to images without a resolution of their own. Consecutive contents of the model,
 * as a streamed answer leaves them, are one turn.
 */
export function decodeContents(value: unknown, tools: readonly Tool[], detail: ImagePart["detail"]): Message[] {
  const messages: Message[] = [];
  const calls = new Calls();
  let turn: ModelTurn | undefined;
  for (const [content, path] of itemsOf(value, "contents")) {
    const { role, parts } = objectOf(content);
    if (role !== "model") turn = undefined;
    else if (turn === undefined) {
      turn = new ModelTurn(tools);
      calls.begin();
      messages.push({ role: "assistant", parts: turn.parts, path });
    }
    const userParts: Part[] = [];
    for (const [value, own] of itemsOf(parts, `${path}.parts`)) {
      const part = objectOf(value);
      if (isPresent(part.text) && part.text !== "") checkAlone(part, own);
      if (turn === undefined) userParts.push(...userPartsOf(part, own, tools, detail, calls));
      else {
        const made = turn.add(part, own, detail);
        if (made !== undefined) calls.add(made);
      }
    }
    if (turn === undefined) messages.push({ role: "user", parts: userParts, path });
  }
  return messages;
}

/**
 * The calls so far. A response belongs to the call with its id, or else to the next call of its
 * name in the previous turn.
 */
class Calls {
  readonly #byId = new Map<string, CallPart>();
  /** Unanswered calls of the previous turn, by name. */
  #open = new Map<string, Set<CallPart>>();

  begin(): void {
    this.#open = new Map();
  }

  add(call: CallPart): void {
    this.#byId.set(call.id, call);
    const same = this.#open.get(call.name);
    if (same === undefined) this.#open.set(call.name, new Set([call]));
    else same.add(call);
  }

  answered(id: string | undefined, name: string): CallPart | undefined {
    const [next] = this.#open.get(name) ?? [];
    const call = (id === undefined ? undefined : this.#byId.get(id)) ?? next;
    if (call !== undefined) this.#open.get(call.name)?.delete(call);
    return call;
  }
}

/** A part has one of these members: https://ai.google.dev/api/caching#Part */
const data = [
  "inlineData",
  "fileData",
  "functionCall",
  "functionResponse",
  "executableCode",
  "codeExecutionResult",
  "toolCall",
  "toolResponse",
];

function checkAlone(part: JsonObject, path: string): void {
  const other = data.find((name) => isPresent(part[name]));
  if (other !== undefined) refuse(`${path}.${other}`, "is given beside a text: a part has only one of them");
}

function userPartsOf(
  part: JsonObject,
  path: string,
  tools: readonly Tool[],
  detail: ImagePart["detail"],
  calls: Calls,
): Part[] {
  if (isPresent(part.functionCall)) refuse(`${path}.functionCall`, "must be in a model turn");
  if (isPresent(part.functionResponse)) {
    const own = `${path}.functionResponse`;
    const response = objectOf(part.functionResponse);
    const id = textOf(response.id);
    const name = toolNameOf(tools, String(response.name));
    const call = calls.answered(id, name);
    return [
      {
        kind: "result",
        callId: call?.id ?? id ?? mintedOf(path),
        name: call?.name ?? name,
        ...resultOf(response, own),
        path: own,
      },
    ];
  }
  const text = textOf(part.text);
  if (text !== undefined) return [{ kind: "text", text, path: `${path}.text` }];
  const media = mediaOf(part, path, detailOf(part.mediaResolution) ?? detail);
  return media === undefined ? nothingIn(part, path) : [media];
}

/**
 * The contents of a request, and its instructions. Without any turn, the instructions become the
 * user's message.
 */
export function encodeConversation(
  system: readonly TextPart[],
  messages: readonly Message[],
  traits: ModelTraits,
): JsonObject {
  const turns = turnsOf(messages.map(withoutSystem));
  const instructions = system.filter(({ text }) => text !== "").map(({ text }) => ({ text }));
  if (turns.length === 0) return { contents: [{ role: "user", parts: instructions }] };
  const [first] = turns;
  if (first?.role === "assistant" && first.parts.some(({ kind }) => kind === "call"))
    turns.unshift(openingTurn(first.path));
  const question = turns.findLastIndex(
    ({ role, parts }) => role === "user" && parts.some(({ kind }) => kind !== "result"),
  );
  const contents = turns.flatMap(({ role, parts }, place) =>
    role === "assistant"
      ? [{ role: "model", parts: encodeModelTurn(parts, place > question ? bypassOf(traits) : undefined) }]
      : encodeUserTurn(parts, turns[place - 1]?.parts ?? [], traits.signedCalls).map((some) => ({
          role: "user",
          parts: some,
        })),
  );
  return {
    contents: contents.filter(({ parts }) => parts.length > 0),
    ...(instructions.length > 0 && { systemInstruction: { parts: instructions } }),
  };
}

/**
 * Contents have no role for an instruction in the middle of a conversation: it moves into the
 * user's turn, marked as an instruction.
 */
const withoutSystem = (message: Message): Message =>
  message.role === "system"
    ? { ...message, role: "user", parts: message.parts.map((part) => (part.kind === "text" ? marked(part) : part)) }
    : message;

const marked = (part: TextPart) => (part.text === "" ? part : { ...part, text: `<system>\n${part.text}\n</system>` });

/**
 * Results follow the order of their calls, because some models ignore the ids. Everything else is
 * another content, because Google refuses one that mixes both, in words about something else:
 * https://github.com/Prism-Shadow/agenthub/pull/189
 */
function encodeUserTurn(parts: readonly Part[], before: readonly Part[], mayHoldMedia: boolean): JsonObject[][] {
  const order = new Map(before.flatMap((part, place) => (part.kind === "call" ? [[part.id, place] as const] : [])));
  const rankOf = ({ callId }: ResultPart) => order.get(callId) ?? before.length;
  const results = parts.filter((part) => part.kind === "result").sort((left, right) => rankOf(left) - rankOf(right));
  return [
    results.map((part) => encodeResult(part, mayHoldMedia)),
    [...(mayHoldMedia ? [] : results.flatMap(attachmentsIn)), ...parts.flatMap(encodeUserPart)],
  ];
}

const mediaIn = ({ content }: ResultPart) =>
  content.flatMap((part) => (part.kind === "text" ? [] : [encodeMedia(part)]));

const attachmentsIn = ({ content }: ResultPart) => content.filter(isMedia).flatMap(encodeUserPart);

function encodeResult(part: ResultPart, mayHoldMedia: boolean): JsonObject {
  const { callId, name, path } = part;
  if (name === "") refuse(path, "is the result of a call that is not in the conversation");
  const media = mayHoldMedia ? mediaIn(part) : [];
  return {
    functionResponse: { id: callId, name, response: responseOf(part), parts: someOf(media) },
  };
}

function encodeUserPart(part: Part): JsonObject[] {
  switch (part.kind) {
    case "text":
      return part.text === "" ? [] : [{ text: part.text }];
    case "image":
    case "audio":
    case "video":
      return [encodeMedia(part)];
    case "file": {
      // Google has a `displayName` only on Vertex AI, beside tools of its own:
      // https://googleapis.github.io/js-genai/release_docs/interfaces/types.Blob.html
      const title = titleOf(part.name).trim();
      return [...(title === "" ? [] : [{ text: title }]), encodeMedia(part)];
    }
    case "result":
      return [];
    default:
      return refuse(part.path);
  }
}
