/** Gemini's batches, which are long-running operations: https://ai.google.dev/api/batch-api */
import { Readable } from "node:stream";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Failure } from "#dialects/errors.ts";
import { camelNameOf, camelOf } from "#dialects/gemini/names.ts";
import { type BodyPart, elementsOf } from "#wire/elements.ts";
import { objectOf, parsedObject, textOf } from "#wire/json/parse.ts";
import type { InputLine } from "#wire/lines.ts";
import {
  batchBodyBytesMax,
  batchesShownDefault,
  batchesShownMax,
  batchLineBytesMax,
  batchWindowMs,
} from "../bounds.ts";
import { newIdOf } from "../files/file-store.ts";
import { bodyOf } from "../internal/body.ts";
import { plainTextOf } from "../internal/form.ts";
import { sendFailure } from "../internal/internal-server.ts";
import { takeLines } from "./batch-intake.ts";
import { deleteBatch, deleteRefusedBatch, resultsOf } from "./batch-results.ts";
import { type Batch, cancelBatch } from "./batch-rows.ts";
import { type BatchView, createBatch, findBatch, listBatches } from "./batch-views.ts";
import type { BatchService } from "./context.ts";
import type { BatchState } from "./state.ts";

type WithCall = { Params: { "*": string } };

/** Each method that creates a batch: the method of its requests, and the names in its operation. */
const methods = {
  batchGenerateContent: {
    method: "generateContent",
    type: "GenerateContentBatch",
    output: "inlinedResponses",
  },
  asyncBatchEmbedContent: {
    method: "embedContent",
    type: "EmbedContentBatch",
    output: "inlinedEmbedContentResponses",
  },
} as const;

const inlinePath = ["batch", "inputConfig", "requests", "requests"];
const displayNameMax = 200;

export function addGeminiBatchRoutes(server: FastifyInstance, service: BatchService): void {
  const { database, clock } = service;
  const find = ({ claims: { account } }: FastifyRequest, id: string) =>
    findBatch(database, { account, dialect: "gemini", id });
  const sendOperation = async (request: FastifyRequest, reply: FastifyReply, id: string) => {
    const batch = await find(request, id);
    if (batch === undefined) return sendFailure(reply, noBatch(id));
    return reply.type("application/json").send(Readable.from(operationJson(service, batch), { objectMode: false }));
  };
  server.post<WithCall>("/gemini/batches/*", async (request, reply) => {
    const [, subject = "", call = ""] = /^(.+):(\w+)$/.exec(request.params["*"]) ?? [];
    if (call === "cancel") {
      const batch = await find(request, subject);
      if (batch === undefined) return sendFailure(reply, noBatch(subject));
      await cancelBatch(database, batch.id, new Date(clock.epoch()));
      service.wake();
      return {};
    }
    if (!Object.hasOwn(methods, call)) return sendFailure(reply, noMethod);
    const id = newIdOf();
    const failure = await create(service, request, { id, model: subject, call: call as keyof typeof methods });
    if (failure !== undefined) return sendFailure(reply, failure);
    service.wake();
    return sendOperation(request, reply, id);
  });
  server.get<WithCall>("/gemini/batches/*", (request, reply) => sendOperation(request, reply, request.params["*"]));
  server.delete<WithCall>("/gemini/batches/*", async (request, reply) => {
    const id = request.params["*"];
    const batch = await find(request, id);
    if (batch === undefined) return sendFailure(reply, noBatch(id));
    if (batch.ended_at === null) return sendFailure(reply, invalid("The batch has not ended; cancel it first."));
    await deleteBatch(service, batch);
    return {};
  });
  server.get("/gemini/batches", async (request, reply) => {
    const { account } = request.claims;
    const { pageSize = String(batchesShownDefault), pageToken } = objectOf(camelOf(request.query));
    if (!/^\d{1,4}$/.test(String(pageSize))) return sendFailure(reply, invalid("'pageSize' must be a number."));
    const after = pageToken === undefined ? undefined : await find(request, String(pageToken));
    if (pageToken !== undefined && after === undefined) return sendFailure(reply, invalid("'pageToken' is not valid."));
    const limit = Math.min(batchesShownMax, Math.max(1, Number(pageSize)));
    const { batches, hasMore } = await listBatches(database, { account, dialect: "gemini", limit, after });
    return {
      operations: batches.map((batch) => ({
        name: nameOf(batch),
        metadata: metadataOf(batch),
        ...(batch.ended_at !== null && { done: true }),
      })),
      ...(hasMore && { nextPageToken: batches.at(-1)?.id }),
    };
  });
}

interface NewGeminiBatch {
  id: string;
  model: string;
  call: keyof typeof methods;
}

/** Takes the requests as they arrive, or the name of a file with them. */
async function create(
  service: BatchService,
  request: FastifyRequest,
  { id, model, call }: NewGeminiBatch,
): Promise<Failure | undefined> {
  const { account, key } = request.claims;
  const allowsModel = await service.modelsOf(key);
  if (!allowsModel(model)) {
    const message = `The model ${JSON.stringify(model.slice(0, 200))} does not exist, or this key may not use it.`;
    return { code: "model_not_found", message };
  }
  const bounds = { elementBytesMax: batchLineBytesMax, restBytesMax: batchBodyBytesMax };
  const parts = elementsOf(bodyOf(request), inlinePath, bounds, camelNameOf);
  const first = await parts.next();
  const rest = first.done === true || first.value.kind === "element" ? undefined : batchIn(first.value.bytes);
  const fileName = textOf(objectOf(rest?.inputConfig).fileName);
  if (first.done === true || (first.value.kind === "rest" && fileName === undefined)) return noInput;
  const file = fileName === undefined ? undefined : await service.findFile(account, fileName.replace(/^files\//, ""));
  if (fileName !== undefined && file === undefined)
    return { code: "not_found", message: `There is no file ${fileName.slice(0, 100)}.` };
  const batch = {
    id,
    account,
    key_id: key,
    dialect: "gemini",
    endpoint: `/v1beta/models/${encodeURI(model)}:${methods[call].method}`,
    model,
    name: displayNameOf(rest),
    state: file === undefined ? "receiving" : "validating",
    input_file_id: file?.id ?? null,
    output_expires_seconds: null,
    metadata: null,
    expires_at: new Date(service.clock.epoch() + 2 * batchWindowMs),
  } as const;
  const refusal = await createBatch(service, batch);
  if (refusal !== undefined) return refusal;
  return file === undefined ? takeInline(service, batch, first.value, parts) : undefined;
}

async function takeInline(
  service: BatchService,
  batch: Pick<Batch, "id" | "account" | "key_id" | "dialect" | "endpoint" | "model">,
  first: BodyPart,
  parts: AsyncIterable<BodyPart>,
): Promise<Failure | undefined> {
  let isAccepted = false;
  let name: string | null = null;
  async function* requests(): AsyncGenerator<InputLine> {
    if (first.kind === "element") yield first;
    let isWhole = false;
    for await (const part of parts)
      if (part.kind === "element") yield part;
      else {
        const rest = batchIn(part.bytes);
        isWhole = rest !== undefined;
        name = displayNameOf(rest);
      }
    if (!isWhole) throw new BodyFault();
  }
  try {
    const [fault] = await takeLines(service, { ...batch, runs: 0 }, requests());
    isAccepted = fault === undefined;
    if (fault?.code === "token_limit_exceeded") return { code: "rate_limited", message: fault.message };
    if (fault !== undefined) return invalid(`Request ${fault.line ?? ""}: ${fault.message}`);
    await service.database.updateTable("batches").set({ name }).where("id", "=", batch.id).execute();
    return undefined;
  } catch (error) {
    if (error instanceof BodyFault) return noInput;
    throw error;
  } finally {
    if (!isAccepted) await deleteRefusedBatch(service, batch.id);
  }
}

class BodyFault extends Error {}

const batchIn = (bytes: Buffer) => {
  const { batch } = parsedObject(bytes) ?? {};
  return batch === undefined ? undefined : objectOf(camelOf(batch));
};

const displayNameOf = (batch: { displayName?: unknown } | undefined): string | null =>
  batch === undefined ? null : plainTextOf(textOf(batch.displayName) ?? "", displayNameMax) || null;

const invalid = (message: string): Failure => ({ code: "invalid_request", message });
const noInput = invalid("'batch.inputConfig' must have a list 'requests.requests', or 'fileName'.");
const noMethod: Failure = { code: "path_not_found", message: "There is no such method of batches." };
const noBatch = (id: string): Failure => ({ code: "not_found", message: `There is no batch ${id.slice(0, 100)}.` });

const states: Record<BatchState, string> = {
  receiving: "BATCH_STATE_PENDING",
  validating: "BATCH_STATE_PENDING",
  failed: "BATCH_STATE_FAILED",
  in_progress: "BATCH_STATE_RUNNING",
  cancelling: "BATCH_STATE_RUNNING",
  finalizing: "BATCH_STATE_RUNNING",
  completed: "BATCH_STATE_SUCCEEDED",
  expired: "BATCH_STATE_EXPIRED",
  cancelled: "BATCH_STATE_CANCELLED",
};

const nameOf = ({ id }: Pick<Batch, "id">): string => `batches/${id}`;
const typeOf = (name: string): string => `type.googleapis.com/google.ai.generativelanguage.v1main.${name}`;

const namesOf = ({ endpoint }: Pick<Batch, "endpoint">) =>
  endpoint.endsWith(":embedContent") ? methods.asyncBatchEmbedContent : methods.batchGenerateContent;

function metadataOf(batch: BatchView) {
  const failed = batch.errored + batch.cancelled + batch.expired;
  const updated = batch.ended_at ?? batch.finalizing_at ?? batch.cancelling_at ?? batch.started_at ?? batch.created_at;
  return {
    "@type": typeOf(namesOf(batch).type),
    model: `models/${batch.model}`,
    displayName: batch.name ?? "",
    createTime: batch.created_at.toISOString(),
    updateTime: updated.toISOString(),
    ...(batch.ended_at !== null && { endTime: batch.ended_at.toISOString() }),
    batchStats: {
      requestCount: String(batch.total),
      pendingRequestCount: String(batch.total - batch.succeeded - failed),
      successfulRequestCount: String(batch.succeeded),
      failedRequestCount: String(failed),
    },
    state: states[batch.state],
    name: nameOf(batch),
  };
}

/** The operation as JSON. Inline results are read as they are sent, in both their places. */
async function* operationJson(service: BatchService, batch: BatchView): AsyncGenerator<string | Buffer> {
  const head = JSON.stringify({ name: nameOf(batch), metadata: metadataOf(batch) }).slice(0, -2);
  const [fault] = batch.faults;
  if (batch.ended_at === null) yield `${head}}}`;
  else if (fault !== undefined)
    yield `${head}},"done":true,"error":${JSON.stringify({ code: 3, message: `${fault.code}: ${fault.message}` })}}`;
  else {
    yield `${head},"output":{`;
    yield* outputJson(service, batch);
    yield `}},"done":true,"response":{"@type":${JSON.stringify(typeOf(`${namesOf(batch).type}Output`))},`;
    yield* outputJson(service, batch);
    yield "}}";
  }
}

async function* outputJson(service: BatchService, batch: BatchView): AsyncGenerator<string | Buffer> {
  if (batch.input_file_id !== null) {
    yield `"responsesFile":${JSON.stringify(`files/${batch.output_file_id ?? ""}`)}`;
    return;
  }
  yield `"${namesOf(batch).output}":{"inlinedResponses":[`;
  let isFirst = true;
  for await (const lines of resultsOf(service, batch)) {
    yield `${isFirst ? "" : ","}${lines.toString().trimEnd().replaceAll("\n", ",")}`;
    isFirst = false;
  }
  yield "]}";
}
