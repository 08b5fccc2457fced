/**
 * Trials of operators: a request for which some targets count as failing. Control signs what an
 * operator wants, and the operator sends it with a request of their own key. It is for one request
 * of this key to this model and path, and no caller can make one.
 */
import { type InternalVerifier, signInternal } from "./internal-signature.ts";

/** In lower case, as Node has headers. */
export const trialHeader = "x-sluice-trial";

export interface Trial {
  /** The id of the key whose request it is. */
  key: string;
  /** The model that the request names. */
  model: string;
  /** The targets that count as failing, each as `upstream/model there`. */
  failing: readonly string[];
}

const request = { receiver: "ingress", method: "POST", url: "/v1/chat/completions" } as const;

/** The value of the header. `now` in epoch milliseconds. */
export const signTrial = (secret: string, trial: Trial, now: number): string =>
  signInternal(secret, request, { trial: JSON.stringify(trial) }, now);

/** The trial of a request; undefined for a header that is not valid for it at `now`. */
export function trialIn(
  verifier: InternalVerifier,
  header: unknown,
  { method, url, caller }: { method: string; url: string; caller: { id: string } },
  now: number,
): Trial | undefined {
  const claims = verifier.verify(header, { ...request, method, url }, now);
  const trial = claims?.trial === undefined ? undefined : (JSON.parse(claims.trial) as Trial);
  return trial?.key === caller.id ? trial : undefined;
}
