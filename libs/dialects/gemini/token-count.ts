/** Counting a prompt's tokens in Google's Gemini format: https://ai.google.dev/api/tokens */
import type { TokenCount } from "../codec.ts";
import { isGiven, jsonOf, objectOf } from "../json.ts";
import { pathOf, resourceOf } from "./names.ts";

/** What belongs to a conversation that is to be counted beside its contents. */
const isMore = (name: string): boolean => name !== "contents" && name !== "model";

/** The request whose tokens are to be counted, where there is one. */
function wholeIn(body: Record<string, unknown>): Record<string, unknown> | undefined {
  const whole = body.generateContentRequest ?? body.generate_content_request;
  return isGiven(whole) ? objectOf(whole) : undefined;
}

export const tokenCount: TokenCount = {
  conversationOf: (body) => wholeIn(body) ?? body,
  prefixOf: (body) => (wholeIn(body) === undefined ? "" : "generateContentRequest."),
  /** Where there are only contents, in the plain form that all of Google's endpoints read; a whole request is read by some alone. */
  requestOf(conversation, { model }) {
    const { contents } = conversation;
    const body = Object.keys(conversation).some(isMore)
      ? { generateContentRequest: { ...conversation, model: resourceOf(model) } }
      : { contents };
    return { path: pathOf(model, "countTokens"), headers: {}, body: Buffer.from(jsonOf(body)) };
  },
  countIn: ({ totalTokens: tokens }) =>
    typeof tokens === "number" && Number.isSafeInteger(tokens) && tokens >= 0 ? tokens : undefined,
  answerOf: (tokens) => jsonOf({ totalTokens: tokens }),
};
