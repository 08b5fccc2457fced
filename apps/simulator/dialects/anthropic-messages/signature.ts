/** Signatures of thinking, which are checked when the thinking comes back. */
import { hash } from "node:crypto";
import { claimIn, sealOf } from "../../answer/seal.ts";

/** Depends only on the text, which is empty for hidden thinking. */
export const signatureOf = (thinking: string) => sealOf(`thinking ${hash("sha256", thinking).slice(0, 40)}`);

const redacted = "redacted thinking ";

/** The data of a redacted thinking block. */
export const redactedOf = (thinking: string) => sealOf(redacted + thinking);

export const isRedacted = (data: string) => claimIn(data)?.startsWith(redacted) ?? false;
