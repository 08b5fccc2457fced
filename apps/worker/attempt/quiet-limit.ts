/** How long a call may stay silent before its first content, where the catalogue sets no limit. */
import { spokenWith } from "#catalogue/catalogue.ts";
import type { ConversationDialect } from "#dialects/dialect.ts";
import { modelTraitsOf } from "#dialects/neutral/model-traits.ts";
import {
  firstContentMsMax,
  lastQuietMsMin,
  promptBytesPerMs,
  quietMsMin,
  searchedBytesMax,
  thinkingMsMin,
} from "../bounds.ts";
import type { ContentTimes } from "../routing/content-times.ts";
import type { Candidate } from "../routing/route.ts";

/** Members of requests that ask for reasoning, or for an answer at a low priority. */
const slowRequest =
  /"(?:reasoning|reasoning_effort|thinking|thinkingConfig|thinking_config|enable_thinking)"\s*:|"service_?[tT]ier"\s*:\s*"flex"/;

/**
 * In ms. `hasOther`: another target is left. Costs some microseconds, so ask only about a call that
 * has been silent for seconds.
 */
export function quietMsMaxOf(
  {
    candidate,
    dialect,
    body,
    streams,
  }: { candidate: Candidate; dialect: ConversationDialect; body: Buffer; streams: boolean },
  times: Pick<ContentTimes, "usualMs">,
  hasOther: boolean,
): number {
  const kind = streams ? "streamed" : "whole";
  const leastMs = isPatient(candidate, dialect, body) ? thinkingMsMin[kind] : quietMsMin[kind];
  const usualMs = times.usualMs(candidate.name, streams);
  const lastMs = hasOther ? 0 : lastQuietMsMin;
  return Math.min(firstContentMsMax, Math.max(leastMs, usualMs, lastMs) + body.length / promptBytesPerMs);
}

function isPatient({ model, target, upstream }: Candidate, dialect: ConversationDialect, body: Buffer): boolean {
  if (model.capabilities.includes("reasoning")) return true;
  const traits = [spokenWith(upstream, dialect), "openai-responses" as const].map((spoken) =>
    modelTraitsOf(spoken, target.model, model.traits),
  );
  if (
    traits.some(({ knownToReason, thinksAlways, thinksByDefault }) => knownToReason || thinksAlways || thinksByDefault)
  )
    return true;
  return body.length > searchedBytesMax || slowRequest.test(body.toString("latin1"));
}
