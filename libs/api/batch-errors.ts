/** The failed requests of a batch, for people. */
import { flag, id, integer, listOf, object, orNull, text } from "./common.ts";
import type { Operation } from "./operation.ts";

export const batchErrorOperations = {
  listBatchErrors: {
    method: "GET",
    path: "/batches/:batch/errors",
    summary: "Groups the failed requests of a batch by their code, the most frequent first.",
    access: "member",
    params: object({ batch: id("The id of a batch.") }),
    answer: object({
      groups: listOf(
        object({
          code: text("In the words of the API that created the batch."),
          count: integer("Requests that failed with it."),
          lines: listOf(
            object({
              customId: orNull(text("The caller's id of the request.")),
              message: text(),
            }),
            "The first ones.",
          ),
        }),
      ),
      isCut: flag("Whether there are more failed requests than were counted."),
    }),
  },
} as const satisfies Record<string, Operation>;
