/** Timeouts and sizes of the relay. All processes must use the same values. */
export interface RelayBounds {
  /** The interval of heartbeats, to the process itself and to every mailbox with which it shares live generations. */
  heartbeatMs: number;
  /** A process that is silent for this long, while the listener's own link is up, is dead. A process that was frozen for longer drops everything it runs. */
  graceMs: number;
  /** An owner that was heard within this time is alive: a worker may start its attempts before `go`. */
  aliveMs: number;
  /** How long a process keeps its generations while its own link is down. */
  downMs: number;
  /** The longest delay of an acknowledgement while more frames arrive. The sender keeps frames until then. */
  ackMs: number;
  /** The most bytes of one generation that were sent and that the caller has not read. */
  windowBytes: number;
  /** The most bytes on the way to one mailbox that are not acknowledged as arrived. */
  mailboxWindowBytes: number;
  /** The shortest time between two requests to resend the same frames. */
  missingRetryMs: number;
  /** How long a generation waits before its owner asks the queue for its state, and between two such requests. */
  probeMs: number;
  /** How many states an owner requests at a time. */
  probesMax: number;
  /** How many workers may be lost over one generation before it fails. */
  runsMax: number;
  /** How long an owner remembers a finished generation, to answer a worker that missed the end. Longer than `downMs`. */
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

/** The most payload bytes of one frame. A large answer is many frames, so that small answers never wait long behind it. */
export const payloadBytesMax = 64 * 1024 - 64;
