/**
 * The blocks of a streamed answer in an order in which none overlaps another. Dialects and their
 * servers let blocks overlap: text arrives while the arguments of a call are incomplete, and calls
 * arrive in turns. A block that must not be interrupted keeps all later ones waiting, so that
 * nothing of it is lost.
 */
import { JsonProgress } from "#wire/json/progress.ts";
import type { AnswerEvent, BlockStart, CallStart, Citation, Signature } from "./neutral.ts";

type Making<Start extends BlockStart> = {
  start: Start;
  /**
   * The signature of reasoning, written at its end, or of a call, written before it in a block of
   * its own.
   */
  signature: Signature | undefined;
  /** The deltas until its turn comes. */
  waiting: string[];
  /** The citations of a text until its turn comes. */
  citations: Citation[];
  state: "waiting" | "open" | "closed";
  /** Nothing more of it follows. */
  isOver: boolean;
  /**
   * Another block may not interrupt it before it is over, unless it is a call whose arguments are
   * complete.
   */
  isFirm: boolean;
  /** How far the arguments of a call are. */
  progress: JsonProgress | undefined;
  /** Another reader follows the progress. */
  isFollowed: boolean;
};

export type MadeBlock = Making<BlockStart>;
export type MadeCall = Making<CallStart>;

const madeOf = <Start extends BlockStart>(
  start: Start,
  signature: Signature | undefined,
  progress: JsonProgress | undefined,
): Making<Start> => ({
  start,
  signature,
  waiting: [],
  citations: [],
  state: "waiting",
  isOver: false,
  isFirm: start.kind === "call",
  progress: progress ?? (start.kind === "call" ? new JsonProgress() : undefined),
  isFollowed: progress !== undefined,
});

/** True if another block may begin. */
const isInterruptible = ({ progress, isOver, isFirm }: MadeBlock) => isOver || !isFirm || progress?.isWhole === true;

/** True if a block may open: some servers name a call after they began it. */
const isReady = ({ start, isOver }: MadeBlock) => isOver || start.kind !== "call" || start.name !== "";

export class BlockSequence {
  /** There was a block. */
  isBegun = false;
  readonly #events: AnswerEvent[];
  #open: MadeBlock | undefined;
  readonly #waiting: MadeBlock[] = [];
  readonly #calls: MadeBlock[] = [];

  /** The neutral events are appended to `events`. */
  constructor(events: AnswerEvent[]) {
    this.#events = events;
  }

  /** The block that began last; undefined if it is closed. */
  get last(): MadeBlock | undefined {
    return this.#waiting.at(-1) ?? this.#open;
  }

  /** The arguments of a call are incomplete. */
  get hasIncomplete(): boolean {
    return this.#calls.some(({ progress }) => progress?.isIncomplete);
  }

  /**
   * Begins a block behind all others, and opens it if no call before it is incomplete. `progress`
   * is that of a call, if another reader follows it.
   */
  begin<Start extends BlockStart>(start: Start, signature?: Signature, progress?: JsonProgress): Making<Start> {
    this.isBegun = true;
    const block = madeOf(start, signature, progress);
    this.#waiting.push(block);
    if (start.kind === "call") this.#calls.push(block);
    this.#openNext();
    return block;
  }

  /** A whole block: an image, or a signature without text. */
  whole(start: BlockStart, signature?: Signature): void {
    this.end(this.begin(start, signature));
  }

  /** Adds to a block that is not closed. */
  add(block: MadeBlock, text: string): void {
    if (!block.isFollowed) block.progress?.push(text);
    if (block.state === "open") this.#events.push({ kind: "delta", text });
    else block.waiting.push(text);
    if (block.progress?.isWhole === true) this.#openNext();
  }

  /** Adds to a text that is not closed. */
  cite(block: MadeBlock, citations: readonly Citation[]): void {
    for (const citation of citations)
      if (block.state === "open") this.#events.push({ kind: "citation", citation });
      else block.citations.push(citation);
  }

  /** Gives a call its name, if it has none. */
  name(call: MadeCall, name: string): void {
    if (call.state !== "waiting" || call.start.name !== "" || name === "") return;
    call.start.name = name;
    this.#openNext();
  }

  /** Ends a block. */
  end(block: MadeBlock): void {
    block.isOver = true;
    if (block === this.#open) this.#close();
    this.#openNext();
  }

  /** Ends all blocks, at the end of the answer. */
  endAll(): void {
    for (const block of this.#waiting) block.isOver = true;
    if (this.#open !== undefined) this.end(this.#open);
    this.#openNext();
  }

  #openNext(): void {
    while (this.#open === undefined || isInterruptible(this.#open)) {
      const block = this.#waiting[0];
      if (block === undefined || !isReady(block)) break;
      this.#close();
      this.#waiting.shift();
      block.state = "open";
      this.#open = block;
      if (block.start.kind === "call" && block.signature !== undefined)
        this.#events.push(
          { kind: "block", block: { kind: "reasoning" } },
          { kind: "signature", signature: block.signature },
          { kind: "block-end" },
        );
      this.#events.push({ kind: "block", block: block.start });
      for (const text of block.waiting.splice(0)) this.#events.push({ kind: "delta", text });
      this.cite(block, block.citations);
      if (block.isOver) this.#close();
    }
  }

  #close(): void {
    const open = this.#open;
    if (open === undefined) return;
    this.#open = undefined;
    open.state = "closed";
    if (open.start.kind === "reasoning" && open.signature !== undefined)
      this.#events.push({ kind: "signature", signature: open.signature });
    this.#events.push({ kind: "block-end" });
  }
}
