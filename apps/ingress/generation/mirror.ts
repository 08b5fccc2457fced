/**
 * Copies of callers' requests for the target in the model's `mirror`. They belong to a key of the
 * gateway's own, with no account and no limits; nobody gets their answers.
 */
import type { CatalogueModel } from "#catalogue/catalogue.ts";
import { operations } from "#operations/operations.ts";
import { randomHex } from "#service/random-hex.ts";
import type { GenerationRequest } from "../admission/generation-request.ts";
import type { Capacity } from "../common/capacity.ts";
import { DiscardedResponse } from "../response/response.ts";

/** In usage records, in place of the caller's. */
const mirrorKey = "mirror";

/**
 * Undefined if the request is not drawn, cannot be copied, or there is no memory for its body.
 * `random` returns numbers from 0 to below 1.
 */
export function mirroredOf(
  request: GenerationRequest,
  { mirror }: CatalogueModel,
  random: () => number,
  bodyBytes: Capacity,
): GenerationRequest | undefined {
  const { http, endpoint, model, framing, demand, bytes, isMirrored, earlier } = request;
  if (mirror === undefined || isMirrored === true || earlier !== undefined || bytes === undefined) return undefined;
  if (operations[endpoint.operation].isSession === true || random() * 100 >= mirror.percent) return undefined;
  const bodyClaim = bodyBytes.claim(mirrorKey);
  if (bodyClaim.hold(bytes.length) !== undefined) return undefined;
  const { group } = http.caller;
  return {
    http: {
      url: http.url,
      headers: Object.fromEntries(Object.entries(http.headers).filter(([name]) => !name.startsWith("x-sluice-"))),
      caller: { id: mirrorKey, name: mirrorKey, group, hint: "", createdAt: 0 },
      bodyClaim,
    },
    requestId: `req_${randomHex()}`,
    ...{ endpoint, model, framing, demand, bytes },
    labels: { user: null, session: null, tags: [mirrorKey] },
    layers: { sink: new DiscardedResponse() },
    queue: mirror.queue,
    isMirrored: true,
  };
}
