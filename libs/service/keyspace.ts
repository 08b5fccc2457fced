/** Every name this service uses in Redis. One hash slot per deployment, so that scripts may touch several keys in a cluster. */
export interface Keyspace {
  /** BullMQ's prefix: its own keys are `<prefix>:<lane>:…`. */
  queuePrefix: string;
  /** The pub/sub channel of a process. */
  mailbox(process: string): string;
  /** A request body too large for its job; lives while its owner extends it. */
  body(generation: string): string;
  /** Hash: SHA-256 of a key (hex) → its record (JSON). */
  keys: string;
  /** Counter: grows with every change of `keys`. Absent: nothing was ever projected here. */
  keysVersion: string;
  /** Pub/sub channel: a change of `keys` was made. */
  keysChanged: string;
}

export function keyspaceOf(namespace: string): Keyspace {
  const prefix = `{${namespace}}`;
  return {
    queuePrefix: `${prefix}:lane`,
    mailbox: (process) => `${prefix}:mailbox:${process}`,
    body: (generation) => `${prefix}:body:${generation}`,
    keys: `${prefix}:keys`,
    keysVersion: `${prefix}:keys:version`,
    keysChanged: `${prefix}:keys:changed`,
  };
}
