/**
 * Batches of vendors: puts requests of lines into Redis until control has them submitted, and reads
 * their answers from the vendor into Redis.
 */
import type { Readable } from "node:stream";
import type { Catalogue, CatalogueUpstream } from "#catalogue/catalogue.ts";
import { credentialNamesOf } from "#catalogue/environment.ts";
import type { GenerationJob } from "#relay/job.ts";
import type { Keyspace } from "#service/keyspace.ts";
import type { Redis } from "#service/redis.ts";
import {
  type VendorBatchAnswer,
  type VendorBatchCall,
  type VendorTarget,
  vendorTargetField,
} from "#service/vendor-batch.ts";
import { boundedBytes } from "#wire/bounded-bytes.ts";
import {
  vendorAnswersBytesMax,
  vendorCallBytesMax,
  vendorCallMs,
  vendorRequestsBytesMax,
  vendorRequestsLifeMs,
} from "../bounds.ts";
import { anthropicBatches } from "./anthropic-batches.ts";
import { geminiBatches } from "./gemini-batches.ts";
import { openAiBatches } from "./openai-batches.ts";
import type { UpstreamRequest, Upstreams } from "./upstreams.ts";
import {
  reasonOf,
  type VendorBatchApi,
  type VendorCalls,
  VendorRefusal,
  type VendorRequest,
  VendorUnclear,
} from "./vendor-calls.ts";

/** The field of the hash of requests with the bytes of all of them. */
const bytesField = "bytes";

export type VendorLine = NonNullable<GenerationJob["vendorBatch"]>;

const apis: Partial<Record<CatalogueUpstream["dialect"], VendorBatchApi>> = {
  "anthropic-messages": anthropicBatches,
  gemini: geminiBatches,
  "openai-chat": openAiBatches,
  "openai-responses": openAiBatches,
};

const apiOf = ({ authentication, dialect }: CatalogueUpstream): VendorBatchApi | undefined =>
  authentication !== "aws" && authentication !== "google" ? apis[dialect] : undefined;

/** Where a request is sent in a batch of the vendor; undefined if that is not possible. */
export function vendorTargetOf(
  upstream: CatalogueUpstream,
  model: string,
  request: UpstreamRequest,
): VendorTarget | undefined {
  if (!upstream.batchApi || !Buffer.isBuffer(request.body) || apiOf(upstream)?.takes(request) !== true)
    return undefined;
  return {
    upstream: upstream.name,
    credential: credentialNamesOf(upstream)[0] ?? null,
    path: request.path,
    model,
    headers: { ...request.headers },
  };
}

export interface VendorBatchesOptions {
  redis: Redis;
  keyspace: Keyspace;
  upstreams: Upstreams;
  catalogue(): Catalogue;
}

export class VendorBatches {
  readonly #options: VendorBatchesOptions;

  constructor(options: VendorBatchesOptions) {
    this.#options = options;
  }

  /**
   * Puts a request into a batch. False if the batch has another target, that of its first request,
   * or no room for it.
   */
  async defer({ name, place }: VendorLine, target: VendorTarget, body: Buffer): Promise<boolean> {
    const { redis, keyspace } = this.#options;
    const key = keyspace.vendorRequests(name);
    const text = JSON.stringify(target);
    // The bytes are counted first, so that all workers together put no more into Redis.
    const replies = await redis
      .multi()
      .hsetnx(key, vendorTargetField, text)
      .hget(key, vendorTargetField)
      .hincrby(key, bytesField, body.length)
      .pexpire(key, vendorRequestsLifeMs)
      .exec();
    const [, first, bytes] = (replies ?? []).map(([, result]) => result);
    if (first !== text || Number(bytes) > vendorRequestsBytesMax) {
      await redis.hincrby(key, bytesField, -body.length);
      return false;
    }
    await redis.hset(key, String(place), body);
    return true;
  }

  /** Undefined for an answer that is lost. */
  async answerTo({ name, place }: VendorLine): Promise<Buffer | undefined> {
    const { redis, keyspace } = this.#options;
    return (await redis.hgetBuffer(keyspace.vendorAnswers(name), String(place))) ?? undefined;
  }

  /** Never rejects. */
  async run(call: VendorBatchCall): Promise<VendorBatchAnswer> {
    const upstream = this.#options.catalogue().upstreams.get(call.target.upstream);
    const api = upstream && apiOf(upstream);
    // A batch that the vendor has is read also when the catalogue does not allow further ones.
    if (upstream === undefined || api === undefined || (call.action === "submit" && !upstream.batchApi))
      return { kind: "refused", reason: "the catalogue has no such upstream with `batchApi` any more" };
    try {
      return await this.#run(call, api, this.#callsOf(upstream, call.target));
    } catch (error) {
      if (error instanceof VendorUnclear) return { kind: "unclear" };
      const reason = error instanceof VendorRefusal ? error.message : reasonOf("failed", { code: codeOf(error) });
      const status = error instanceof VendorRefusal ? error.status : 0;
      // A credential that is refused for a time does not end a batch that runs.
      const isRefused = status === 404 || (call.action === "submit" && status >= 400 && status < 500 && status !== 429);
      return { kind: isRefused ? "refused" : "unknown", reason };
    }
  }

  async #run(call: VendorBatchCall, api: VendorBatchApi, calls: VendorCalls): Promise<VendorBatchAnswer> {
    const { redis, keyspace } = this.#options;
    const { name, target } = call;
    switch (call.action) {
      case "submit": {
        const stored = await redis.hgetallBuffer(keyspace.vendorRequests(name));
        const requests = new Map(
          Object.entries(stored).flatMap(([field, body]) =>
            field === vendorTargetField || field === bytesField ? [] : [[Number(field), body] as const],
          ),
        );
        if (requests.size === 0) return { kind: "refused", reason: "Redis has lost the requests" };
        return { kind: "submitted", id: await api.submit(calls, { name, target, requests }) };
      }
      case "find": {
        const id = await api.find(calls, name, call.submittedAt);
        return id === undefined ? { kind: "absent" } : { kind: "submitted", id };
      }
      case "read":
        return this.#read(call, api, calls);
      case "delete":
        await api.delete(calls, call.id);
        await redis.unlink(keyspace.vendorRequests(name), keyspace.vendorAnswers(name));
        return { kind: "deleted" };
      default:
        return call satisfies never;
    }
  }

  /** Puts as many answers into Redis as it may have of a batch at once. */
  async #read(
    { name, id, places, cancels }: Extract<VendorBatchCall, { action: "read" }>,
    api: VendorBatchApi,
    calls: VendorCalls,
  ): Promise<VendorBatchAnswer> {
    const { redis, keyspace } = this.#options;
    const { isRunning, reason } = await api.stateOf(calls, id, cancels);
    if (isRunning) return { kind: "running" };
    const key = keyspace.vendorAnswers(name);
    const wanted = new Set(places);
    const stored: number[] = [];
    let bytes = 0;
    let isWhole = true;
    await redis.unlink(key);
    const reading = api.readAnswers(calls, id, async ({ place, body }) => {
      if (!wanted.delete(place)) return true;
      isWhole = bytes === 0 || bytes + body.length <= vendorAnswersBytesMax;
      if (!isWhole) return false;
      bytes += body.length;
      await redis.hset(key, String(place), body);
      stored.push(place);
      return true;
    });
    const failure: unknown = await reading.then(
      () => undefined,
      (error) => error ?? new Error(),
    );
    // Answers before the break are taken, so that the next reading begins with others.
    if (failure !== undefined && stored.length === 0)
      return { kind: "unknown", reason: reasonOf("failed", { code: codeOf(failure) }), isOver: true };
    isWhole &&= failure === undefined;
    if (stored.length > 0) await redis.pexpire(key, vendorRequestsLifeMs);
    return { kind: "ended", places: stored, isWhole, ...(reason !== undefined && { reason }) };
  }

  #callsOf(upstream: CatalogueUpstream, { credential, headers: own }: VendorTarget): VendorCalls {
    const { upstreams } = this.#options;
    const names = credentialNamesOf(upstream);
    // One that the upstream does not have any more may have been replaced for the same account.
    const present = credential !== null && names.includes(credential) ? credential : names[0];
    const send = <Result>(
      { headers, ...request }: VendorRequest,
      read: (response: { status: number; body: Readable }) => Promise<Result>,
    ) =>
      upstreams.during(
        upstream,
        present,
        { ...request, headers: { ...own, ...headers }, timeoutMs: vendorCallMs },
        read,
      );
    return {
      call: (request) =>
        send(request, async ({ status, body }) => {
          const text = await textOf(body);
          if (status < 200 || status > 299) throw new VendorRefusal(status, text);
          return JSON.parse(text || "{}") as Record<string, unknown>;
        }),
      read: (request, read) =>
        send(request, async ({ status, body }) => {
          if (status < 200 || status > 299) throw new VendorRefusal(status, await textOf(body));
          return read(body);
        }),
    };
  }
}

/** The code of an error of the system, or its kind. */
const codeOf = (error: unknown): unknown => {
  const { code, name } = error as { code?: unknown; name?: unknown };
  return code ?? name;
};

/** Rejects if there are too many bytes. */
async function textOf(body: Readable): Promise<string> {
  const bytes = await boundedBytes(body, vendorCallBytesMax);
  if (bytes === undefined) throw new Error("the vendor's answer is too large");
  return bytes.toString();
}
