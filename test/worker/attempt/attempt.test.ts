import assert from "node:assert/strict";
import { test } from "node:test";
import { parseCatalogue } from "#catalogue/load.ts";
import { EventStream } from "#events/event-stream.ts";
import type { GenerationJob } from "#relay/job.ts";
import { systemClock } from "#service/clock.ts";
import { Attempt, type AttemptDeps } from "../../../apps/worker/attempt/attempt.ts";
import type { CallOutcome } from "../../../apps/worker/routing/routing.ts";
import type { UpstreamHandlers } from "../../../apps/worker/upstream/upstreams.ts";

const catalogue = parseCatalogue(
  Buffer.from(`groups: { default: { models: ["*"] } }
upstreams: { mine: { dialect: openai-chat, baseUrl: "http://127.0.0.1:9/v1" } }
models: [{ id: m, prices: { inputPerMillion: 1, outputPerMillion: 2 }, retries: 0, route: [{ upstream: mine, model: theirs }] }]
`),
  "catalogue.yaml",
  {},
);

const job: GenerationJob = {
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
};

/** A generation whose upstream has been called: what that answers is for the test to say, and what is told of its target is kept. */
async function begun(): Promise<{ generation: Attempt; upstream: UpstreamHandlers; told: CallOutcome[] }> {
  const told: CallOutcome[] = [];
  let upstream: UpstreamHandlers | undefined;
  const deps = {
    catalogue: () => catalogue,
    upstreams: {
      call: (_upstream: unknown, _credential: unknown, _request: unknown, handlers: UpstreamHandlers) => {
        upstream = handlers;
        return { abort() {}, flow() {} };
      },
    },
    routing: {
      permit: async () => ({ kind: "permitted", credential: undefined, leave() {} }),
      ended: (_candidate: unknown, _permit: unknown, outcome: CallOutcome) => told.push(outcome),
    },
    attachmentsFor: () => ({ filled: (body: Buffer) => body, release() {} }),
    clock: systemClock,
    events: new EventStream(),
    readBody: async () => null,
    send() {},
  } as unknown as AttemptDeps;
  const generation = new Attempt({ queue: "chat", job, freeSlots: 0, dispatched() {}, release() {} }, deps);
  await generation.begin({} as never);
  assert.ok(upstream, `${generation.failure?.message} ${generation.cause}`);
  upstream.head(200, { "content-type": "text/event-stream" });
  return { generation, upstream, told };
}

const event = (delta: object, finish: string | null = null) =>
  Buffer.from(`data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`);

test("a target that answers is marked once, with its first content", async () => {
  const { upstream, told } = await begun();
  upstream.data(event({ content: "hello" }));
  assert.deepEqual(told, ["answered"]);
  upstream.data(event({}, "stop"));
  upstream.data(Buffer.from("data: [DONE]\n\n"));
  upstream.end();
  assert.deepEqual(told, ["answered"]);
});

test("a target that breaks off after its first content is marked for that, too", async () => {
  const { upstream, told } = await begun();
  upstream.data(event({ content: "hello" }));
  upstream.end();
  assert.deepEqual(told, ["answered", "transient"]);
});
