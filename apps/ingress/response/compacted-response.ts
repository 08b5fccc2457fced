/**
 * A response whose answer is a summary: its caller receives a compaction item, which replaces the
 * conversation, instead of the summary.
 */
import { randomBytes } from "node:crypto";
import { contentTypes } from "#dialects/codec.ts";
import { type Failure, internalFailure } from "#dialects/errors.ts";
import {
  compactedBodyOf,
  compactionEventsOf,
  compactionItemOf,
  summaryIn,
} from "#dialects/openai-responses/compaction.ts";
import { openaiResponsesProfile } from "#dialects/openai-responses/profile.ts";
import { jsonOf, parsedObject } from "#wire/json/parse.ts";
import type { Claim } from "../common/capacity.ts";
import type { Sealing } from "../common/sealing.ts";
import type { AnswerResponse } from "./generation-response.ts";
import { WholeResponse } from "./whole-response.ts";

/** The name under which summaries are sealed. */
export const compactionName = "compaction";

/**
 * The form in which the caller receives the item: a response, the events of one, or the result of
 * POST /v1/responses/compact, after these messages.
 */
export type CompactionForm = "whole" | "sse" | { messages: readonly object[] };

const noSummary: Failure = {
  code: "upstream_failed",
  message: "The model answered without a summary of the conversation; try again.",
};

/** Its generation must answer with a whole response of OpenAI's Responses. */
export class CompactedResponse extends WholeResponse {
  readonly #form: CompactionForm;
  readonly #sealing: Sealing;

  constructor(inner: AnswerResponse, form: CompactionForm, sealing: Sealing, held: Claim) {
    super(inner, held);
    this.#form = form;
    this.#sealing = sealing;
  }

  protected answer(status: number, body: Buffer): void {
    if (status < 300) this.#compact(body);
    else this.send(status, contentTypes.whole, body);
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
    if (form === "sse") this.#stream(compactionEventsOf(response, item));
    else
      this.send(
        200,
        contentTypes.whole,
        jsonOf(form === "whole" ? { ...response, output: [item] } : compactedBodyOf(response, item, form.messages)),
      );
  }

  /** A stream is written, and not only ended, so that it is recorded as one. */
  #stream(events: string): void {
    this.sendHead(200, { "content-type": contentTypes.sse });
    this.inner.write(Buffer.from(events));
    this.inner.end();
  }

  #fail(failure: Failure): void {
    const { statusOf, errorBodyOf } = openaiResponsesProfile;
    this.send(statusOf(failure.code), contentTypes.whole, errorBodyOf(failure, ""));
  }
}
