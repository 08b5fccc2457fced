/** The worker's end of the relay: a mailbox, and the runner that handles its frames. */
import type { RelayBounds } from "#relay/bounds.ts";
import type { JobSlot, Transport } from "#relay/ports.ts";
import { Runner } from "#relay/runner.ts";
import type { Clock } from "#service/clock.ts";
import type { Attempt } from "./attempt/attempt.ts";

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

/** The caller closes the mailbox. `onHeard` is called for each envelope of an owner. */
export async function openRelay(
  openTransport: () => Promise<Transport>,
  bounds: RelayBounds,
  clock: Clock,
  onHeard: (owner: string, now: number) => void,
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
      forget: (attempt) => attempt.forget(),
    },
    clock.now(),
  );
  await mailbox.listen({
    heard: (sender) => {
      const now = clock.now();
      onHeard(sender, now);
      runner.heard(sender, now);
    },
    receive: (sender, frame) => runner.receive(sender, frame, clock.now()),
    resubscribed: () => runner.tick(clock.now()),
  });
  return {
    mailbox,
    runner,
    isReady: () => mailbox.isConnected && runner.isLinked(clock.now()),
    take: (attempt, { job, freeSlots }) =>
      runner.take(attempt, { mailbox: job.owner, number: job.number, attempt: job.attempt, freeSlots }, clock.now()),
  };
}
