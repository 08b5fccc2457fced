/**
 * A model's turn in Google's Gemini format, in both directions. Parts carry signatures: a call's
 * signature covers the thinking before it, a text's the thinking with it.
 * https://ai.google.dev/gemini-api/docs/thought-signatures
 */

import { isPresent, type JsonObject, objectOf, textOf } from "#wire/json/parse.ts";
import { refuse } from "../neutral/field-support.ts";
import type { ModelTraits } from "../neutral/model-traits.ts";
import type { CallPart, ImagePart, Part, ReasoningPart, Tool } from "../neutral/neutral.ts";
import { argumentsOf, toolNameOf, wholeInputOf } from "../neutral/tools.ts";
import { unwrappedSignature } from "../neutral/wrapped-signature.ts";
import { detailOf, dialect, encodeMedia, mediaOf, mintedOf, nothingIn } from "./parts.ts";

type SignedPart = ReasoningPart & Required<Pick<ReasoningPart, "signature">>;

/** Reads a turn part by part. */
export class ModelTurn {
  readonly parts: Part[] = [];
  readonly #tools: readonly Tool[];
  /** Parts before this index are already matched with their signature. */
  #settled = 0;

  constructor(tools: readonly Tool[]) {
    this.#tools = tools;
  }

  /** Returns a call, which expects a result. */
  add(part: JsonObject, path: string, detail: ImagePart["detail"]): CallPart | undefined {
    const { text, functionCall } = part;
    if (isPresent(part.functionResponse)) refuse(`${path}.functionResponse`, "must be in a user turn");
    const signed = signedOf(part.thoughtSignature, `${path}.thoughtSignature`);
    if (isPresent(functionCall)) return this.#addCall(objectOf(functionCall), signed, path);
    const shownText = textOf(text);
    const isThought = part.thought === true;
    if (isThought && shownText !== undefined && (signed === undefined || signed.text === "")) {
      this.parts.push({ kind: "reasoning", path: `${path}.text`, ...signed, text: shownText });
      return undefined;
    }
    if (!isThought && shownText !== undefined) this.parts.push({ kind: "text", text: shownText, path: `${path}.text` });
    const media =
      isThought || shownText !== undefined ? undefined : mediaOf(part, path, detailOf(part.mediaResolution) ?? detail);
    if (media === undefined && !isThought) nothingIn(part, path);
    if (media?.kind === "image") this.parts.push(media);
    else if (media !== undefined) refuse(media.path);
    if (signed !== undefined) {
      this.#place(signed);
      this.#settled = this.parts.length;
    }
    return undefined;
  }

  #addCall({ id, name, args }: JsonObject, signed: SignedPart | undefined, path: string): CallPart {
    if (signed !== undefined) this.#place(signed);
    const call: CallPart = {
      kind: "call",
      id: textOf(id) ?? mintedOf(path),
      name: toolNameOf(this.#tools, String(name)),
      input: wholeInputOf(args) || "{}",
      path: `${path}.functionCall`,
    };
    this.parts.push(call);
    this.#settled = this.parts.length;
    return call;
  }

  /**
   * Google's own signatures stay where they are. Signatures of other dialects travelled on the text
   * that followed them (see part-writer.ts) and move back in front of it; the thinking text inside
   * a wrapped signature replaces the shown summary.
   */
  #place(signed: SignedPart): void {
    if (signed.signature.dialect === dialect) {
      this.parts.push(signed);
      return;
    }
    let place = this.parts.length;
    while (place > this.#settled && isPassed(this.parts[place - 1])) place--;
    const passed = this.parts.splice(place);
    this.parts.push(signed, ...passed.filter(({ kind }) => kind !== "reasoning" || signed.text === ""));
  }
}

const isPassed = (part: Part | undefined) =>
  part?.kind === "text" || (part?.kind === "reasoning" && part.signature === undefined);

function signedOf(value: unknown, path: string): SignedPart | undefined {
  const data = textOf(value);
  if (data === undefined) return undefined;
  const { signature, text = "" } = unwrappedSignature(data) ?? { signature: { dialect, data } };
  return { kind: "reasoning", text, signature, path };
}

/**
 * The value that Google documents for calls that none of its models signed:
 * https://ai.google.dev/gemini-api/docs/thought-signatures#faqs
 */
export const bypass = "skip_thought_signature_validator";

/**
 * The signature for a turn's first call if it has none; undefined if the model does not require
 * one.
 */
export const bypassOf = ({ signedCalls }: ModelTraits) => (signedCalls ? bypass : undefined);

/** `unsigned` is the signature to use if the first call has none. */
export function encodeModelTurn(parts: readonly Part[], unsigned: string | undefined): JsonObject[] {
  const kept = parts.filter((part) => part.kind !== "reasoning" || part.signature?.dialect === dialect);
  const encoded: JsonObject[] = [];
  let missing = unsigned;
  for (const [place, part] of kept.entries())
    switch (part.kind) {
      case "text":
      case "refusal":
        if (part.text !== "") encoded.push({ text: part.text });
        break;
      case "reasoning": {
        if (kept[place + 1]?.kind === "call") break;
        const last = encoded.at(-1);
        if (last !== undefined && last.functionCall === undefined && last.thoughtSignature === undefined)
          last.thoughtSignature = part.signature?.data;
        else encoded.push({ text: "", thoughtSignature: part.signature?.data });
        break;
      }
      case "image":
        encoded.push(encodeMedia(part));
        break;
      case "call": {
        const before = kept[place - 1];
        const thoughtSignature = (before?.kind === "reasoning" ? before.signature?.data : undefined) ?? missing;
        missing = undefined;
        const { id, name, input } = part;
        encoded.push({
          functionCall: { id, name, args: argumentsOf(input) ?? { _raw: input } },
          thoughtSignature,
        });
        break;
      }
      default:
        refuse(part.path);
    }
  return encoded;
}
