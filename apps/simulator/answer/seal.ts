/** Opaque texts that only the simulator makes, so that it can tell what comes back to it from what was changed or made up. They keep nothing secret. */
import { hash } from "node:crypto";

const proofOf = (claim: string) => hash("sha256", `made by the simulator: ${claim}`, "base64").slice(0, 22);

/** In base64; the same for the same claim. */
export const sealOf = (claim: string): string => Buffer.from(`${proofOf(claim)} ${claim}`).toString("base64");

/** What was sealed; undefined if the simulator did not make it. */
export function claimIn(seal: string): string | undefined {
  const claim = Buffer.from(seal, "base64").toString().slice(23);
  return sealOf(claim) === seal ? claim : undefined;
}
