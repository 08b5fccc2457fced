/**
 * Delivers the events of accounts to their webhooks. A delivery that is not accepted is repeated
 * for a day, with growing pauses. Several control processes share the work by claims in the
 * database; a receiver may get an event twice, with the same `webhook-id`.
 */
import { sql } from "kysely";
import type { Logger } from "pino";
import type { Dispatcher } from "undici";
import type { Clock } from "#service/clock.ts";
import type { Keyspace } from "#service/keyspace.ts";
import { PeriodicTask } from "#service/periodic-task.ts";
import { createPublicAgent, type Network } from "#service/public-agent.ts";
import type { Redis } from "#service/redis.ts";
import { readResponseEnds, removeResponseEnds } from "#service/response-ends.ts";
import {
  attemptsListedMax,
  deliveriesEveryMs,
  deliveriesOfAccountMax,
  deliveriesOfWebhookMax,
  deliveriesRunningMax,
  deliveriesSweptEveryMs,
  deliveryClaimMs,
  deliveryDays,
  deliveryMs,
  deliveryPauseFactor,
  deliveryPauseMs,
  deliveryPauseMsMax,
  deliveryWindowMs,
  eventsTakenMax,
  webhookFailingMs,
} from "../bounds.ts";
import type { Database } from "../database/database.ts";
import { addEvents, announceBatches, type Delivery, failWaiting } from "./deliveries.ts";
import { type PostResult, post } from "./post.ts";
import { unsealSecret } from "./webhook-secret.ts";

export interface WebhooksOptions {
  database: Database;
  /** A connection of the purpose `request`. */
  redis: Redis;
  keyspace: Keyspace;
  /** The secrets of webhooks are sealed with keys that are derived from it. */
  secret: string;
  /** Private networks in which receivers may be. */
  networks: readonly Network[];
  clock: Clock;
  log: Logger;
  /** From 0 to 1, for the jitter of pauses. */
  random?: () => number;
}

/** The webhook of a delivery that is due. */
interface Due extends Delivery {
  url: string;
  secret: string;
  previous_secret: string | null;
  previous_secret_until: Date | null;
  failing_since: Date | null;
}

export class Webhooks {
  readonly #options: WebhooksOptions;
  readonly #agent: Dispatcher;
  readonly #running = new Map<string, { webhook: string; sent: Promise<void> }>();
  readonly #tasks: PeriodicTask[];
  readonly #main: PeriodicTask;
  #isClosing = false;
  #isWoken = false;

  constructor(options: WebhooksOptions) {
    this.#options = options;
    const { networks, log } = options;
    this.#agent = createPublicAgent(networks, { timeout: deliveryMs, connections: deliveriesOfWebhookMax });
    const task = { log, level: "warn", works: "webhooks work again" } as const;
    this.#main = new PeriodicTask({
      ...task,
      everyMs: deliveriesEveryMs,
      run: () => this.#work(),
      failed: "events could not be delivered to webhooks",
    });
    this.#tasks = [
      this.#main,
      new PeriodicTask({
        ...task,
        everyMs: deliveriesSweptEveryMs,
        run: () => this.sweep(),
        failed: "old deliveries of webhooks could not be deleted",
      }),
    ];
  }

  /** A delivery is due. */
  readonly wake = (): void => {
    this.#isWoken = true;
    void this.run();
  };

  /** Takes events, and begins deliveries that are due. Never rejects. */
  run(): Promise<void> {
    return this.#main.run();
  }

  /** Resolves when the deliveries have ended that run. */
  async idle(): Promise<void> {
    await Promise.all([...this.#running.values()].map(({ sent }) => sent));
  }

  /** Deliveries that run are given up; another process repeats them. */
  async close(): Promise<void> {
    this.#isClosing = true;
    for (const task of this.#tasks) task.close();
    await this.#agent.destroy();
    // It may be beginning deliveries.
    await this.#main.idle();
    await this.idle();
  }

  /** Deletes deliveries that are no longer kept. */
  async sweep(): Promise<void> {
    const { database, clock } = this.#options;
    await sql`
      delete from webhook_deliveries where created_at < ${new Date(clock.epoch() - deliveryDays * 86_400_000)}
        and next_attempt_at is null`.execute(database);
    await sql`
      delete from webhook_deliveries d using (
        select account, (array_agg(created_at order by created_at desc))[${sql.lit(deliveriesOfAccountMax + 1)}] as last
        from webhook_deliveries group by account having count(*) > ${sql.lit(deliveriesOfAccountMax)}
      ) a where d.account = a.account and d.created_at <= a.last`.execute(database);
  }

  async #work(): Promise<void> {
    const { database, clock } = this.#options;
    if (this.#isClosing) return;
    while ((await announceBatches(database, new Date(clock.epoch()))) === eventsTakenMax);
    await this.#takeResponseEnds();
    do {
      this.#isWoken = false;
      await this.#beginDue();
    } while (this.#isWoken);
  }

  async #takeResponseEnds(): Promise<void> {
    const { database, redis, keyspace, clock } = this.#options;
    for (let count = eventsTakenMax; count === eventsTakenMax; ) {
      const { ids, ends } = await readResponseEnds(redis, keyspace, eventsTakenMax);
      const events = ends.map(({ account, id, status, at }) => ({
        ...{ account, subject: id, at: new Date(at) },
        type: `response.${status}`,
      }));
      await addEvents(database, events, new Date(clock.epoch()));
      await removeResponseEnds(redis, keyspace, ids);
      count = ids.length;
    }
  }

  async #beginDue(): Promise<void> {
    const capacity = deliveriesRunningMax - this.#running.size;
    if (capacity <= 0 || this.#isClosing) return;
    const busy = [...this.#running.values()].map(({ webhook }) => webhook);
    for (const due of await this.#claim(capacity, busy)) {
      const sent = this.#deliver(due)
        .catch((error) => this.#options.log.warn({ err: error }, "the outcome of a delivery was not stored"))
        .then(() => {
          this.#running.delete(due.id);
          if (!this.#isClosing) this.wake();
        });
      this.#running.set(due.id, { webhook: due.webhook_id, sent });
    }
  }

  /** A few for each webhook, so that none waits for the receiver of another. */
  async #claim(count: number, busyWebhooks: readonly string[]): Promise<Due[]> {
    const { database, clock } = this.#options;
    const now = new Date(clock.epoch());
    const claimEnd = new Date(clock.epoch() + deliveryClaimMs);
    const { rows } = await sql<Due>`
      with due as (
        select d.id from webhooks w cross join lateral (
          select id from webhook_deliveries
          where webhook_id = w.id and next_attempt_at <= ${now} order by next_attempt_at
          limit ${sql.lit(deliveriesOfWebhookMax)} for update skip locked
        ) d
        where w.disabled_at is null and not ${JSON.stringify(busyWebhooks)}::jsonb @> to_jsonb(w.id)
          and w.id in (select webhook_id from webhook_deliveries where next_attempt_at <= ${now})
        limit ${sql.lit(count)}
      )
      update webhook_deliveries d set next_attempt_at = ${claimEnd}, tries = tries + 1
      from due, webhooks w where d.id = due.id and w.id = d.webhook_id
      returning d.*, w.url, w.secret, w.previous_secret, w.previous_secret_until, w.failing_since`.execute(database);
    return rows;
  }

  async #deliver(due: Due): Promise<void> {
    const { clock } = this.#options;
    const began = clock.epoch();
    const start = clock.now();
    const secrets = this.#secretsOf(due, began);
    const result: PostResult =
      secrets === undefined
        ? { status: null, problem: "its secret was sealed with another AUTH_SECRET; rotate it", retryAfterMs: 0 }
        : await post(
            {
              url: due.url,
              id: due.event_id,
              body: bodyOf(due),
              secrets,
              dispatcher: this.#agent,
              timeoutMs: deliveryMs,
            },
            clock,
          );
    // Its claim ends, and it is sent again.
    if (this.#isClosing && result.problem !== undefined) return;
    const { status, problem = null } = result;
    const attempt = { at: new Date(began).toISOString(), status, problem, durationMs: Math.round(clock.now() - start) };
    await this.#store(due, result, [...due.attempts, attempt].slice(-attemptsListedMax));
  }

  #secretsOf(due: Due, now: number): string[] | undefined {
    const { webhook_id: webhook, previous_secret: previous, previous_secret_until: until } = due;
    const sealed = [due.secret, ...(previous !== null && until !== null && until.getTime() > now ? [previous] : [])];
    const secrets = sealed.map((each) => unsealSecret(this.#options.secret, webhook, each));
    return secrets.every((each) => each !== undefined) ? secrets : undefined;
  }

  async #store(due: Due, { status, problem, retryAfterMs }: PostResult, attempts: Delivery["attempts"]): Promise<void> {
    const { database, clock } = this.#options;
    const now = new Date(clock.epoch());
    const isGone = status === 410;
    const next =
      problem === undefined || isGone
        ? undefined
        : this.#nextAttempt(due, Math.max(retryAfterMs, this.#pauseMs(due.tries)));
    await database.transaction().execute(async (transaction) => {
      await transaction
        .updateTable("webhook_deliveries")
        .set({
          attempts: JSON.stringify(attempts),
          next_attempt_at: next ?? null,
          state: problem === undefined ? "delivered" : next === undefined ? "failed" : "pending",
          ...(problem === undefined && { delivered_at: now }),
        })
        .where("id", "=", due.id)
        // It may have been repeated or failed meanwhile.
        .where("tries", "=", due.tries)
        .where("state", "=", "pending")
        .execute();
      if (problem === undefined && due.failing_since === null) return;
      const since = problem === undefined ? null : (due.failing_since ?? now);
      const isFailing = since !== null && now.getTime() - since.getTime() > webhookFailingMs;
      const reason = isGone ? "gone" : isFailing ? "failing" : undefined;
      await transaction
        .updateTable("webhooks")
        .set({ failing_since: since, ...(reason && { disabled_at: now, disabled_reason: reason }) })
        .where("id", "=", due.webhook_id)
        .where("disabled_at", "is", null)
        .execute();
      if (reason !== undefined) await failWaiting(transaction, due.webhook_id);
    });
  }

  /** After so many attempts, with a jitter of a fifth. */
  #pauseMs(tries: number): number {
    const { random = Math.random } = this.#options;
    const pause = Math.min(deliveryPauseMsMax, deliveryPauseMs * deliveryPauseFactor ** (tries - 1));
    return pause * (0.8 + 0.4 * random());
  }

  /** Undefined after the end of the attempts. */
  #nextAttempt({ started_at }: Due, pauseMs: number): Date | undefined {
    const next = this.#options.clock.epoch() + pauseMs;
    return next <= started_at.getTime() + deliveryWindowMs ? new Date(next) : undefined;
  }
}

/** As OpenAI's: https://platform.openai.com/docs/api-reference/webhook-events */
const bodyOf = ({ event_id: id, created_at, type, subject }: Delivery): string =>
  JSON.stringify({
    ...{ id, object: "event", type, data: { id: subject } },
    created_at: Math.floor(created_at.getTime() / 1_000),
  });
