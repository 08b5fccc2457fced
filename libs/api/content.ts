/** Operations on the content of requests: whether an account stores it, and reading it. */
import Type from "typebox";
import { flag, id, integer, object, orNull, strictObject, text } from "./common.ts";
import type { Operation } from "./operation.ts";

const body = (description: string) =>
  Type.Object(
    {
      type: text("The media type; empty if there is none."),
      text: text(
        "In the dialect of the request. In place of images, audio and other data, their size stands. Empty if the media type is not text.",
      ),
      bytes: Type.Integer({ minimum: 0, description: "The whole size." }),
      isCut: flag("The end is missing, because the text was too long."),
    },
    { description },
  );

export const contentOperations = {
  updateContentStorage: {
    method: "PUT",
    path: "/accounts/:account/content-storage",
    summary: "Begins or ends storing the content of the account's requests. Ending it deletes what is stored.",
    access: "owner",
    params: object({ account: id("The id of an account.") }),
    body: strictObject({
      days: orNull(
        Type.Integer({ minimum: 1, maximum: 90, description: "How many days content is stored; null stores none." }),
      ),
    }),
  },
  openContent: {
    method: "GET",
    path: "/usage/records/:id/content",
    summary: "Decrypts what a request said and what it was answered. Each reading is in the audit log.",
    access: "member",
    params: object({ id: Type.String({ minLength: 1, maxLength: 200 }) }),
    answer: object({
      dialect: text(),
      operation: text(),
      request: body("The request, as it was queued."),
      status: integer("The HTTP status of the answer; 0 if there was none."),
      answer: body("The answer, as its caller got it."),
    }),
  },
} as const satisfies Record<string, Operation>;
