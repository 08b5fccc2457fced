/**
 * The transport over Redis' sharded pub/sub, which in a cluster reaches only the server that has the channel: one channel per process. All frames for one mailbox in a turn of the event loop leave in one SPUBLISH; while an SPUBLISH is
 * under way, further frames gather. Frames that nobody waits for leave with the next SPUBLISH, or after a few milliseconds. The transport is unreliable; the
 * owner and the runner make up for losses.
 */

import { randomBytes } from "node:crypto";
import type { Keyspace } from "#service/keyspace.ts";
import type { Redis } from "#service/redis.ts";
import { connectRedis } from "#service/redis.ts";
import { envelopeBytesMax, gatheredBytesMax, idleFrameMs } from "../bounds.ts";
import { decodeEnvelope, encodeEnvelope, type Frame, frameBytesOf } from "../frame.ts";
import type { Transport, TransportHandlers, TransportStatistics } from "../ports.ts";

interface Destination {
  readonly mailbox: string;
  readonly channel: string;
  frames: Frame[];
  bytes: number;
  publishing: boolean;
  /** Someone waits for one of its frames. */
  urgent: boolean;
  /** Send an envelope even without frames. */
  heartbeat: boolean;
}

export interface Mailbox extends Transport {
  /** The connection in subscriber mode, for other channels of the same process. */
  readonly subscriber: Redis;
}

/** A unique name that begins with the role. */
const incarnationOf = (role: string) =>
  `${role}-${randomBytes(9).toString("base64url").replaceAll("-", "a").replaceAll("_", "b")}`;

/** Opens a new mailbox. Throws StartupFault if Redis does not answer. */
export async function openMailbox(redisUrl: string, keyspace: Keyspace, role: string): Promise<Mailbox> {
  const self = incarnationOf(role);
  const publisher = await connectRedis(redisUrl, "request");
  const subscriber = await connectRedis(redisUrl, "subscribe");
  const statistics: TransportStatistics = {
    publishes: 0,
    publishFailures: 0,
    framesSent: 0,
    framesReceived: 0,
    roundTripMs: 0,
  };
  const destinations = new Map<string, Destination>();
  const due = new Set<Destination>();
  const idle = new Set<Destination>();
  let flushing = false;
  let idling = false;
  let subscribed = false;

  const ownChannel = keyspace.mailbox(self);
  subscriber.on("close", () => {
    subscribed = false;
  });
  const subscribe = async () => {
    await subscriber.ssubscribe(ownChannel);
    subscribed = true;
  };
  const listen = async (handlers: TransportHandlers) => {
    subscriber.on("smessageBuffer", (channel: Buffer, message: Buffer) => {
      if (channel.toString() !== ownChannel) return;
      const envelope = decodeEnvelope(message);
      if (envelope === undefined) return;
      statistics.framesReceived += envelope.frames.length;
      handlers.heard(envelope.sender);
      for (const frame of envelope.frames) handlers.receive(envelope.sender, frame);
    });
    await subscribe();
    subscriber.on("ready", () => {
      subscribe().then(
        () => handlers.resubscribed(),
        () => undefined,
      );
    });
  };

  const flush = () => {
    flushing = false;
    for (const destination of due) if (!destination.publishing) publish(destination);
    due.clear();
  };

  const flushIdle = () => {
    idling = false;
    for (const destination of idle) if (!destination.publishing) publish(destination);
    idle.clear();
  };

  const delay = (destination: Destination) => {
    idle.add(destination);
    if (idling) return;
    idling = true;
    setTimeout(flushIdle, idleFrameMs);
  };

  const pending = (mailbox: string, idly: boolean): Destination => {
    let destination = destinations.get(mailbox);
    if (destination === undefined) {
      destination = {
        mailbox,
        channel: keyspace.mailbox(mailbox),
        frames: [],
        bytes: 0,
        publishing: false,
        urgent: false,
        heartbeat: false,
      };
      destinations.set(mailbox, destination);
    }
    if (!idly) destination.urgent = true;
    if (destination.publishing) return destination;
    if (idly) delay(destination);
    else {
      due.add(destination);
      if (!flushing) {
        flushing = true;
        setImmediate(flush);
      }
    }
    return destination;
  };

  const publish = (destination: Destination) => {
    idle.delete(destination);
    const frames = takeEnvelope(destination);
    if (destination.frames.length === 0) destination.urgent = false;
    if (frames === undefined || publisher.status !== "ready") {
      if (frames !== undefined) statistics.publishFailures++;
      destinations.delete(destination.mailbox);
      return;
    }
    destination.publishing = true;
    statistics.publishes++;
    statistics.framesSent += frames.length;
    const startedAt = performance.now();
    const left = () => {
      statistics.roundTripMs = performance.now() - startedAt;
      destination.publishing = false;
      if (destination.urgent || destination.frames.length === 0) publish(destination);
      else delay(destination);
    };
    publisher.spublish(destination.channel, encodeEnvelope(self, frames)).then(left, () => {
      statistics.publishFailures++;
      left();
    });
  };

  const close = async () => {
    flushIdle();
    const deadline = performance.now() + 1_000;
    while (flushing || [...destinations.values()].some(({ publishing, frames }) => publishing || frames.length > 0)) {
      if (performance.now() > deadline || publisher.status !== "ready") break;
      await new Promise((resolve) => setImmediate(resolve));
    }
    publisher.disconnect();
    subscriber.disconnect();
  };

  return {
    self,
    statistics,
    subscriber,
    get isConnected() {
      return publisher.status === "ready" && subscribed;
    },
    listen,
    send(mailbox, frame, idly = false) {
      const destination = pending(mailbox, idly);
      const bytes = frameBytesOf(frame);
      if (destination.bytes + bytes > gatheredBytesMax) return;
      destination.frames.push(frame);
      destination.bytes += bytes;
    },
    heartbeat(mailbox) {
      pending(mailbox, false).heartbeat = true;
      if (mailbox !== self) return;
      subscriber.ping().catch(() => undefined);
      // A write that removes nothing: a Redis that became a replica refuses it, and the connections leave it.
      publisher.del(ownChannel).catch(() => undefined);
    },
    close,
  };
}

/** The frames of the next envelope, possibly none for a heartbeat; undefined if there is nothing to send. */
function takeEnvelope(destination: Destination): Frame[] | undefined {
  if (destination.frames.length === 0 && !destination.heartbeat) return undefined;
  destination.heartbeat = false;
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
