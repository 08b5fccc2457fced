/**
 * The transport over Redis' sharded pub/sub, which in a cluster reaches only the server that has
 * the channel: one channel per process. The transport is unreliable; the owner and the runner make
 * up for losses. The frames for one mailbox gather in its destination:
 *
 *   none ─ send ──────▶ due ─── the turn ends ────▶ publishing ─┬─ no frames left ─▶ none
 *     ├─── send ──────▶ busy ── a millisecond ─────▶            └─ frames left ────▶ due, busy, soon or idle
 *     ├─── send soon ─▶ soon ── some milliseconds ─▶
 *     └─── send idle ─▶ idle ── some milliseconds ─▶
 *
 * A frame waits in `busy` or `soon` only if an envelope has just left. A more urgent one takes the
 * others with it.
 */
import { randomBytes } from "node:crypto";
import { openShardedChannel } from "#service/channel.ts";
import type { Keyspace } from "#service/keyspace.ts";
import { nameSuffixOf, type Protocols, protocolOf } from "#service/protocol.ts";
import type { Redis } from "#service/redis.ts";
import {
  busyBytesMax,
  busyFramesMin,
  busyFramesMs,
  envelopeBytesMax,
  gatheredBytesMax,
  idleFrameMs,
  othersBackMs,
  quietMs,
  soonFrameMs,
} from "../bounds.ts";
import { decodeEnvelope, encodeEnvelope, type Frame, frameBytesOf, type Urgency } from "../frame.ts";
import type { Transport, TransportHandlers, TransportStatistics } from "../ports.ts";

interface Destination {
  readonly mailbox: string;
  readonly channel: string;
  /** A protocol that both ends read. */
  readonly protocol: number;
  frames: Frame[];
  bytes: number;
  isPublishing: boolean;
  /** The most urgent frame's. */
  urgency: Urgency;
  /** Send an envelope even without frames. */
  hasHeartbeat: boolean;
  /** When the last envelope left, and the last one that was full of frames. */
  sentAt: number;
  filledAt: number;
}

/** Destinations whose envelopes leave together, at the next call that `schedule` arranges. */
class Departures {
  readonly #destinations = new Set<Destination>();
  readonly #schedule: (leave: () => void) => void;
  readonly #publish: (destination: Destination) => void;
  #isScheduled = false;
  readonly leave = () => {
    this.#isScheduled = false;
    for (const destination of this.#destinations) if (!destination.isPublishing) this.#publish(destination);
    this.#destinations.clear();
  };

  constructor(schedule: (leave: () => void) => void, publish: (destination: Destination) => void) {
    this.#schedule = schedule;
    this.#publish = publish;
  }

  get isScheduled(): boolean {
    return this.#isScheduled;
  }

  has(destination: Destination): boolean {
    return this.#destinations.has(destination);
  }

  add(destination: Destination): void {
    this.#destinations.add(destination);
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    this.#schedule(this.leave);
  }

  delete(destination: Destination): void {
    this.#destinations.delete(destination);
  }
}

export interface MailboxConnections {
  /** For the purpose `request`. */
  publisher: Redis;
  /** For the purpose `subscribe`. Other channels of the process may share it. */
  subscriber: Redis;
}

/** Every so many heartbeats a process writes, even if it has nothing to write. */
const writeHeartbeats = 3;

/** A unique name that begins with the role. */
const incarnationOf = (role: string, protocols: Protocols) =>
  `${role}-${randomBytes(9).toString("base64url").replaceAll("-", "a").replaceAll("_", "b")}${nameSuffixOf(protocols)}`;

/** A new mailbox. Its `close` disconnects both connections. */
export class Mailbox implements Transport {
  readonly self: string;
  readonly #statistics: TransportStatistics = {
    publishes: 0,
    publishFailures: 0,
    framesSent: 0,
    framesReceived: 0,
    unreadableEnvelopes: 0,
    roundTripMs: 0,
  };
  readonly #keyspace: Keyspace;
  readonly #publisher: Redis;
  readonly #subscriber: Redis;
  readonly #channel: string;
  readonly #destinations = new Map<string, Destination>();
  readonly #due = this.#departures(setImmediate);
  readonly #busy = this.#departures((leave) => setTimeout(leave, busyFramesMs));
  readonly #soon = this.#departures((leave) => setTimeout(leave, soonFrameMs));
  readonly #idle = this.#departures((leave) => setTimeout(leave, idleFrameMs));
  #handlers: TransportHandlers | undefined;
  #isSubscribed = false;
  #subscribedAt = Number.POSITIVE_INFINITY;
  #heartbeats = 0;

  constructor({ publisher, subscriber }: MailboxConnections, keyspace: Keyspace, role: string) {
    this.self = incarnationOf(role, keyspace.protocols);
    this.#keyspace = keyspace;
    this.#publisher = publisher;
    this.#subscriber = subscriber;
    this.#channel = keyspace.mailbox(this.self);
    subscriber.on("close", () => {
      this.#isSubscribed = false;
      this.#subscribedAt = Number.POSITIVE_INFINITY;
    });
  }

  get statistics(): Readonly<TransportStatistics> {
    return this.#statistics;
  }

  get isConnected(): boolean {
    return this.#publisher.status === "ready" && this.#isSubscribed;
  }

  async listen(handlers: TransportHandlers): Promise<void> {
    this.#handlers = handlers;
    const channel = openShardedChannel(this.#subscriber, this.#channel, (message) => {
      const envelope = decodeEnvelope(message, this.#keyspace.protocols);
      if (envelope === undefined) {
        this.#statistics.unreadableEnvelopes++;
        return;
      }
      this.#statistics.framesReceived += envelope.frames.length;
      handlers.heard(envelope.sender);
      for (const frame of envelope.frames) handlers.receive(envelope.sender, frame);
    });
    const subscribe = async () => {
      await channel.subscribe();
      this.#isSubscribed = true;
      this.#subscribedAt = performance.now();
    };
    await subscribe();
    this.#subscriber.on("ready", () => {
      subscribe().then(
        () => handlers.resubscribed(),
        () => undefined,
      );
    });
  }

  send(mailbox: string, frame: Frame, urgency: Urgency = "prompt"): void {
    const destination = this.#destinationOf(mailbox);
    this.#publishLater(destination, urgency);
    const bytes = frameBytesOf(frame);
    if (destination.bytes + bytes > gatheredBytesMax) return;
    destination.frames.push(frame);
    destination.bytes += bytes;
  }

  heartbeat(mailbox: string): void {
    const destination = this.#destinationOf(mailbox);
    this.#publishLater(destination, "prompt");
    destination.hasHeartbeat = true;
    if (mailbox !== this.self) return;
    this.#forgetQuiet();
    this.#subscriber.ping().catch(() => undefined);
    // A write that removes nothing: a Redis that became a replica refuses it, and the connections
    // leave it.
    if (this.#heartbeats++ % writeHeartbeats === 0) this.#publisher.del(this.#channel).catch(() => undefined);
  }

  async close(): Promise<void> {
    this.#soon.leave();
    this.#idle.leave();
    const deadline = performance.now() + 1_000;
    const hasPending = () =>
      this.#due.isScheduled || this.#busy.isScheduled || [...this.#destinations.values()].some(isPending);
    while (hasPending() && performance.now() <= deadline && this.#publisher.status === "ready")
      await new Promise((resolve) => setImmediate(resolve));
    this.#publisher.disconnect();
    this.#subscriber.disconnect();
  }

  #destinationOf(mailbox: string): Destination {
    const existing = this.#destinations.get(mailbox);
    if (existing !== undefined) return existing;
    const destination: Destination = {
      mailbox,
      channel: this.#keyspace.mailbox(mailbox),
      protocol: Math.min(protocolOf(mailbox), this.#keyspace.protocols.current),
      frames: [],
      bytes: 0,
      isPublishing: false,
      urgency: "idle",
      hasHeartbeat: false,
      sentAt: Number.NEGATIVE_INFINITY,
      filledAt: Number.NEGATIVE_INFINITY,
    };
    this.#destinations.set(mailbox, destination);
    return destination;
  }

  /** Processes come and go. */
  #forgetQuiet(): void {
    const quietSince = performance.now() - quietMs;
    for (const destination of this.#destinations.values())
      if (!isPending(destination) && destination.sentAt < quietSince) this.#destinations.delete(destination.mailbox);
  }

  #publishLater(destination: Destination, urgency: Urgency): void {
    if (urgency === "prompt" || destination.urgency === "idle") destination.urgency = urgency;
    if (destination.isPublishing || this.#due.has(destination)) return;
    if (urgency === "idle") this.#idle.add(destination);
    else if (urgency === "soon" && this.#mayWait(destination)) this.#soon.add(destination);
    else if (isBusy(destination)) this.#busy.add(destination);
    else this.#due.add(destination);
  }

  /**
   * Frames for several processes are divided between as many envelopes, so each waits for more if
   * one has just left. A large one does not.
   */
  #mayWait({ sentAt, bytes }: Destination): boolean {
    const others = this.#destinations.size - Number(this.#destinations.has(this.self));
    return others > 1 && bytes < busyBytesMax && performance.now() - sentAt < soonFrameMs;
  }

  #departures(schedule: (leave: () => void) => void): Departures {
    return new Departures(schedule, (destination) => this.#publish(destination));
  }

  #publish(destination: Destination): void {
    this.#soon.delete(destination);
    this.#idle.delete(destination);
    this.#busy.delete(destination);
    const frames = nextEnvelopeOf(destination);
    if (destination.frames.length === 0) destination.urgency = "idle";
    if (frames === undefined) return;
    if (this.#publisher.status !== "ready") {
      this.#statistics.publishFailures++;
      this.#destinations.delete(destination.mailbox);
      return;
    }
    destination.isPublishing = true;
    this.#statistics.publishes++;
    this.#statistics.framesSent += frames.length;
    const startedAt = performance.now();
    destination.sentAt = startedAt;
    if (frames.length >= busyFramesMin) destination.filledAt = startedAt;
    const settled = () => {
      this.#statistics.roundTripMs = performance.now() - startedAt;
      destination.isPublishing = false;
      if (isPending(destination)) this.#publishLater(destination, destination.urgency);
    };
    const envelope = encodeEnvelope(this.self, frames, destination.protocol);
    this.#publisher.spublish(destination.channel, envelope).then(
      (receivers) => {
        if (receivers === 0 && performance.now() - this.#subscribedAt > othersBackMs)
          this.#handlers?.unreachable(destination.mailbox);
        settled();
      },
      () => {
        this.#statistics.publishFailures++;
        settled();
      },
    );
  }
}

const isPending = ({ frames, isPublishing, hasHeartbeat }: Destination): boolean =>
  frames.length > 0 || isPublishing || hasHeartbeat;

/**
 * Envelopes full of frames follow each other closely: the next one waits a moment, so that fewer
 * leave. A large one does not.
 */
const isBusy = ({ filledAt, bytes }: Destination): boolean =>
  performance.now() - filledAt < busyFramesMs && bytes < busyBytesMax;

/**
 * The frames of the next envelope, possibly none for a heartbeat; undefined if there is nothing to
 * send.
 */
function nextEnvelopeOf(destination: Destination): Frame[] | undefined {
  if (destination.frames.length === 0 && !destination.hasHeartbeat) return undefined;
  destination.hasHeartbeat = false;
  if (destination.bytes <= envelopeBytesMax) {
    const frames = destination.frames;
    destination.frames = [];
    destination.bytes = 0;
    return frames;
  }
  let count = 0;
  let bytes = 0;
  while (count < destination.frames.length) {
    const next = frameBytesOf(destination.frames[count] as Frame);
    if (count > 0 && bytes + next > envelopeBytesMax) break;
    bytes += next;
    count++;
  }
  destination.bytes -= bytes;
  return destination.frames.splice(0, count);
}
