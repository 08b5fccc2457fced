/**
 * Wraps a signature for a caller that speaks another dialect than the upstream that made it: one
 * opaque text, which that caller sends back in the same place. Base64, because one dialect accepts
 * nothing else; a fixed prefix identifies it.
 */
import { hash } from "node:crypto";
import { defined, jsonBytesOf, stringOf } from "#wire/json/parse.ts";
import { type ConversationDialect, conversationDialects } from "../dialect.ts";
import type { ReasoningPart, Signature } from "./neutral.ts";

interface Contents {
  sluice: 1;
  dialect: ConversationDialect;
  data: string;
  redacted?: boolean;
  itemId?: string;
  origin?: string;
  /** The signed thinking, for callers that do not send it back unchanged. */
  text?: string;
}

const jsonStart = '{"sluice":1,';
/** The prefix of every wrapped signature: the base64 of its beginning, as far as that is whole. */
export const wrappedSignatureMark = Buffer.from(jsonStart).toString("base64").slice(0, 16);

/**
 * `text` is the thinking itself, if the caller's dialect does not send it back unchanged; `model`
 * the upstream's name of the model that made it.
 */
export function wrappedSignatureOf(
  { dialect, data, redacted, itemId }: Signature,
  text?: string,
  model?: string,
): string {
  const contents: Contents = {
    sluice: 1,
    dialect,
    data,
    ...defined({
      redacted: redacted || undefined,
      itemId,
      origin: model === undefined ? undefined : originOf(model),
      text: text || undefined,
    }),
  };
  return jsonBytesOf(contents).toString("base64");
}

/** Identifies an upstream's model without its name, which callers do not see. */
export const originOf = (model: string) => hash("sha256", model, "base64url").slice(0, 8);

export const isWrappedSignature = (text: string) => text.startsWith(wrappedSignatureMark);

/**
 * The signature, and the thinking if it is included; undefined if `text` is not a wrapped
 * signature.
 */
export function unwrappedSignature(
  envelope: string,
): (Pick<ReasoningPart, "signature"> & { signature: Signature; text?: string }) | undefined {
  if (!isWrappedSignature(envelope)) return undefined;
  try {
    const { dialect, data, redacted, itemId, origin, text }: Partial<Contents> = JSON.parse(
      Buffer.from(envelope, "base64").toString("utf8"),
    );
    if (!conversationDialects.some((name) => name === dialect) || typeof data !== "string") return undefined;
    return {
      signature: {
        dialect: dialect as ConversationDialect,
        data,
        ...defined({
          redacted: redacted === true || undefined,
          itemId: stringOf(itemId),
          origin: stringOf(origin),
        }),
      },
      ...defined({ text: stringOf(text) }),
    };
  } catch {
    return undefined;
  }
}
