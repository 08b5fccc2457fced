/** Moderation of texts and images: https://platform.openai.com/docs/api-reference/moderations */
import { promptsIn } from "../completions/prompts.ts";
import { plainDemandOf } from "../demand.ts";
import type { Operation } from "../operation.ts";
import { moderationRequestSchema } from "./schema.ts";

export const moderation: Operation = {
  endpoints: [
    {
      path: "/v1/moderations",
      dialect: "openai-chat",
      schema: moderationRequestSchema,
      modelDefault: "omni-moderation-latest",
    },
  ],
  bills: "input",
  isRepeatable: true,
  demandOf: ({ input }) => plainDemandOf(input, promptsIn(input)),
};
