/** The common part of all decoders of server-sent events. */

import { type JsonObject, textOf } from "#wire/json/parse.ts";
import type { SseEvent } from "#wire/sse.ts";
import type { StreamDecoder } from "../codec.ts";
import type { UpstreamError } from "../errors.ts";
import { unreadableEvent } from "../neutral/finish.ts";
import type { AnswerEvent } from "../neutral/neutral.ts";
import { upstreamErrorOf } from "../upstream-errors/upstream-errors.ts";
import type { Usage } from "../usage.ts";
import { contentOf } from "./event.ts";
import { EventPatterns } from "./event-pattern.ts";

/** The text of an event is the member `name` of `holder`, a part of the event's data. */
export interface TextPlace {
  holder: JsonObject;
  name: string;
}

export abstract class EventDecoder implements StreamDecoder {
  malformedEvents = 0;
  /** The answer has ended or failed; later events are ignored. */
  protected over = false;
  /** The neutral events of the upstream's event that is being read. */
  protected readonly events: AnswerEvent[] = [];
  readonly #patterns = new EventPatterns();
  /** The data of the event that made the pattern, and the place of its text. */
  #learned: { value: JsonObject; place: TextPlace } | undefined;

  abstract readonly finished: boolean;
  abstract readonly usage: Usage | undefined;
  /** `name` is the event's name, if it has one. */
  protected abstract read(value: JsonObject, name: string | undefined): undefined;

  /** Where an event has its text; undefined for one without. */
  protected textPlaceIn(_value: JsonObject): TextPlace | undefined {
    return undefined;
  }

  push(event: SseEvent): AnswerEvent[] {
    if (!this.over && !this.#repeats(event)) this.#read(event);
    return this.events.splice(0);
  }

  end(): AnswerEvent[] {
    this.conclude();
    return this.events.splice(0);
  }

  /**
   * Reads an event that differs from an earlier one only in its text, without parsing it. False if
   * it does not.
   */
  #repeats(event: SseEvent): boolean {
    const pattern = this.#patterns.match(event);
    if (pattern === undefined || this.#learned === undefined) return false;
    const { value, place } = this.#learned;
    place.holder[place.name] = pattern.text;
    this.read(value, event.event);
    return true;
  }

  #readValue(event: SseEvent, value: JsonObject): void {
    const place = this.textPlaceIn(value);
    const text = textOf(place?.holder[place.name]);
    this.read(value, event.event);
    const delta = text === undefined ? undefined : { text, isThought: false, edits: [] };
    if (this.#patterns.learn(event, value, delta) && place !== undefined) this.#learned = { value, place };
  }

  #read(event: SseEvent): undefined {
    const content = contentOf(event);
    switch (content.kind) {
      case "value":
        this.#readValue(event, content.value);
        return;
      case "error":
        return this.fail(this.errorOf(content.body));
      case "done":
        return this.done();
      case "keep-alive":
        return;
      case "unreadable":
        this.malformedEvents++;
        if (!this.finished) this.fail(unreadableEvent);
        return;
      default:
        content satisfies never;
    }
  }

  /** Reads the body of an error event: JSON or text. */
  protected errorOf(body: unknown): UpstreamError {
    return upstreamErrorOf(body);
  }

  /** Handles `[DONE]`, which only some dialects send. */
  protected done(): undefined {}

  /** Ends an answer that is finished. */
  protected conclude(): undefined {
    if (this.over || !this.finished) return;
    this.over = true;
    this.finish();
  }

  /** Closes the open blocks and finishes. */
  protected finish(): void {}

  protected fail(error: UpstreamError): undefined {
    this.over = true;
    this.events.push({ kind: "error", error });
  }
}

/** Reads an answer with another decoder, and changes its events. */
export abstract class WrappedDecoder implements StreamDecoder {
  protected readonly decoder: StreamDecoder;

  constructor(decoder: StreamDecoder) {
    this.decoder = decoder;
  }

  protected abstract changed(events: AnswerEvent[]): AnswerEvent[];

  push(event: SseEvent): AnswerEvent[] {
    return this.changed(this.decoder.push(event));
  }

  end(): AnswerEvent[] {
    return this.changed(this.decoder.end());
  }

  get finished(): boolean {
    return this.decoder.finished;
  }

  get malformedEvents(): number {
    return this.decoder.malformedEvents;
  }

  get usage(): Usage | undefined {
    return this.decoder.usage;
  }
}
