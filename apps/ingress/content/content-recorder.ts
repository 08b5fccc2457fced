/**
 * Records the content of generations whose account stores it: the request as it was queued and the
 * answer as its caller got it, sealed with the account's public key. Sessions are not recorded.
 * Generations of other accounts pass untouched.
 */
import type { KeyRecord } from "#access/record.ts";
import type { Content, ContentBody } from "#content/content.ts";
import type { ContentStream } from "#content/content-stream.ts";
import { operations } from "#operations/operations.ts";
import type { Clock } from "#service/clock.ts";
import { deferredStatus } from "#service/vendor-batch.ts";
import type { Admitted } from "../admission/generation-request.ts";
import type { Capacity } from "../common/capacity.ts";
import type { ServedEndpoint } from "../common/endpoints.ts";
import { type ContentResponseOptions, isText } from "../response/content-response.ts";
import { ContentText } from "../response/content-text.ts";
import { noBytes } from "../server/request-bodies.ts";

export interface ContentRecorderOptions {
  stream: Pick<ContentStream, "write">;
  /** Bytes of what is recorded, until Redis has it. Without memory, less is recorded. */
  recorded: Capacity;
  clock: Clock;
}

/** A request, as far as its record depends on it. */
export interface RecordedRequest {
  http: { caller: Pick<KeyRecord, "id" | "account" | "contentKey"> };
  endpoint: Pick<ServedEndpoint, "dialect" | "operation">;
  /** The generation in whose usage record it is, if that is an earlier one. */
  earlier?: { generationId: string } | undefined;
  bytes: Buffer | undefined;
}

export class ContentRecorder {
  readonly #options: ContentRecorderOptions;

  constructor(options: ContentRecorderOptions) {
    this.#options = options;
  }

  /** The layer that records the answer to a request; undefined for most. */
  layerOf(
    { http: { caller }, endpoint: { dialect, operation }, bytes, earlier }: RecordedRequest,
    { id, contentType }: Pick<Admitted, "id" | "contentType">,
  ): ContentResponseOptions | undefined {
    const { account, contentKey: key } = caller;
    if (key === undefined || account === undefined || operations[operation].isSession === true) return undefined;
    const { stream, recorded, clock } = this.#options;
    const label = { generationId: earlier?.generationId ?? id, account, key, receivedAt: clock.epoch() };
    const claim = recorded.claim(caller.id);
    const requestBody = bodyOf(contentType, bytes ?? noBytes, (size) => claim.hold(size) === undefined);
    const ownBytes = claim.amount;
    return {
      hold: (size) => claim.hold(ownBytes + size) === undefined,
      ended: (status, answer) => {
        // It is sent again when its vendor has answered it.
        if (status === deferredStatus) return claim.end();
        const content: Content = { dialect, operation, request: requestBody, status, answer };
        void stream.write(label, content).finally(() => claim.end());
      },
    };
  }
}

function bodyOf(type: string, body: Buffer, hold: (bytes: number) => boolean): ContentBody {
  const text = new ContentText(hold);
  if (isText(type)) text.push(body);
  else text.skip(body.length);
  return { type, ...text.result() };
}
