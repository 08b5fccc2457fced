/** The worker's end of the relay: a mailbox, and the runner that handles its frames. */
import type { RelayBounds } from "#relay/bounds.ts";
import type { JobSlot, Transport } from "#relay/ports.ts";
import { Runner } from "#relay/runner.ts";
import type { Clock } from "#service/clock.ts";
import type { Attempt } from "./attempt/attempt.ts";
import type { UsageBackup } from "./observability/usage-backup.ts";

export interface WorkerRelay {
  readonly mailbox: Transport;
  readonly runner: Runner<Attempt>;
  /** Frames can leave and arrive. No job is taken while they cannot. */
  isReady(): boolean;
  /**
   * Announces the attempt to its owner and starts it, at once if the owner is known to be alive.
   */
  take(attempt: Attempt, slot: JobSlot): void;
}

/**
 * The caller closes the mailbox. `usage` learns of each envelope of an owner, and of each to an
 * owner that reached nobody.
 */
export async function openRelay(
  openTransport: () => Promise<Transport>,
  bounds: RelayBounds,
  clock: Clock,
  usage: Pick<UsageBackup, "heard" | "unreachable">,
): Promise<WorkerRelay> {
  const mailbox = await openTransport();
  const runner = new Runner<Attempt>(
    mailbox.self,
    bounds,
    {
      send: (to, frame, urgency) => mailbox.send(to, frame, urgency),
      heartbeat: (to) => mailbox.heartbeat(to),
      run: (attempt, run) => void attempt.start(run),
      abort: (attempt) => attempt.abort(),
      flow: (attempt, { isOpen }) => attempt.flow(isOpen),
      input: (attempt, payload, seq) => attempt.input(payload, seq),
      dispatched: (attempt) => attempt.dispatched(),
      settle: (attempt, end) => attempt.settle(end),
      witness: (attempt, end) => attempt.witness(end),
      forget: (attempt) => attempt.forget(),
    },
    clock.now(),
  );
  await mailbox.listen({
    heard: (sender) => {
      const now = clock.now();
      usage.heard(sender, now);
      runner.heard(sender, now);
    },
    receive: (sender, frame) => runner.receive(sender, frame, clock.now()),
    resubscribed: () => runner.tick(clock.now()),
    unreachable: (owner) => {
      usage.unreachable(owner);
      runner.unreachable(owner);
    },
  });
  return {
    mailbox,
    runner,
    isReady: () => mailbox.isConnected && runner.isLinked(clock.now()),
    take: (attempt, { job, freeSlots }) =>
      runner.take(attempt, { mailbox: job.owner, number: job.number, attempt: job.attempt, freeSlots }, clock.now()),
  };
}
