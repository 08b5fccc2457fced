/** A response whose answer is a summary: its caller receives a compaction item, which replaces the conversation, instead of the summary. */
import { randomBytes } from "node:crypto";
import type { OutgoingHttpHeaders } from "node:http";
import { contentTypes } from "#dialects/codec.ts";
import { type Failure, internalFailure } from "#dialects/errors.ts";
import { jsonOf, parsedObject } from "#dialects/json.ts";
import {
  compactedBodyOf,
  compactionEventsOf,
  compactionItemOf,
  summaryIn,
} from "#dialects/openai-responses/compaction.ts";
import { openaiResponsesProfile } from "#dialects/openai-responses/profile.ts";
import type { Claim } from "../admission/capacity.ts";
import type { AnswerResponse } from "../generation/generation-response.ts";
import type { Sealing } from "./sealing.ts";

/** The name under which summaries are sealed. */
export const compactionName = "compaction";

/** The form in which the caller receives the item: a response, the events of one, or the result of POST /v1/responses/compact, after these messages. */
export type CompactionForm = "whole" | "sse" | { messages: readonly object[] };

const noSummary: Failure = {
  code: "upstream_failed",
  message: "The model answered without a summary of the conversation; try again.",
};

/** Its generation must answer with a whole response of OpenAI's Responses. */
export class CompactedResponse implements AnswerResponse {
  readonly #inner: AnswerResponse;
  readonly #form: CompactionForm;
  readonly #sealing: Sealing;
  /** The claim on memory for an answer that does not come at once. */
  readonly #held: Claim;
  #head: { status: number; headers: OutgoingHttpHeaders } = { status: 200, headers: {} };
  #headWritten = false;
  #body: Buffer[] = [];
  #bytes = 0;

  constructor(inner: AnswerResponse, form: CompactionForm, sealing: Sealing, held: Claim) {
    this.#inner = inner;
    this.#form = form;
    this.#sealing = sealing;
    this.#held = held;
    inner.once("close", () => this.#forget());
  }

  get headersSent(): boolean {
    return this.#headWritten;
  }

  get closed(): boolean {
    return this.#inner.closed;
  }

  writeHead(status: number, headers: OutgoingHttpHeaders): this {
    this.#headWritten = true;
    this.#head = { status, headers };
    return this;
  }

  write(chunk: string | Buffer, written?: () => void): boolean {
    const bytes = Buffer.from(chunk as Buffer);
    this.#bytes += bytes.length;
    if (this.#held.hold(this.#bytes) !== undefined) this.destroy();
    else this.#body.push(bytes);
    if (written !== undefined) process.nextTick(written);
    return true;
  }

  end(chunk: string | Buffer = ""): void {
    const body = Buffer.concat([...this.#body, Buffer.from(chunk as Buffer)]);
    const { status } = this.#head;
    if (status >= 300) this.#send(status, "application/json", body);
    else this.#compact(body);
    this.#forget();
  }

  destroy(): void {
    this.#forget();
    this.#inner.destroy();
  }

  once(event: "close" | "drain", listener: () => void): void {
    this.#inner.once(event, listener);
  }

  #compact(body: Buffer): void {
    const response = parsedObject(body);
    const summary = response && summaryIn(response);
    if (response === undefined || summary === undefined) {
      this.#fail(response === undefined ? internalFailure : noSummary);
      return;
    }
    const sealed = this.#sealing.seal(compactionName, Buffer.from(summary));
    const item = compactionItemOf(`cmp_${randomBytes(24).toString("hex")}`, sealed);
    const form = this.#form;
    if (form === "sse") this.#send(200, contentTypes.sse, compactionEventsOf(response, item));
    else
      this.#send(
        200,
        contentTypes.whole,
        jsonOf(form === "whole" ? { ...response, output: [item] } : compactedBodyOf(response, item, form.messages)),
      );
  }

  #fail(failure: Failure): void {
    const { statusOf, errorBodyOf } = openaiResponsesProfile;
    this.#send(statusOf(failure.code), "application/json", errorBodyOf(failure, ""));
  }

  #send(status: number, contentType: string, body: string | Buffer): void {
    const bytes = Buffer.from(body as Buffer);
    const headers = { ...this.#head.headers, "content-type": contentType, "content-length": bytes.length };
    this.#inner.writeHead(status, headers);
    if (this.#form === "sse" && status < 300) {
      this.#inner.write(bytes);
      this.#inner.end();
    } else this.#inner.end(bytes);
  }

  #forget(): void {
    this.#body = [];
    this.#held.end();
  }
}
