/**
 * Opaque texts that only the simulator makes, so that it can detect changed or invented ones in
 * later requests. They hide nothing.
 */
import { hash } from "node:crypto";

const proofOf = (claim: string) => hash("sha256", `made by the simulator: ${claim}`, "base64").slice(0, 22);

/** In base64; the same for the same claim. */
export const sealOf = (claim: string) => Buffer.from(`${proofOf(claim)} ${claim}`).toString("base64");

/** The sealed text; undefined if the simulator did not make the seal. */
export function claimIn(seal: string): string | undefined {
  const claim = Buffer.from(seal, "base64").toString().slice(23);
  return sealOf(claim) === seal ? claim : undefined;
}
