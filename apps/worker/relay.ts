/** The worker's end of the relay: a mailbox, and the runner that answers what arrives in it. */
import type { RelayBounds } from "#relay/bounds.ts";
import type { Frame } from "#relay/frame.ts";
import type { JobSlot, Transport, TransportHandlers } from "#relay/ports.ts";
import { Runner } from "#relay/runner.ts";
import type { Clock } from "#service/clock.ts";
import type { Attempt } from "./attempt/attempt.ts";
import type { WorkerRedis } from "./redis.ts";

export interface WorkerRelay {
  readonly mailbox: Transport;
  readonly runner: Runner<Attempt>;
  /** Frames can leave and arrive. No job is taken while they cannot. */
  isReady(): boolean;
  /** Announces the attempt to its owner and starts it, at once if the owner is known to be alive. */
  take(attempt: Attempt, slot: JobSlot): void;
}

/**
 * Passes what the mailbox receives on to the runner. The runner needs the mailbox's name, so the mailbox exists first. No other process
 * knows that name before the runner's first heartbeat, so nothing arrives before `deliverTo`.
 */
class Inbox implements TransportHandlers {
  readonly #clock: Clock;
  #runner: Runner<Attempt> | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  deliverTo(runner: Runner<Attempt>): void {
    this.#runner = runner;
  }

  heard(sender: string): void {
    this.#runner?.heard(sender, this.#clock.now());
  }

  receive(sender: string, frame: Frame): void {
    this.#runner?.receive(sender, frame, this.#clock.now());
  }

  resubscribed(): void {
    this.#runner?.tick(this.#clock.now());
  }
}

/** The caller closes the mailbox. */
export async function openRelay(redis: WorkerRedis, bounds: RelayBounds, clock: Clock): Promise<WorkerRelay> {
  const inbox = new Inbox(clock);
  const mailbox = await redis.openTransport(inbox);
  const runner = new Runner<Attempt>(
    mailbox.self,
    bounds,
    {
      send: mailbox.send,
      heartbeat: mailbox.heartbeat,
      run: (attempt, run) => void attempt.start(run),
      abort: (attempt) => attempt.abort(),
      flow: (attempt, open) => attempt.flow(open),
      dispatched: (attempt) => attempt.dispatched(),
      settle: (attempt, outcome) => attempt.settle(outcome),
      forget: (attempt) => attempt.forget(),
    },
    clock.now(),
  );
  inbox.deliverTo(runner);
  return {
    mailbox,
    runner,
    isReady: () => mailbox.isConnected && runner.isLinked(clock.now()),
    take: (attempt, { job, freeSlots }) =>
      runner.take(attempt, job.owner, job.number, job.attempt, freeSlots, clock.now()),
  };
}
