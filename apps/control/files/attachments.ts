/** Files that requests name, for the ingress that reads such a request. */
import type { FastifyInstance } from "fastify";
import { internalNameHeader } from "#access/internal-signature.ts";
import { attachmentPrefix, sendFailure } from "../internal/internal-server.ts";
import type { FileStore } from "./file-store.ts";
import { noFile, openAiIdOf } from "./openai-files.ts";

export function addAttachmentRoutes(server: FastifyInstance, files: FileStore): void {
  server.get<{ Params: { id: string } }>(`${attachmentPrefix}:id`, async ({ claims, params: { id } }, reply) => {
    const row = await files.find(claims.account, id);
    if (row === undefined) return sendFailure(reply, noFile(openAiIdOf({ id })));
    return reply
      .headers({
        "content-type": row.media_type,
        "content-length": String(row.bytes),
        [internalNameHeader]: encodeURIComponent(row.name),
      })
      .send(await files.open(row));
  });
}
