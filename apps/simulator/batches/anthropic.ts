/** Anthropic's message batches: https://docs.claude.com/en/api/creating-message-batches */
import { randomUUID } from "node:crypto";
import { isObject } from "../answer/schema.ts";
import { anthropicErrorBody } from "../dialects/anthropic-messages/error.ts";
import { refuse } from "../dialects/dialect.ts";
import {
  type BatchRequest,
  batchFaultOf,
  Kept,
  limitIn,
  pageOf,
  type RunOptions,
  runRequests,
  type SendToSelf,
  type VendorBatches,
} from "./batch-run.ts";

const pathForm = /^\/v1\/messages\/batches(?:\/([^/]+)(?:\/(cancel|results))?)?$/;
/** https://docs.claude.com/en/docs/build-with-claude/batch-processing */
const requestsMax = 100_000;
const customIdForm = /^[a-zA-Z0-9_-]{1,64}$/;
/** https://docs.claude.com/en/api/listing-message-batches */
const listedMax = 1_000;

interface Request {
  custom_id: string;
  params: Record<string, unknown>;
}

interface Batch {
  id: string;
  type: "message_batch";
  processing_status: "in_progress" | "canceling" | "ended";
  request_counts: { processing: number; succeeded: number; errored: number; canceled: number; expired: number };
  created_at: string;
  results_url: string | null;
}

interface Stored {
  batch: Batch;
  results: string[];
}

export class AnthropicBatches implements VendorBatches {
  readonly #send: SendToSelf;
  readonly #batches = new Kept<Stored>((id) => `No batch ${id}.`);

  constructor(send: SendToSelf) {
    this.#send = send;
  }

  readonly errorBody = anthropicErrorBody;

  serves(_method: string, path: string): boolean {
    return pathForm.test(path);
  }

  answer({ method, path, query, body, headers }: BatchRequest): object | string {
    const [, id, part = ""] = pathForm.exec(path) ?? [];
    // https://docs.claude.com/en/api/versioning
    if (headers["anthropic-version"] === undefined) refuse("anthropic-version: header is required");
    switch (`${method}${id === undefined ? "" : " id"} ${part}`.trim()) {
      case "POST":
        return this.#create(body, headers);
      case "GET":
        return this.#list(query);
      case "GET id":
        return this.#batches.find(id).batch;
      case "GET id results": {
        const { batch, results } = this.#batches.find(id);
        if (batch.processing_status !== "ended") refuse("The batch has not ended.");
        return results.map((line) => `${line}\n`).join("");
      }
      case "POST id cancel": {
        const { batch } = this.#batches.find(id);
        if (batch.processing_status === "ended") refuse("The batch has ended.");
        batch.processing_status = "canceling";
        return batch;
      }
      case "DELETE id": {
        const { batch } = this.#batches.find(id);
        if (batch.processing_status !== "ended") refuse("The batch has not ended; cancel it first.");
        this.#batches.delete(batch.id);
        return { id: batch.id, type: "message_batch_deleted" };
      }
      default:
        return refuse(`There is no ${method} ${path}.`, undefined, { status: 404 });
    }
  }

  #list(query: URLSearchParams): object {
    const limit = limitIn(query, listedMax) ?? refuse("limit: must be from 1 to 1000");
    const all = this.#batches.list().map(({ batch }) => batch);
    return pageOf(all, limit, query.get("after_id"));
  }

  #create(body: unknown, headers: Record<string, string>): Batch {
    const { requests } = isObject(body) ? body : {};
    if (!Array.isArray(requests) || requests.length === 0) return refuse("requests: must be a list");
    if (requests.length > requestsMax) refuse(`requests: at most ${requestsMax}`);
    const ids = new Set<unknown>();
    for (const [index, request] of requests.entries()) {
      const { custom_id: id, params } = isObject(request) ? request : {};
      if (typeof id !== "string" || !customIdForm.test(id)) refuse(`requests.${index}.custom_id: invalid`);
      if (ids.has(id)) refuse(`requests.${index}.custom_id: must be unique`);
      if (!isObject(params)) return refuse(`requests.${index}.params: required`);
      if (params.stream === true) refuse(`requests.${index}.params.stream: not supported in batches`);
      if (!(Number(params.max_tokens) >= 1)) refuse(`requests.${index}.params.max_tokens: at least 1`);
      ids.add(id);
    }
    const all = requests as Request[];
    const fault = batchFaultOf(all[0]?.params.model);
    if (fault === "refuse" || fault === "fail")
      refuse("The organization may not create batches.", undefined, { status: 403 });
    const counts = { processing: all.length, succeeded: 0, errored: 0, canceled: 0, expired: 0 };
    const batch: Batch = {
      ...{
        id: `msgbatch_${randomUUID().replaceAll("-", "")}`,
        type: "message_batch",
        processing_status: "in_progress",
      },
      ...{ request_counts: counts, created_at: new Date().toISOString(), results_url: null },
    };
    const stored = { batch, results: [] };
    this.#batches.add(batch.id, stored);
    setImmediate(() => void this.#run(stored, all, { fault, headers }));
    return { ...batch };
  }

  async #run({ batch, results }: Stored, requests: readonly Request[], { fault, headers }: RunOptions): Promise<void> {
    const counts = { processing: 0, succeeded: 0, errored: 0, canceled: 0, expired: 0 };
    const add = (custom_id: string, result: object) => results.push(JSON.stringify({ custom_id, result }));
    const isRunning = () => batch.processing_status === "in_progress";
    const left = await runRequests(requests, { fault, isRunning }, async ({ custom_id, params }) => {
      const { status, text } = await this.#send("/v1/messages", JSON.stringify(params), headers);
      const body: unknown = JSON.parse(text);
      counts[status < 300 ? "succeeded" : "errored"]++;
      add(custom_id, status < 300 ? { type: "succeeded", message: body } : { type: "errored", error: body });
    });
    const type = fault === "expire" ? "expired" : "canceled";
    for (const { custom_id } of left) add(custom_id, { type });
    counts[type] += left.length;
    // The counts change at the end only.
    Object.assign(batch, { processing_status: "ended", request_counts: counts });
    batch.results_url = `https://api.anthropic.com/v1/messages/batches/${batch.id}/results`;
  }
}
