/** Writes neutral events as parts of an answer in Google's Gemini format. */
import type { JsonObject } from "#wire/json/parse.ts";
import type { AnswerContext } from "../codec.ts";
import { CitedText, groundingOf } from "../neutral/citations.ts";
import type { AnswerEvent, BlockStart, CallStart, Signature } from "../neutral/neutral.ts";
import { argumentsOf, calledTool } from "../neutral/tools.ts";
import { wrappedSignatureOf } from "../neutral/wrapped-signature.ts";
import { asksForEnum, enumValueOf } from "./enum.ts";
import { dialect } from "./parts.ts";

/**
 * Thoughts are shown only to callers that asked for them, because others take the first text as the
 * answer. Signatures go on the next call, where all clients keep them, or on the text at the end.
 * Clients drop thoughts, so a signature of another dialect includes the thinking text.
 */
export class PartWriter {
  /** The model's call was not valid JSON and was left out. */
  malformed = false;
  readonly #context: AnswerContext;
  readonly #showsThoughts: boolean;
  readonly #isEnum: boolean;
  readonly #text = new CitedText();
  #open: BlockStart | undefined;
  /** The chunks so far of the thought, the call's input, or the text with an enum's value. */
  #chunks: string[] = [];
  /** Waits for the next part that can carry it. */
  #signature: { data: string; isOwn: boolean } | undefined;

  constructor(context: AnswerContext) {
    this.#context = context;
    this.#showsThoughts = context.request.settings.thinkingShown?.value === true;
    this.#isEnum = asksForEnum(context.body);
  }

  /** Parts are never empty, unless they carry a signature. */
  push(event: Exclude<AnswerEvent, { kind: "error" | "finish" }>): JsonObject[] {
    if ((event.kind === "block" ? event.block : this.#open)?.kind === "text") this.#text.push(event);
    switch (event.kind) {
      case "block":
        return this.#start(event.block);
      case "delta":
        return this.#say(event.text);
      case "citation":
        return [];
      case "signature":
        return this.#sign(event.signature);
      case "block-end":
        return this.#end();
      default:
        return event satisfies never;
    }
  }

  /** The citations of the answer; undefined if it has none. */
  get grounding(): JsonObject | undefined {
    return this.#text.citations.length === 0 ? undefined : groundingOf(this.#text);
  }

  /** The remaining parts at the end of the answer. */
  end(): JsonObject[] {
    const data = this.#signature?.data;
    this.#signature = undefined;
    return data === undefined ? [] : [{ text: "", thoughtSignature: data }];
  }

  /** All parts of a whole answer: a remaining signature goes on the last part that can carry it. */
  endOn(parts: readonly JsonObject[]): JsonObject[] {
    const last = parts.findLastIndex((part) => part.thought === undefined);
    const bearer = parts[last];
    const isFree = bearer !== undefined && bearer.functionCall === undefined && bearer.thoughtSignature === undefined;
    const [left] = this.end();
    if (left === undefined) return [...parts];
    return isFree ? parts.with(last, { ...bearer, thoughtSignature: left.thoughtSignature }) : [...parts, left];
  }

  #start(block: BlockStart): JsonObject[] {
    this.#open = block;
    this.#chunks = [];
    if (block.kind === "call" || block.kind === "reasoning") return [];
    const before = this.#signature?.isOwn === true ? this.end() : [];
    return block.kind === "image"
      ? [...before, { inlineData: { mimeType: block.mimeType, data: block.data } }]
      : before;
  }

  #say(text: string): JsonObject[] {
    if (text === "") return [];
    switch (this.#open?.kind) {
      case "text":
        if (!this.#isEnum) return [{ text }];
        this.#chunks.push(text);
        return [];
      case "refusal":
        return [{ text }];
      case "reasoning":
        this.#chunks.push(text);
        return this.#showsThoughts ? [{ text, thought: true }] : [];
      case "call":
        this.#chunks.push(text);
        return [];
      default:
        return [];
    }
  }

  #end(): JsonObject[] {
    if (this.#open?.kind === "call") return this.#call(this.#open);
    const text = this.#isEnum && this.#open?.kind === "text" ? enumValueOf(this.#chunks.join("")) : "";
    return text === "" ? [] : [{ text }];
  }

  #sign(signature: Signature): JsonObject[] {
    const before = this.end();
    const isOwn = signature.dialect === dialect;
    this.#signature = {
      data: isOwn ? signature.data : wrappedSignatureOf(signature, this.#chunks.join(""), this.#context.upstreamModel),
      isOwn,
    };
    return before;
  }

  #call({ id, name }: CallStart): JsonObject[] {
    const args = argumentsOf(this.#chunks.join(""));
    if (args === undefined) {
      this.malformed = true;
      return [];
    }
    const thoughtSignature = this.#signature?.data;
    this.#signature = undefined;
    const callerName = calledTool(this.#context.request, name)?.callerName ?? name;
    return [{ functionCall: { id, name: callerName, args }, thoughtSignature }];
  }
}
