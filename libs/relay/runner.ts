/**
 * The worker's half of the relay. It runs attempts for owners in other processes and keeps each frame until the owner has taken it. A pure state machine, like
 * the owner.
 *
 *     taken ──go, or the owner is known to be alive──▶ running ──end, fail──▶ ended ──done──▶ forgotten
 *       ╲                                                ╲                     ╲
 *        ╰── cancel, owner gone, link lost, own freeze ───╰─────────────────────╰───────────▶ forgotten
 */

import type { RelayBounds } from "./bounds.ts";
import { idleOwnersMax } from "./bounds.ts";
import { encodeAccept, type Frame, type FrameKind, frameBytesOf, frameKinds, noPayload } from "./frame.ts";
import { Link } from "./link.ts";
import { LiveMap } from "./live-map.ts";
import type { AnswerKind } from "./owner.ts";

/** The outcome of an attempt that counts: it completed, or it was cancelled because its caller or owner left. */
export type Outcome = "done" | "cancelled";

export interface RunnerPort<Task> {
  /** `idly`: nobody waits for the frame, so it may leave with a later one. */
  send(mailbox: string, frame: Frame, idly?: boolean): void;
  /** Sends an empty envelope: a sign of life. */
  heartbeat(mailbox: string): void;
  /** Calls the upstream; send its answer for `run`. Called once per task, possibly before `take` returns. */
  run(task: Task, run: Run<Task>): void;
  /** Stops the call. Further frames of this task are ignored. */
  abort(task: Task): void;
  /** The window is full (`open` is false) or has capacity again: pause or resume reading the upstream. */
  flow(task: Task, open: boolean): void;
  /** The dispatch is over: complete the job. Called once per task. */
  dispatched(task: Task): void;
  /** Records what the attempt used. `isOrphaned`: its owner is unreachable. */
  settle(task: Task, outcome: Outcome, isOrphaned: boolean): void;
  /** The task is over; free its slot. Called once per task, last. */
  forget(task: Task): void;
}

interface Sent {
  seq: number;
  bytes: number;
  kind: FrameKind;
  /** Undefined once it arrived at the owner. */
  payload: Buffer | undefined;
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
  nextSeq: number;
  /** Frames that the caller has not read, oldest first. */
  sent: Sent[];
  sentBytes: number;
  /** All frames before this seq arrived at the owner. */
  arrived: number;
  open: boolean;
  quiet: boolean;
  forgotten: boolean;
}

interface OwnerPeer<Task> {
  readonly mailbox: string;
  heardAt: number;
  /** When it was declared dead; undefined once it is heard again. Its further jobs get no slot. */
  goneAt: number | undefined;
  runs: LiveMap<number, Run<Task>>;
  /** Bytes on the way to the owner's mailbox. */
  travellingBytes: number;
  /** The numbers of attempts whose window is closed. */
  closed: Set<number>;
}

export class Runner<Task> {
  readonly #self: string;
  readonly #limits: RelayBounds;
  readonly #port: RunnerPort<Task>;
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
      mailboxBytesMax = Math.max(mailboxBytesMax, owner.travellingBytes);
      for (const run of owner.runs.values()) generationBytesMax = Math.max(generationBytesMax, run.sentBytes);
    }
    return { generationBytesMax, mailboxBytesMax };
  }

  /** Whether frames can leave and arrive. Take no job while they cannot. */
  isLinked(now: number): boolean {
    return this.#link.isUp(now);
  }

  /**
   * Takes an attempt for an owner: announces it with the number of free slots, and runs it as soon as the owner is known to be alive. Of a dead owner, one
   * attempt is kept at a time, to see whether the owner is back; others are dropped, so that the jobs of a dead process delay nobody.
   */
  take(task: Task, mailbox: string, number: number, attempt: number, freeSlots: number, now: number): void {
    this.#wake(now);
    const owner = this.#ownerOf(mailbox);
    const known = owner.runs.get(number);
    if (known !== undefined && known.attempt < attempt) this.#drop(known);
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
      nextSeq: 0,
      sent: [],
      sentBytes: 0,
      arrived: 0,
      open: true,
      quiet: false,
      forgotten: false,
    };
    const isStale = known !== undefined && known.attempt >= attempt;
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
    this.#emit(run, frameKinds.accept, encodeAccept({ waits, freeSlots }), !waits);
    if (!waits) this.#run(run);
  }

  /** Sends a part of the answer, at most `payloadBytesMax` of `data`. `usage` leaves with the next frame. `end` and `fail` are the last. Ignored for a forgotten attempt. */
  send(run: Run<Task>, kind: AnswerKind, payload: Buffer, now: number): void {
    this.#wake(now);
    if (run.forgotten || run.ended) return;
    if (kind === "end" || kind === "fail") {
      run.ended = true;
      run.endedAt = now;
    }
    this.#emit(run, frameKinds[kind], payload, kind === "usage");
    this.#flow(run);
  }

  /** Returns all attempts to their owners, which may run them elsewhere. An attempt that has ended counts, even if its owner has not confirmed it. */
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

  receive(sender: string, frame: Frame, now: number): void {
    this.#wake(now);
    const run = this.#owners.get(sender)?.runs.get(frame.number);
    if (run === undefined || run.attempt !== frame.attempt) {
      if (frame.kind === frameKinds.go || frame.kind === frameKinds.ack || frame.kind === frameKinds.missing)
        this.#sendGone(sender, frame);
      return;
    }
    switch (frame.kind) {
      case frameKinds.go:
        this.#bind(run);
        return;
      case frameKinds.ack:
        this.#bind(run);
        if (frame.payload.length === 4) this.#acknowledged(run, frame.seq, frame.payload.readUInt32LE());
        return;
      case frameKinds.missing:
        this.#bind(run);
        this.#resend(run, frame.seq);
        return;
      case frameKinds.cancel:
        if (frame.payload[0] === 1) this.#settle(run, "cancelled");
        this.#drop(run);
        return;
      case frameKinds.done:
        this.#settle(run, "done");
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
      if (run.quiet)
        this.#port.send(owner.mailbox, {
          kind: frameKinds.quiet,
          number: run.number,
          attempt: run.attempt,
          seq: run.nextSeq - 1,
          payload: noPayload,
        });
      run.quiet = true;
    }
  }

  /**
   * The owner is unreachable. An attempt that ran counts as far as it came, because its `go` or `done` may have been lost. If another attempt of the generation
   * is recorded too, the later one counts.
   */
  #giveUp(run: Run<Task>): void {
    if (run.running) this.#settle(run, run.ended ? "done" : "cancelled", true);
    this.#drop(run);
  }

  /** A process that was frozen for longer than `graceMs` has been replaced, so it drops everything it ran and sends none of it. */
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
        travellingBytes: 0,
        closed: new Set(),
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

  #emit(run: Run<Task>, kind: FrameKind, payload: Buffer, idly = false): void {
    const frame: Frame = { kind, number: run.number, attempt: run.attempt, seq: run.nextSeq++, payload };
    const bytes = frameBytesOf(frame);
    run.sent.push({ seq: frame.seq, bytes, kind, payload });
    run.sentBytes += bytes;
    run.owner.travellingBytes += bytes;
    run.quiet = false;
    this.#port.send(run.owner.mailbox, frame, idly);
  }

  #acknowledged(run: Run<Task>, arrived: number, taken: number): void {
    if (arrived > run.nextSeq || taken > arrived) return;
    if (arrived > run.arrived) {
      for (const sent of run.sent) {
        if (sent.seq >= arrived) break;
        if (sent.payload === undefined) continue;
        sent.payload = undefined;
        run.owner.travellingBytes -= sent.bytes;
      }
      run.arrived = arrived;
    }
    let first = 0;
    for (; first < run.sent.length && (run.sent[first] as Sent).seq < taken; first++)
      run.sentBytes -= (run.sent[first] as Sent).bytes;
    if (first > 0) run.sent.splice(0, first);
    this.#flow(run);
    this.#reopen(run.owner);
  }

  #resend(run: Run<Task>, from: number): void {
    if (from < run.arrived) return;
    for (const { seq, kind, payload } of run.sent) {
      if (seq < from || payload === undefined) continue;
      this.resends++;
      this.#port.send(run.owner.mailbox, { kind, number: run.number, attempt: run.attempt, seq, payload });
    }
    run.quiet = false;
  }

  #hasCapacity(owner: OwnerPeer<Task>): boolean {
    return owner.travellingBytes < this.#limits.mailboxWindowBytes;
  }

  #reopen(owner: OwnerPeer<Task>): void {
    if (owner.closed.size > 0 && this.#hasCapacity(owner))
      for (const number of owner.closed) this.#flow(owner.runs.get(number) as Run<Task>);
  }

  /** Closes a full window, and opens it when half of it is free and the mailbox has capacity. */
  #flow(run: Run<Task>): void {
    if (run.ended || run.forgotten) return;
    const open =
      this.#hasCapacity(run.owner) &&
      run.sentBytes < (run.open ? this.#limits.windowBytes : this.#limits.windowBytes / 2);
    if (open === run.open) return;
    run.open = open;
    if (open) run.owner.closed.delete(run.number);
    else run.owner.closed.add(run.number);
    this.#port.flow(run.task, open);
  }

  #settle(run: Run<Task>, outcome: Outcome, isOrphaned = false): void {
    this.#port.settle(run.task, outcome, isOrphaned);
  }

  #drop(run: Run<Task>): void {
    if (run.forgotten) return;
    run.forgotten = true;
    this.#size--;
    run.owner.runs.delete(run.number);
    run.owner.closed.delete(run.number);
    for (const { payload, bytes } of run.sent) if (payload !== undefined) run.owner.travellingBytes -= bytes;
    run.sent = [];
    this.#reopen(run.owner);
    if (!run.ended) this.#port.abort(run.task);
    if (!run.bound) this.#port.dispatched(run.task);
    this.#port.forget(run.task);
  }

  #sendGone(mailbox: string, { number, attempt }: { number: number; attempt: number }): void {
    this.#port.send(mailbox, { kind: frameKinds.gone, number, attempt, seq: 0, payload: noPayload });
  }
}

function oldestOf<Task>(runs: LiveMap<number, Run<Task>>): Run<Task> {
  return runs.values().next().value as Run<Task>;
}
