/** The bounds of the relay, in one place. Both ends of a relay must run with the same ones. */
export interface RelayBounds {
  /** How often a process heartbeats: to itself, and to every mailbox it has live generations with. */
  heartbeatMs: number;
  /** Silence for this long, heard over a sound link of one's own, means gone. A process frozen for longer drops what it holds. */
  graceMs: number;
  /** An owner heard from within this time is alive: work for it may start before its `go`. */
  aliveMs: number;
  /** How long a process holds on to its generations while its own link is down. */
  downMs: number;
  /** How long what arrived may wait to be acknowledged while more arrives: until then its sender keeps it. */
  ackMs: number;
  /** Bytes of one generation sent and not yet taken by its caller. */
  windowBytes: number;
  /** Bytes on the way to one mailbox, not yet known to have arrived. */
  mailboxWindowBytes: number;
  /** The least time between two requests to resend the same frames. */
  missingRetryMs: number;
  /** How long a generation waits before its owner first asks the queue about it, and between two such questions. */
  probeMs: number;
  /** How many generations an owner asks about at a time. */
  probesMax: number;
  /** How often a generation is run anew after its worker was lost. */
  runsMax: number;
  /** How long a finished generation is remembered, to answer a worker that has not heard of it; longer than any worker holds on. */
  rememberMs: number;
}

export const relayBounds: RelayBounds = {
  heartbeatMs: 1_000,
  graceMs: 5_000,
  aliveMs: 1_000,
  downMs: 30_000,
  ackMs: 200,
  windowBytes: 1 << 20,
  mailboxWindowBytes: 8 << 20,
  missingRetryMs: 300,
  probeMs: 2_000,
  probesMax: 64,
  runsMax: 3,
  rememberMs: 35_000,
};

/** Payload bytes of one frame at most: big answers are many frames, so that small ones are never far behind. */
export const payloadBytesMax = 64 * 1024 - 64;
