/** Files in parts: https://platform.openai.com/docs/api-reference/uploads */
import { createHash } from "node:crypto";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { listOf, objectOf, textOf } from "#wire/json/parse.ts";
import { uploadBytesMax, uploadPartsMax } from "../bounds.ts";
import type { FileRow } from "../database/tables.ts";
import { mediaTypeOf, nameOf } from "../internal/form.ts";
import { sendFailure } from "../internal/internal-server.ts";
import { readJsonObject } from "../internal/json-body.ts";
import { type FileResult, tooLarge } from "./file-store.ts";
import { type FileRoutesOptions, invalid, noFileIn, openAiFileOf, retentionOf, secondsOf } from "./openai-files.ts";

type WithId = { Params: { id: string } };

export function addOpenAiUploadRoutes(server: FastifyInstance, { files, receiver }: FileRoutesOptions): void {
  server.post("/openai/uploads", async (request, reply) => {
    const upload = await begin(request);
    return "failure" in upload ? sendFailure(reply, upload.failure) : uploadOf(upload.value, "pending");
  });

  server.post<WithId>("/openai/uploads/:id/parts", async (request, reply) => {
    const upload = await find(request);
    if (upload === undefined) return sendNoUpload(request, reply);
    const part = await receiver.receiveForm(request, { field: "data", upload }, ({ file }) =>
      file === undefined
        ? noFileIn("data")
        : { value: { name: "", purpose: "", media_type: "", expires_at: upload.expires_at } },
    );
    if ("failure" in part) return sendFailure(reply, part.failure);
    const { id, created_at } = part.value;
    return {
      ...{ id: `part_${id}`, object: "upload.part" },
      created_at: secondsOf(created_at),
      upload_id: `upload_${upload.id}`,
    };
  });

  server.post<WithId>("/openai/uploads/:id/complete", async (request, reply) => {
    const upload = await find(request);
    if (upload === undefined) return sendNoUpload(request, reply);
    const completed = await complete(upload, request);
    if ("failure" in completed) return sendFailure(reply, completed.failure);
    return { ...uploadOf(upload, "completed"), file: openAiFileOf(completed.value) };
  });

  server.post<WithId>("/openai/uploads/:id/cancel", async (request, reply) => {
    const upload = await find(request);
    if (upload === undefined || !(await files.cancelUpload(upload))) return sendNoUpload(request, reply);
    return uploadOf(upload, "cancelled");
  });

  const find = ({ claims, params: { id } }: FastifyRequest<WithId>) =>
    files.findUpload(claims.account, idIn(id, "upload_"));

  async function begin(request: FastifyRequest): Promise<FileResult<FileRow>> {
    const { claims } = request;
    const read = await readJsonObject(request);
    if ("failure" in read) return read;
    const { bytes, filename, mime_type: mediaType, purpose, expires_after: expiry } = read.value;
    if (!(Number.isInteger(bytes) && (bytes as number) >= 0)) return invalid("'bytes' must be an integer.", "bytes");
    if ((bytes as number) > uploadBytesMax) return { failure: tooLarge(uploadBytesMax) };
    const [name, type] = [textOf(filename), textOf(mediaType)];
    if (name === undefined) return invalid("'filename' must be a text.", "filename");
    if (type === undefined) return invalid("'mime_type' must be a media type.", "mime_type");
    const retention = retentionOf(
      purpose,
      bytes as number,
      expiry === undefined || expiry === null ? undefined : objectOf(expiry),
    );
    if ("failure" in retention) return retention;
    return files.beginUpload(
      { account: claims.account, key_id: claims.key },
      {
        ...{ name: nameOf(name), purpose: retention.value.purpose, media_type: mediaTypeOf(type) },
        bytes: BigInt(bytes as number),
        life_seconds: retention.value.lifeSeconds,
      },
    );
  }

  async function complete(upload: FileRow, request: FastifyRequest): Promise<FileResult<FileRow>> {
    const read = await readJsonObject(request);
    if ("failure" in read) return read;
    const ids = listOf(read.value.part_ids).map((id) => idIn(String(id), "part_"));
    const parts = ids.length > uploadPartsMax ? undefined : await files.partsOf(upload, ids);
    if (parts === undefined)
      return invalid("'part_ids' must be the ids of parts of this upload, each once.", "part_ids");
    const bytes = parts.reduce((sum, part) => sum + part.bytes, 0n);
    if (bytes !== upload.bytes)
      return invalid(`The parts have ${bytes} bytes; the upload announced ${upload.bytes}.`, "part_ids");
    const { md5 } = read.value;
    if (md5 !== undefined && md5 !== null) {
      const digest = createHash("md5");
      for await (const chunk of files.readParts(parts)) digest.update(chunk);
      const present = digest.digest("hex");
      if (present !== md5) return invalid(`The parts have the MD5 checksum ${present}.`, "md5");
    }
    const file = await files.join(upload, parts);
    return file === undefined ? { failure: noUpload(request as FastifyRequest<WithId>) } : { value: file };
  }
}

const uploadOf = (upload: FileRow, status: "pending" | "completed" | "cancelled") => ({
  id: `upload_${upload.id}`,
  object: "upload",
  bytes: Number(upload.bytes),
  created_at: secondsOf(upload.created_at),
  filename: upload.name,
  purpose: upload.purpose,
  status,
  expires_at: secondsOf(upload.expires_at ?? upload.created_at),
});

/** The id of the row; a text that is no name of one is none of a row either. */
const idIn = (text: string, prefix: string) => (text.startsWith(prefix) ? text.slice(prefix.length) : "");

const noUpload = ({ params: { id } }: FastifyRequest<WithId>) =>
  ({
    code: "not_found",
    message: `No such Upload object, or it is over: ${id.slice(0, 100)}`,
    param: "id",
  }) as const;

const sendNoUpload = (request: FastifyRequest<WithId>, reply: FastifyReply) => sendFailure(reply, noUpload(request));
