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
import type { GenerationRequest } from "../admission/generation-request.ts";
import type { Capacity } from "../common/capacity.ts";
import { type ContentResponseOptions, isText } from "../response/content-response.ts";
import { ContentText } from "../response/content-text.ts";

export interface ContentRecorderOptions {
  stream: Pick<ContentStream, "write">;
  /** Bytes of what is recorded, until Redis has it. Without memory, less is recorded. */
  recorded: Capacity;
  clock: Clock;
}

/** A request, as far as its record depends on it. */
export type RecordedRequest = Pick<GenerationRequest, "id" | "dialect" | "operation" | "contentType"> & {
  caller: Pick<KeyRecord, "id" | "account" | "contentKey">;
};

export class ContentRecorder {
  readonly #options: ContentRecorderOptions;

  constructor(options: ContentRecorderOptions) {
    this.#options = options;
  }

  /** The layer that records the answer to a request with this body; undefined for most. */
  layerOf(request: RecordedRequest, body: Buffer): ContentResponseOptions | undefined {
    const { id, caller, dialect, operation, contentType } = request;
    const { account, contentKey: key } = caller;
    if (key === undefined || account === undefined || operations[operation].isSession === true) return undefined;
    const { stream, recorded, clock } = this.#options;
    const label = { generationId: id, account, key, receivedAt: clock.epoch() };
    const claim = recorded.claim(caller.id);
    const requestBody = bodyOf(contentType, body, (bytes) => claim.hold(bytes) === undefined);
    const ownBytes = claim.amount;
    return {
      hold: (bytes) => claim.hold(ownBytes + bytes) === undefined,
      ended: (status, answer) => {
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
