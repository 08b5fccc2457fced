/** Every name that the gateway uses in Redis. All keys of a deployment share one hash slot, so that scripts may use several keys in a cluster. */
export interface Keyspace {
  /** BullMQ's prefix: its keys are `<prefix>:<queue>:…`. */
  queuePrefix: string;
  /** The pub/sub channel of a process. */
  mailbox(process: string): string;
  /** A request body that is too large for its job. It expires unless its owner renews it. */
  body(generation: string): string;
  /** The state of an `Idempotency-Key`, by the API key's id and the header's SHA-256: the process that runs the request, or the stored answer. */
  idempotency(keyId: string, hash: string): string;
  /** Sorted set: "<bytes> <API key's id> <hash>" of each stored answer → when it expires. */
  idempotencyStored: string;
  /** Hash: an API key's id → the bytes of its stored answers; `total` → the bytes of all. */
  idempotencyBytes: string;
  /** Hash: an upstream's target → its circuit breaker (JSON). */
  circuitBreakers: string;
  /** Sorted set: the used slots of an upstream with `concurrencyMax` → when each expires. */
  slots(upstream: string): string;
  /** The counters of a key, group or account: see libs/access/rate-limit-scripts.ts. */
  limit(scope: string, name: string, what: "window" | "running" | "reserved" | "budget"): string;
  /** Sorted set: settled generations, each until its ingress confirms it. */
  limitsSettled: string;
  /** Hash: SHA-256 of a key (hex) → its record (JSON). */
  keys: string;
  /** Counter: grows with every change of `keys`. Absent before the first key. */
  keysVersion: string;
  /** Pub/sub channel: announces changes of `keys`. */
  keysChanged: string;
  /** Hash: a process → the slots of this queue that it announces: see libs/relay/redis/queue-slots.ts. */
  queueSlots(queue: string): string;
  /** Expires when the next rewrite of Redis' append-only file is due. */
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
