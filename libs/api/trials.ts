/** Trials, for operators: requests that show which target answers, and why. */
import Type from "typebox";
import { trialTargetsMax } from "#access/bounds.ts";
import { strictObject, text } from "./common.ts";
import type { Operation } from "./operation.ts";

export const trialOperations = {
  createTrial: {
    method: "POST",
    path: "/catalogue/trials",
    summary:
      "Makes a header for one request of a key to a model, at `/v1/chat/completions` within 30 seconds. For it the named targets count as failing, which nothing else learns of, and its usage record lists every target that was passed over.",
    access: "operator",
    body: strictObject({
      key: Type.String({ minLength: 1, maxLength: 100, description: "The id of the key that sends the request." }),
      model: Type.String({ minLength: 1, maxLength: 256, description: "The model that the request names." }),
      failing: Type.Array(
        strictObject({
          upstream: Type.String({ minLength: 1, maxLength: 40 }),
          target: Type.String({ minLength: 1, maxLength: 256, description: "The upstream's name of the model." }),
        }),
        { maxItems: trialTargetsMax },
      ),
    }),
    answer: Type.Object({ header: text("Its name."), value: text("Its value.") }),
  },
} as const satisfies Record<string, Operation>;
