/**
 * The worker's half of the relay. It runs attempts for owners in other processes and keeps each
 * frame until the owner has taken it. A pure state machine, like the owner.
 *
 *     taken ──go, or the owner is known to be alive──▶ running ──end, fail──▶ ended ──done──▶ forgotten
 *       ╲                                                ╲                     ╲
 *        ╰── cancel, owner gone, link lost, own freeze ───╰─────────────────────╰───────────▶ forgotten
 */

import { LiveMap } from "#service/live-map.ts";
import type { RelayBounds } from "./bounds.ts";
import { idleOwnersMax } from "./bounds.ts";
import {
  encodeAccept,
  type Frame,
  type FrameKind,
  frameBytesOf,
  frameKinds,
  noPayload,
  type Urgency,
} from "./frame.ts";
import { Link } from "./link.ts";
import type { AnswerKind } from "./owner.ts";
import { Incoming, Outbox, Outgoing, type OutgoingPort } from "./sequence.ts";

/**
 * The outcome of an attempt that counts: it completed, or it was cancelled because its caller or
 * owner left.
 */
export type Outcome = "done" | "cancelled";

export interface AttemptEnd {
  outcome: Outcome;
  /** Its owner is unreachable. */
  isOrphaned: boolean;
}

export interface RunnerPort<Task> {
  send(mailbox: string, frame: Frame, urgency?: Urgency): void;
  /** Sends an empty envelope: a sign of life. */
  heartbeat(mailbox: string): void;
  /**
   * Calls the upstream; send its answer for `run`. Called once per task, possibly before `take`
   * returns.
   */
  run(task: Task, run: Run<Task>): void;
  /** Stops the call. Further frames of this task are ignored. */
  abort(task: Task): void;
  /**
   * The window is full, or has capacity again (`isOpen`): pause or resume reading the upstream.
   */
  flow(task: Task, window: { isOpen: boolean }): void;
  /**
   * A part of the caller's input, in order and once. Report with `taken` when the upstream took it.
   */
  input(task: Task, payload: Buffer, seq: number): void;
  /** The dispatch is over: complete the job. Called once per task. */
  dispatched(task: Task): void;
  /** Records what the attempt used. */
  settle(task: Task, end: AttemptEnd): void;
  /**
   * The owner may be gone: records what the attempt has used so far, in case this process dies
   * before `settle`. Called at most once per task.
   */
  witness(task: Task, end: AttemptEnd): void;
  /** The task is over; free its slot. Called once per task, last. */
  forget(task: Task): void;
}

/** An attempt of a job: the mailbox of its owner, and the slots that the queue has left here. */
export interface TakenJob {
  readonly mailbox: string;
  readonly number: number;
  readonly attempt: number;
  readonly freeSlots: number;
}

/** An attempt that this process runs. */
export interface Run<Task> {
  readonly task: Task;
  readonly number: number;
  readonly attempt: number;
  readonly owner: OwnerPeer<Task>;
  readonly takenAt: number;
  /** The owner bound the attempt to this process. */
  bound: boolean;
  running: boolean;
  ended: boolean;
  endedAt: number;
  /** The first part of the answer's data has left. */
  hasData: boolean;
  /** The answer's frames. */
  readonly outgoing: Outgoing<Task>;
  /** The frames of the caller's input; undefined until the first. */
  input: Incoming | undefined;
  /** Its use so far is recorded, in case this process dies. */
  isWitnessed: boolean;
  forgotten: boolean;
}

interface OwnerPeer<Task> {
  readonly mailbox: string;
  heardAt: number;
  /** When it was declared dead; undefined once it is heard again. Its further jobs get no slot. */
  goneAt: number | undefined;
  runs: LiveMap<number, Run<Task>>;
  readonly outbox: Outbox<Task>;
  /** Bytes of input that arrived since the last acknowledgement. */
  unackedBytes: number;
  ackedAt: number;
}

export class Runner<Task> {
  readonly #self: string;
  readonly #limits: RelayBounds;
  readonly #port: RunnerPort<Task>;
  readonly #outgoingPort: OutgoingPort<Task>;
  readonly #link: Link;
  readonly #owners = new Map<string, OwnerPeer<Task>>();
  /** How many frames were sent again because an owner missed them. */
  resends = 0;
  #size = 0;
  #awakeAt: number;

  constructor(self: string, limits: RelayBounds, port: RunnerPort<Task>, now: number) {
    this.#self = self;
    this.#limits = limits;
    this.#port = port;
    this.#outgoingPort = {
      send: (mailbox, frame, urgency) => port.send(mailbox, frame, urgency),
      flow: (task, window) => port.flow(task, window),
    };
    this.#link = new Link(limits, now);
    this.#awakeAt = now;
  }

  get size(): number {
    return this.#size;
  }

  /** The tasks of all attempts. */
  *tasks(): Generator<Task, void> {
    for (const owner of this.#owners.values()) for (const { task } of owner.runs.values()) yield task;
  }

  /** The most bytes kept for one generation, and the most on the way to one mailbox. */
  load(): { generationBytesMax: number; mailboxBytesMax: number } {
    let generationBytesMax = 0;
    let mailboxBytesMax = 0;
    for (const owner of this.#owners.values()) {
      mailboxBytesMax = Math.max(mailboxBytesMax, owner.outbox.travellingBytes);
      for (const { outgoing } of owner.runs.values()) generationBytesMax = Math.max(generationBytesMax, outgoing.bytes);
    }
    return { generationBytesMax, mailboxBytesMax };
  }

  /** Whether frames can leave and arrive. Take no job while they cannot. */
  isLinked(now: number): boolean {
    return this.#link.isUp(now);
  }

  /**
   * Takes an attempt for an owner: announces it with the number of free slots, and runs it as soon
   * as the owner is known to be alive. For a dead owner, one attempt is kept at a time, to see
   * whether the owner is back; others are dropped, so that the jobs of a dead process delay nobody.
   */
  take(task: Task, { mailbox, number, attempt, freeSlots }: TakenJob, now: number): void {
    this.#wake(now);
    const owner = this.#ownerOf(mailbox);
    const earlier = owner.runs.get(number);
    if (earlier !== undefined && earlier.attempt < attempt) this.#drop(earlier);
    const run: Run<Task> = {
      task,
      number,
      attempt,
      owner,
      takenAt: now,
      bound: false,
      running: false,
      ended: false,
      endedAt: now,
      hasData: false,
      outgoing: new Outgoing(
        task,
        { number, attempt },
        { outbox: owner.outbox, limits: this.#limits, port: this.#outgoingPort },
      ),
      input: undefined,
      isWitnessed: false,
      forgotten: false,
    };
    const isStale = earlier !== undefined && earlier.attempt >= attempt;
    const isOfGoneOwner = owner.goneAt !== undefined && owner.runs.size > 0 && this.#link.isUp(now);
    if (isStale || isOfGoneOwner) {
      run.forgotten = true;
      this.#port.dispatched(task);
      this.#port.forget(task);
      return;
    }
    this.#size++;
    owner.runs.set(number, run);
    const waits = now - owner.heardAt > this.#limits.aliveMs || !this.#link.isUp(now);
    run.outgoing.send(frameKinds.accept, encodeAccept({ waits, freeSlots }), waits ? "prompt" : "idle");
    if (!waits) this.#run(run);
  }

  /**
   * Sends a part of the answer, at most `payloadBytesMax` of `data`. `usage` leaves with the next
   * frame, and data after the first may wait for others. `end` and `fail` are the last. Ignored for
   * a forgotten attempt.
   */
  send(run: Run<Task>, kind: AnswerKind, payload: Buffer, now: number): void {
    this.#wake(now);
    if (run.forgotten || run.ended) return;
    const isData = kind === "data";
    if (kind === "end" || kind === "fail") {
      run.ended = true;
      run.endedAt = now;
      run.outgoing.end();
    }
    run.outgoing.send(frameKinds[kind], payload, kind === "usage" ? "idle" : isData && run.hasData ? "soon" : "prompt");
    run.hasData ||= isData;
    run.outgoing.regulate();
  }

  /** The upstream took the caller's input up to and including `seq`. */
  taken(run: Run<Task>, seq: number): void {
    if (run.forgotten || run.input === undefined) return;
    run.input.take(seq);
    if (run.input.isAckDue(this.#limits)) this.#acknowledgeInput(run, run.input);
  }

  /**
   * Returns all attempts to their owners, which may run them elsewhere. An attempt that has ended
   * counts, even if its owner has not confirmed it.
   */
  handBack(now: number): void {
    this.#wake(now);
    for (const owner of this.#owners.values())
      for (const run of owner.runs.values()) {
        this.#sendGone(run.owner.mailbox, run);
        if (run.ended) this.#giveUp(run);
        else this.#drop(run);
      }
  }

  /** An envelope of `sender` arrived. Call it once for each envelope, before its frames. */
  heard(sender: string, now: number): void {
    this.#wake(now);
    if (sender === this.#self) this.#link.heardSelf(now);
    else {
      const owner = this.#ownerOf(sender);
      owner.heardAt = now;
      owner.goneAt = undefined;
    }
  }

  /** An envelope reached nobody. The owner may be back before its grace time ends. */
  unreachable(mailbox: string): void {
    for (const run of this.#owners.get(mailbox)?.runs.values() ?? []) {
      if (!run.running || run.isWitnessed) continue;
      run.isWitnessed = true;
      this.#port.witness(run.task, orphanedEndOf(run));
    }
  }

  receive(sender: string, frame: Frame, now: number): void {
    this.#wake(now);
    const run = this.#owners.get(sender)?.runs.get(frame.number);
    if (run === undefined || run.attempt !== frame.attempt) {
      if (mayWantAnswer.has(frame.kind)) this.#sendGone(sender, frame);
      return;
    }
    switch (frame.kind) {
      case frameKinds.go:
        this.#bind(run);
        return;
      case frameKinds.ack:
        this.#bind(run);
        if (frame.payload.length === 4) run.outgoing.acknowledged(frame.seq, frame.payload.readUInt32LE());
        return;
      case frameKinds.missing:
        this.#bind(run);
        this.resends += run.outgoing.resend(frame.seq);
        return;
      case frameKinds.input:
        this.#bind(run);
        this.#inputArrived(run, frame, now);
        return;
      case frameKinds.quiet:
        this.#bind(run);
        if (frame.seq >= (run.input?.expected ?? 0)) this.#askMissingInput(run, now);
        return;
      case frameKinds.cancel:
        if (frame.payload[0] === 1) this.#port.settle(run.task, { outcome: "cancelled", isOrphaned: false });
        this.#drop(run);
        return;
      case frameKinds.done:
        this.#port.settle(run.task, { outcome: "done", isOrphaned: false });
        this.#drop(run);
        return;
      default:
        return;
    }
  }

  /** Call it every `heartbeatMs`. */
  tick(now: number): void {
    this.#wake(now);
    this.#port.heartbeat(this.#self);
    const lost = this.#link.isLost(now);
    let idle = 0;
    for (const owner of [...this.#owners.values()].reverse()) {
      if (owner.runs.size === 0) {
        const isRemembered =
          now - (owner.goneAt ?? owner.heardAt) <=
          (owner.goneAt === undefined ? this.#limits.graceMs : this.#limits.rememberMs);
        if (++idle > idleOwnersMax || !isRemembered) this.#owners.delete(owner.mailbox);
      } else if (lost || this.#link.isSilentSince(Math.max(owner.heardAt, oldestOf(owner.runs).takenAt), now)) {
        if (!lost) owner.goneAt = now;
        for (const run of owner.runs.values()) this.#giveUp(run);
      } else this.#heartbeat(owner, now);
    }
  }

  #heartbeat(owner: OwnerPeer<Task>, now: number): void {
    this.#port.heartbeat(owner.mailbox);
    for (const run of owner.runs.values()) {
      const waitsSince = run.ended ? run.endedAt : run.bound ? now : run.takenAt;
      if (now - waitsSince > this.#limits.downMs) {
        this.#giveUp(run);
        continue;
      }
      run.outgoing.heartbeat();
      if (run.input === undefined) continue;
      if (run.input.mayBeUnacked) this.#acknowledgeInput(run, run.input);
      run.input.heard = false;
    }
  }

  #inputArrived(run: Run<Task>, frame: Frame, now: number): void {
    const { owner } = run;
    run.input ??= new Incoming();
    const bytes = frameBytesOf(frame);
    if (!run.input.accept(frame.seq, bytes)) {
      if (frame.seq > run.input.expected) this.#askMissingInput(run, now);
      return;
    }
    owner.unackedBytes += bytes;
    if (run.ended) run.input.take(frame.seq);
    else this.#port.input(run.task, frame.payload, frame.seq);
    if (owner.unackedBytes * 4 <= this.#limits.mailboxWindowBytes && now - owner.ackedAt <= this.#limits.ackMs) return;
    for (const other of owner.runs.values())
      if (other.input?.hasNew === true) this.#acknowledgeInput(other, other.input, "idle");
    owner.unackedBytes = 0;
    owner.ackedAt = now;
  }

  #askMissingInput(run: Run<Task>, now: number): void {
    run.input ??= new Incoming();
    if (run.input.asksMissing(this.#limits, now))
      this.#sendAbout(run, { kind: frameKinds.missing, seq: run.input.expected });
  }

  #acknowledgeInput(run: Run<Task>, input: Incoming, urgency: Urgency = "prompt"): void {
    this.#sendAbout(run, { kind: frameKinds.ack, seq: input.expected, payload: input.acknowledgement() }, urgency);
  }

  #sendAbout(
    { owner, number, attempt }: Run<Task>,
    { kind, seq, payload = noPayload }: { kind: FrameKind; seq: number; payload?: Buffer },
    urgency: Urgency = "prompt",
  ): void {
    this.#port.send(owner.mailbox, { kind, number, attempt, seq, payload }, urgency);
  }

  /**
   * The owner is unreachable. An attempt that ran counts as far as it came, because its `go` or
   * `done` may have been lost. If another attempt of the generation is recorded too, the later one
   * counts.
   */
  #giveUp(run: Run<Task>): void {
    if (run.running) this.#port.settle(run.task, orphanedEndOf(run));
    this.#drop(run);
  }

  /**
   * A process that was frozen for longer than `graceMs` has been replaced, so it drops everything
   * it ran and sends none of it.
   */
  #wake(now: number): void {
    const frozen = now - this.#awakeAt > this.#limits.graceMs;
    this.#awakeAt = now;
    if (frozen) for (const owner of this.#owners.values()) for (const run of owner.runs.values()) this.#drop(run);
  }

  #ownerOf(mailbox: string): OwnerPeer<Task> {
    let owner = this.#owners.get(mailbox);
    if (owner === undefined) {
      owner = {
        mailbox,
        heardAt: Number.NEGATIVE_INFINITY,
        goneAt: undefined,
        runs: new LiveMap(),
        outbox: new Outbox(mailbox),
        unackedBytes: 0,
        ackedAt: Number.NEGATIVE_INFINITY,
      };
      this.#owners.set(mailbox, owner);
    }
    return owner;
  }

  #bind(run: Run<Task>): void {
    if (run.bound) return;
    run.bound = true;
    this.#port.dispatched(run.task);
    this.#run(run);
  }

  #run(run: Run<Task>): void {
    if (run.running) return;
    run.running = true;
    this.#port.run(run.task, run);
  }

  #drop(run: Run<Task>): void {
    if (run.forgotten) return;
    run.forgotten = true;
    this.#size--;
    run.owner.runs.delete(run.number);
    run.outgoing.forget();
    if (!run.ended) this.#port.abort(run.task);
    if (!run.bound) this.#port.dispatched(run.task);
    this.#port.forget(run.task);
  }

  #sendGone(mailbox: string, { number, attempt }: { number: number; attempt: number }): void {
    this.#port.send(mailbox, { kind: frameKinds.gone, number, attempt, seq: 0, payload: noPayload });
  }
}

const orphanedEndOf = ({ ended }: { ended: boolean }): AttemptEnd => ({
  outcome: ended ? "done" : "cancelled",
  isOrphaned: true,
});

/** Frames of an owner that believes this worker to run the attempt. */
const mayWantAnswer: ReadonlySet<FrameKind> = new Set([
  frameKinds.go,
  frameKinds.ack,
  frameKinds.missing,
  frameKinds.input,
  frameKinds.quiet,
]);

function oldestOf<Task>(runs: LiveMap<number, Run<Task>>): Run<Task> {
  return runs.values().next().value as Run<Task>;
}
