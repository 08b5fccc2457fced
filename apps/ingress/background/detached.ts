/**
 * Generations that go on without their callers: responses with `background: true`, and streams that
 * can be resumed. This ingress leases each one that it runs, and takes over those of a lost
 * ingress: one without content is dispatched again, one with content fails.
 */

import type { ServerResponse } from "node:http";
import { setTimeout as delay } from "node:timers/promises";
import type { FastifyRequest } from "fastify";
import { hashOf } from "#access/key.ts";
import { stateOf } from "#access/record.ts";
import type { Failure } from "#dialects/errors.ts";
import { inputListOf } from "#dialects/openai-responses/stored-references.ts";
import type { EventSink } from "#events/event-stream.ts";
import type { IngressEvents } from "#events/ingress-events.ts";
import { LiveMap } from "#service/live-map.ts";
import { jsonBytesOf } from "#wire/json/parse.ts";
import { withMembers } from "#wire/json/spans.ts";
import { type Admission, generationIdOf } from "../admission/admission.ts";
import type { GenerationRequest } from "../admission/generation-request.ts";
import { attemptsPerRun, takeOversMax } from "../common/bounds.ts";
import type { Capacity } from "../common/capacity.ts";
import { callerHeadersOf, endpoints, nameOf, type ServedEndpoint } from "../common/endpoints.ts";
import { otherRequest, unavailable } from "../common/failures.ts";
import { labelsOf } from "../common/labels.ts";
import { outlastRedis, type RedisWait } from "../common/outlast-redis.ts";
import { invalidRequest, Refusal, type Result } from "../common/refusal.ts";
import { Sealing } from "../common/sealing.ts";
import type { GenerationLifecycle } from "../generation/lifecycle.ts";
import type { BodyReader } from "../request/body-reader.ts";
import type { DetachedResponse } from "../response/logged-response.ts";
import { type AnswerResponse, nobody } from "../response/response.ts";
import type { KeyDirectory } from "../server/authentication.ts";
import type { AliasClaim } from "../stored/bounded-store.ts";
import { detailNameOf, logIdOf, type SealedStore, type StoreOwner } from "../stored/sealed-store.ts";
import { isOver, type StoredResponses } from "../stored/stored-responses.ts";
import { type Answered, type ResolvedBody, storageOf } from "../stored/storing.ts";
import { logStateOf } from "./answer-log.ts";
import { queuedResponseOf } from "./background-answer.ts";
import { type DetachedSource, detachedResponseOf, endLost, isLogged, storedResponseOf } from "./detached-response.ts";
import { EarlierGenerations } from "./earlier-generations.ts";
import type { Run, Runs, TakenRun } from "./runs.ts";

/** The queue of generations that nobody waits for. */
const backgroundQueue = "background";

export interface DetachedOptions extends RedisWait {
  runs: Runs;
  store: SealedStore;
  responses: StoredResponses;
  admission: Admission;
  generations: GenerationLifecycle;
  reader: BodyReader;
  keys: KeyDirectory;
  events: EventSink<IngressEvents>;
  /** Bytes of request bodies. */
  bodyBytes: Capacity;
}

interface Running {
  run: Run;
  response: DetachedResponse;
}

/** A request to be begun, or begun again. */
interface Start extends DetachedSource {
  request: GenerationRequest["http"];
  body: ResolvedBody;
  requestId: string;
  live: AnswerResponse | undefined;
  /** How the answer is stored besides its log. */
  answered?: () => Pick<Answered, "storage" | "layers">;
}

/** Stores a generation before it starts, and removes it again. */
interface Beginning {
  /** False where another value has the alias. */
  store(claim: AliasClaim | undefined): Promise<Result<boolean>>;
  remove(): Promise<unknown>;
}

/** The generation with this id answers the request; `isNew` if the request has begun it. */
export interface Begun {
  id: string;
  isNew: boolean;
}

/** A request whose generation goes on without its caller. */
export interface DetachedRequest {
  request: FastifyRequest;
  owner: StoreOwner;
  endpoint: ServedEndpoint;
  resolved: ResolvedBody;
  /** The caller of a stream. */
  live: ServerResponse | undefined;
  /** The Idempotency-Key; a retry with the same must have the same fingerprint. */
  name: string | undefined;
  fingerprint: string;
}

export class DetachedGenerations {
  readonly #options: DetachedOptions;
  readonly #earlier: EarlierGenerations;
  readonly #running = new LiveMap<string, Running>();
  #isTicking = false;
  #isStopping = false;

  constructor(options: DetachedOptions) {
    this.#options = options;
    this.#earlier = new EarlierGenerations(options);
  }

  /**
   * Begins a response of OpenAI's Responses that goes on in the background, unless there is one
   * with its Idempotency-Key. A stream is answered to `live`, and its caller may leave.
   */
  async beginBackground(source: DetachedRequest): Promise<Result<Begun>> {
    const { admission, responses, clock } = this.#options;
    const { request, owner, resolved, live, fingerprint } = source;
    const { body, expansion } = resolved;
    const model = admission.modelFor(request, String(body.model));
    if (model instanceof Refusal) return model;
    const id = request.id.replace(/^req_/, "resp_");
    const { chain = [], conversationId, input = inputListOf(resolved.bytes) } = expansion ?? {};
    const queued = {
      ...queuedResponseOf(id, model.id, body, Math.floor(clock.epoch() / 1_000)),
      ...storageOf({ isStored: true, previousId: chain.at(-1), conversationId }),
    };
    const response = jsonBytesOf(queued);
    const names = [id, detailNameOf(id), logIdOf(id), ...(conversationId === undefined ? [] : [conversationId])];
    const framing = live === undefined ? "whole" : "sse";
    const bytes = withMembers(resolved.bytes, "background", () => undefined);
    const run = this.#runOf(source, names, { id, model: model.id, framing, isBackground: true });
    const toStore = { id, chain, conversationId, input, response };
    const beginning = {
      store: async (claim: AliasClaim | undefined) => {
        const isStored = await responses.begin(owner, toStore, { fingerprint, claim });
        if (isStored === true && isLogged(run))
          await this.#options.store.put(owner, { id: logIdOf(id), value: Buffer.from("log") });
        return isStored;
      },
      remove: () => responses.remove(owner, id),
    };
    return this.#begin({ ...source, resolved: { ...resolved, bytes } }, { run, queued }, beginning);
  }

  /**
   * Begins a stream that its caller can resume, unless there is one with its Idempotency-Key: the
   * caller then reads its log.
   */
  async beginResumable(
    source: DetachedRequest,
    { model, answered }: { model: string; answered(): Answered },
  ): Promise<Result<Begun>> {
    const { request, owner, fingerprint } = source;
    const { store } = this.#options;
    const id = request.id.replace(/^req_/, "gen_");
    const logId = logIdOf(id);
    const run = this.#runOf(source, [logId], { id, model, framing: "sse", isBackground: false });
    return this.#begin(
      source,
      { run, answered },
      {
        store: async (claim) => {
          const stored = await store.put(owner, { id: logId, value: Buffer.from(fingerprint), replaces: 0, claim });
          return stored === "full" ? new Refusal(noSpace) : stored !== "conflict";
        },
        remove: () => store.remove(owner, logId),
      },
    );
  }

  #runOf(
    { request, owner, endpoint, resolved }: DetachedRequest,
    storedNames: readonly string[],
    own: Pick<Run, "id" | "model" | "framing" | "isBackground">,
  ): Run {
    const { caller, apiKey, headers } = request;
    return {
      ...own,
      keyId: caller.id,
      account: caller.account,
      keyHash: hashOf(apiKey),
      keys: owner.sealing.keysFor(storedNames),
      requestId: request.id,
      receivedAt: this.#options.clock.epoch(),
      labels: labelsOf(caller, headers, resolved.body),
      priceVersion: this.#options.admission.priceVersion,
      endpoint: nameOf(endpoint),
      url: endpoint.path ?? "",
      headers: callerHeadersOf(endpoint.dialect, headers),
    };
  }

  /**
   * Begins the generation, unless another one with its Idempotency-Key runs or has its answer. A
   * key whose generation has failed or is lost is free.
   */
  async #begin(
    source: DetachedRequest,
    start: Pick<Start, "run" | "queued" | "answered">,
    beginning: Beginning,
  ): Promise<Result<Begun>> {
    const { owner, name, fingerprint } = source;
    const { id, isBackground } = start.run;
    for (;;) {
      const earlier = name === undefined ? undefined : await this.#earlier.find(owner, name, { isBackground });
      if (earlier !== undefined && "id" in earlier)
        return earlier.fingerprint === fingerprint ? { id: earlier.id, isNew: false } : new Refusal(otherRequest);
      const isBegun = await this.#beginNew(source, start, beginning, earlier);
      if (isBegun instanceof Refusal) return isBegun;
      if (isBegun) return { id, isNew: true };
    }
  }

  /**
   * Leases the generation to this ingress, stores its beginning and starts it. It is leased first,
   * so that nothing is stored that no ingress would end. False where another request claims the
   * alias first.
   */
  async #beginNew(
    { request, owner, endpoint, resolved, live }: DetachedRequest,
    start: Pick<Start, "run" | "queued" | "answered">,
    { store, remove }: Beginning,
    claim: AliasClaim | undefined,
  ): Promise<Result<boolean>> {
    const { runs } = this.#options;
    const { run } = start;
    const lease = async () => {
      await outlastRedis(this.#options, () => runs.begin(run, resolved.bytes));
      const isStored = await store(claim);
      if (isStored !== true) return isStored;
      const log = { parts: 0, events: 0 };
      const own = { owner, request, endpoint, body: resolved, requestId: request.id, log, live };
      return this.#start({ ...start, ...own }) ?? true;
    };
    const isBegun = await lease().catch(() => new Refusal(unavailable));
    if (isBegun !== true) await Promise.all([remove().catch(() => undefined), runs.end(run, "deleted")]);
    return isBegun;
  }

  /**
   * Returns the refusal `other` where the stream with this id was begun by another request, and
   * `gone` where it is not stored.
   */
  async checkFingerprint(
    owner: StoreOwner,
    id: string,
    fingerprint: string,
    { gone, other }: { gone: Failure; other: Failure },
  ): Promise<Refusal | undefined> {
    const [fingerprintValue] = await this.#options.store.read(owner, [logIdOf(id)]);
    if (fingerprintValue === undefined) return new Refusal(gone);
    return fingerprintValue.value.toString() === fingerprint ? undefined : new Refusal(other);
  }

  /**
   * Stops a background response, wherever it runs. Resolves to the response as it is stored then.
   */
  async cancel(owner: StoreOwner, id: string): Promise<Result<Record<string, unknown>>> {
    const { responses } = this.#options;
    const stored = await responses.update(owner, id, (response) =>
      response.background === true ? { ...response, status: "cancelled", output: [], usage: null } : undefined,
    );
    if (stored instanceof Refusal) return stored;
    if (stored.background !== true) return new Refusal(notCancelled);
    await this.#abort(owner, id);
    return stored;
  }

  /** Deletes a stored response, and stops it if it runs. */
  async remove(owner: StoreOwner, id: string): Promise<Refusal | undefined> {
    const refusal = await this.#options.responses.remove(owner, id);
    if (refusal === undefined) await this.#abort(owner, id);
    return refusal;
  }

  async #abort({ keyId }: StoreOwner, id: string): Promise<void> {
    const running = this.#running.get(id);
    if (running?.run.keyId === keyId) this.#leave(running, "cancelled");
    else await outlastRedis(this.#options, () => this.#options.runs.cancel({ keyId, id }));
  }

  get size(): number {
    return this.#running.size;
  }

  /**
   * Renews the leases and takes over generations of lost ingresses. Call it about once a second.
   * Never rejects.
   */
  async tick(): Promise<void> {
    if (this.#isTicking || this.#isStopping) return;
    this.#isTicking = true;
    try {
      const running = [...this.#running.values()];
      const states = running.length === 0 ? [] : await this.#options.runs.renew(running.map(({ run }) => run));
      for (const [index, state] of states.entries())
        if (state !== "kept") this.#leave(running[index] as Running, state);
      for (const taken of await this.#options.runs.take()) await this.#takeOver(taken);
    } catch {
      // Redis does not answer: the leases outlive a short while.
    } finally {
      this.#isTicking = false;
    }
  }

  /** Waits for the generations to end, so long at most. */
  async drain(ms: number): Promise<void> {
    const until = this.#options.clock.now() + ms;
    while (this.#running.size > 0 && this.#options.clock.now() < until) await delay(100);
  }

  /** Leaves what still runs to the other ingresses. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    const running = [...this.#running.values()];
    for (const one of running) this.#leave(one, "lost");
    if (running.length > 0) await this.#options.runs.release(running.map(({ run }) => run));
  }

  #leave({ run, response }: Running, why: "cancelled" | "lost"): void {
    this.#running.delete(run.id);
    response.leave(why);
    if (why === "cancelled") void this.#options.runs.end(run, "cancelled");
  }

  #start(start: Start): Refusal | undefined {
    const { run, request, endpoint, body, requestId } = start;
    const { response, onBound } = detachedResponseOf(this.#options, start, (endStatus) => this.#ended(run, endStatus));
    this.#running.set(run.id, { run, response });
    // The request itself would keep its body and its socket until the generation ends.
    const { caller, url, headers, bodyClaim } = request;
    const { layers, storage } = start.answered?.() ?? {};
    const refusal = this.#options.generations.begin(
      {
        layers: { sink: start.live ?? nobody, detached: response, ...layers },
        storage,
        http: { caller, url, headers, bodyClaim },
        requestId,
        endpoint,
        model: run.model,
        framing: run.framing,
        demand: body.demand,
        bytes: body.bytes,
        labels: run.labels ?? labelsOf(caller, headers, body.body),
        onBound,
        earlier: start.earlier,
        receivedAt: run.receivedAt,
        priceVersion: run.priceVersion,
        ...(run.isBackground && { queue: backgroundQueue }),
      },
      body,
    );
    if (refusal !== undefined) {
      this.#running.delete(run.id);
      response.leave("lost");
    }
    return refusal;
  }

  /** A response whose end is not stored keeps its lease: it is taken over when that expires. */
  #ended(run: Run, endStatus: string | undefined): void {
    if (this.#running.get(run.id)?.run !== run) return;
    this.#running.delete(run.id);
    if (endStatus !== undefined) void this.#options.runs.end(run, endStatus);
  }

  async #takeOver({ run, times, isCancelled }: TakenRun): Promise<void> {
    const { keys, clock, runs } = this.#options;
    const owner: StoreOwner = { keyId: run.keyId, sealing: Sealing.limited(run.keys) };
    const endpoint = endpoints.get(run.endpoint);
    const caller = keys.find(run.keyHash) ?? (await keys.look(run.keyHash));
    const isValid = caller !== undefined && stateOf(caller, clock.epoch()) === "live" && endpoint !== undefined;
    const log = isLogged(run)
      ? await logStateOf(this.#options.store, owner, run.id)
      : { parts: 0, events: 0, hasEnded: false };
    // A background stream begins with two events of the gateway's own.
    const hasContent = log === undefined || log.events > (run.isBackground ? 2 : 0);
    // Redis may have lost that a response is over, and what its end released.
    const queued = run.isBackground ? await storedResponseOf(this.#options, run, owner) : undefined;
    const isDone = run.isBackground && (queued === undefined || isOver(queued));
    const isLost = isCancelled || isDone || !isValid || hasContent || times > takeOversMax;
    const body = isLost ? undefined : await runs.bodyOf(run);
    if (caller === undefined || endpoint === undefined || body === undefined || log === undefined) {
      const endStatus = await endLost(this.#options, { run, owner, log, queued });
      if (endStatus !== undefined) await runs.end(run, endStatus);
      return;
    }
    const bodyClaim = this.#options.bodyBytes.claim(caller.id);
    // Without memory for its body, its lease expires and it is taken over later.
    if (bodyClaim.hold(body.length) !== undefined) return;
    const start = {
      run,
      owner,
      request: { caller, url: run.url, headers: run.headers, bodyClaim },
      endpoint,
      requestId: `${run.requestId}t${times}`,
      log,
      live: undefined,
      earlier: { generationId: generationIdOf(run.requestId), attempts: times * attemptsPerRun },
      queued,
    };
    try {
      const read = await this.#options.reader.read(endpoint, body, { key: caller.id });
      const refusal =
        read instanceof Refusal
          ? read
          : this.#start({ ...start, body: { ...read, bytes: body, expansion: undefined } });
      if (refusal !== undefined) bodyClaim.end();
    } catch (error) {
      bodyClaim.end();
      this.#options.events.emit("fault", { error, requestId: run.requestId });
    }
  }
}

const noSpace: Failure = {
  code: "overloaded",
  message: "The gateway has no space to store this stream; try again later, or without asking to resume it.",
};
const notCancelled = invalidRequest("Only responses that were created with background=true can be cancelled.");
