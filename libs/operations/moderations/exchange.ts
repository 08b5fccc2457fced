/** Moderation by upstreams of OpenAI's format. */

import { type AttachmentFinder, dataUrlAt } from "#dialects/relay/verbatim-attachments.ts";
import { listOf, objectOf, parsedObject } from "#wire/json/parse.ts";
import { withData } from "../conversation.ts";
import { type CallExchange, ownCall, refusedFor } from "../exchange.ts";
import { errorIn, namedAnswerOf, reportedUsageOf, requestFor } from "../openai-call.ts";

const imageFinder: AttachmentFinder = {
  marks: ['_url"'],
  names: ["url", "image_url"],
  placeOf: (path, _bytes, string) => (path.startsWith("input.image_url") ? dataUrlAt(string, "image") : undefined),
};

/** The catalogue's id of the model, and how many results are due. */
interface Context {
  model: string;
  count: number;
}

export const moderationExchange: CallExchange<Context> = {
  wantedOf: () => "openai-chat",
  async prepare({ body: callerBody, spoken, target, model }, resolve) {
    if (spoken !== "openai-chat") return refusedFor("moderations");
    const body = await withData(callerBody, imageFinder, resolve);
    const { input } = parsedObject(body) ?? {};
    // A list of parts is one input with texts and images; a list of texts is one input each.
    const count = Array.isArray(input) && typeof input[0] === "string" ? input.length : 1;
    return ownCall<Context>(requestFor("/moderations", body, target.model), { model, count });
  },
  read({ model, count }, bytes) {
    const answer = parsedObject(bytes);
    const results = listOf(answer?.results).map(objectOf);
    if (
      answer === undefined ||
      results.length !== count ||
      !results.every(({ flagged }) => typeof flagged === "boolean")
    )
      return errorIn(answer);
    return { kind: "answer", body: namedAnswerOf(bytes, model), usage: reportedUsageOf(answer.usage) };
  },
};
