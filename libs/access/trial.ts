/**
 * Trials of operators: a request for which some targets count as failing. Control signs what an
 * operator wants, and the operator sends it with a request of their own key. It is for one request
 * of this path, and no caller can make one.
 */
import { type InternalVerifier, signInternal } from "./internal-signature.ts";

/** In lower case, as Node has headers. */
export const trialHeader = "x-sluice-trial";

const request = { receiver: "ingress", method: "POST", url: "/v1/chat/completions" } as const;

/** The value of the header. A target is `upstream/model there`; `now` in epoch milliseconds. */
export const signTrial = (secret: string, failing: readonly string[], now: number): string =>
  signInternal(secret, request, { trial: JSON.stringify(failing) }, now);

/** The targets that count as failing; undefined for a header that is not valid at `now`. */
export function trialIn(
  verifier: InternalVerifier,
  header: unknown,
  { method, url }: { method: string; url: string },
  now: number,
): readonly string[] | undefined {
  const claims = verifier.verify(header, { ...request, method, url }, now);
  return claims?.trial === undefined ? undefined : (JSON.parse(claims.trial) as string[]);
}
