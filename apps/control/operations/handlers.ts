/**
 * Operations for operators: the live state, and what they decide about processes, queues,
 * generations and targets.
 */

import { sql } from "kysely";
import type { liveOperations } from "#api/live.ts";
import type { Catalogue } from "#catalogue/catalogue.ts";
import { commandIngresses, countOf, type GenerationCommand, itemsOf } from "#service/generation-commands.ts";
import type { Keyspace } from "#service/keyspace.ts";
import { type OperatorControl, readControls, removeControl, setControl } from "#service/operator-controls.ts";
import { readProcessReports, requestDrain } from "#service/process-reports.ts";
import type { Redis } from "#service/redis.ts";
import { Fault, notFound } from "../api/faults.ts";
import type { Context, Handlers } from "../api/handlers.ts";
import { generationsShownMax } from "../bounds.ts";
import { recordChange } from "../database/change.ts";
import type { LiveStates } from "./live-state.ts";

export interface LiveHandlerOptions {
  states: LiveStates;
  redis: Redis;
  keyspace: Keyspace;
  catalogue(): Pick<Catalogue, "queues">;
}

type Decision = Pick<OperatorControl, "kind" | "name">;

export function liveHandlers(options: LiveHandlerOptions): Handlers<typeof liveOperations> {
  const { states, redis, keyspace } = options;
  const decide = (action: string, control: Omit<OperatorControl, "by" | "at">, context: Context) =>
    change(options, action, { ...control, by: context.actor.name, at: context.now.getTime() }, context);
  const command = (each: GenerationCommand, { now }: Context) => commandIngresses(options, each, now.getTime());
  const setQueue = async (
    action: string,
    state: "paused" | "draining",
    { queue, reason, until }: { queue: string; reason: string; until?: string | null },
    context: Context,
  ) => {
    await checkQueue(options, queue, context);
    await decide(action, { kind: "queue", name: queue, state, reason, ...untilOf(until, context.now) }, context);
    return { body: { queue } };
  };
  return {
    async readOperations() {
      return { body: await states.read() };
    },
    async readLastHour(_, { database, now }) {
      const from = new Date(now.getTime() - 3_600_000);
      const { rows } = await sql<{ minute: Date } & Record<"requests" | "failed" | "refused" | "chunks", string>>`
        select date_trunc('minute', received_at) as minute, count(*) as requests, sum(chunks) as chunks,
          count(*) filter (where outcome = 'failed') as failed, count(*) filter (where outcome = 'refused') as refused
        from usage where received_at >= ${from} group by minute order by minute`.execute(database);
      const minutes = rows.map(({ minute, requests, failed, refused, chunks }) => ({
        time: minute.toISOString(),
        requests: Number(requests),
        failed: Number(failed),
        refused: Number(refused),
        chunks: Number(chunks),
      }));
      return { body: { minutes } };
    },
    async drainProcess({ params: { process: id } }, context) {
      const reports = await readProcessReports(redis, keyspace, context.now.getTime());
      const report = reports.find((each) => each.id === id);
      if (report === undefined) throw notFound("process", id);
      if (report.role === "control") throw new Fault("invalid", "Control has nothing to drain: restart it instead.");
      await recordChange(context, "drainProcess", { subject: `${report.role} ${id}` });
      await requestDrain(redis, keyspace, id);
      return { body: { process: id } };
    },
    pauseQueue: ({ params, body }, context) => setQueue("pauseQueue", "paused", { ...params, ...body }, context),
    drainQueue: ({ params, body }, context) => setQueue("drainQueue", "draining", { ...params, ...body }, context),
    async resumeQueue({ params: { queue } }, context) {
      await checkQueue(options, queue, context);
      await change(options, "resumeQueue", { kind: "queue", name: queue }, context);
      return { body: { queue } };
    },
    async clearQueue({ params: { queue }, body: { reason } }, context) {
      await checkQueue(options, queue, context);
      const answers = await command({ kind: "clear", queue, reason }, context);
      const ended = countOf(answers);
      const { silent } = answers;
      const after = { reason, ended, silent };
      await recordChange(context, "clearQueue", { subject: `queue ${queue}`, after });
      return { body: { queue, ended, silent } };
    },
    async listGenerations({ query }, context) {
      const limit = generationsShownMax;
      const answers = await command({ kind: "list", filter: query, limit }, context);
      const items = itemsOf(answers, limit).map(({ requestId, ...item }) => ({
        ...item,
        since: new Date(item.since).toISOString(),
      }));
      return { body: { items, total: countOf(answers), silent: answers.silent } };
    },
    async stopGeneration({ params: { generation }, body: { reason } }, context) {
      const answers = await command({ kind: "stop", generation, reason }, context);
      if (countOf(answers) === 0) throw notFound("generation that runs or waits", generation);
      const subject = `generation ${generation}`;
      await recordChange(context, "stopGeneration", { subject, after: { reason } });
      return { body: { generation } };
    },
    async stopGenerations({ body: { generations, reason } }, context) {
      const all = await Promise.all(
        [...new Set(generations)].map((generation) => command({ kind: "stop", generation, reason }, context)),
      );
      const ended = all.reduce((sum, answers) => sum + countOf(answers), 0);
      const silent = [...new Set(all.flatMap((answers) => answers.silent))];
      await recordChange(context, "stopGenerations", {
        subject: `${ended} generations`,
        after: { reason, ended, silent },
      });
      return { body: { ended, silent } };
    },
    async openCircuitBreaker({ params: { target }, body: { reason, minutes } }, context) {
      await checkTarget(options, target);
      const until = context.now.getTime() + minutes * 60_000;
      await decide("openCircuitBreaker", { kind: "target", name: target, state: "open", reason, until }, context);
      return { body: { target } };
    },
    async closeCircuitBreaker({ params: { target } }, context) {
      await checkTarget(options, target);
      await change(options, "closeCircuitBreaker", { kind: "target", name: target }, context);
      // Workers notice within half a second that the entry is gone.
      await redis.hdel(keyspace.circuitBreakers, target);
      return { body: { target } };
    },
  };
}

/** Records the change, then makes it. A decision without a state removes the one in force. */
async function change(
  { redis, keyspace }: LiveHandlerOptions,
  action: string,
  decision: OperatorControl | Decision,
  context: Context,
): Promise<void> {
  const { kind, name } = decision;
  const before = (await readControls(redis, keyspace, context.now.getTime())).find(
    (each) => each.kind === kind && each.name === name,
  );
  const after = "state" in decision ? decision : undefined;
  await recordChange(context, action, { subject: `${kind} ${name}`, before, after });
  if (after === undefined) await removeControl(redis, keyspace, decision);
  else await setControl(redis, keyspace, after);
}

function untilOf(until: string | null | undefined, now: Date): { until?: number } {
  if (until == null) return {};
  const ms = Date.parse(until);
  if (ms <= now.getTime()) throw new Fault("invalid", "The time is over already.", { field: "until" });
  return { until: ms };
}

/** A queue that left the catalogue may still be resumed and cleared. */
async function checkQueue(
  { catalogue, redis, keyspace }: LiveHandlerOptions,
  queue: string,
  { now }: Pick<Context, "now">,
): Promise<void> {
  if (catalogue().queues.has(queue)) return;
  const controls = await readControls(redis, keyspace, now.getTime());
  if (!controls.some(({ kind, name }) => kind === "queue" && name === queue)) throw notFound("queue", queue);
}

async function checkTarget({ states }: LiveHandlerOptions, target: string): Promise<void> {
  if (!(await states.read()).targets.some((each) => each.target === target)) throw notFound("target", target);
}
