/**
 * The worker's half of the relay: it runs attempts for owners elsewhere, and remembers of each what its owner has not yet taken.
 * A pure state machine like the owner's.
 *
 *     taken ──go, or the owner is known to be alive──▶ running ──end, fail──▶ ended ──done──▶ forgotten
 *       ╲                                                ╲                     ╲
 *        ╰── cancel, owner gone, link lost, own freeze ───╰─────────────────────╰───────────▶ forgotten
 */
import { encodeAccept, type Frame, type FrameKind, frameBytesOf, frameKinds, noPayload } from "./frame.ts";
import type { RelayLimits } from "./limits.ts";
import { Link } from "./link.ts";
import { LiveMap } from "./live-map.ts";
import type { AnswerKind } from "./owner.ts";

/** How an attempt that counts came out: answered in full, or as far as it got before its caller or its owner left. */
export type Outcome = "done" | "cancelled";

export interface RunnerPort<Task> {
  /** `idly`: nobody waits for it, so that it may go with the next that somebody does. */
  send(mailbox: string, frame: Frame, idly?: boolean): void;
  /** An empty envelope: the sender is alive. */
  pulse(mailbox: string): void;
  /** Call the upstream; what it says is sent for `held`. Once per task, perhaps before `take` returns. */
  run(task: Task, held: Held<Task>): void;
  /** Stop calling the upstream, at once; nothing more is taken from this task. */
  abort(task: Task): void;
  /** The window is full (or has room again): stop (or go on) reading the upstream. */
  flow(task: Task, open: boolean): void;
  /** The hand-over is over: the job can be finished. Once per task. */
  handedOver(task: Task): void;
  /** Record what the attempt used. */
  settle(task: Task, outcome: Outcome): void;
  /** The task is forgotten; its place is free. Once per task, after everything else. */
  forget(task: Task): void;
}

interface Sent {
  seq: number;
  bytes: number;
  kind: FrameKind;
  /** Undefined once the owner has it. */
  payload: Buffer | undefined;
}

/** An attempt held by this process. */
export interface Held<Task> {
  readonly task: Task;
  readonly number: number;
  readonly attempt: number;
  readonly owner: OwnerPeer<Task>;
  readonly takenAt: number;
  /** The owner said that the attempt is ours. */
  bound: boolean;
  running: boolean;
  ended: boolean;
  endedAt: number;
  nextSeq: number;
  /** Sent and not yet taken by the caller, oldest first. */
  sent: Sent[];
  sentBytes: number;
  /** All before this seq arrived at the owner. */
  arrived: number;
  open: boolean;
  quiet: boolean;
  forgotten: boolean;
}

interface OwnerPeer<Task> {
  readonly mailbox: string;
  heardAt: number;
  /** When it was found silent for the grace time; undefined when it was heard since. Its further jobs are not worth a place. */
  goneAt: number | undefined;
  held: LiveMap<number, Held<Task>>;
  /** Bytes on the way to the owner's mailbox. */
  travellingBytes: number;
  /** The numbers of those whose window is closed. */
  closed: Set<number>;
}

/** How many owners without work are remembered, to know which are alive when their next job comes. */
const idleOwnersMax = 1_000;

export class Runner<Task> {
  readonly #self: string;
  readonly #limits: RelayLimits;
  readonly #port: RunnerPort<Task>;
  readonly #link: Link;
  readonly #owners = new Map<string, OwnerPeer<Task>>();
  /** Frames sent again because an owner missed them. */
  resends = 0;
  #size = 0;
  #awakeAt: number;

  constructor(self: string, limits: RelayLimits, port: RunnerPort<Task>, now: number) {
    this.#self = self;
    this.#limits = limits;
    this.#port = port;
    this.#link = new Link(limits, now);
    this.#awakeAt = now;
  }

  get size(): number {
    return this.#size;
  }

  /** All that are not forgotten. */
  *tasks(): Generator<Task, void> {
    for (const owner of this.#owners.values()) for (const { task } of owner.held.values()) yield task;
  }

  /** The most bytes held for one generation, and the most on the way to one mailbox. */
  load(): { generationBytesMax: number; mailboxBytesMax: number } {
    let generationBytesMax = 0;
    let mailboxBytesMax = 0;
    for (const owner of this.#owners.values()) {
      mailboxBytesMax = Math.max(mailboxBytesMax, owner.travellingBytes);
      for (const held of owner.held.values()) generationBytesMax = Math.max(generationBytesMax, held.sentBytes);
    }
    return { generationBytesMax, mailboxBytesMax };
  }

  /** Can frames leave and arrive? While they can't, no job should be taken. */
  isLinked(now: number): boolean {
    return this.#link.isUp(now);
  }

  /**
   * Takes an attempt for an owner: announces it, and begins it as soon as the owner is known to be alive. Of an owner that is gone one attempt
   * is held at a time, to see whether it is back; the others are forgotten at once, so that what a dead process left waiting holds nobody up. The
   * owner is told of the `room` that is left here.
   */
  take(task: Task, mailbox: string, number: number, attempt: number, room: number, now: number): void {
    this.#wake(now);
    const owner = this.#ownerOf(mailbox);
    const known = owner.held.get(number);
    if (known !== undefined && known.attempt < attempt) this.#drop(known);
    const held: Held<Task> = {
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
    const isOfGoneOwner = owner.goneAt !== undefined && owner.held.size > 0 && this.#link.isUp(now);
    if (isStale || isOfGoneOwner) {
      held.forgotten = true;
      this.#port.handedOver(task);
      this.#port.forget(task);
      return;
    }
    this.#size++;
    owner.held.set(number, held);
    const waits = now - owner.heardAt > this.#limits.aliveMs || !this.#link.isUp(now);
    this.#emit(held, frameKinds.accept, encodeAccept({ waits, room }), !waits);
    if (!waits) this.#run(held);
  }

  /** Sends a piece of the answer; of `data` at most `payloadBytesMax`. Nobody waits for `usage`: it goes with what comes next. After `end` or `fail` nothing more may come. Ignored for what is forgotten. */
  send(held: Held<Task>, kind: AnswerKind, payload: Buffer, now: number): void {
    this.#wake(now);
    if (held.forgotten || held.ended) return;
    if (kind === "end" || kind === "fail") {
      held.ended = true;
      held.endedAt = now;
    }
    this.#emit(held, frameKinds[kind], payload, kind === "usage");
    this.#flow(held);
  }

  /** Hands all attempts back: their owners may run them elsewhere. One that has ended counts, though its owner has not said so yet. */
  handBack(now: number): void {
    this.#wake(now);
    for (const owner of this.#owners.values())
      for (const held of owner.held.values()) {
        this.#sendGone(held.owner.mailbox, held);
        if (held.ended) this.#giveUp(held);
        else this.#drop(held);
      }
  }

  /** Something came from `sender`; call it once for every envelope, before its frames. */
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
    const held = this.#owners.get(sender)?.held.get(frame.number);
    if (held === undefined || held.attempt !== frame.attempt) {
      if (frame.kind === frameKinds.go || frame.kind === frameKinds.ack || frame.kind === frameKinds.missing)
        this.#sendGone(sender, frame);
      return;
    }
    switch (frame.kind) {
      case frameKinds.go:
        this.#bind(held);
        return;
      case frameKinds.ack:
        this.#bind(held);
        if (frame.payload.length === 4) this.#acknowledged(held, frame.seq, frame.payload.readUInt32LE());
        return;
      case frameKinds.missing:
        this.#bind(held);
        this.#resend(held, frame.seq);
        return;
      case frameKinds.cancel:
        if (frame.payload[0] === 1) this.#settle(held, "cancelled");
        this.#drop(held);
        return;
      case frameKinds.done:
        this.#settle(held, "done");
        this.#drop(held);
        return;
      default:
        return;
    }
  }

  /** Call it every `pulseMs`. */
  tick(now: number): void {
    this.#wake(now);
    this.#port.pulse(this.#self);
    const lost = this.#link.isLost(now);
    let idle = 0;
    for (const owner of [...this.#owners.values()].reverse()) {
      if (owner.held.size === 0) {
        const isRemembered =
          now - (owner.goneAt ?? owner.heardAt) <=
          (owner.goneAt === undefined ? this.#limits.graceMs : this.#limits.rememberMs);
        if (++idle > idleOwnersMax || !isRemembered) this.#owners.delete(owner.mailbox);
      } else if (lost || this.#link.isSilentSince(Math.max(owner.heardAt, oldestOf(owner.held).takenAt), now)) {
        if (!lost) owner.goneAt = now;
        for (const held of owner.held.values()) this.#giveUp(held);
      } else this.#pulse(owner, now);
    }
  }

  #pulse(owner: OwnerPeer<Task>, now: number): void {
    this.#port.pulse(owner.mailbox);
    for (const held of owner.held.values()) {
      const waitsSince = held.ended ? held.endedAt : held.bound ? now : held.takenAt;
      if (now - waitsSince > this.#limits.downMs) {
        this.#giveUp(held);
        continue;
      }
      if (held.quiet)
        this.#port.send(owner.mailbox, {
          kind: frameKinds.quiet,
          number: held.number,
          attempt: held.attempt,
          seq: held.nextSeq - 1,
          payload: noPayload,
        });
      held.quiet = true;
    }
  }

  /**
   * The owner can't be reached: what was begun counts as far as it came, for its `go` or its `done` may be what got lost. Should another
   * attempt of the generation be settled too, the ledger keeps the later one.
   */
  #giveUp(held: Held<Task>): void {
    if (held.running) this.#settle(held, held.ended ? "done" : "cancelled");
    this.#drop(held);
  }

  /** A process that was frozen for longer than others wait for it has been replaced: it must not send another byte of what it held. */
  #wake(now: number): void {
    const frozen = now - this.#awakeAt > this.#limits.graceMs;
    this.#awakeAt = now;
    if (frozen) for (const owner of this.#owners.values()) for (const held of owner.held.values()) this.#drop(held);
  }

  #ownerOf(mailbox: string): OwnerPeer<Task> {
    let owner = this.#owners.get(mailbox);
    if (owner === undefined) {
      owner = {
        mailbox,
        heardAt: Number.NEGATIVE_INFINITY,
        goneAt: undefined,
        held: new LiveMap(),
        travellingBytes: 0,
        closed: new Set(),
      };
      this.#owners.set(mailbox, owner);
    }
    return owner;
  }

  #bind(held: Held<Task>): void {
    if (held.bound) return;
    held.bound = true;
    this.#port.handedOver(held.task);
    this.#run(held);
  }

  #run(held: Held<Task>): void {
    if (held.running) return;
    held.running = true;
    this.#port.run(held.task, held);
  }

  #emit(held: Held<Task>, kind: FrameKind, payload: Buffer, idly = false): void {
    const frame: Frame = { kind, number: held.number, attempt: held.attempt, seq: held.nextSeq++, payload };
    const bytes = frameBytesOf(frame);
    held.sent.push({ seq: frame.seq, bytes, kind, payload });
    held.sentBytes += bytes;
    held.owner.travellingBytes += bytes;
    held.quiet = false;
    this.#port.send(held.owner.mailbox, frame, idly);
  }

  #acknowledged(held: Held<Task>, arrived: number, taken: number): void {
    if (arrived > held.nextSeq || taken > arrived) return;
    if (arrived > held.arrived) {
      for (const sent of held.sent) {
        if (sent.seq >= arrived) break;
        if (sent.payload === undefined) continue;
        sent.payload = undefined;
        held.owner.travellingBytes -= sent.bytes;
      }
      held.arrived = arrived;
    }
    let first = 0;
    for (; first < held.sent.length && (held.sent[first] as Sent).seq < taken; first++)
      held.sentBytes -= (held.sent[first] as Sent).bytes;
    if (first > 0) held.sent.splice(0, first);
    this.#flow(held);
    this.#reopen(held.owner);
  }

  #resend(held: Held<Task>, from: number): void {
    if (from < held.arrived) return;
    for (const { seq, kind, payload } of held.sent) {
      if (seq < from || payload === undefined) continue;
      this.resends++;
      this.#port.send(held.owner.mailbox, { kind, number: held.number, attempt: held.attempt, seq, payload });
    }
    held.quiet = false;
  }

  #hasRoom(owner: OwnerPeer<Task>): boolean {
    return owner.travellingBytes < this.#limits.mailboxWindowBytes;
  }

  #reopen(owner: OwnerPeer<Task>): void {
    if (owner.closed.size > 0 && this.#hasRoom(owner))
      for (const number of owner.closed) this.#flow(owner.held.get(number) as Held<Task>);
  }

  /** A full window closes; it opens again when it is half empty, and the mailbox has room. */
  #flow(held: Held<Task>): void {
    if (held.ended || held.forgotten) return;
    const open =
      this.#hasRoom(held.owner) &&
      held.sentBytes < (held.open ? this.#limits.windowBytes : this.#limits.windowBytes / 2);
    if (open === held.open) return;
    held.open = open;
    if (open) held.owner.closed.delete(held.number);
    else held.owner.closed.add(held.number);
    this.#port.flow(held.task, open);
  }

  #settle(held: Held<Task>, outcome: Outcome): void {
    this.#port.settle(held.task, outcome);
  }

  #drop(held: Held<Task>): void {
    if (held.forgotten) return;
    held.forgotten = true;
    this.#size--;
    held.owner.held.delete(held.number);
    held.owner.closed.delete(held.number);
    for (const { payload, bytes } of held.sent) if (payload !== undefined) held.owner.travellingBytes -= bytes;
    held.sent = [];
    this.#reopen(held.owner);
    if (!held.ended) this.#port.abort(held.task);
    if (!held.bound) this.#port.handedOver(held.task);
    this.#port.forget(held.task);
  }

  #sendGone(mailbox: string, { number, attempt }: { number: number; attempt: number }): void {
    this.#port.send(mailbox, { kind: frameKinds.gone, number, attempt, seq: 0, payload: noPayload });
  }
}

function oldestOf<Task>(held: LiveMap<number, Held<Task>>): Held<Task> {
  return held.values().next().value as Held<Task>;
}
