/** Anthropic's message batches: https://docs.claude.com/en/api/creating-message-batches */
import { Readable } from "node:stream";
import type { FastifyInstance, FastifyRequest } from "fastify";
import type { Failure } from "#dialects/errors.ts";
import { elementsOf } from "#wire/elements.ts";
import type { InputLine } from "#wire/lines.ts";
import { batchBodyBytesMax, batchesShownDefault, batchLineBytesMax, batchWindowMs } from "../bounds.ts";
import { newIdOf } from "../files/file-store.ts";
import { bodyOf } from "../internal/body.ts";
import { sendFailure } from "../internal/internal-server.ts";
import { takeLines } from "./batch-intake.ts";
import { deleteBatch, deleteRefusedBatch, resultsOf } from "./batch-results.ts";
import { cancelBatch } from "./batch-rows.ts";
import { type BatchView, createBatch, findBatch, listBatches } from "./batch-views.ts";
import type { BatchService } from "./context.ts";

type WithId = { Params: { id: string } };

const path = "/anthropic/messages/batches";
const listedMax = 1_000;

export function addAnthropicBatchRoutes(server: FastifyInstance, service: BatchService): void {
  const { database, clock } = service;
  const findById = (account: string, id: string) => findBatch(database, { account, dialect: "anthropic", id });
  const find = ({ claims, params: { id } }: FastifyRequest<WithId>) => findById(claims.account, id);
  server.post(path, async (request, reply) => {
    const id = `msgbatch_${newIdOf()}`;
    const failure = await create(service, request, id);
    if (failure !== undefined) return sendFailure(reply, failure);
    const batch = (await findById(request.claims.account, id)) as BatchView;
    service.wake();
    return messageBatchOf(batch, request);
  });
  server.get<WithId>(`${path}/:id`, async (request, reply) => {
    const batch = await find(request);
    return batch === undefined ? sendFailure(reply, noBatch(request.params.id)) : messageBatchOf(batch, request);
  });
  server.get<WithId>(`${path}/:id/results`, async (request, reply) => {
    const batch = await find(request);
    if (batch === undefined) return sendFailure(reply, noBatch(request.params.id));
    if (batch.ended_at === null)
      return sendFailure(reply, invalid(`The batch ${batch.id} has not ended; its results are available afterwards.`));
    return reply.type("application/x-jsonl").send(Readable.from(resultsOf(service, batch), { objectMode: false }));
  });
  server.post<WithId>(`${path}/:id/cancel`, async (request, reply) => {
    const batch = await find(request);
    if (batch === undefined) return sendFailure(reply, noBatch(request.params.id));
    if (batch.ended_at !== null) return sendFailure(reply, invalid(`The batch ${batch.id} has ended.`));
    await cancelBatch(database, batch.id, new Date(clock.epoch()));
    service.wake();
    return messageBatchOf((await find(request)) ?? batch, request);
  });
  server.delete<WithId>(`${path}/:id`, async (request, reply) => {
    const batch = await find(request);
    if (batch === undefined) return sendFailure(reply, noBatch(request.params.id));
    if (batch.ended_at === null)
      return sendFailure(reply, invalid(`The batch ${batch.id} has not ended; cancel it first.`));
    await deleteBatch(service, batch);
    return { id: batch.id, type: "message_batch_deleted" };
  });
  server.get(path, async (request, reply) => {
    const { account } = request.claims;
    const query = request.query as Record<string, unknown>;
    const { limit = String(batchesShownDefault), after_id: afterId, before_id: beforeId } = query;
    if (!/^\d{1,4}$/.test(String(limit)) || Number(limit) < 1 || Number(limit) > listedMax)
      return sendFailure(reply, invalid(`'limit' must be an integer from 1 to ${listedMax}.`, "limit"));
    const [after, before] = await Promise.all(
      [afterId, beforeId].map((id) => (id === undefined ? undefined : findById(account, String(id)))),
    );
    for (const [id, batch] of [
      [afterId, after],
      [beforeId, before],
    ])
      if (id !== undefined && batch === undefined) return sendFailure(reply, noBatch(String(id)));
    const page = await listBatches(database, { account, dialect: "anthropic", limit: Number(limit), after, before });
    const data = page.batches.map((batch) => messageBatchOf(batch, request));
    return { data, has_more: page.hasMore, first_id: data[0]?.id ?? null, last_id: data.at(-1)?.id ?? null };
  });
}

/** Takes the requests as they arrive. Nothing is left of a batch that is refused. */
async function create(service: BatchService, request: FastifyRequest, id: string): Promise<Failure | undefined> {
  const { account, key } = request.claims;
  const batch = {
    id,
    account,
    key_id: key,
    dialect: "anthropic",
    endpoint: "/v1/messages",
    model: null,
    name: null,
    state: "receiving",
    input_file_id: null,
    output_expires_seconds: null,
    metadata: null,
    expires_at: new Date(service.clock.epoch() + batchWindowMs),
  } as const;
  const refusal = await createBatch(service, batch);
  if (refusal !== undefined) return refusal;
  let isAccepted = false;
  try {
    const faults = await takeLines(service, { ...batch, runs: 0 }, requestsIn(bodyOf(request)));
    const [fault] = faults;
    isAccepted = fault === undefined;
    if (fault === undefined) return undefined;
    if (fault.code === "token_limit_exceeded") return { code: "rate_limited", message: fault.message };
    const param =
      fault.line === null ? "requests" : `requests.${fault.line - 1}${fault.param === null ? "" : `.${fault.param}`}`;
    return invalid(`${param}: ${fault.message}`, param);
  } catch (error) {
    if (error instanceof BodyFault) return invalid(error.message);
    throw error;
  } finally {
    if (!isAccepted) await deleteRefusedBatch(service, batch.id);
  }
}

class BodyFault extends Error {}

async function* requestsIn(body: AsyncIterable<Buffer>): AsyncGenerator<InputLine> {
  let isWhole = false;
  for await (const part of elementsOf(body, ["requests"], {
    elementBytesMax: batchLineBytesMax,
    restBytesMax: batchBodyBytesMax,
  }))
    if (part.kind === "element") yield part;
    else isWhole = isBody(part.bytes);
  if (!isWhole) throw new BodyFault("The body must be a JSON object with a list 'requests'.");
}

function isBody(bytes: Buffer): boolean {
  try {
    return Array.isArray(JSON.parse(bytes.toString()).requests);
  } catch {
    return false;
  }
}

const invalid = (message: string, param?: string): Failure => ({
  code: "invalid_request",
  message,
  ...(param !== undefined && { param }),
});

const noBatch = (id: string): Failure => ({ code: "not_found", message: `There is no batch ${id.slice(0, 100)}.` });

const timeOf = (time: Date | null): string | null => time?.toISOString() ?? null;

function messageBatchOf(batch: BatchView, { claims: { origin } }: FastifyRequest) {
  const isEnded = batch.ended_at !== null;
  return {
    id: batch.id,
    type: "message_batch",
    processing_status: isEnded ? "ended" : batch.is_cancelled ? "canceling" : "in_progress",
    // They change at the end only, as the vendor's.
    request_counts: {
      processing: isEnded ? 0 : batch.total,
      succeeded: isEnded ? batch.succeeded : 0,
      errored: isEnded ? batch.errored : 0,
      canceled: isEnded ? batch.cancelled : 0,
      expired: isEnded ? batch.expired : 0,
    },
    created_at: timeOf(batch.created_at),
    expires_at: timeOf(batch.expires_at),
    ended_at: timeOf(batch.ended_at),
    cancel_initiated_at: timeOf(batch.cancelling_at),
    archived_at: null,
    results_url: isEnded ? `${origin}/v1/messages/batches/${batch.id}/results` : null,
  };
}
