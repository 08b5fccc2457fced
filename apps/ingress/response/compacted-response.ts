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
import type { AnswerResponse } from "./response.ts";
import { sendWhole, WholeResponse } from "./whole-response.ts";

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

export interface CompactionOptions {
  form: CompactionForm;
  sealing: Sealing;
  /** The claim on memory for the summary. */
  claim: Claim;
}

/** Its generation must answer with a whole response of OpenAI's Responses. */
export const compactedResponse = (below: AnswerResponse, { form, sealing, claim }: CompactionOptions): AnswerResponse =>
  new WholeResponse(below, claim, ({ status, headers, body }) => {
    const send = (sentStatus: number, sent: string | Buffer) =>
      sendWhole(below, { status: sentStatus, headers, body: sent });
    const fail = (failure: Failure) => send(statusOf(failure.code), errorBodyOf(failure, ""));
    if (status >= 300) return send(status, body);
    const response = parsedObject(body);
    if (response === undefined) return fail(internalFailure);
    const summary = summaryIn(response);
    if (summary === undefined) return fail(noSummary);
    const sealed = sealing.seal(compactionName, Buffer.from(summary));
    const item = compactionItemOf(`cmp_${randomBytes(24).toString("hex")}`, sealed);
    if (form !== "sse")
      return send(
        200,
        jsonOf(form === "whole" ? { ...response, output: [item] } : compactedBodyOf(response, item, form.messages)),
      );
    // A stream is written, and not only ended, so that it is recorded as one.
    below.writeHead(200, { ...headers, "content-type": contentTypes.sse });
    below.write(Buffer.from(compactionEventsOf(response, item)));
    below.end();
  });

const { statusOf, errorBodyOf } = openaiResponsesProfile;
