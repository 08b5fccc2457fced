/**
 * A response whose answer is stored before its caller receives the end, so that the caller's next
 * request can refer to it. Everything is passed on at once, except the event or the body that
 * completes the answer.
 */
import type { OutgoingHttpHeaders } from "node:http";
import { eventTypeOf } from "#dialects/openai-responses/event-type.ts";
import { jsonListOf } from "#dialects/openai-responses/stored-references.ts";
import { textOf } from "#wire/json/parse.ts";
import { isEmptyArray, objectSpansOf, readSpan, withMembers } from "#wire/json/spans.ts";
import { type SseEvent, SseReader } from "#wire/sse.ts";
import { recordedEventBytesMax, storeMsMax } from "../common/bounds.ts";
import type { Claim } from "../common/capacity.ts";
import { outputOf, valueIn } from "../common/items.ts";
import { type AnswerResponse, ResponseLayer } from "./response.ts";

export interface RecordingOptions {
  streams: boolean;
  /** The claim on memory for what is recorded. It covers `ownBytes` already. */
  claim: Claim;
  ownBytes: number;
  /** Stores a complete answer. Must not reject. */
  store(id: string, response: Buffer): Promise<void>;
}

export class RecordedResponse extends ResponseLayer implements AnswerResponse {
  readonly #options: RecordingOptions;
  readonly #reader = new SseReader(recordedEventBytesMax);
  #records = true;
  #status = 200;
  /** A stream's finished items, by their index; a whole answer's bytes so far. */
  readonly #items = new Map<number, Buffer>();
  #body: Buffer[] = [];
  #recordedBytes = 0;
  /** The response object of the final event, and the bytes that have it. */
  #final: Buffer | undefined;
  #heldBack: Buffer[] = [];

  constructor(below: AnswerResponse, options: RecordingOptions) {
    super(below);
    this.#options = options;
    if (below.closed) this.#forget();
    else below.once("close", () => this.#forget());
  }

  writeHead(status: number, headers: OutgoingHttpHeaders): void {
    this.#status = status;
    if (status >= 300) this.#forget();
    this.below.writeHead(status, headers);
  }

  write(chunk: string | Buffer, written?: () => void): boolean {
    if (this.#records && typeof chunk !== "string") {
      if (this.#options.streams) this.#readEvents(chunk);
      else this.#keep(chunk, (bytes) => this.#body.push(bytes));
      if (this.#final !== undefined) {
        this.#heldBack.push(chunk);
        if (written !== undefined) process.nextTick(written);
        return true;
      }
    }
    return this.below.write(chunk, written);
  }

  end(chunk?: string | Buffer): void {
    const response = this.#completed(chunk);
    const id = response && textOf(valueIn(response, "id"));
    if (response === undefined || id === undefined) {
      this.#finish(chunk);
      return;
    }
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, storeMsMax);
    });
    void Promise.race([this.#options.store(id, response), late]).then(() => {
      clearTimeout(timer);
      this.#finish(chunk);
    });
  }

  destroy(): void {
    this.#forget();
    this.below.destroy();
  }

  #finish(chunk: string | Buffer | undefined): void {
    for (const bytes of this.#heldBack) this.below.write(bytes);
    this.#forget();
    this.below.end(chunk);
  }

  #forget(): void {
    this.#records = false;
    this.#items.clear();
    this.#body = [];
    this.#final = undefined;
    this.#heldBack = [];
    this.#options.claim.end();
  }

  /** The response object of a complete answer; undefined where it is not recorded. */
  #completed(chunk: string | Buffer | undefined): Buffer | undefined {
    if (!this.#records || this.#status >= 300) return undefined;
    if (!this.#options.streams) return Buffer.concat([...this.#body, Buffer.from(chunk ?? "")]);
    if (this.#final === undefined) return undefined;
    const items = outputOf(this.#items);
    return items.length === 0
      ? this.#final
      : withMembers(this.#final, "output", (output) => (isEmptyArray(output) ? jsonListOf(items) : output));
  }

  #readEvents(chunk: Buffer): void {
    try {
      for (const event of this.#reader.push(chunk)) this.#readEvent(event);
    } catch {
      this.#forget();
    }
  }

  #readEvent(event: SseEvent): void {
    const { data } = event;
    switch (eventTypeOf(event)) {
      case "response.output_item.done": {
        const { output_index: place, item } = objectSpansOf(data, ["output_index", "item"])?.members ?? {};
        if (place === undefined || item === undefined) return;
        this.#keep(data.subarray(item.start, item.end), (bytes) =>
          this.#items.set(Number(readSpan(data, place)), bytes),
        );
        return;
      }
      case "response.completed":
      case "response.incomplete": {
        const span = objectSpansOf(data, ["response"])?.members.response;
        if (span !== undefined)
          this.#keep(data.subarray(span.start, span.end), (bytes) => {
            this.#final = bytes;
          });
      }
    }
  }

  /** Keeps a copy, which does not hold on to the chunk that the bytes are a part of. */
  #keep(bytes: Buffer, keep: (bytes: Buffer) => void): void {
    this.#recordedBytes += bytes.length;
    if (this.#options.claim.hold(this.#options.ownBytes + this.#recordedBytes) === undefined) keep(Buffer.from(bytes));
    else this.#forget();
  }
}
