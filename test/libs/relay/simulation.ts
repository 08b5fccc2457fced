/**
 * A world in one process: owners and workers on a pub/sub and a queue that lose, repeat, delay,
 * reorder and misreport, all from one seed. Processes crash, freeze and wake, and lose one half of
 * their link. `run` plays it to the end and returns all violations.
 */

import { type RelayBounds, relayBounds } from "#relay/bounds.ts";
import { type Frame, frameBytesOf, frameKinds, noPayload } from "#relay/frame.ts";
import {
  type AnswerKind,
  type AttemptJob,
  type JobState,
  Owner,
  type OwnerAction,
  type RelayFault,
} from "#relay/owner.ts";
import { type Outcome, type Run, Runner } from "#relay/runner.ts";
import { randomFrom } from "../../support/random.ts";

/** Small windows, so that they fill; the times are the product's own. */
export const simulationLimits: RelayBounds = { ...relayBounds, windowBytes: 2_000, mailboxWindowBytes: 6_000 };
const frameSlackBytes = 400;
const lockMs = 60_000;
const waitMs = 40_000;
/**
 * Once the world is calm, everything is over within this time: the longest bound of a lost link,
 * then the waits of a last attempt or two.
 */
const settleMs = 120_000;

export interface Faults {
  /** Chance that a published envelope is lost on its way. */
  loss: number;
  /** Chance that it arrives twice. */
  repeat: number;
  /** Chance that it is overtaken. */
  reorder: number;
  /**
   * Chance that a command to the queue is executed and reported as failed, or neither executed nor
   * reported as done.
   */
  lie: number;
  /** How many of the upheavals named happen in the first minute. */
  upheavals: number;
  kinds: readonly Upheaval[];
}

type Upheaval = "crash" | "freeze" | "mute" | "deaf" | "empty restart" | "hand back";

export const calm: Faults = {
  loss: 0,
  repeat: 0,
  reorder: 0,
  lie: 0,
  upheavals: 0,
  kinds: ["crash", "freeze", "mute", "deaf", "empty restart", "hand back"],
};

interface Process {
  name: string;
  kind: "owner" | "worker";
  crashed: boolean;
  frozenUntil: number;
  /** When the last freeze longer than the grace time began. */
  frozenLongAt: number;
  /** Publishes get lost until then. */
  muteUntil: number;
  /** Messages to it get lost until then. */
  deafUntil: number;
  receive(sender: string, frames: Frame[], now: number): void;
  tick(now: number): void;
}

interface Client {
  number: number;
  owner: Process;
  chunks: number;
  chunkBytes: number;
  committed: boolean;
  /** Pieces delivered by the present attempt. */
  received: number[];
  /** How many pieces were produced, as last told beside them. */
  told: number;
  attempt: number | undefined;
  over: "end" | RelayFault | "left" | "crashed" | undefined;
  /** How long its caller takes for a frame. */
  takeMs: number;
  holds: boolean;
  /** Its upstream fails after the pieces. */
  fails: boolean;
  untakenBytes: number;
  /** Chunks that its caller sends once it has the head; 0 for all but sessions. */
  inputs: number;
  inputsSent: number;
  inputOpen: boolean;
  inputScheduled: boolean;
}

interface Task {
  client: Client;
  job: string;
  worker: Process;
  attempt: number;
  run: Run<Task> | undefined;
  next: number;
  open: boolean;
  stopped: boolean;
  scheduled: boolean;
  /** Chunks of input that arrived. */
  inputs: number;
  untakenBytes: number;
}

interface Job {
  client: Client;
  attempt: number;
  state: "waiting" | "active";
  lockedUntil: number;
}

export interface Report {
  violations: string[];
  ended: number;
  failed: number;
  left: number;
  attemptsMax: number;
  settlements: number;
}

interface Event {
  at: number;
  order: number;
  process: Process | undefined;
  act(now: number): void;
}

/** A binary heap by time, then by order of arrival. */
class Agenda {
  readonly #events: Event[] = [];
  #order = 0;

  add(at: number, process: Process | undefined, act: (now: number) => void): void {
    const events = this.#events;
    events.push({ at, order: this.#order++, process, act });
    for (let child = events.length - 1; child > 0; ) {
      const parent = (child - 1) >> 1;
      if (!this.#before(child, parent)) break;
      this.#swap(child, parent);
      child = parent;
    }
  }

  take(): Event | undefined {
    const events = this.#events;
    const first = events[0];
    const last = events.pop();
    if (first === undefined || last === undefined || events.length === 0) return first;
    events[0] = last;
    for (let parent = 0; ; ) {
      let least = parent;
      for (const child of [2 * parent + 1, 2 * parent + 2])
        if (child < events.length && this.#before(child, least)) least = child;
      if (least === parent) return first;
      this.#swap(least, parent);
      parent = least;
    }
  }

  #before(left: number, right: number): boolean {
    const one = this.#events[left] as Event;
    const other = this.#events[right] as Event;
    return one.at < other.at || (one.at === other.at && one.order < other.order);
  }

  #swap(left: number, right: number): void {
    const kept = this.#events[left] as Event;
    this.#events[left] = this.#events[right] as Event;
    this.#events[right] = kept;
  }
}

export class World {
  readonly #random: () => number;
  readonly #faults: Faults;
  readonly #agenda = new Agenda();
  readonly #processes = new Map<string, Process>();
  readonly #owners: { process: Process; owner: Owner<Client> }[] = [];
  readonly #workers: { process: Process; runner: Runner<Task> }[] = [];
  readonly #jobs = new Map<string, Job>();
  readonly #clients: Client[] = [];
  readonly #violations: string[] = [];
  /** Whose frames of an attempt reached a caller. */
  readonly #deliveredBy = new Map<string, string>();
  /** Every settlement call; the ledger keeps one a generation, of its highest attempt. */
  readonly #settled = new Map<string, { worker: string; outcome: Outcome }[]>();
  readonly #ranOnCrashed = new Set<string>();
  /** Jobs that the queue gave to two workers. */
  readonly #ranTwice = new Set<string>();
  /** All that a worker ever held. */
  /** When a worker took a job. */
  readonly #takenAt = new Map<string, number>();
  readonly #gathered = new Map<string, Frame[]>();
  #incarnations = 0;
  #now = 0;
  #calmFrom = 60_000;
  #attemptsMax = 1;

  constructor(seed: number, faults: Faults) {
    this.#random = randomFrom(seed);
    this.#faults = faults;
  }

  run(): Report {
    const owners = 1 + this.#below(2);
    for (let count = 0; count < owners; count++) this.#addOwner();
    for (let count = 1 + this.#below(3); count > 0; count--) this.#addWorker();
    for (let count = 0; count < 12; count++) this.#agenda.add(this.#below(30_000), undefined, () => this.#begin());
    for (let count = 0; count < this.#faults.upheavals; count++)
      this.#agenda.add(1_000 + this.#below(50_000), undefined, () => this.#upheave());
    const end = this.#calmFrom + settleMs;
    for (let event = this.#agenda.take(); event !== undefined && event.at <= end; event = this.#agenda.take())
      this.#play(event);
    this.#checkEnd();
    const over = (kinds: (string | undefined)[]) =>
      this.#clients.filter((client) => kinds.includes(client.over)).length;
    return {
      violations: this.#violations,
      ended: over(["end"]),
      left: over(["left"]),
      failed: over(["unavailable", "worker_lost", "wait_expired"]),
      attemptsMax: this.#attemptsMax,
      settlements: [...this.#settled.values()].flat().length,
    };
  }

  #play(event: Event): void {
    this.#now = Math.max(this.#now, event.at);
    const process = event.process;
    if (process?.crashed) return;
    if (process !== undefined && process.frozenUntil > event.at)
      this.#agenda.add(process.frozenUntil, process, event.act);
    else event.act(event.at);
    if (process !== undefined) this.#checkBounds();
  }

  #below(limit: number): number {
    return Math.floor(this.#random() * limit);
  }

  #chance(probability: number): boolean {
    return this.#now < this.#calmFrom && this.#random() < probability;
  }

  #violated(what: string): void {
    if (this.#violations.length < 10) this.#violations.push(`${Math.round(this.#now)} ms: ${what}`);
  }

  // Processes

  #addProcess(kind: Process["kind"]): Process {
    const process: Process = {
      name: `${kind}-${++this.#incarnations}`,
      kind,
      crashed: false,
      frozenUntil: 0,
      frozenLongAt: -1,
      muteUntil: 0,
      deafUntil: 0,
      receive: () => {},
      tick: () => {},
    };
    this.#processes.set(process.name, process);
    const tick = (now: number) => {
      process.tick(now);
      this.#agenda.add(now + simulationLimits.heartbeatMs, process, tick);
    };
    this.#agenda.add(this.#now + this.#below(simulationLimits.heartbeatMs), process, tick);
    return process;
  }

  #addOwner(): void {
    const process = this.#addProcess("owner");
    const owner = new Owner<Client>(
      process.name,
      simulationLimits,
      {
        send: (mailbox, frame) => this.#publish(process, mailbox, [frame]),
        heartbeat: (mailbox) => this.#publish(process, mailbox, []),
        deliver: (client, kind, payload, seq) => this.#deliver(owner, client, kind, payload, seq),
        mayRestart: (client) => !client.committed,
      },
      this.#now,
    );
    process.receive = (sender, frames, now) => {
      owner.heard(sender, now);
      for (const frame of frames) {
        this.#present = sender;
        this.#act(process, owner, owner.receive(sender, frame, now));
      }
    };
    process.tick = (now) => this.#act(process, owner, owner.tick(now));
    this.#owners.push({ process, owner });
  }

  #act(process: Process, owner: Owner<Client>, actions: readonly OwnerAction<Client>[]): void {
    for (const action of actions)
      switch (action.kind) {
        case "enqueue":
          this.#enqueue(process, action);
          break;
        case "dequeue":
          if (!this.#chance(this.#faults.lie)) this.#jobs.delete(jobIdOf(process, action.number, action.attempt));
          break;
        case "restart":
          this.#restart(action.client);
          this.#enqueue(process, action);
          break;
        case "probe":
          this.#probe(process, owner, action.jobs);
          break;
        case "flow":
          action.client.inputOpen = action.isOpen;
          if (action.isOpen) this.#sendInput(owner, action.client);
          break;
        case "fail":
          this.#over(action.client, action.fault);
          break;
        case "bind":
      }
  }

  #probe(process: Process, owner: Owner<Client>, jobs: readonly AttemptJob<Client>[]): void {
    if (this.#chance(this.#faults.lie)) this.#soon(process, () => owner.probeFailed());
    else
      for (const { number, attempt } of jobs) {
        const state: JobState = this.#jobs.get(jobIdOf(process, number, attempt))?.state ?? "missing";
        this.#soon(process, (now) => this.#act(process, owner, owner.probed(number, attempt, state, now)));
      }
  }

  #restart(client: Client): void {
    if (client.committed) this.#violated(`generation ${client.number} was run anew after content was delivered`);
    client.received = [];
    client.told = 0;
    client.attempt = undefined;
    client.untakenBytes = 0;
  }

  #present = "";

  #addWorker(): void {
    const process = this.#addProcess("worker");
    const runner: Runner<Task> = new Runner<Task>(
      process.name,
      simulationLimits,
      {
        send: (mailbox, frame) => {
          const takenAt = this.#takenAt.get(`${process.name} ${mailbox}/${frame.number}-${frame.attempt}`) ?? 0;
          if (frame.kind !== frameKinds.gone && takenAt <= process.frozenLongAt)
            this.#violated(`${process.name} went on with what it held before its freeze`);
          this.#publish(process, mailbox, [frame]);
        },
        heartbeat: (mailbox) => this.#publish(process, mailbox, []),
        run: (task, run) => {
          task.run = run;
          this.#produce(process, runner, task);
        },
        abort: (task) => {
          task.stopped = true;
        },
        flow: (task, { isOpen: open }) => {
          task.open = open;
          if (open) this.#produce(process, runner, task);
        },
        input: (task, payload, seq) => this.#takeInput(process, runner, task, payload, seq),
        dispatched: (task) => {
          if (!this.#chance(this.#faults.lie)) this.#jobs.delete(task.job);
        },
        settle: (task, { outcome }) => {
          const id = `${task.client.owner.name}/${task.client.number}-${task.attempt}`;
          this.#settled.set(id, [...(this.#settled.get(id) ?? []), { worker: process.name, outcome }]);
        },
        witness: () => {},
        forget: (task) => {
          task.stopped = true;
        },
      },
      this.#now,
    );
    process.receive = (sender, frames, now) => {
      runner.heard(sender, now);
      for (const frame of frames) runner.receive(sender, frame, now);
    };
    process.tick = (now) => runner.tick(now);
    const fetch = (now: number) => {
      if (runner.isLinked(now)) this.#fetch(process, runner, now);
      this.#agenda.add(now + 50 + this.#below(50), process, fetch);
    };
    this.#agenda.add(this.#now, process, fetch);
    this.#workers.push({ process, runner });
  }

  // The queue

  #enqueue(process: Process, { client, number, attempt }: AttemptJob<Client>): void {
    this.#attemptsMax = Math.max(this.#attemptsMax, attempt);
    const failed = this.#chance(this.#faults.lie);
    const executed = !failed || this.#random() < 0.5;
    if (executed)
      this.#jobs.set(jobIdOf(process, number, attempt), { client, attempt, state: "waiting", lockedUntil: 0 });
    if (failed) {
      const owner = this.#owners.find((candidate) => candidate.process === process)?.owner as Owner<Client>;
      this.#soon(process, () => this.#act(process, owner, owner.enqueueFailed(number, attempt)));
    }
  }

  #fetch(process: Process, runner: Runner<Task>, now: number): void {
    for (const [id, job] of this.#jobs) {
      if (job.state === "active" && now > job.lockedUntil) this.#jobs.delete(id);
      if (job.state !== "waiting") continue;
      job.state = "active";
      job.lockedUntil = now + lockMs;
      if (this.#chance(this.#faults.lie)) {
        if (this.#random() < 0.5) return;
        job.state = "waiting";
        this.#ranTwice.add(id);
      }
      this.#takenAt.set(`${process.name} ${id}`, now);
      const task: Task = {
        client: job.client,
        job: id,
        worker: process,
        attempt: job.attempt,
        run: undefined,
        next: 0,
        open: true,
        stopped: false,
        scheduled: false,
        inputs: 0,
        untakenBytes: 0,
      };
      runner.take(
        task,
        { mailbox: job.client.owner.name, number: job.client.number, attempt: job.attempt, freeSlots: 0 },
        now,
      );
      return;
    }
  }

  /**
   * The upstream: a head, the pieces at an even pace, an end once it has all input; and what was
   * produced, told beside them.
   */
  #produce(process: Process, runner: Runner<Task>, task: Task): void {
    if (task.scheduled || task.stopped || !task.open || task.run === undefined) return;
    task.scheduled = true;
    this.#agenda.add(this.#now + 5 + this.#below(400), process, (now) => {
      task.scheduled = false;
      if (task.stopped || !task.open) return;
      const run = task.run as Run<Task>;
      const step = task.next++;
      if (step === 0) runner.send(run, "head", noPayload, now);
      else if (step <= task.client.chunks) {
        const payload = Buffer.alloc(task.client.chunkBytes);
        payload.writeUInt32LE(step - 1);
        payload.writeUInt16LE(task.attempt, 4);
        // Every third piece is told before it is sent.
        if (step % 3 === 0) {
          const told = Buffer.alloc(4);
          told.writeUInt32LE(step);
          runner.send(run, "usage", told, now);
        }
        runner.send(run, "data", payload, now);
      } else if (task.inputs < task.client.inputs) task.next--;
      else {
        runner.send(run, task.client.fails ? "fail" : "end", noPayload, now);
        return;
      }
      this.#produce(process, runner, task);
    });
  }

  /** The caller of a session sends as the window allows. */
  #sendInput(owner: Owner<Client>, client: Client): void {
    if (client.inputScheduled || !client.inputOpen || client.inputsSent === client.inputs) return;
    client.inputScheduled = true;
    this.#agenda.add(this.#now + this.#below(60), client.owner, () => {
      client.inputScheduled = false;
      if (client.over !== undefined || !client.inputOpen) return;
      const payload = Buffer.alloc(client.chunkBytes);
      payload.writeUInt32LE(client.inputsSent++);
      this.#act(client.owner, owner, owner.input(client.number, payload));
      this.#sendInput(owner, client);
    });
  }

  #takeInput(process: Process, runner: Runner<Task>, task: Task, payload: Buffer, seq: number): void {
    const { client } = task;
    const chunk = payload.readUInt32LE();
    if (chunk !== task.inputs)
      this.#violated(`the upstream of generation ${client.number} got input ${chunk} in place of ${task.inputs}`);
    if (task.stopped) this.#violated(`the upstream of generation ${client.number} got input after its end`);
    task.inputs++;
    const bytes = frameBytesOf({ payload } as Frame);
    task.untakenBytes += bytes;
    if (task.untakenBytes > simulationLimits.windowBytes + frameSlackBytes)
      this.#violated(`the upstream of generation ${client.number} has ${task.untakenBytes} bytes untaken`);
    this.#agenda.add(this.#now + client.takeMs, process, () => {
      task.untakenBytes -= bytes;
      runner.taken(task.run as Run<Task>, seq);
    });
  }

  // Pub/sub

  /**
   * All frames of a process for a mailbox in one turn leave together, once no earlier envelope is
   * on its way to Redis.
   */
  #publish(from: Process, mailbox: string, frames: Frame[]): void {
    if (from.crashed) this.#violated(`${from.name} spoke after its crash`);
    const key = `${from.name} ${mailbox}`;
    const gathered = this.#gathered.get(key);
    const copies = frames.map((frame) => ({ ...frame, payload: Buffer.from(frame.payload) }));
    if (gathered !== undefined) {
      gathered.push(...copies);
      return;
    }
    this.#gathered.set(key, copies);
    this.#agenda.add(this.#now + this.#below(3), undefined, () => {
      this.#gathered.delete(key);
      this.#leave(from, mailbox, copies);
    });
  }

  #leave(from: Process, mailbox: string, copies: Frame[]): void {
    const to = this.#processes.get(mailbox);
    if (to === undefined || this.#now < from.muteUntil || this.#now < to.deafUntil || this.#chance(this.#faults.loss))
      return;
    for (let times = this.#chance(this.#faults.repeat) ? 2 : 1; times > 0; times--) {
      const delay = this.#chance(this.#faults.reorder) ? this.#below(2_000) : 1;
      this.#agenda.add(this.#now + delay, to, (now) => to.receive(from.name, copies, now));
    }
  }

  #soon(process: Process, act: (now: number) => void): void {
    this.#agenda.add(this.#now + 1, process, act);
  }

  // Callers

  #begin(): void {
    const alive = this.#owners.filter(({ process }) => !process.crashed);
    const chosen = alive[this.#below(alive.length)];
    if (chosen === undefined) return;
    this.#soon(chosen.process, (now) => {
      const slow = this.#random() < 0.1;
      const client: Client = {
        number: chosen.owner.takeNumber(),
        owner: chosen.process,
        chunks: this.#below(40),
        chunkBytes: 6 + this.#below(300),
        committed: false,
        received: [],
        told: 0,
        attempt: undefined,
        over: undefined,
        takeMs: slow ? 500 : this.#below(3),
        holds: this.#random() < 0.3,
        fails: this.#random() < 0.1,
        untakenBytes: 0,
        inputs: this.#random() < 0.4 ? this.#below(60) : 0,
        inputsSent: 0,
        inputOpen: true,
        inputScheduled: false,
      };
      this.#clients.push(client);
      this.#act(chosen.process, chosen.owner, chosen.owner.start(client, client.number, { waitMs, now }));
      if (this.#random() < 0.2)
        this.#agenda.add(now + this.#below(8_000), chosen.process, () => {
          if (client.over !== undefined) return;
          this.#act(chosen.process, chosen.owner, chosen.owner.leave(client.number));
          this.#over(client, "left");
        });
    });
  }

  #deliver(owner: Owner<Client>, client: Client, kind: AnswerKind, payload: Buffer, seq: number): void {
    if (client.over !== undefined) this.#violated(`generation ${client.number} got ${kind} after it was over`);
    if (kind === "data") {
      const chunk = payload.readUInt32LE();
      const attempt = payload.readUInt16LE(4);
      client.attempt ??= attempt;
      if (client.attempt !== attempt) this.#violated(`generation ${client.number} got pieces of two attempts`);
      if (chunk !== client.received.length)
        this.#violated(`generation ${client.number} got piece ${chunk} in place of ${client.received.length}`);
      client.received.push(chunk);
      const told = client.received.length - (client.received.length % 3);
      if (client.told !== told)
        this.#violated(`generation ${client.number} was told of ${client.told} pieces in place of ${told}`);
      this.#deliveredOnce(client, attempt);
      if (!client.holds || client.received.length * client.chunkBytes > simulationLimits.windowBytes / 2)
        this.#commit(client);
    }
    if (kind === "head" && client.inputs > 0) {
      this.#commit(client);
      this.#sendInput(owner, client);
    }
    if (kind === "usage") client.told = payload.readUInt32LE();
    if (kind === "end" || kind === "fail") {
      if ((kind === "fail") !== client.fails) this.#violated(`generation ${client.number} got ${kind}`);
      if (client.received.length !== client.chunks)
        this.#violated(`generation ${client.number} ended with ${client.received.length} of ${client.chunks} pieces`);
      this.#commit(client);
      this.#over(client, "end");
      return;
    }
    const bytes = frameBytesOf({ payload } as Frame);
    client.untakenBytes += bytes;
    if (client.untakenBytes > simulationLimits.windowBytes + frameSlackBytes)
      this.#violated(`generation ${client.number} has ${client.untakenBytes} bytes untaken`);
    const take = () => {
      client.untakenBytes -= bytes;
      owner.taken(client.number, seq);
    };
    const attempt = client.attempt;
    this.#agenda.add(this.#now + client.takeMs, client.owner, () => {
      if (client.attempt === attempt || attempt === undefined) take();
    });
  }

  #commit(client: Client): void {
    client.committed = true;
  }

  #deliveredOnce(client: Client, attempt: number): void {
    const id = `${client.owner.name}/${client.number}-${attempt}`;
    const by = this.#deliveredBy.get(id);
    if (by === undefined) this.#deliveredBy.set(id, this.#present);
    else if (by !== this.#present) this.#violated(`attempt ${id} was delivered by ${by} and ${this.#present}`);
  }

  #over(client: Client, how: Exclude<Client["over"], undefined>): void {
    if (client.over !== undefined) this.#violated(`generation ${client.number} was ${client.over}, then ${how}`);
    client.over = how;
  }

  // Upheavals

  #upheave(): void {
    const alive = [...this.#processes.values()].filter((process) => !process.crashed);
    const process = alive[this.#below(alive.length)] as Process;
    const lengthMs = this.#random() < 0.5 ? this.#below(4_000) : this.#below(45_000);
    const kind = this.#faults.kinds[this.#below(this.#faults.kinds.length)] as Upheaval;
    switch (kind) {
      case "freeze":
        if (process.frozenUntil > this.#now) return;
        process.frozenUntil = this.#now + lengthMs;
        if (lengthMs > simulationLimits.graceMs + simulationLimits.heartbeatMs) process.frozenLongAt = this.#now;
        return;
      case "mute":
        process.muteUntil = this.#now + lengthMs;
        return;
      case "deaf":
        process.deafUntil = this.#now + lengthMs;
        return;
      case "empty restart": {
        this.#jobs.clear();
        const backAt = this.#now + this.#below(3_000);
        for (const each of alive) each.muteUntil = Math.max(each.muteUntil, backAt);
        return;
      }
      case "hand back":
        for (const { process: worker, runner } of this.#workers)
          if (worker === process && process.frozenUntil <= this.#now) runner.handBack(this.#now);
        return;
      case "crash":
        this.#crash(process);
        return;
      default:
        kind satisfies never;
    }
  }

  #crash(process: Process): void {
    process.crashed = true;
    this.#ranOnCrashed.add(process.name);
    for (const client of this.#clients)
      if (client.owner === process && client.over === undefined) client.over = "crashed";
    if (process.kind === "owner") this.#addOwner();
    else this.#addWorker();
  }

  // Invariants

  #checkBounds(): void {
    for (const { process, runner } of this.#workers) {
      if (process.crashed) continue;
      const { generationBytesMax, mailboxBytesMax } = runner.load();
      if (generationBytesMax > simulationLimits.windowBytes + frameSlackBytes)
        this.#violated(`${process.name} holds ${generationBytesMax} bytes of one generation`);
      const slack = frameSlackBytes * (runner.size + 1);
      if (mailboxBytesMax > simulationLimits.mailboxWindowBytes + slack)
        this.#violated(`${process.name} has ${mailboxBytesMax} bytes on the way to one mailbox`);
    }
    for (const { process, owner } of this.#owners) {
      if (process.crashed) continue;
      const { generationBytesMax, mailboxBytesMax } = owner.load();
      if (generationBytesMax > simulationLimits.windowBytes + frameSlackBytes)
        this.#violated(`${process.name} holds ${generationBytesMax} bytes of one generation's input`);
      if (mailboxBytesMax > simulationLimits.mailboxWindowBytes + frameSlackBytes * (owner.size + 1))
        this.#violated(`${process.name} has ${mailboxBytesMax} bytes of input on the way to one mailbox`);
    }
  }

  #checkEnd(): void {
    for (const client of this.#clients)
      if (client.over === undefined) this.#violated(`generation ${client.number} of ${client.owner.name} never ended`);
    for (const { process, owner } of this.#owners)
      if (!process.crashed && (owner.size > 0 || owner.load().mailboxBytesMax > 0))
        this.#violated(
          `${process.name} still owns ${owner.size}, and ${owner.load().mailboxBytesMax} bytes are on the way`,
        );
    for (const { process, runner } of this.#workers) {
      if (process.crashed) continue;
      if (runner.size > 0) this.#violated(`${process.name} still holds ${runner.size}`);
      if (runner.load().mailboxBytesMax !== 0)
        this.#violated(`${process.name} still counts ${runner.load().mailboxBytesMax} bytes on the way`);
    }
    for (const [id, calls] of this.#settled)
      if (calls.length > (this.#ranTwice.has(id) ? 2 : 1))
        this.#violated(`attempt ${id} was settled ${calls.length} times`);
    for (const client of this.#clients) if (client.over === "end") this.#checkSettled(client);
  }

  /**
   * A complete answer is in the ledger, as the attempt that the caller got, unless the worker died
   * with it.
   */
  #checkSettled(client: Client): void {
    if (client.attempt === undefined) return;
    const id = `${client.owner.name}/${client.number}-${client.attempt}`;
    const worker = this.#deliveredBy.get(id) as string;
    const lost = this.#ranOnCrashed.has(worker) || this.#ranOnCrashed.has(client.owner.name);
    if (!this.#settled.has(id) && !lost && !this.#frozeLong(worker))
      this.#violated(`attempt ${id} was delivered and not settled`);
    for (const other of this.#settled.keys()) {
      const [generation, attempt] = splitId(other);
      if (generation === `${client.owner.name}/${client.number}` && attempt > client.attempt)
        this.#violated(`${other} was settled, ${id} was delivered`);
    }
  }

  /**
   * A worker that was frozen past the grace time has dropped what it held, settlements included.
   */
  #frozeLong(name: string): boolean {
    return (this.#processes.get(name)?.frozenUntil ?? 0) > 0;
  }
}

const jobIdOf = (owner: Process, number: number, attempt: number) => `${owner.name}/${number}-${attempt}`;

function splitId(id: string): [string, number] {
  const at = id.lastIndexOf("-");
  return [id.slice(0, at), Number(id.slice(at + 1))];
}
