/**
 * The owner's half of the relay. It runs in the process that serves the callers and brings each
 * generation to an end, whatever gets lost. A pure state machine: events and times come in, and the
 * methods return what is to be done. It has no I/O and no clock.
 *
 *     waiting ──first frame of a worker──▶ bound ──end, fail──▶ finished
 *        ▲  ╲                             ╱   ╲
 *        │   ╲── caller leaves ──────────╱─────╲──────────────▶ finished
 *        └────── worker lost ◀─────────────╯ (attempt + 1; fail, if what was delivered stands in the way)
 *
 * waiting: the job was put on the queue; the owner checks it from time to time. bound: exactly one
 * worker runs the attempt.
 */

import { LiveMap } from "#service/live-map.ts";
import type { RelayBounds } from "./bounds.ts";
import {
  type Accept,
  decodeAccept,
  type Frame,
  type FrameKind,
  frameBytesOf,
  frameKinds,
  noPayload,
  type Urgency,
} from "./frame.ts";
import { Link } from "./link.ts";
import { Incoming, Outbox, Outgoing, type OutgoingPort } from "./sequence.ts";

/** Why the relay gave up a generation. */
export type RelayFault = "unavailable" | "worker_lost" | "wait_expired";

export type JobState = "waiting" | "active" | "missing";

export type AnswerKind = "head" | "data" | "usage" | "end" | "fail";

/** The job of an attempt. */
export interface AttemptJob<Client> {
  client: Client;
  number: number;
  attempt: number;
}

/**
 * Calls for the owner's process, in the order of the methods' results.
 *
 * - enqueue: put the job on its queue; report a failure with `enqueueFailed` or `enqueueAgain`.
 * - dequeue: remove the job from its queue, if it is still there.
 * - probe: request the states of these jobs; report them with `probed`.
 * - bind: the attempt has a worker, which has this many further slots free on the queue; 0 if it
 *   did not say.
 * - flow: the window of a session's input is full or has capacity again: pause or resume reading
 *   the caller.
 * - restart: discard what was delivered but has not left for the caller, and enqueue this attempt.
 * - fail: the generation failed.
 */
export type OwnerAction<Client> =
  | ({ kind: "enqueue" | "dequeue" | "restart" } & AttemptJob<Client>)
  | { kind: "probe"; jobs: readonly AttemptJob<Client>[] }
  | { kind: "bind"; client: Client; freeSlots: number }
  | { kind: "flow"; client: Client; isOpen: boolean }
  | { kind: "fail"; client: Client; fault: RelayFault };

/** The calls that cannot wait until a method returns. */
export interface OwnerPort<Client> {
  send(mailbox: string, frame: Frame, urgency?: Urgency): void;
  /** Sends an empty envelope: a sign of life. */
  heartbeat(mailbox: string): void;
  /**
   * Delivers a part of the answer, in order and once in an attempt. Report with `taken` when the
   * caller has read it.
   */
  deliver(client: Client, kind: AnswerKind, payload: Buffer, seq: number): void;
  /**
   * Whether another attempt may start: nothing of the answer has left for the caller, or the next
   * attempt can resume it.
   */
  mayRestart(client: Client): boolean;
}

interface Owned<Client> {
  readonly number: number;
  readonly client: Client;
  /** How long it may wait for a worker, each time it waits. */
  readonly waitMs: number;
  waitUntil: number;
  attempt: number;
  /** How many of its workers were lost. */
  lostRuns: number;
  worker: Worker<Client> | undefined;
  /** The answer's frames, of this attempt. */
  incoming: Incoming;
  /** The frames of the caller's input, to the worker of this attempt; undefined until the first. */
  input: Outgoing<Client> | undefined;
  enqueuedAt: number;
  probedAt: number;
  activeSince: number | undefined;
}

interface Worker<Client> {
  readonly mailbox: string;
  readonly outbox: Outbox<Client>;
  heardAt: number;
  bound: LiveMap<number, Owned<Client>>;
  unackedBytes: number;
  ackedAt: number;
  /** It reported free slots, so nobody waits for one there. */
  hasFreeSlots: boolean;
  /** The usual end of its generations: thousands of them share one object. */
  readonly firstDone: Finished;
}

interface Finished {
  attempt: number;
  worker: string | undefined;
  verdict: "done" | "cancel";
}

export class Owner<Client> {
  readonly #self: string;
  readonly #limits: RelayBounds;
  readonly #port: OwnerPort<Client>;
  readonly #inputPort: OutgoingPort<Client>;
  readonly #link: Link;
  readonly #owned = new LiveMap<number, Owned<Client>>();
  readonly #waiting = new LiveMap<number, Owned<Client>>();
  readonly #workers = new Map<string, Worker<Client>>();
  #finished = new Map<number, Finished>();
  #finishedBefore = new Map<number, Finished>();
  #rememberedAt: number;
  #probesOpen = 0;
  #probedAt = 0;
  /** The last probes found lost jobs. There may be many, so the next probes follow immediately. */
  #probesFoundLost = false;
  #nextNumber = 1;
  #actions: OwnerAction<Client>[] = [];
  /** How many frames of input were sent again because a worker missed them. */
  resends = 0;

  constructor(self: string, limits: RelayBounds, port: OwnerPort<Client>, now: number) {
    this.#self = self;
    this.#limits = limits;
    this.#port = port;
    this.#inputPort = {
      send: (mailbox, frame, urgency) => port.send(mailbox, frame, urgency),
      flow: (client, { isOpen }) => this.#actions.push({ kind: "flow", client, isOpen }),
    };
    this.#link = new Link(limits, now);
    this.#rememberedAt = now;
  }

  get size(): number {
    return this.#owned.size;
  }

  get waitingSize(): number {
    return this.#waiting.size;
  }

  /** The mailbox of the worker that runs the generation; undefined while none does. */
  workerOf(number: number): string | undefined {
    return this.#owned.get(number)?.worker?.mailbox;
  }

  /** The generations that this worker runs. */
  *boundTo(mailbox: string): Generator<Client, void> {
    for (const { client } of this.#workers.get(mailbox)?.bound.values() ?? []) yield client;
  }

  /** Whether frames can arrive. If not, a new generation would hang. */
  isLinked(now: number): boolean {
    return this.#link.isUp(now);
  }

  /** The next generation number of this owner. Numbers repeat after 2³² generations. */
  takeNumber(): number {
    const number = this.#nextNumber;
    this.#nextNumber = number === 0xffff_ffff ? 1 : number + 1;
    return number;
  }

  /** Whether the link has been down for so long that all generations are given up. */
  isLost(now: number): boolean {
    return this.#link.isLost(now);
  }

  /**
   * Starts a generation with a number of `takeNumber`. It waits for a worker for at most `waitMs`
   * from `since`, and for as long again if that worker is lost.
   */
  start(
    client: Client,
    number: number,
    { waitMs, now, since = now }: { waitMs: number; now: number; since?: number },
  ): readonly OwnerAction<Client>[] {
    const owned: Owned<Client> = {
      number,
      client,
      waitMs,
      waitUntil: since + waitMs,
      attempt: 1,
      lostRuns: 0,
      worker: undefined,
      incoming: new Incoming(),
      input: undefined,
      enqueuedAt: now,
      probedAt: now,
      activeSince: undefined,
    };
    this.#owned.set(number, owned);
    this.#waiting.set(number, owned);
    this.#actions.push({ kind: "enqueue", client, number, attempt: 1 });
    return this.#takeActions();
  }

  /**
   * The queue did not take the job, or the outcome is unknown: another attempt is enqueued. If the
   * job of this one runs anyway, its worker is stopped.
   */
  enqueueAgain(number: number, attempt: number, now: number): readonly OwnerAction<Client>[] {
    const owned = this.#owned.get(number);
    if (owned?.attempt === attempt && owned.worker === undefined) this.#enqueueAgain(owned, now);
    return this.#takeActions();
  }

  /**
   * The queue refused the job, or the outcome is unknown. A first attempt fails immediately, so
   * that its caller does not wait; if its job runs anyway, its worker is stopped. A probe finds a
   * later attempt missing.
   */
  enqueueFailed(number: number, attempt: number): readonly OwnerAction<Client>[] {
    const owned = this.#owned.get(number);
    if (owned?.attempt === attempt && owned.worker === undefined && attempt === 1) this.#fail(owned, "unavailable");
    return this.#takeActions();
  }

  /** The caller disconnected. The attempt ends and counts as far as it came. */
  leave(number: number): readonly OwnerAction<Client>[] {
    const owned = this.#owned.get(number);
    if (owned !== undefined) {
      if (owned.worker === undefined) this.#act("dequeue", owned);
      else this.#sendCancel(owned.worker.mailbox, owned, settlePayload);
      this.#finish(owned, "cancel");
    }
    return this.#takeActions();
  }

  /** The caller has read everything up to and including `seq`. */
  taken(number: number, seq: number): void {
    const owned = this.#owned.get(number);
    if (owned === undefined) return;
    owned.incoming.take(seq);
    if (owned.worker !== undefined && owned.incoming.isAckDue(this.#limits)) this.#acknowledge(owned, owned.worker);
  }

  /**
   * Sends a part of the caller's input, at most `payloadBytesMax`, to the worker of the attempt.
   * Without one it is ignored, so send none before the attempt's first frame was delivered, and let
   * no other attempt start afterwards (`mayRestart`).
   */
  input(number: number, payload: Buffer): readonly OwnerAction<Client>[] {
    const owned = this.#owned.get(number);
    if (owned?.worker !== undefined) {
      const { client, attempt, worker } = owned;
      owned.input ??= new Outgoing(
        client,
        { number, attempt },
        { outbox: worker.outbox, limits: this.#limits, port: this.#inputPort },
      );
      owned.input.send(frameKinds.input, payload);
      owned.input.regulate();
    }
    return this.#takeActions();
  }

  /** The most bytes of input kept for one generation, and the most on the way to one mailbox. */
  load(): { generationBytesMax: number; mailboxBytesMax: number } {
    let generationBytesMax = 0;
    let mailboxBytesMax = 0;
    for (const { outbox, bound } of this.#workers.values()) {
      mailboxBytesMax = Math.max(mailboxBytesMax, outbox.travellingBytes);
      for (const { input } of bound.values()) generationBytesMax = Math.max(generationBytesMax, input?.bytes ?? 0);
    }
    return { generationBytesMax, mailboxBytesMax };
  }

  /** An envelope of `sender` arrived. Call it once for each envelope, before its frames. */
  heard(sender: string, now: number): void {
    if (sender === this.#self) this.#link.heardSelf(now);
    else {
      const worker = this.#workers.get(sender);
      if (worker !== undefined) worker.heardAt = now;
    }
  }

  /**
   * An attempt's first frame is `accept`, so the call that returns `bind` delivers nothing.
   */
  receive(sender: string, frame: Frame, now: number): readonly OwnerAction<Client>[] {
    if (isFromWorker(frame.kind)) this.#receive(sender, frame, now);
    return this.#takeActions();
  }

  #receive(sender: string, frame: Frame, now: number): void {
    const owned = this.#owned.get(frame.number);
    if (owned === undefined) this.#answerForFinished(sender, frame);
    else if (frame.attempt !== owned.attempt || (owned.worker !== undefined && owned.worker.mailbox !== sender)) {
      if (frame.kind !== frameKinds.gone) this.#sendCancel(sender, frame, dropPayload);
    } else if (frame.kind === frameKinds.gone) this.#lost(owned, now);
    else {
      const worker =
        owned.worker ??
        this.#bind(owned, sender, now, frame.kind === frameKinds.accept ? decodeAccept(frame.payload) : undefined);
      this.#fromWorker(owned, worker, frame, now);
    }
  }

  probed(number: number, attempt: number, state: JobState, now: number): readonly OwnerAction<Client>[] {
    const owned = this.#waiting.get(number);
    if (owned !== undefined && owned.attempt === attempt) {
      if (state === "active") owned.activeSince ??= now;
      else owned.activeSince = undefined;
      const since = state === "missing" ? owned.enqueuedAt : owned.activeSince;
      if (since !== undefined && this.#link.isSilentSince(since, now)) {
        this.#enqueueAgain(owned, now);
        this.#probesFoundLost = true;
      }
    }
    if (this.#probesOpen > 0 && --this.#probesOpen === 0 && this.#probesFoundLost) this.#probeNext(now);
    return this.#takeActions();
  }

  /** The states could not be requested. */
  probeFailed(): void {
    this.#probesOpen = 0;
  }

  /** Call it every `heartbeatMs`. */
  tick(now: number): readonly OwnerAction<Client>[] {
    this.#port.heartbeat(this.#self);
    const lost = this.#link.isLost(now);
    for (const owned of this.#owned.values()) {
      if (lost) this.#fail(owned, "unavailable");
      else if (owned.worker === undefined && now >= owned.waitUntil) this.#fail(owned, "wait_expired");
    }
    for (const worker of this.#workers.values()) {
      if (worker.bound.size === 0) this.#workers.delete(worker.mailbox);
      else if (this.#link.isSilentSince(worker.heardAt, now))
        for (const owned of worker.bound.values()) this.#lost(owned, now);
      else this.#heartbeat(worker, now);
    }
    this.#probeNext(now);
    if (now - this.#rememberedAt > this.#limits.rememberMs) {
      this.#rememberedAt = now;
      this.#finishedBefore = this.#finished;
      this.#finished = new Map();
    }
    return this.#takeActions();
  }

  /** A call without actions allocates nothing. */
  #takeActions(): readonly OwnerAction<Client>[] {
    const actions = this.#actions;
    if (actions.length > 0) this.#actions = [];
    return actions;
  }

  #act(kind: "enqueue" | "dequeue" | "restart", { client, number, attempt }: Owned<Client>): void {
    this.#actions.push({ kind, client, number, attempt });
  }

  #bind(owned: Owned<Client>, mailbox: string, now: number, accept: Accept | undefined): Worker<Client> {
    let worker = this.#workers.get(mailbox);
    if (worker === undefined) {
      worker = {
        mailbox,
        outbox: new Outbox(mailbox),
        heardAt: now,
        bound: new LiveMap(),
        unackedBytes: 0,
        ackedAt: now,
        hasFreeSlots: false,
        firstDone: { attempt: 1, worker: mailbox, verdict: "done" },
      };
      this.#workers.set(mailbox, worker);
    }
    if (accept !== undefined) worker.hasFreeSlots = accept.freeSlots > 0;
    owned.worker = worker;
    worker.bound.set(owned.number, owned);
    this.#waiting.delete(owned.number);
    this.#send(worker.mailbox, owned, frameKinds.go, { urgency: accept?.waits === false ? "idle" : "prompt" });
    this.#actions.push({ kind: "bind", client: owned.client, freeSlots: accept?.freeSlots ?? 0 });
    return worker;
  }

  #fromWorker(owned: Owned<Client>, worker: Worker<Client>, frame: Frame, now: number): void {
    switch (frame.kind) {
      case frameKinds.quiet:
        if (frame.seq >= owned.incoming.expected) this.#askMissing(owned, worker, now);
        return;
      case frameKinds.ack:
        if (frame.payload.length === 4) owned.input?.acknowledged(frame.seq, frame.payload.readUInt32LE());
        return;
      case frameKinds.missing:
        this.resends += owned.input?.resend(frame.seq) ?? 0;
        return;
      default:
        this.#sequenced(owned, worker, frame, now);
    }
  }

  #sequenced(owned: Owned<Client>, worker: Worker<Client>, frame: Frame, now: number): void {
    const bytes = frameBytesOf(frame);
    if (!owned.incoming.accept(frame.seq, bytes)) {
      if (frame.seq > owned.incoming.expected) this.#askMissing(owned, worker, now);
      return;
    }
    worker.unackedBytes += bytes;
    const kind = answerKindOf(frame.kind);
    if (kind === undefined) {
      this.taken(owned.number, frame.seq);
      return;
    }
    if (kind === "end" || kind === "fail") {
      this.#finish(owned, "done");
      this.#send(worker.mailbox, owned, frameKinds.done, { urgency: worker.hasFreeSlots ? "idle" : "prompt" });
    }
    this.#port.deliver(owned.client, kind, frame.payload, frame.seq);
    if (worker.unackedBytes * 4 > this.#limits.mailboxWindowBytes || now - worker.ackedAt > this.#limits.ackMs)
      this.#acknowledgeAll(worker, now);
  }

  #askMissing(owned: Owned<Client>, worker: Worker<Client>, now: number): void {
    if (owned.incoming.asksMissing(this.#limits, now))
      this.#send(worker.mailbox, owned, frameKinds.missing, { seq: owned.incoming.expected });
  }

  /**
   * Sends a sign of life, acknowledges progress, and acknowledges quiet generations again in case
   * that was lost.
   */
  #heartbeat(worker: Worker<Client>, now: number): void {
    this.#port.heartbeat(worker.mailbox);
    for (const owned of worker.bound.values()) {
      if (owned.incoming.mayBeUnacked) this.#acknowledge(owned, worker);
      owned.incoming.heard = false;
      if (owned.input?.hasArrived === false) owned.input.heartbeat();
    }
    worker.unackedBytes = 0;
    worker.ackedAt = now;
  }

  #acknowledgeAll(worker: Worker<Client>, now: number): void {
    for (const owned of worker.bound.values()) if (owned.incoming.hasNew) this.#acknowledge(owned, worker, "idle");
    worker.unackedBytes = 0;
    worker.ackedAt = now;
  }

  #acknowledge(owned: Owned<Client>, { mailbox }: Worker<Client>, urgency: Urgency = "prompt"): void {
    const { expected: seq } = owned.incoming;
    this.#send(mailbox, owned, frameKinds.ack, { seq, payload: owned.incoming.acknowledgement(), urgency });
  }

  #lost(owned: Owned<Client>, now: number): void {
    owned.lostRuns++;
    if (!this.#port.mayRestart(owned.client) || owned.lostRuns >= this.#limits.runsMax)
      this.#fail(owned, "worker_lost");
    else {
      if (owned.worker !== undefined) owned.waitUntil = now + owned.waitMs;
      this.#enqueueAgain(owned, now);
    }
  }

  #enqueueAgain(owned: Owned<Client>, now: number): void {
    owned.worker?.bound.delete(owned.number);
    owned.worker = undefined;
    owned.attempt++;
    owned.incoming = new Incoming();
    owned.input?.forget();
    owned.input = undefined;
    owned.enqueuedAt = now;
    owned.probedAt = now;
    owned.activeSince = undefined;
    this.#waiting.set(owned.number, owned);
    this.#act("restart", owned);
  }

  #fail(owned: Owned<Client>, fault: RelayFault): void {
    if (owned.worker === undefined) this.#act("dequeue", owned);
    else this.#sendCancel(owned.worker.mailbox, owned, dropPayload);
    this.#forget(owned);
    this.#finished.set(owned.number, { attempt: 0, worker: undefined, verdict: "cancel" });
    this.#actions.push({ kind: "fail", client: owned.client, fault });
  }

  #finish(owned: Owned<Client>, verdict: "done" | "cancel"): void {
    this.#forget(owned);
    const { number, attempt, worker } = owned;
    const isUsual = attempt === 1 && verdict === "done" && worker !== undefined;
    this.#finished.set(number, isUsual ? worker.firstDone : { attempt, worker: worker?.mailbox, verdict });
  }

  #forget(owned: Owned<Client>): void {
    this.#owned.delete(owned.number);
    this.#waiting.delete(owned.number);
    owned.worker?.bound.delete(owned.number);
    owned.input?.forget();
  }

  #answerForFinished(sender: string, frame: Frame): void {
    if (frame.kind === frameKinds.gone) return;
    const finished = this.#finished.get(frame.number) ?? this.#finishedBefore.get(frame.number);
    const counts =
      finished !== undefined && finished.attempt === frame.attempt && (finished.worker ?? sender) === sender;
    if (!counts) this.#sendCancel(sender, frame, dropPayload);
    else {
      finished.worker = sender;
      if (finished.verdict === "done") this.#send(sender, frame, frameKinds.done);
      else this.#sendCancel(sender, frame, settlePayload);
    }
  }

  #probeNext(now: number): void {
    if (!this.#link.isUp(now) || (this.#probesOpen > 0 && now - this.#probedAt < this.#limits.graceMs)) return;
    const jobs: AttemptJob<Client>[] = [];
    for (const owned of this.#waiting.values()) {
      if (
        jobs.length >= this.#limits.probesMax ||
        now - owned.probedAt < (this.#probesFoundLost ? 1 : this.#limits.probeMs)
      )
        break;
      jobs.push({ client: owned.client, number: owned.number, attempt: owned.attempt });
    }
    if (jobs.length === 0) return;
    for (const { number } of jobs) {
      const owned = this.#waiting.get(number) as Owned<Client>;
      owned.probedAt = now;
      this.#waiting.delete(number);
      this.#waiting.set(number, owned);
    }
    this.#probesFoundLost = false;
    this.#probesOpen = jobs.length;
    this.#probedAt = now;
    this.#actions.push({ kind: "probe", jobs });
  }

  /** The payload tells whether the attempt counts as far as it came. */
  #sendCancel(mailbox: string, attempt: Pick<Frame, "number" | "attempt">, payload: Buffer): void {
    this.#send(mailbox, attempt, frameKinds.cancel, { payload });
  }

  #send(
    mailbox: string,
    { number, attempt }: Pick<Frame, "number" | "attempt">,
    kind: FrameKind,
    { seq = 0, payload = noPayload, urgency = "prompt" }: { seq?: number; payload?: Buffer; urgency?: Urgency } = {},
  ): void {
    this.#port.send(mailbox, { kind, number, attempt, seq, payload }, urgency);
  }
}

const settlePayload = Buffer.from([1]);
const dropPayload = Buffer.from([0]);

const isFromWorker = (kind: FrameKind): boolean =>
  (kind >= frameKinds.accept && kind <= frameKinds.usage) || kind === frameKinds.ack || kind === frameKinds.missing;

function answerKindOf(kind: FrameKind): AnswerKind | undefined {
  switch (kind) {
    case frameKinds.head:
      return "head";
    case frameKinds.data:
      return "data";
    case frameKinds.usage:
      return "usage";
    case frameKinds.end:
      return "end";
    case frameKinds.fail:
      return "fail";
    default:
      return undefined;
  }
}
