/**
 * A signature's way through a caller that speaks another dialect than the upstream that made it: wrapped as one opaque text, which that caller sends
 * back where it got it. Base64, for one dialect takes nothing else; its beginning tells ours from any other.
 */

import { type ConversationDialect, conversationDialects } from "./dialect.ts";
import { jsonBytesOf } from "./json.ts";
import type { ReasoningPart, Signature } from "./neutral.ts";

interface Contents {
  sluice: 1;
  dialect: ConversationDialect;
  data: string;
  redacted?: boolean;
  itemId?: string;
  /** The thinking that the signature is of, for callers that don't send it back as they got it. */
  text?: string;
}

const beginning = '{"sluice":1,';
/** What every envelope begins with: the base64 of its beginning, as far as that is whole. */
export const wrappedSignatureMark = Buffer.from(beginning).toString("base64").slice(0, 16);

/** `text` is the thinking itself, where the caller's dialect won't send it back unchanged. */
export function wrappedSignatureOf({ dialect, data, redacted, itemId }: Signature, text?: string): string {
  const contents: Contents = {
    sluice: 1,
    dialect,
    data,
    ...(redacted === true && { redacted }),
    ...(itemId !== undefined && { itemId }),
    ...(text !== undefined && text !== "" && { text }),
  };
  return jsonBytesOf(contents).toString("base64");
}

export const isWrappedSignature = (text: string): boolean => text.startsWith(wrappedSignatureMark);

/** The signature, and the thinking if the envelope holds it; undefined for what is no envelope of ours. */
export function unwrappedSignature(
  envelope: string,
): (Pick<ReasoningPart, "signature"> & { signature: Signature; text?: string }) | undefined {
  if (!isWrappedSignature(envelope)) return undefined;
  try {
    const { dialect, data, redacted, itemId, text }: Partial<Contents> = JSON.parse(
      Buffer.from(envelope, "base64").toString("utf8"),
    );
    if (!conversationDialects.some((known) => known === dialect) || typeof data !== "string") return undefined;
    return {
      signature: {
        dialect: dialect as ConversationDialect,
        data,
        ...(redacted === true && { redacted }),
        ...(typeof itemId === "string" && { itemId }),
      },
      ...(typeof text === "string" && { text }),
    };
  } catch {
    return undefined;
  }
}
