/** Every name this service uses in Redis. One hash slot per deployment, so that scripts may touch several keys in a cluster. */
export interface Keyspace {
  /** BullMQ's prefix: its own keys are `<prefix>:<queue>:…`. */
  queuePrefix: string;
  /** The pub/sub channel of a process. */
  mailbox(process: string): string;
  /** A request body too large for its job; lives while its owner extends it. */
  body(generation: string): string;
  /** What a caller asked for under an `Idempotency-Key`, by the key's id and that header's SHA-256: who runs it, or its answer. */
  idempotency(keyId: string, hash: string): string;
  /** Sorted set: "<bytes> <key's id> <hash>" of each stored answer → when it lapses. */
  idempotencyStored: string;
  /** Hash: a key's id → the bytes of its stored answers; `total` → those of all. */
  idempotencyBytes: string;
  /** Hash: an upstream's target → its circuit breaker (JSON). */
  circuitBreakers: string;
  /** Sorted set: the places taken at an upstream that takes only so many requests at once, by when each lapses. */
  slots(upstream: string): string;
  /** What is counted of a key, a group or an account, against its limits: see libs/access/rate-limit-scripts.ts. */
  limit(scope: string, name: string, what: "window" | "running" | "reserved" | "budget"): string;
  /** Sorted set: generations that are settled, each until its ingress knows. */
  limitsSettled: string;
  /** Hash: SHA-256 of a key (hex) → its record (JSON). */
  keys: string;
  /** Counter: grows with every change of `keys`. Absent: nothing was ever projected here. */
  keysVersion: string;
  /** Pub/sub channel: a change of `keys` was made. */
  keysChanged: string;
  /** Hash: a process → what it announces of this queue's places: see libs/relay/queue-slots.ts. */
  queueSlots(queue: string): string;
  /** Lives until Redis' append-only file is due to be rewritten. */
  fileRewritten: string;
}

export function keyspaceOf(namespace: string): Keyspace {
  const prefix = `{${namespace}}`;
  return {
    queuePrefix: `${prefix}:queue`,
    mailbox: (process) => `${prefix}:mailbox:${process}`,
    body: (generation) => `${prefix}:body:${generation}`,
    idempotency: (keyId, hash) => `${prefix}:idempotency:${keyId}:${hash}`,
    idempotencyStored: `${prefix}:idempotent:stored`,
    idempotencyBytes: `${prefix}:idempotent:bytes`,
    circuitBreakers: `${prefix}:circuit-breakers`,
    slots: (upstream) => `${prefix}:slots:${upstream}`,
    limit: (scope, name, what) => `${prefix}:limit:${scope}:${name}:${what}`,
    limitsSettled: `${prefix}:limits:settled`,
    keys: `${prefix}:keys`,
    keysVersion: `${prefix}:keys:version`,
    keysChanged: `${prefix}:keys:changed`,
    queueSlots: (queue) => `${prefix}:queue-slots:${queue}`,
    fileRewritten: `${prefix}:file:rewritten`,
  };
}
