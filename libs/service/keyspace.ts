/**
 * Every name that the gateway uses in Redis. Keys that scripts use together have the same hash tag
 * (the part in braces), so that a cluster keeps them on one server:
 * https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#hash-tags. Names
 * without braces spread over all servers.
 */
import { protocols as ownProtocols, type Protocols, readableOf } from "./protocol.ts";

export type Keyspace = ReturnType<typeof keyspaceOf>;

/** The queue for jobs of a protocol; no queue of the catalogue has a name with `@`. */
const queueOf = (queue: string, protocol: number): string => (protocol === 1 ? queue : `${queue}@${protocol}`);

/**
 * The names of a queue's parts for jobs of a protocol. The first has the queue's own name; no queue
 * of the catalogue has a name with `~`.
 */
export const partNamesOf = (queue: string, parts: number, protocol: number): string[] => {
  const name = queueOf(queue, protocol);
  return Array.from({ length: parts }, (_, part) => (part === 0 ? name : `${name}~${part}`));
};

/** The parts for jobs of every protocol that a process reads, its own first. */
export const readablePartsOf = (queue: string, parts: number, protocols: Protocols): string[] =>
  readableOf(protocols).flatMap((protocol) => partNamesOf(queue, parts, protocol));

/** `protocols` of this process, but for tests of upgrades. */
export function keyspaceOf(namespace: string, protocols: Protocols = ownProtocols) {
  /** The beginning of the names of a family of keys. */
  const family = (name: string) => `{${namespace}:${name}}`;
  /**
   * The beginning of the names of what outlives an upgrade: API keys and records for the ledger.
   */
  const lasting = `{${namespace}}`;
  return {
    protocols,
    /** BullMQ's prefix of a queue: its keys are `<prefix>:<queue>:…`. */
    queuePrefix: (queue: string) => family(`queue:${queue}`),
    /** The pub/sub channel of a process. */
    mailbox: (process: string) => `${namespace}:mailbox:${process}`,
    /** A request body that is too large for its job. It expires unless its owner renews it. */
    body: (generation: string) => `${namespace}:body:${generation}`,
    /**
     * The state of an `Idempotency-Key`, by the API key's id and the header's SHA-256: the process
     * that runs the request, or the stored answer.
     */
    idempotency: (keyId: string, hash: string) => `${family("idempotency")}:request:${keyId}:${hash}`,
    /** Sorted set: "<bytes> <API key's id> <hash>" of each stored answer → when it expires. */
    idempotencyStored: `${family("idempotency")}:stored`,
    /** Hash: an API key's id → the bytes of its stored answers; `total` → the bytes of all. */
    idempotencyBytes: `${family("idempotency")}:bytes`,
    /** The rights of a client secret, by the SHA-256 of the secret. */
    clientSecret: (hash: string) => `${family("client-secrets")}:secret:${hash}`,
    /** Sorted set: the hashes of an API key's client secrets → when each expires. */
    clientSecretsOf: (keyId: string) => `${family("client-secrets")}:of:${keyId}`,
    /** The beginning of the names of all that apps/ingress/stored/bounded-store.ts stores. */
    stored: family("stored"),
    storedTotal: `${family("stored")}:total`,
    storedEntry: (keyId: string, id: string) => `${family("stored")}:entry:${keyId}:${id}`,
    storedLog: (keyId: string, id: string) => `${family("stored")}:log:${keyId}:${id}`,
    storedAliases: (keyId: string) => `${family("stored")}:aliases:${keyId}`,
    /**
     * Sorted set: "<API key's id> <id>" of each generation that goes on without its caller → when
     * its lease expires.
     */
    runs: family("runs"),
    /** Hash: what another ingress needs to take such a generation over. */
    run: (member: string) => `${family("runs")}:run:${member}`,
    /** Stream: the ends of background responses, which control takes (response-ends.ts). */
    runsEnded: `${family("runs")}:ended`,
    /** Stream: where sessions are served, other than at their first place (routing/bindings.ts). */
    bindings: family("bindings"),
    /** Pub/sub channel: announces an entry of `bindings`. */
    bindingsChanged: `${namespace}:bindings:changed`,
    /** Stream: what workers learn about credentials and vendors' limits (announcements.ts). */
    routingNews: `${family("routing")}:news`,
    /** Pub/sub channel: announces an entry of `routingNews`. */
    routingNewsChanged: `${namespace}:routing:news:changed`,
    /** Pub/sub channel: how busy and slow targets are (worker/routing/target-measures.ts). */
    targetMeasures: `${namespace}:routing:measures`,
    /** Hash: a limit that the vendor of a target stated → what is left of it (JSON). */
    vendorLimits: (target: string) => `${family("routing")}:limits:${target}`,
    /** Hash: an upstream's target → its circuit breaker (JSON). */
    circuitBreakers: family("circuit-breakers"),
    /**
     * Sorted set: the used slots of an upstream with `concurrencyMax` → when each expires. A part
     * is a credential or target of it, or ends in `:minute`: the hash of requests and tokens of
     * each second. All parts are on the server of the whole.
     */
    slots: (upstream: string, part: string) =>
      part === "" ? `${namespace}:slots:${upstream}` : `{${namespace}:slots:${upstream}}:${part}`,
    /** The counters of a key, group or account: see libs/access/rate-limit-scripts.ts. */
    limit: (scope: string, name: string, what: "window" | "running" | "reserved" | "budget") =>
      `${family("limits")}:${scope}:${name}:${what}`,
    /** Sorted set: settled generations, each until its ingress confirms it. */
    limitsSettled: `${family("limits")}:settled`,
    /** Stream: batches of usage records, which the ledger reads. */
    usage: `${lasting}:usage`,
    /** Stream: sealed content of requests, which control takes (libs/content/content-stream.ts). */
    content: family("content"),
    /** Counter: the bytes that ever entered that stream. */
    contentBytes: `${family("content")}:bytes`,
    /** Expires when the next comparison of budgets with the ledger is due. */
    budgetsCompared: `${namespace}:budgets-compared`,
    /** Hash: a key's id → its usage as the ledger has it (JSON, libs/ledger/key-usage.ts). */
    keyUsage: `${namespace}:key-usage`,
    /** Stream: usage records that the ledger could not read. */
    usageInvalid: `${lasting}:usage:invalid`,
    /** Hash: SHA-256 of a key (hex) → its record (JSON). */
    keys: `${lasting}:keys`,
    /** Counter: grows with every change of `keys`. Absent before the first key. */
    keysVersion: `${lasting}:keys:version`,
    /** Pub/sub channel: announces changes of `keys`. */
    keysChanged: `${lasting}:keys:changed`,
    /**
     * Hash: a process → the slots for jobs of a protocol on this queue that it announces: see
     * libs/relay/redis/queue-slots.ts.
     */
    queueSlots: (queue: string, protocol: number) => `${family(`queue:${queueOf(queue, protocol)}`)}:slots`,
    /** Hash: a process → what it reports about itself (JSON, libs/service/process-reports.ts). */
    processes: family("processes"),
    /** Hash: the processes that operators have asked to drain. */
    drains: `${family("processes")}:drains`,
    /**
     * Hash: "<kind> <name>" → what an operator decided about this queue or target (JSON,
     * libs/service/operator-controls.ts).
     */
    controls: `${lasting}:controls`,
    /** Pub/sub channel: announces a change of `controls`. */
    controlsChanged: `${lasting}:controls:changed`,
    /**
     * Hash: the catalogue's stored entries, and upstreams' sealed credentials
     * (libs/catalogue/publication.ts).
     */
    catalogue: `${lasting}:catalogue`,
    /** Pub/sub channel: announces a change of `catalogue`. */
    catalogueChanged: `${lasting}:catalogue:changed`,
    /**
     * Pub/sub channel: commands of operators about generations
     * (libs/service/generation-commands.ts).
     */
    commands: `${lasting}:commands`,
    /** Pub/sub channel: calls of control, each for one worker (worker-calls.ts). */
    workerCalls: `${lasting}:worker-calls`,
    /** The answer to such a call (JSON). */
    workerAnswer: (id: string) => `${namespace}:worker-answer:${id}`,
    /**
     * Hash: the place of a request in a chunk of a batch → its body for the vendor's batch;
     * `target` → where it is sent (JSON, libs/service/vendor-batch.ts), `bytes` → their sum.
     */
    vendorRequests: (batch: string) => `${namespace}:vendor-requests:${batch}`,
    /** Hash: the place of a request in a chunk of a batch → the body of its answer. */
    vendorAnswers: (batch: string) => `${namespace}:vendor-answers:${batch}`,
    /** Hash: a process → its answer to a command (JSON). */
    commandAnswers: (command: string) => `${namespace}:command:${command}`,
    /** Expires when the next rewrite of Redis' append-only file is due. */
    fileRewritten: `${namespace}:file-rewritten`,
  };
}
