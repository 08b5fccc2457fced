/** OpenAI's batches: https://platform.openai.com/docs/api-reference/batch */
import type { FastifyInstance, FastifyRequest } from "fastify";
import { batchEndpoints } from "#api/vocabulary.ts";
import type { Failure } from "#dialects/errors.ts";
import { plainObjectOf, textOf } from "#wire/json/parse.ts";
import { batchBodyBytesMax, batchesShownDefault, batchesShownMax, batchWindowMs } from "../bounds.ts";
import { newIdOf } from "../files/file-store.ts";
import { tokenOf } from "../files/openai-files.ts";
import { isStorable } from "../internal/form.ts";
import { sendFailure } from "../internal/internal-server.ts";
import { readJsonObject } from "../internal/json-body.ts";
import { cancelBatch } from "./batch-rows.ts";
import { type BatchView, createBatch, findBatch, listBatches } from "./batch-views.ts";
import type { BatchService } from "./context.ts";

type WithId = { Params: { id: string } };

const metadataMax = { pairs: 16, nameLength: 64, valueLength: 512 };
/** In seconds, as for files. */
const expiryBounds = { min: 3_600, max: 30 * 86_400 };

export function addOpenAiBatchRoutes(server: FastifyInstance, service: BatchService): void {
  const { database, clock } = service;
  const find = ({ claims: { account }, params: { id } }: FastifyRequest<WithId>) =>
    findBatch(database, { account, dialect: "openai", id });
  server.post("/openai/batches", async (request, reply) => {
    const id = `batch_${newIdOf()}`;
    const failure = await create(service, request, id);
    if (failure !== undefined) return sendFailure(reply, failure);
    const { account } = request.claims;
    const batch = (await findBatch(database, { account, dialect: "openai", id })) as BatchView;
    service.wake();
    return openAiBatchOf(batch);
  });
  server.get<WithId>("/openai/batches/:id", async (request, reply) => {
    const batch = await find(request);
    return batch === undefined ? sendFailure(reply, noBatch(request.params.id)) : openAiBatchOf(batch);
  });
  server.post<WithId>("/openai/batches/:id/cancel", async (request, reply) => {
    const batch = await find(request);
    if (batch === undefined) return sendFailure(reply, noBatch(request.params.id));
    if (batch.ended_at !== null || batch.state === "finalizing") {
      const message = `The batch has the status ${batch.state} and cannot be cancelled any more.`;
      return sendFailure(reply, { code: "invalid_request", message });
    }
    await cancelBatch(database, batch.id, new Date(clock.epoch()));
    service.wake();
    return openAiBatchOf((await find(request)) ?? batch);
  });
  server.get("/openai/batches", async (request, reply) => {
    const { account } = request.claims;
    const { after, limit = String(batchesShownDefault) } = request.query as Record<string, unknown>;
    if (!/^\d{1,3}$/.test(String(limit)) || Number(limit) < 1 || Number(limit) > batchesShownMax)
      return sendFailure(reply, invalid(`'limit' must be an integer from 1 to ${batchesShownMax}.`, "limit"));
    const last =
      after === undefined ? undefined : await findBatch(database, { account, dialect: "openai", id: String(after) });
    if (after !== undefined && last === undefined)
      return sendFailure(reply, { ...noBatch(String(after)), param: "after" });
    const page = await listBatches(database, { account, dialect: "openai", limit: Number(limit), after: last });
    const data = page.batches.map(openAiBatchOf);
    return {
      object: "list",
      data,
      first_id: data[0]?.id ?? null,
      last_id: data.at(-1)?.id ?? null,
      has_more: page.hasMore,
    };
  });
}

async function create(service: BatchService, request: FastifyRequest, id: string): Promise<Failure | undefined> {
  const { account, key } = request.claims;
  const read = await readJsonObject(request, batchBodyBytesMax);
  if ("failure" in read) return read.failure;
  const body = read.value;
  const { input_file_id: fileId, endpoint, completion_window: window, metadata = null } = body;
  const path = batchEndpoints.find((one) => one === endpoint || one === `/v1${endpoint}`);
  if (path === undefined) return invalid(`'endpoint' must be one of ${batchEndpoints.join(", ")}.`, "endpoint");
  if (window !== "24h") return invalid("'completion_window' must be \"24h\".", "completion_window");
  const expiresAfter = body.output_expires_after;
  const seconds = expiresAfter === undefined || expiresAfter === null ? null : expirySecondsOf(expiresAfter);
  if (seconds === undefined) {
    const { min, max } = expiryBounds;
    return invalid(
      `'output_expires_after' must have the anchor "created_at" and from ${min} to ${max} seconds.`,
      "output_expires_after",
    );
  }
  if (metadata !== null && !isMetadata(metadata)) {
    const { pairs, nameLength, valueLength } = metadataMax;
    return invalid(
      `'metadata' must have at most ${pairs} texts of ${valueLength} characters, with names of ${nameLength}.`,
      "metadata",
    );
  }
  const token = tokenOf(textOf(fileId) ?? "");
  const file = await service.findFile(account, token);
  if (file === undefined)
    return {
      code: "not_found",
      message: `No such File object: ${String(fileId).slice(0, 100)}`,
      param: "input_file_id",
    };
  if (file.purpose !== "batch")
    return invalid("The input file must have been uploaded with the purpose 'batch'.", "input_file_id");
  return createBatch(service, {
    id,
    account,
    key_id: key,
    dialect: "openai",
    endpoint: path,
    model: null,
    name: null,
    state: "validating",
    input_file_id: token,
    output_expires_seconds: seconds,
    metadata: metadata as Record<string, string> | null,
    expires_at: new Date(service.clock.epoch() + batchWindowMs),
  });
}

function expirySecondsOf(value: unknown): number | undefined {
  const { anchor, seconds } = plainObjectOf(value) ?? {};
  const { min, max } = expiryBounds;
  const isValid =
    anchor === "created_at" && Number.isInteger(seconds) && Number(seconds) >= min && Number(seconds) <= max;
  return isValid ? Number(seconds) : undefined;
}

function isMetadata(value: unknown): boolean {
  const { pairs, nameLength, valueLength } = metadataMax;
  const entries = Object.entries(plainObjectOf(value) ?? { invalid: 0 });
  return (
    entries.length <= pairs &&
    entries.every(
      ([name, text]) =>
        name.length <= nameLength &&
        typeof text === "string" &&
        text.length <= valueLength &&
        isStorable(name) &&
        isStorable(text),
    )
  );
}

const invalid = (message: string, param: string): Failure => ({ code: "invalid_request", message, param });

const noBatch = (id: string): Failure => ({
  code: "not_found",
  message: `No batch found with id '${id.slice(0, 100)}'.`,
  param: "id",
});

const secondsOf = (time: Date | null): number | null => (time === null ? null : Math.floor(time.getTime() / 1_000));
const fileIdOf = (id: string | null): string | null => (id === null ? null : `file-${id}`);

/** The time of its end, in the field of its state. */
const endedIn = (batch: BatchView, state: BatchView["state"]): number | null =>
  batch.state === state ? secondsOf(batch.ended_at) : null;

function openAiBatchOf(batch: BatchView) {
  const { usage } = batch;
  return {
    id: batch.id,
    object: "batch",
    endpoint: batch.endpoint,
    ...(batch.model !== null && { model: batch.model }),
    errors: batch.faults.length === 0 ? null : { object: "list", data: batch.faults },
    input_file_id: fileIdOf(batch.input_file_id),
    completion_window: "24h",
    status: batch.state,
    output_file_id: fileIdOf(batch.output_file_id),
    error_file_id: fileIdOf(batch.error_file_id),
    created_at: secondsOf(batch.created_at),
    in_progress_at: secondsOf(batch.started_at),
    expires_at: secondsOf(batch.expires_at),
    finalizing_at: secondsOf(batch.finalizing_at),
    completed_at: endedIn(batch, "completed"),
    failed_at: endedIn(batch, "failed"),
    expired_at: endedIn(batch, "expired"),
    cancelling_at: secondsOf(batch.cancelling_at),
    cancelled_at: endedIn(batch, "cancelled"),
    request_counts: {
      total: batch.total,
      completed: batch.succeeded,
      failed: batch.errored + batch.cancelled + batch.expired,
    },
    usage: {
      input_tokens: usage.inputTokens,
      input_tokens_details: { cached_tokens: usage.cachedInputTokens },
      output_tokens: usage.outputTokens,
      output_tokens_details: { reasoning_tokens: usage.reasoningTokens },
      total_tokens: usage.inputTokens + usage.outputTokens,
    },
    metadata: batch.metadata,
  };
}
