/**
 * Records the content of generations whose account stores it: the request as it was queued and the
 * answer as its caller got it, sealed with the account's public key. Sessions are not recorded.
 * Generations of other accounts pass untouched.
 */
import type { Content, ContentBody } from "#content/content.ts";
import type { ContentStream } from "#content/content-stream.ts";
import { operations } from "#operations/operations.ts";
import type { Clock } from "#service/clock.ts";
import type { GenerationRequest } from "../admission/generation-request.ts";
import type { Capacity } from "../common/capacity.ts";
import { ContentResponse, isText } from "../response/content-response.ts";
import { ContentText } from "../response/content-text.ts";

export interface ContentRecorderOptions {
  stream: Pick<ContentStream, "write">;
  /** Bytes of what is recorded, until Redis has it. Without memory, less is recorded. */
  recorded: Capacity;
  clock: Clock;
}

export class ContentRecorder {
  readonly #options: ContentRecorderOptions;

  constructor(options: ContentRecorderOptions) {
    this.#options = options;
  }

  /** The request with a response that is recorded, or the same one. */
  recorded(request: GenerationRequest, body: Buffer): GenerationRequest {
    const { account, contentKey: key } = request.caller;
    if (key === undefined || account === undefined || operations[request.operation].isSession === true) return request;
    const { stream, recorded, clock } = this.#options;
    const label = { generationId: request.id, account, key, receivedAt: clock.epoch() };
    const claim = recorded.claim(request.caller.id);
    const asked = bodyOf(request.contentType, body, (bytes) => claim.hold(bytes) === undefined);
    const ownBytes = claim.amount;
    const response = new ContentResponse(request.response, {
      hold: (bytes) => claim.hold(ownBytes + bytes) === undefined,
      ended: (status, answer) => {
        const { dialect, operation } = request;
        const content: Content = { dialect, operation, request: asked, status, answer };
        void stream.write(label, content).finally(() => claim.end());
      },
    });
    return { ...request, response };
  }
}

function bodyOf(type: string, body: Buffer, hold: (bytes: number) => boolean): ContentBody {
  const text = new ContentText(hold);
  if (isText(type)) text.push(body);
  else text.skip(body.length);
  return { type, ...text.result() };
}
