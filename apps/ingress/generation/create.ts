/** The beginning of a generation: its slots, its record and its response. */

import { allowsModel } from "#access/record.ts";
import type { EventSink } from "#events/event-stream.ts";
import type { IngressEvents } from "#events/ingress-events.ts";
import type { Clock } from "#service/clock.ts";
import type { GenerationRequest } from "../admission/generation-request.ts";
import type { Capacity, Claim } from "../common/capacity.ts";
import { overloadOf } from "../common/failures.ts";
import { type Refusal, refusalOf } from "../common/refused.ts";
import { type AnswerListener, GenerationResponse } from "../response/generation-response.ts";
import { factsOf, type Generation } from "./generation.ts";
import { type IngressQueue, retryAfterSecondsOf } from "./ingress-queues.ts";

interface Claimed {
  kind: "claimed";
  slot: Claim;
  waitingSlot: Claim;
}

/**
 * Claims a slot among all generations, and one among those waiting on the queue. A refused request
 * keeps neither.
 */
export function claimSlots(
  { caller, queue: { waitingMax } }: GenerationRequest,
  queue: IngressQueue,
  { slots, events, clock }: { slots: Capacity; events: EventSink<IngressEvents>; clock: Clock },
): Claimed | Refusal {
  queue.waiting.max = waitingMax;
  const slot = slots.claim(caller.id);
  const waitingSlot = queue.waiting.claim(caller.id);
  for (const [limit, claim] of [
    ["generations", slot],
    ["waiting", waitingSlot],
  ] as const) {
    const shortage = claim.hold(1);
    if (shortage === undefined) continue;
    slot.end();
    const retryAfterSeconds = retryAfterSecondsOf(queue, clock.now());
    return refusalOf(overloadOf(events, limit, shortage, caller.id, retryAfterSeconds));
  }
  return { kind: "claimed", slot, waitingSlot };
}

export interface Beginning {
  request: GenerationRequest;
  body: Buffer;
  /** Its number at the relay's owner. */
  number: number;
  queue: IngressQueue;
  claimed: Claimed;
  /** Called as the caller's socket takes the answer. */
  listener: AnswerListener;
}

/** Takes over the request's claim on the memory for bodies. */
export function createGeneration(
  { request, body, number, queue, claimed: { slot, waitingSlot }, listener }: Beginning,
  { clock, bodyBytes, answerBytes }: { clock: Clock; bodyBytes: Capacity; answerBytes: Capacity },
): Generation {
  const now = clock.now();
  const { caller, model, response, dialect, framing, requestId, headers } = request;
  request.held.hold(body.length);
  const answer = new GenerationResponse(
    {
      response,
      dialect,
      framing,
      model: model.id,
      requestId,
      headers,
      resumed: model.resume === true,
      deliveredClaim: bodyBytes.claim(caller.id),
      bufferClaim: answerBytes.claim(caller.id),
      listener,
    },
    now,
  );
  return {
    ...request,
    facts: factsOf(request, body.length, clock.epoch()),
    number,
    answer,
    ingressQueue: queue,
    state: "admitting",
    attempt: 0,
    held: request.held.move(),
    slot,
    waitingSlot,
    waitTimer: undefined,
    queued: undefined,
    startedAt: now,
    body,
    bodyBytes: body.length,
    bodyRenewedAt: now,
    contentAt: undefined,
    waitedMs: undefined,
    firstTokenMs: undefined,
    queuedMs: undefined,
    dispatchedMs: undefined,
    chunks: 0,
    answerBytes: 0,
    usage: null,
    paidAnswer: undefined,
    bill: undefined,
    source: undefined,
    progress: undefined,
    upstreamRequestId: undefined,
    modelAnswered: model.id,
    fallbacks: model.fallbacks.flatMap((id) =>
      allowsModel(caller, id) ? (request.catalogue.modelFor(caller.group, id) ?? []) : [],
    ),
    reservation: undefined,
    isUsageRecorded: false,
    redisAwaySince: undefined,
    admissions: 0,
  };
}
