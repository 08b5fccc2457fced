/** Proofs that thinking is as the simulator made it: it is checked when it comes back. */
import { hash } from "node:crypto";
import { claimIn, sealOf } from "../../answer/seal.ts";

/** Depends on the text alone; of thinking that is not shown, the text is empty. */
export const signatureOf = (thinking: string): string => sealOf(`thinking ${hash("sha256", thinking).slice(0, 40)}`);

const redacted = "redacted thinking ";

/** The data of a block of thinking that nobody can read. */
export const redactedOf = (thinking: string): string => sealOf(redacted + thinking);

export const isRedacted = (data: string): boolean => claimIn(data)?.startsWith(redacted) ?? false;
