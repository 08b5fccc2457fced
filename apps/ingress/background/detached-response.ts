/**
 * Where the answer of a generation goes that goes on without its caller: to the log of a stream,
 * and to the stored response of a background generation.
 */

import { profiles } from "#dialects/profiles.ts";
import type { Clock } from "#service/clock.ts";
import { parsedObject } from "#wire/json/parse.ts";
import type { GenerationRequest } from "../admission/generation-request.ts";
import { endpoints, type ServedEndpoint } from "../common/endpoints.ts";
import { workerLost } from "../common/failures.ts";
import { Refusal } from "../common/refusal.ts";
import {
  type DetachedResponse,
  LoggedResponse,
  type LoggedResponseOptions,
  WholeSink,
} from "../response/logged-response.ts";
import { logIdOf, type SealedStore, type StoreOwner } from "../stored/sealed-store.ts";
import type { StoredResponses } from "../stored/stored-responses.ts";
import { type LogState, LogWriter } from "./answer-log.ts";
import { BackgroundAnswer, firstEventsOf } from "./background-answer.ts";
import type { Run } from "./runs.ts";

interface Deps {
  store: SealedStore;
  responses: StoredResponses;
  clock: Clock;
}

/** The parts and events that a log has already. */
type LogPlace = Pick<LogState, "parts" | "events">;

/** A generation that begins, or begins again. */
export interface DetachedSource {
  run: Run;
  owner: StoreOwner;
  endpoint: ServedEndpoint;
  request: Pick<GenerationRequest["http"], "headers">;
  log: LogPlace;
  /** The stored response of a background generation. */
  queued?: Record<string, unknown> | undefined;
  /** Another ingress began it before. */
  earlier?: GenerationRequest["earlier"];
}

/** Streams have a log. */
export const isLogged = ({ framing }: Run): boolean => framing === "sse";

/** `ended` gets the status at the end; undefined where the end could not be stored. */
export function detachedResponseOf(
  deps: Deps,
  source: DetachedSource,
  ended: (endStatus: string | undefined) => void,
): { response: DetachedResponse; onBound?: () => void } {
  const { run, owner, queued, log } = source;
  if (queued === undefined)
    return {
      response: loggedResponseOf(deps, source, () => ({
        ended: (error) => {
          // A request that failed before its answer may be sent again.
          if (error !== undefined) void deps.store.remove(owner, logIdOf(run.id)).catch(() => undefined);
          ended("completed");
        },
      })),
    };
  const answer = answerOf(deps, run, owner, queued);
  const onBound = () => answer.begun();
  const answered = () => ended(answer.endStatus);
  if (!isLogged(run)) return { response: new WholeSink({ answer, ended: answered }), onBound };
  const response = loggedResponseOf(deps, source, (writer) => ({
    changed: (event, number) => answer.changed(event, number),
    ending: (error) => answer.ending(error, writer.nextEvent),
    ended: answered,
    ...(log.events === 0 && { firstEvents: firstEventsOf(queued) }),
  }));
  return { response, onBound };
}

const writerOf = (
  { store, clock }: Deps,
  { run: { id }, owner, log: { parts, events } }: Pick<DetachedSource, "run" | "owner" | "log">,
  isTakenOver: boolean,
  drained: () => void,
) => new LogWriter({ store, clock, owner, id, parts, events, isTakenOver, drained });

function loggedResponseOf(
  deps: Deps,
  source: DetachedSource,
  hooksOf: (writer: LogWriter) => Omit<LoggedResponseOptions, "log" | "sendsIds">,
): LoggedResponse {
  const { endpoint, request, earlier } = source;
  const writer = writerOf(deps, source, earlier !== undefined, () => response.drained());
  const sendsIds = profiles[endpoint.dialect].rejectsEventIds?.(request.headers) !== true;
  const response: LoggedResponse = new LoggedResponse({ log: writer, sendsIds, ...hooksOf(writer) });
  return response;
}

const answerOf = ({ responses, clock }: Deps, { id }: Run, owner: StoreOwner, queued: Record<string, unknown>) =>
  new BackgroundAnswer({ id, owner, clock, responses, queued });

/** The response of a background generation as it is stored; undefined if it was deleted. */
export async function storedResponseOf(
  { responses }: Deps,
  { id }: Run,
  owner: StoreOwner,
): Promise<Record<string, unknown> | undefined> {
  const stored = await responses.find(owner, id);
  return stored instanceof Refusal ? undefined : (parsedObject(stored.response) ?? {});
}

/** An answer that nobody runs any more. `log` is undefined for a log that is not stored. */
interface LostAnswer extends Pick<DetachedSource, "run" | "owner" | "queued"> {
  log: LogPlace | undefined;
}

/**
 * Ends an answer as it is stored or as failed. Resolves to its status; undefined where the end
 * could not be stored.
 */
export async function endLost(deps: Deps, lost: LostAnswer): Promise<string | undefined> {
  const { run, log } = lost;
  const { events, endStatus } = await lastEventsOf(deps, lost);
  if (endStatus === undefined || log === undefined || !isLogged(run)) return endStatus;
  const writer = writerOf(deps, { ...lost, log }, true, () => undefined);
  for (const event of events) writer.event(event);
  await writer.end(run.isBackground ? "end" : "failed");
  return endStatus;
}

async function lastEventsOf(
  deps: Deps,
  { run, owner, log, queued }: LostAnswer,
): Promise<{ events: readonly Buffer[]; endStatus: string | undefined }> {
  const number = log?.events ?? 0;
  const { errorBodyOf, errorEventOf } = profiles[endpoints.get(run.endpoint)?.dialect ?? "openai-chat"];
  if (!run.isBackground) {
    const answer = { requestId: run.requestId, model: run.model, events: number };
    return { events: [Buffer.from(errorEventOf(workerLost, answer))], endStatus: "failed" };
  }
  if (queued === undefined) return { events: [], endStatus: "deleted" };
  const answer = answerOf(deps, run, owner, queued);
  const events = await answer.ending({ status: 502, body: errorBodyOf(workerLost, run.requestId) }, number);
  return { events, endStatus: answer.endStatus };
}
