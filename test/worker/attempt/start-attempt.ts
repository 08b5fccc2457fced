/** An attempt on a clock that the test moves, whose upstreams the test plays. */

import { EventEmitter, once } from "node:events";
import { parseCatalogue } from "#catalogue/load.ts";
import { EventStream } from "#events/event-stream.ts";
import type { WorkerEvents } from "#events/worker-events.ts";
import { decodeData, type GenerationJob } from "#relay/job.ts";
import { AnswerMemory } from "../../../apps/worker/answer/answer-memory.ts";
import { Attempt, type AttemptDeps } from "../../../apps/worker/attempt/attempt.ts";
import { ContentTimes } from "../../../apps/worker/routing/content-times.ts";
import { LearnedRepairs } from "../../../apps/worker/routing/learned-repairs.ts";
import type { Candidate } from "../../../apps/worker/routing/route.ts";
import type { CallOutcome } from "../../../apps/worker/routing/routing.ts";
import type { UpstreamHandlers } from "../../../apps/worker/upstream/pooled-call.ts";
import type { UpstreamRequest } from "../../../apps/worker/upstream/upstreams.ts";
import { partOf } from "../../support/part-of.ts";

const catalogueOf = (model: string) =>
  parseCatalogue(
    Buffer.from(`groups: { default: { models: ["*"] } }
upstreams:
  first: { dialect: openai-chat, baseUrl: "http://127.0.0.1:9/v1" }
  second: { dialect: openai-chat, baseUrl: "http://127.0.0.1:10/v1" }
  filling: { dialect: openai-chat, prefill: true, baseUrl: "http://127.0.0.1:13/v1" }
  both: { dialect: openai-chat, alsoSpeaks: [openai-responses], baseUrl: "http://127.0.0.1:12/v1" }
  responses: { dialect: openai-responses, baseUrl: "http://127.0.0.1:14/v1" }
  messages: { dialect: anthropic-messages, baseUrl: "http://127.0.0.1:15/v1" }
  vertex: { dialect: gemini, authentication: google, credential: ACCOUNT, baseUrl: "http://127.0.0.1:16/v1" }
  google: { dialect: gemini, baseUrl: "http://127.0.0.1:11/v1beta" }
models: [{ id: m, prices: { inputPerMillion: 1, outputPerMillion: 2 }, ${model} }]
`),
    "catalogue.yaml",
    {},
  );

export const oneTarget = "retries: 0, route: [{ upstream: first, model: theirs }]";
export const twoTargets =
  "retries: 1, route: [{ upstream: first, model: theirs }, { upstream: second, model: theirs }]";
export const resumable = `resume: true, deterministic: true, ${twoTargets}`;

const jobOf = (more: Partial<GenerationJob>): GenerationJob => ({
  generation: "gen_1",
  owner: "ingress-test",
  number: 1,
  attempt: 1,
  dialect: "openai-chat",
  operation: "answer",
  framing: "sse",
  contentType: "application/json",
  headers: {},
  model: "m",
  group: "default",
  keyId: "key_1",
  admittedAt: 0,
  body: '{"model":"m","stream":true,"messages":[{"role":"user","content":"hello"}]}',
  ...more,
});

export interface UpstreamCall extends UpstreamHandlers {
  upstream: string;
  request: UpstreamRequest;
  isAborted: boolean;
  isRead: boolean;
}

type Recorded = { [Kind in keyof WorkerEvents]: { kind: Kind } & WorkerEvents[Kind] }[keyof WorkerEvents];

const kinds = [
  "taken",
  "dispatched",
  "upstreamCallStarted",
  "firstContent",
  "chunk",
  "upstreamCallFailed",
  "repairsLearned",
  "upstreamCallEnded",
  "settled",
  "ended",
] as const;

/** Starts an attempt and records its calls, frames and events. */
export function startAttempt(
  model: string,
  more: Partial<GenerationJob> = {},
  learnedRepairs = new LearnedRepairs(),
  contentTimes = new ContentTimes(),
  readBody: AttemptDeps["requestBodies"]["read"] = async () => null,
) {
  const catalogue = catalogueOf(model);
  const time = { now: 1_000 };
  const outcomes: string[] = [];
  const answerMemory = new AnswerMemory(16 << 20);
  const frames: { kind: string; payload: Buffer }[] = [];
  const events: Recorded[] = [];
  const calls: UpstreamCall[] = [];
  const changes = new EventEmitter();
  const deps = partOf<AttemptDeps>({
    catalogue: () => catalogue,
    upstreams: {
      call: (
        { name }: { name: string },
        _credential: unknown,
        request: UpstreamRequest,
        handlers: UpstreamHandlers,
      ) => {
        const call: UpstreamCall = { ...handlers, upstream: name, request, isAborted: false, isRead: true };
        calls.push(call);
        changes.emit("call");
        return {
          abort: () => {
            call.isAborted = true;
          },
          flow: (isOpen: boolean) => {
            call.isRead = isOpen;
          },
        };
      },
    },
    routing: {
      permit: async () => ({ kind: "permitted", credential: undefined, isProbe: false, answered() {}, leave() {} }),
      ended: ({ key }: { key: string }, _permit: unknown, outcome: CallOutcome) => outcomes.push(`${key} ${outcome}`),
    },
    learnedRepairs,
    contentTimes,
    targetMeasures: { ranked: (neighbours: readonly Candidate[]) => [...neighbours] },
    answerMemory,
    attachmentsFor: () => ({ filled: (body: Buffer) => body, release() {} }),
    clock: { now: () => time.now, epoch: () => time.now },
    events: new EventStream<WorkerEvents>(
      Object.fromEntries(kinds.map((kind) => [kind, (event: object) => events.push({ kind, ...event } as Recorded)])),
    ),
    requestBodies: { read: readBody },
    send(_run: unknown, kind: string, payload: Buffer) {
      frames.push({ kind, payload });
      changes.emit("frame");
    },
  });
  const slot = { queue: "chat", job: jobOf(more), freeSlots: 0, dispatched() {}, release() {} };
  const attempt = new Attempt(slot, deps);
  const started = attempt.start({} as never);
  return {
    attempt,
    started,
    time,
    answerMemory,
    outcomes,
    frames,
    events,
    /** Waits for the call with this number, counted from 1. */
    async called(number: number): Promise<UpstreamCall> {
      while (calls.length < number) await once(changes, "call");
      return calls[number - 1] as UpstreamCall;
    },
    kinds: () => events.map(({ kind }) => kind),
    text: () => {
      const data = frames.filter(({ kind }) => kind === "data");
      return data.map(({ payload }) => decodeData(payload).bytes.toString()).join("");
    },
    failure: () => JSON.parse(String(frames.find(({ kind }) => kind === "fail")?.payload ?? "null")),
    ended: () => events.find((event) => event.kind === "ended"),
  };
}

export const streamHead = { "content-type": "text/event-stream", "x-request-id": "theirs-1" };
export const delta = (content: object, finish: string | null = null) =>
  Buffer.from(`data: ${JSON.stringify({ choices: [{ index: 0, delta: content, finish_reason: finish }] })}\n\n`);
export const done = Buffer.from("data: [DONE]\n\n");
