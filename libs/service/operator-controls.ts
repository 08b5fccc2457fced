/**
 * The decisions of operators about queues and targets: one hash in Redis, which every ingress and
 * worker reads after each notice of a change. It outlives the processes, but not the data of Redis.
 */
import { type Clock, systemClock } from "./clock.ts";
import { followValue } from "./followed-value.ts";
import type { Keyspace } from "./keyspace.ts";
import type { Redis } from "./redis.ts";

/**
 * `paused`: workers take nothing from the queue. `draining`: ingresses refuse new requests for the
 * queue. `open`: workers do not call the target, as if its circuit breaker had opened.
 */
type ControlState = "paused" | "draining" | "open";

export interface OperatorControl {
  readonly kind: "queue" | "target";
  /** The name of the queue, or of the target as in circuit breakers. */
  readonly name: string;
  readonly state: ControlState;
  /** For callers and operators. */
  readonly reason: string;
  /** The name of the operator. */
  readonly by: string;
  /** Epoch milliseconds. */
  readonly at: number;
  /** When it ends by itself, in epoch milliseconds; undefined for never. */
  readonly until?: number;
}

/** A process knows a change of which it missed the notice within this time. */
const readEveryMs = 2_000;

type ControlId = Pick<OperatorControl, "kind" | "name">;

const fieldOf = ({ kind, name }: ControlId): string => `${kind} ${name}`;

/** The controls in force, by kind and name. Removes ended ones. Rejects while Redis is away. */
export async function readControls(redis: Redis, keyspace: Keyspace, now: number): Promise<OperatorControl[]> {
  const fields = Object.entries(await redis.hgetall(keyspace.controls));
  const controls = fields.map(([field, text]) => [field, JSON.parse(text) as OperatorControl] as const);
  const ended = controls.filter(([, control]) => !isInForce(control, now)).map(([field]) => field);
  if (ended.length > 0) await redis.hdel(keyspace.controls, ...ended);
  return controls
    .map(([, control]) => control)
    .filter((control) => isInForce(control, now))
    .sort((a, b) => fieldOf(a).localeCompare(fieldOf(b)));
}

/** Replaces what was decided before about the same queue or target. Rejects while Redis is away. */
export async function setControl(redis: Redis, keyspace: Keyspace, control: OperatorControl): Promise<void> {
  await redis.hset(keyspace.controls, fieldOf(control), JSON.stringify(control));
  await redis.publish(keyspace.controlsChanged, "").catch(() => undefined);
}

/** Rejects while Redis is away. */
export async function removeControl(redis: Redis, keyspace: Keyspace, id: ControlId): Promise<void> {
  await redis.hdel(keyspace.controls, fieldOf(id));
  await redis.publish(keyspace.controlsChanged, "").catch(() => undefined);
}

export interface OperatorControls {
  /** The control in force at `now`, in epoch milliseconds. */
  of(kind: OperatorControl["kind"], name: string, now?: number): OperatorControl | undefined;
  all(now?: number): OperatorControl[];
  close(): void;
}

export interface FollowControlsOptions {
  /** For the purpose `request`. */
  redis: Redis;
  /**
   * A shared connection in subscriber mode. The caller closes both connections, after the follower.
   */
  subscriber: Redis;
  keyspace: Keyspace;
  clock?: Clock;
}

/**
 * Resolves when the controls are known, so that a process that starts obeys them from the first;
 * rejects without Redis. Later, the known ones stay while Redis is away.
 */
export async function followControls({
  redis,
  subscriber,
  keyspace,
  clock = systemClock,
}: FollowControlsOptions): Promise<OperatorControls> {
  let controls = new Map<string, OperatorControl>();
  const read = async () => {
    const fields = Object.entries(await redis.hgetall(keyspace.controls));
    controls = new Map(fields.map(([field, text]) => [field, JSON.parse(text) as OperatorControl]));
  };
  const channel = keyspace.controlsChanged;
  const close = await followValue({ redis, subscriber, channel, everyMs: readEveryMs, read });
  return {
    of(kind, name, now = clock.epoch()) {
      if (controls.size === 0) return undefined;
      const control = controls.get(fieldOf({ kind, name }));
      return control !== undefined && isInForce(control, now) ? control : undefined;
    },
    all: (now = clock.epoch()) => [...controls.values()].filter((control) => isInForce(control, now)),
    close,
  };
}

const isInForce = ({ until }: OperatorControl, now: number): boolean => until === undefined || now < until;
