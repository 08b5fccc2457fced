/** The common part of all decoders of server-sent events. */

import type { SseEvent } from "#wire/sse.ts";
import type { StreamDecoder } from "../codec.ts";
import type { UpstreamError } from "../errors.ts";
import { unreadableEvent } from "../neutral/finish.ts";
import { type AnswerEvent, failed } from "../neutral/neutral.ts";
import { upstreamErrorOf } from "../upstream-errors/upstream-errors.ts";
import type { Usage } from "../usage.ts";
import { contentOf } from "./event.ts";

export abstract class EventDecoder implements StreamDecoder {
  malformedEvents = 0;
  /** The answer has ended or failed; later events are ignored. */
  protected over = false;

  abstract readonly finished: boolean;
  abstract readonly usage: Usage | undefined;
  abstract end(): AnswerEvent[];
  /** `name` is the event's name, if it has one. */
  protected abstract read(value: Record<string, unknown>, name: string | undefined): AnswerEvent[];

  push(event: SseEvent): AnswerEvent[] {
    if (this.over) return [];
    const content = contentOf(event);
    switch (content.kind) {
      case "value":
        return this.read(content.value, event.event);
      case "error":
        return this.fail(this.errorOf(content.body));
      case "done":
        return this.done();
      case "keep-alive":
        return [];
      case "unreadable":
        this.malformedEvents++;
        return this.finished ? [] : this.fail(unreadableEvent);
      default:
        return content satisfies never;
    }
  }

  /** Reads the body of an error event: JSON or text. */
  protected errorOf(body: unknown): UpstreamError {
    return upstreamErrorOf(body);
  }

  /** Handles `[DONE]`, which only some dialects send. */
  protected done(): AnswerEvent[] {
    return [];
  }

  protected fail(error: UpstreamError): AnswerEvent[] {
    this.over = true;
    return failed(error);
  }
}
