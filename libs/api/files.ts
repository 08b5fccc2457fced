/** Operations on the files of accounts. Uploads go to the gateway's own API (`/v1/files`). */
import Type from "typebox";
import { id, integer, object, optional, orNull, pageOf, pageQuery, strictObject, text, time } from "./common.ts";
import type { Operation } from "./operation.ts";

const file = object({
  id: id("The id of the file, as OpenAI's API names it."),
  account: id("The account that it belongs to."),
  keyId: id("The key that uploaded it."),
  name: text("As its sender named it."),
  purpose: text("Such as `batch`; results of batches have `batch_output`."),
  mediaType: text(),
  bytes: integer("Its size."),
  createdAt: time("When it was uploaded."),
  expiresAt: orNull(time("It is deleted then; null for never.")),
});

const params = object({ file: id("The id of a file.") });

export const fileOperations = {
  listFiles: {
    method: "GET",
    path: "/files",
    summary: "Lists files, newest first.",
    access: "reader",
    query: strictObject({
      ...pageQuery,
      account: optional(id("Only those of this account.")),
      purpose: optional(Type.String({ maxLength: 40, description: "Only those with this purpose." })),
    }),
    answer: pageOf(file),
  },
  getFileSpace: {
    method: "GET",
    path: "/accounts/:account/file-space",
    summary: "Shows how much of its quota of files an account uses.",
    access: "reader",
    params: object({ account: id("The id of an account.") }),
    answer: object({
      files: integer("Files, and uploads that arrive."),
      filesMax: integer(),
      bytes: integer("Their bytes."),
      bytesMax: integer(),
    }),
  },
  getFile: {
    method: "GET",
    path: "/files/:file",
    summary: "Reads the details of a file.",
    access: "reader",
    params,
    answer: file,
  },
  downloadFile: {
    method: "GET",
    path: "/files/:file/content",
    summary: "Reads the bytes of a file.",
    access: "member",
    params,
    mediaType: "application/octet-stream",
  },
  deleteFile: {
    method: "DELETE",
    path: "/files/:file",
    summary: "Deletes a file and its bytes.",
    access: "member",
    params,
  },
} as const satisfies Record<string, Operation>;
