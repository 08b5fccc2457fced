/** OpenAI's files: https://platform.openai.com/docs/api-reference/files */
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Failure } from "#dialects/errors.ts";
import { attachmentOf } from "../api/attachment.ts";
import { batchFileBytesMax, batchFileSeconds, filesListedMax } from "../bounds.ts";
import type { FileRow } from "../database/tables.ts";
import type { Form } from "../internal/form.ts";
import { sendFailure } from "../internal/internal-server.ts";
import type { FileReceiver } from "./file-receiver.ts";
import { type FileDetails, type FileResult, type FileStore, tooLarge } from "./file-store.ts";

/** The purposes of an upload; files that the gateway makes have others. */
const purposes = ["assistants", "batch", "fine-tune", "vision", "user_data", "evals"];

/** In seconds: https://platform.openai.com/docs/api-reference/files/create#files-create-expires_after */
const expiryBounds = { min: 3_600, max: 30 * 86_400 };

type WithId = { Params: { id: string } };

export interface FileRoutesOptions {
  files: FileStore;
  receiver: FileReceiver;
}

export function addOpenAiFileRoutes(server: FastifyInstance, { files, receiver }: FileRoutesOptions): void {
  server.post("/openai/files", async (request, reply) => {
    const received = await receiver.receiveForm(request, { field: "file" }, (form, arriving) =>
      detailsOf(form, arriving),
    );
    return "failure" in received ? sendFailure(reply, received.failure) : openAiFileOf(received.value);
  });
  server.get("/openai/files", async (request, reply) => {
    const page = await pageOf(files, request);
    return "failure" in page ? sendFailure(reply, page.failure) : page.value;
  });
  server.get<WithId>("/openai/files/:id", async (request, reply) => {
    const row = await findOpenAi(files, request);
    return row === undefined ? sendFailure(reply, noFile(request.params.id)) : openAiFileOf(row);
  });
  server.get<WithId>("/openai/files/:id/content", async (request, reply) => {
    const row = await findOpenAi(files, request);
    return row === undefined ? sendFailure(reply, noFile(request.params.id)) : sendContent(files, row, reply);
  });
  server.delete<WithId>("/openai/files/:id", async (request, reply) => {
    const { id } = request.params;
    const isRemoved = await files.remove(request.claims.account, tokenOf(id));
    return isRemoved ? { id, object: "file", deleted: true } : sendFailure(reply, noFile(id));
  });
}

export const openAiIdOf = ({ id }: Pick<FileRow, "id">): string => `file-${id}`;

export const openAiFileOf = (row: FileRow) => ({
  id: openAiIdOf(row),
  object: "file",
  bytes: Number(row.bytes),
  created_at: secondsOf(row.created_at),
  ...(row.expires_at !== null && { expires_at: secondsOf(row.expires_at) }),
  filename: row.name,
  purpose: row.purpose,
  status: "processed",
});

/** Sends a file's bytes as ones that a browser shows to nobody. */
export async function sendContent(files: FileStore, row: FileRow, reply: FastifyReply): Promise<FastifyReply> {
  const bytes = await files.open(row);
  if (bytes === undefined) throw new Error("the object store has lost a file");
  return reply
    .headers({
      "content-type": "application/octet-stream",
      "content-length": String(row.bytes),
      "content-disposition": attachmentOf(row.name),
      "x-content-type-options": "nosniff",
    })
    .send(bytes);
}

/** A file by OpenAI's name for it; undefined for one of another account, too. */
const findOpenAi = (files: FileStore, { claims, params: { id } }: FastifyRequest<WithId>) =>
  files.find(claims.account, tokenOf(id));

/** The id of a row by the id in the API; "" for no such id. */
export const tokenOf = (id: string): string => (id.startsWith("file-") ? id.slice("file-".length) : "");

export const secondsOf = (time: Date): number => Math.floor(time.getTime() / 1_000);

/** Clients recognise these words. */
export const noFile = (id: string): Failure => ({
  code: "not_found",
  message: `No such File object: ${id.slice(0, 100)}`,
  param: "id",
});

export const invalid = (message: string, param: string) => ({
  failure: { code: "invalid_request", message, param } as const satisfies Failure,
});

function detailsOf(
  { fields, file }: Form,
  { bytes, createdAt }: { bytes: number; createdAt: number },
): FileResult<FileDetails> {
  if (file === undefined) return noFileIn("file");
  const [anchor, seconds] = ["anchor", "seconds"].map((field) => fields.get(`expires_after[${field}]`));
  const expiry = anchor === undefined && seconds === undefined ? undefined : { anchor, seconds: Number(seconds ?? "") };
  const retention = retentionOf(fields.get("purpose"), bytes, expiry);
  if ("failure" in retention) return retention;
  const { purpose, lifeSeconds } = retention.value;
  const { name, mediaType } = file;
  return {
    value: {
      ...{ name, purpose, media_type: mediaType },
      expires_at: lifeSeconds === null ? null : new Date(createdAt + lifeSeconds * 1_000),
    },
  };
}

export const noFileIn = (field: string) => invalid(`The form has no file in its field '${field}'.`, field);

/** The purpose of a file with so many bytes, and how long it is kept; null for ever. */
export function retentionOf(
  purpose: unknown,
  bytes: number,
  expiry: { anchor?: unknown; seconds?: unknown } | undefined,
): FileResult<{ purpose: string; lifeSeconds: number | null }> {
  if (typeof purpose !== "string" || !purposes.includes(purpose))
    return invalid(`'purpose' must be one of ${purposes.join(", ")}.`, "purpose");
  const isBatch = purpose === "batch";
  if (isBatch && bytes > batchFileBytesMax) return { failure: tooLarge(batchFileBytesMax) };
  if (expiry === undefined) return { value: { purpose, lifeSeconds: isBatch ? batchFileSeconds : null } };
  if (expiry.anchor !== "created_at") return invalid("'expires_after[anchor]' must be 'created_at'.", "expires_after");
  const seconds = Number(expiry.seconds);
  const { min, max } = expiryBounds;
  if (!(Number.isInteger(seconds) && seconds >= min && seconds <= max))
    return invalid(`'expires_after[seconds]' must be an integer from ${min} to ${max}.`, "expires_after");
  return { value: { purpose, lifeSeconds: seconds } };
}

async function pageOf(files: FileStore, { claims, query }: FastifyRequest): Promise<FileResult<object>> {
  const { after, limit = String(filesListedMax), order = "desc", purpose } = query as Record<string, unknown>;
  if (!/^\d{1,9}$/.test(String(limit)) || Number(limit) < 1 || Number(limit) > filesListedMax)
    return invalid(`'limit' must be an integer from 1 to ${filesListedMax}.`, "limit");
  if (order !== "asc" && order !== "desc") return invalid("'order' must be 'asc' or 'desc'.", "order");
  const last = after === undefined ? undefined : await files.find(claims.account, tokenOf(String(after)));
  if (after !== undefined && last === undefined) return { failure: { ...noFile(String(after)), param: "after" } };
  const rows = await files.list(claims.account, {
    purpose: purpose === undefined ? undefined : String(purpose),
    limit: Number(limit),
    order,
    after: last,
  });
  const data = rows.slice(0, Number(limit)).map(openAiFileOf);
  return {
    value: {
      object: "list",
      data,
      first_id: data[0]?.id ?? null,
      last_id: data.at(-1)?.id ?? null,
      has_more: rows.length > data.length,
    },
  };
}
