/** Every name that the gateway uses in Redis. All keys of a deployment share one hash slot, so that scripts may use several keys in a cluster. */
export type Keyspace = ReturnType<typeof keyspaceOf>;

export function keyspaceOf(namespace: string) {
  const prefix = `{${namespace}}`;
  return {
    /** BullMQ's prefix: its keys are `<prefix>:<queue>:…`. */
    queuePrefix: `${prefix}:queue`,
    /** The pub/sub channel of a process. */
    mailbox: (process: string) => `${prefix}:mailbox:${process}`,
    /** A request body that is too large for its job. It expires unless its owner renews it. */
    body: (generation: string) => `${prefix}:body:${generation}`,
    /** The state of an `Idempotency-Key`, by the API key's id and the header's SHA-256: the process that runs the request, or the stored answer. */
    idempotency: (keyId: string, hash: string) => `${prefix}:idempotency:${keyId}:${hash}`,
    /** Sorted set: "<bytes> <API key's id> <hash>" of each stored answer → when it expires. */
    idempotencyStored: `${prefix}:idempotent:stored`,
    /** Hash: an API key's id → the bytes of its stored answers; `total` → the bytes of all. */
    idempotencyBytes: `${prefix}:idempotent:bytes`,
    /** What a client secret allows, by the SHA-256 of the secret. */
    clientSecret: (hash: string) => `${prefix}:client-secret:${hash}`,
    /** Sorted set: the hashes of an API key's client secrets → when each expires. */
    clientSecretsOf: (keyId: string) => `${prefix}:client-secrets:${keyId}`,
    /** The beginning of the names of all that apps/ingress/stored/bounded-store.ts stores. */
    stored: `${prefix}:stored`,
    storedTotal: `${prefix}:stored:total`,
    storedEntry: (keyId: string, id: string) => `${prefix}:stored:entry:${keyId}:${id}`,
    storedLog: (keyId: string, id: string) => `${prefix}:stored:log:${keyId}:${id}`,
    storedAliases: (keyId: string) => `${prefix}:stored:aliases:${keyId}`,
    /** Sorted set: "<API key's id> <id>" of each generation that goes on without its caller → when its lease expires. */
    runs: `${prefix}:runs`,
    /** Hash: what another ingress needs to take such a generation over. */
    run: (member: string) => `${prefix}:run:${member}`,
    /** Hash: an upstream's target → its circuit breaker (JSON). */
    circuitBreakers: `${prefix}:circuit-breakers`,
    /** Sorted set: the used slots of an upstream with `concurrencyMax` → when each expires. */
    slots: (upstream: string) => `${prefix}:slots:${upstream}`,
    /** The counters of a key, group or account: see libs/access/rate-limit-scripts.ts. */
    limit: (scope: string, name: string, what: "window" | "running" | "reserved" | "budget") =>
      `${prefix}:limit:${scope}:${name}:${what}`,
    /** Sorted set: settled generations, each until its ingress confirms it. */
    limitsSettled: `${prefix}:limits:settled`,
    /** Stream: batches of usage records, which the ledger reads. */
    usage: `${prefix}:usage`,
    /** Stream: sealed content of requests, which control takes (libs/content/content-stream.ts). */
    content: `${prefix}:content`,
    /** Counter: the bytes that ever entered that stream. */
    contentBytes: `${prefix}:content:bytes`,
    /** Expires when the next comparison of budgets with the ledger is due. */
    budgetsCompared: `${prefix}:budgets:compared`,
    /** Hash: a key's id → its usage as the ledger has it (JSON, libs/ledger/key-usage.ts). */
    keyUsage: `${prefix}:key-usage`,
    /** Stream: usage records that the ledger could not read. */
    usageInvalid: `${prefix}:usage:invalid`,
    /** Hash: SHA-256 of a key (hex) → its record (JSON). */
    keys: `${prefix}:keys`,
    /** Counter: grows with every change of `keys`. Absent before the first key. */
    keysVersion: `${prefix}:keys:version`,
    /** Pub/sub channel: announces changes of `keys`. */
    keysChanged: `${prefix}:keys:changed`,
    /** Hash: a process → the slots of this queue that it announces: see libs/relay/redis/queue-slots.ts. */
    queueSlots: (queue: string) => `${prefix}:queue-slots:${queue}`,
    /** Hash: a process → what it reports about itself (JSON, libs/service/process-reports.ts). */
    processes: `${prefix}:processes`,
    /** Hash: the processes that operators have asked to drain. */
    drains: `${prefix}:drains`,
    /** Hash: "<kind> <name>" → what an operator decided about this queue or target (JSON, libs/service/operator-controls.ts). */
    controls: `${prefix}:controls`,
    /** Pub/sub channel: commands of operators to processes (libs/service/process-commands.ts). */
    commands: `${prefix}:commands`,
    /** Hash: a process → its answer to a command (JSON). */
    commandAnswers: (command: string) => `${prefix}:command:${command}`,
    /** Expires when the next rewrite of Redis' append-only file is due. */
    fileRewritten: `${prefix}:file:rewritten`,
  };
}
