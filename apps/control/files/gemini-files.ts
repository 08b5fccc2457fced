/**
 * Google's files: https://ai.google.dev/api/files. An upload is one request, or it is resumable:
 * each of its requests has the next bytes, which become a part of the file.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Failure } from "#dialects/errors.ts";
import { camelOf } from "#dialects/gemini/names.ts";
import { type JsonObject, objectOf, parsedObject, textOf } from "#wire/json/parse.ts";
import { geminiFileBytesMax, geminiFileSeconds } from "../bounds.ts";
import type { FileRow } from "../database/tables.ts";
import { mediaTypeOf, nameOf } from "../internal/form.ts";
import { sendFailure } from "../internal/internal-server.ts";
import { readJsonObject } from "../internal/json-body.ts";
import type { Arrived } from "./file-receiver.ts";
import { type FileDetails, type FileResult, tooLarge, type UploadDetails, wrongOffset } from "./file-store.ts";
import { type FileRoutesOptions, invalid, noFileIn, sendContent } from "./openai-files.ts";

const listBounds = { default: 10, max: 100 };

interface GeminiFileRoutesOptions extends FileRoutesOptions {
  /** The ticket with which the bytes of an upload are sent without an API key. */
  ticketOf(keyHash: string, upload: string): string;
}

type WithId = { Params: { id: string } };

export function addGeminiFileRoutes(
  server: FastifyInstance,
  { files, receiver, ticketOf }: GeminiFileRoutesOptions,
): void {
  for (const version of ["v1", "v1beta"])
    server.post(`/gemini/upload/${version}/files`, async (request, reply) => {
      const { command, id, isWhole } = stepOf(request);
      if (isWhole) return take(request, reply);
      if (command.includes("start")) return start(request, reply);
      const upload = await files.findUpload(request.claims.account, id);
      if (upload === undefined) return sendFailure(reply, noFile(id));
      return proceed(request, reply, upload);
    });
  server.get("/gemini/files", async (request, reply) => {
    const page = await pageOf(request);
    return "failure" in page ? sendFailure(reply, page.failure) : page.value;
  });
  server.get<WithId>("/gemini/files/:id", async (request, reply) => {
    const [id = "", method] = request.params.id.split(":");
    const row = await files.find(request.claims.account, id);
    if (row === undefined) return sendFailure(reply, noFile(id));
    return method === "download" ? sendContent(files, row, reply) : fileOf(row, request);
  });
  server.delete<WithId>("/gemini/files/:id", async ({ claims, params: { id } }, reply) =>
    (await files.remove(claims.account, id)) ? {} : sendFailure(reply, noFile(id)),
  );

  /**
   * Takes a file that comes with its metadata, as from `GoogleAIFileManager`
   * (https://github.com/google-gemini/generative-ai-js/blob/main/src/server/file-manager.ts), or as
   * it is (https://discuss.ai.google.dev/t/how-to-upload-files-with-media-upload-in-rest-api/6904).
   */
  async function take(request: FastifyRequest, reply: FastifyReply) {
    const { "content-type": type = "", "x-goog-upload-file-name": name } = request.headers;
    const file = /^multipart\/related\b/i.test(type)
      ? await receiver.receiveForm(request, { field: "file" }, ({ fields, file }, arrived) => {
          if (file === undefined) return noFileIn("file");
          const metadata = objectOf(camelOf(parsedObject(Buffer.from(fields.get("metadata") ?? ""))?.file));
          return wholeOf(describedBy(metadata, metadata.mimeType ?? file.mediaType, name), arrived);
        })
      : await receiver.receiveBody(request, undefined, (arrived) => wholeOf(describedBy({}, type, name), arrived));
    return "failure" in file ? sendFailure(reply, file.failure) : { file: fileOf(file.value, request) };
  }

  async function start(request: FastifyRequest, reply: FastifyReply) {
    const { origin, keyHash } = request.claims;
    if (keyHash === undefined) return sendFailure(reply, beginsWithKey);
    const upload = await begin(request);
    if ("failure" in upload) return sendFailure(reply, upload.failure);
    const ticket = ticketOf(keyHash, upload.value.id);
    const query = new URLSearchParams({ upload_id: upload.value.id, upload_protocol: "resumable", ticket });
    return reply
      .headers({ "x-goog-upload-url": `${origin}/upload/v1beta/files?${query}`, "x-goog-upload-status": "active" })
      .send({});
  }

  async function begin(request: FastifyRequest): Promise<FileResult<FileRow>> {
    const { claims, headers } = request;
    const read = await readJsonObject(request);
    if ("failure" in read) return read;
    const file = objectOf(camelOf(read.value.file));
    const type = headers["x-goog-upload-header-content-type"] ?? file.mimeType;
    const described = describedBy(file, type, headers["x-goog-upload-file-name"]);
    if ("failure" in described) return described;
    const size = Number(headers["x-goog-upload-header-content-length"] ?? file.sizeBytes ?? Number.NaN);
    if (!(Number.isInteger(size) && size >= 0))
      return invalid("The size of the file must be announced.", "file.sizeBytes");
    if (size > geminiFileBytesMax) return { failure: tooLarge(geminiFileBytesMax) };
    return files.beginUpload(
      { account: claims.account, key_id: claims.key },
      { ...described.value, bytes: BigInt(size), life_seconds: geminiFileSeconds },
    );
  }

  /** Takes the next bytes, and makes the file if they are the last ones. */
  async function proceed(request: FastifyRequest, reply: FastifyReply, upload: FileRow) {
    const { command, offset } = stepOf(request);
    const parts = await files.arrivedParts(upload);
    if (command.includes("cancel")) {
      await files.cancelUpload(upload);
      return reply.header("x-goog-upload-status", "cancelled").send({});
    }
    const present = parts.reduce((sum, { bytes }) => sum + Number(bytes), 0);
    const isRepeated = parts.some(({ place }) => place === offset);
    if (command.includes("upload") && !isRepeated) {
      if (offset !== present) return sendFailure(reply, wrongOffset(present));
      const { expires_at } = upload;
      const part = await receiver.receiveBody(request, upload, () => ({
        value: { name: "", purpose: "", media_type: "", expires_at, place: offset },
      }));
      if ("failure" in part) return sendFailure(reply, part.failure);
      parts.push(part.value);
    }
    const received = parts.reduce((sum, { bytes }) => sum + bytes, 0n);
    const isLast = command.includes("finalize");
    if (isLast && received !== upload.bytes) {
      const message = `${received} bytes have arrived; the upload announced ${upload.bytes}.`;
      return sendFailure(reply, invalid(message, "x-goog-upload-command").failure);
    }
    const file = isLast ? await files.join(upload, parts) : undefined;
    reply.headers({
      "x-goog-upload-status": file === undefined ? "active" : "final",
      "x-goog-upload-size-received": String(received),
    });
    return reply.send(file === undefined ? {} : { file: fileOf(file, request) });
  }

  async function pageOf(request: FastifyRequest): Promise<FileResult<object>> {
    const { account } = request.claims;
    const query = objectOf(camelOf(request.query));
    const pageSize = textOf(query.pageSize) ?? String(listBounds.default);
    const pageToken = textOf(query.pageToken);
    if (!/^\d{1,9}$/.test(pageSize)) return invalid("pageSize must be an integer.", "pageSize");
    const limit = Math.min(Number(pageSize) || listBounds.default, listBounds.max);
    const after = pageToken ? await files.find(account, pageToken) : undefined;
    if (pageToken && after === undefined) return invalid("pageToken is not one of this list.", "pageToken");
    const rows = await files.list(account, { limit, order: "desc", after });
    const page = rows.slice(0, limit);
    const last = rows.length > limit ? page.at(-1) : undefined;
    return {
      value: { files: page.map((row) => fileOf(row, request)), ...(last !== undefined && { nextPageToken: last.id }) },
    };
  }
}

const { failure: beginsWithKey } = invalid(
  "An upload begins with an API key, not at the address of another.",
  "x-goog-upload-command",
);

type Description = Pick<UploadDetails, "name" | "purpose" | "media_type">;

/** `metadata` describes the file; so do its type and a name, which may be absent. */
function describedBy(metadata: JsonObject, type: unknown, name: unknown): FileResult<Description> {
  if (metadata.name !== undefined) return invalid("A file's name cannot be chosen here.", "file.name");
  return {
    value: {
      name: nameOf(String(textOf(metadata.displayName) ?? name ?? "")),
      purpose: "user_data",
      media_type: mediaTypeOf(String(type ?? "")),
    },
  };
}

/** A file that arrived in one request. */
function wholeOf(described: FileResult<Description>, { bytes, createdAt }: Arrived): FileResult<FileDetails> {
  if (bytes > geminiFileBytesMax) return { failure: tooLarge(geminiFileBytesMax) };
  if ("failure" in described) return described;
  return { value: { ...described.value, expires_at: new Date(createdAt + geminiFileSeconds * 1_000) } };
}

/** The step of an upload that a request is. */
function stepOf({ headers, query }: FastifyRequest) {
  const { upload_id: id = "", uploadType } = query as { upload_id?: string; uploadType?: string };
  const { "x-goog-upload-command": command = "", "x-goog-upload-protocol": protocol = uploadType } = headers;
  return {
    isWhole: command === "" && id === "" && protocol !== "resumable",
    command: String(command)
      .toLowerCase()
      .split(/\s*,\s*/),
    offset: Number(headers["x-goog-upload-offset"] ?? 0),
    id,
  };
}

function fileOf(row: FileRow, { claims: { origin } }: FastifyRequest) {
  const name = `files/${row.id}`;
  const created = row.created_at.toISOString();
  return {
    name,
    displayName: row.name,
    mimeType: row.media_type,
    sizeBytes: String(row.bytes),
    createTime: created,
    updateTime: created,
    ...(row.expires_at !== null && { expirationTime: row.expires_at.toISOString() }),
    uri: `${origin}/v1beta/${name}`,
    downloadUri: `${origin}/v1beta/${name}:download?alt=media`,
    state: "ACTIVE",
    source: "UPLOADED",
  };
}

const noFile = (id: string): Failure => ({
  code: "not_found",
  message: `The file ${id.slice(0, 100)} does not exist, or belongs to another account.`,
});
