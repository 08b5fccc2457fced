/** The messages between the bench and its process of streaming callers. */

export interface StreamOptions {
  /** Callers take them in turn. */
  urls: string[];
  /** As it goes over the wire. */
  request: string;
  /** At once. */
  callers: number;
  rampMs: number;
  /** Chunks in each answer. */
  chunks: number;
  /** The end of a complete answer. */
  terminator: string;
}

export type StreamOrder =
  | { type: "begin"; options: StreamOptions }
  | { type: "open-window" }
  | { type: "close-window" };

/** Observations between `open-window` and `close-window`; times in milliseconds. */
export interface StreamWindow {
  seconds: number;
  chunks: number;
  ended: number;
  /** Ended streams whose every chunk came, in order, none stalled, and the terminator. */
  complete: number;
  /** From the request to the first chunk. */
  firstP50: number;
  firstP99: number;
  /** From the upstream's sending to the caller. */
  delayP50: number;
  delayP99: number;
  /** By how much the time between two chunks differs from the upstream's own. */
  gapP50: number;
  gapP99: number;
  /** The first few. */
  errors: string[];
}

export type StreamReport = { type: "flowing" } | { type: "window"; window: StreamWindow };
