/** The usage that a caller sees where its upstream reports none, or not yet. */

import { bytesPerToken, plainUsageOf, plausible, type Usage } from "../usage.ts";
import type { NeutralRequest, Part } from "./neutral.ts";

/** Tokens of an image of usual size, at all vendors. */
const imageTokens = 800;

/** The tokens of a prompt by the lengths of its texts. At least 1. */
export function roughTokensOf({ system, messages, tools }: NeutralRequest): number {
  let length = 0;
  let images = 0;
  const add = (part: Part) => {
    if (part.kind === "text" || part.kind === "refusal" || part.kind === "reasoning") length += part.text.length;
    else if (part.kind === "call") length += part.input.length;
    else if (part.kind === "result") part.content.forEach(add);
    else images++;
  };
  system.forEach(add);
  for (const { parts } of messages) parts.forEach(add);
  for (const { name, description = "", parameters } of tools)
    length += name.length + description.length + (parameters === undefined ? 0 : JSON.stringify(parameters).length);
  return Math.max(1, Math.ceil(length / bytesPerToken) + images * imageTokens);
}

/** `inputTokens` is an earlier estimate of the prompt. */
export const roughUsageOf = (
  { request, inputTokens }: { request: NeutralRequest; inputTokens?: number | undefined },
  { outputTokens, reasoningTokens }: Pick<Usage, "outputTokens" | "reasoningTokens">,
) => plausible({ ...plainUsageOf(inputTokens ?? roughTokensOf(request), outputTokens), reasoningTokens });
