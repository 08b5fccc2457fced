/** Anthropic's files: https://platform.claude.com/docs/en/api/files */
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Failure } from "#dialects/errors.ts";
import type { FileRow } from "../database/tables.ts";
import { sendFailure } from "../internal/internal-server.ts";
import type { FileResult } from "./file-store.ts";
import { type FileRoutesOptions, invalid, noFileIn, sendContent } from "./openai-files.ts";

/** In seconds. */
const expiryBounds = { min: 3_600, max: 90 * 86_400 };
const listBounds = { default: 20, max: 1_000 };

type WithId = { Params: { id: string } };

export function addAnthropicFileRoutes(server: FastifyInstance, { files, receiver }: FileRoutesOptions): void {
  server.post("/anthropic/files", async (request, reply) => {
    const received = await receiver.receiveForm(request, { field: "file" }, ({ fields, file }, { createdAt }) => {
      if (file === undefined) return noFileIn("file");
      const life = fields.get("expires_in_seconds");
      const { min, max } = expiryBounds;
      if (life !== undefined && !(/^\d{1,9}$/.test(life) && Number(life) >= min && Number(life) <= max))
        return invalid(`expires_in_seconds: must be an integer from ${min} to ${max}.`, "expires_in_seconds");
      const expires_at = life === undefined ? null : new Date(createdAt + Number(life) * 1_000);
      return { value: { name: file.name, purpose: "user_data", media_type: file.mediaType, expires_at } };
    });
    return "failure" in received ? sendFailure(reply, received.failure) : fileOf(received.value);
  });
  server.get("/anthropic/files", async (request, reply) => {
    const page = await pageOf(request);
    return "failure" in page ? sendFailure(reply, page.failure) : page.value;
  });
  server.get<WithId>("/anthropic/files/:id", async (request, reply) => {
    const row = await find(request, request.params.id);
    return row === undefined ? sendNoFile(request, reply) : fileOf(row);
  });
  server.get<WithId>("/anthropic/files/:id/content", async (request, reply) => {
    const row = await find(request, request.params.id);
    return row === undefined ? sendNoFile(request, reply) : sendContent(files, row, reply);
  });
  server.delete<WithId>("/anthropic/files/:id", async (request, reply) => {
    const { id } = request.params;
    const isRemoved = await files.remove(request.claims.account, idIn(id));
    return isRemoved ? { id, type: "file_deleted" } : sendNoFile(request, reply);
  });

  const find = ({ claims }: FastifyRequest, id: string) => files.find(claims.account, idIn(id));

  async function pageOf(request: FastifyRequest): Promise<FileResult<object>> {
    const {
      limit = String(listBounds.default),
      page,
      after_id: afterId,
      before_id: beforeId,
      ids,
    } = request.query as Record<string, unknown>;
    if (!/^\d{1,4}$/.test(String(limit)) || Number(limit) < 1 || Number(limit) > listBounds.max)
      return invalid(`limit: must be an integer from 1 to ${listBounds.max}.`, "limit");
    const { account } = request.claims;
    if (ids !== undefined) {
      const named = [ids].flat().slice(0, listBounds.max);
      const rows = await Promise.all(named.map((id) => find(request, String(id))));
      return {
        value: listOf(
          rows.filter((row) => row !== undefined),
          Number.POSITIVE_INFINITY,
        ),
      };
    }
    const next = page ?? afterId;
    const mark = next ?? beforeId;
    const after = mark === undefined ? undefined : await find(request, String(mark));
    if (mark !== undefined && after === undefined) return { failure: noFile(String(mark)) };
    const order = next === mark ? "desc" : "asc";
    return { value: listOf(await files.list(account, { limit: Number(limit), order, after }), Number(limit), order) };
  }
}

/** A page before a file has the order of the others. */
function listOf(rows: readonly FileRow[], limit: number, order: "asc" | "desc" = "desc") {
  const data = rows.slice(0, limit).map(fileOf);
  if (order === "asc") data.reverse();
  const hasMore = rows.length > data.length;
  const last = data.at(-1)?.id ?? null;
  return {
    data,
    has_more: hasMore,
    first_id: data[0]?.id ?? null,
    last_id: last,
    next_page: hasMore && order === "desc" ? last : null,
  };
}

const fileOf = (row: FileRow) => ({
  id: `file_${row.id}`,
  type: "file",
  filename: row.name,
  mime_type: row.media_type,
  size_bytes: Number(row.bytes),
  created_at: row.created_at.toISOString(),
  downloadable: true,
  expires_at: row.expires_at?.toISOString() ?? null,
});

const idIn = (text: string) => (text.startsWith("file_") ? text.slice("file_".length) : "");

const noFile = (id: string): Failure => ({ code: "not_found", message: `File not found: ${id.slice(0, 100)}` });

const sendNoFile = ({ params: { id } }: FastifyRequest<WithId>, reply: FastifyReply) => sendFailure(reply, noFile(id));
