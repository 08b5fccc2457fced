/**
 * The messages between the bench and its process of callers that do not wait for each other
 * (`open-load.ts`).
 */

export interface OpenOptions {
  /** Connections take them in turn. */
  urls: string[];
  /** As they go over the wire, in turn: one for each key. */
  requests: string[];
  /** Opened before the first request. More are opened when all are in use. */
  connections: number;
  /** Chunks in each answer. */
  chunks: number;
  /** The end of a complete answer. */
  terminator: string;
}

export type OpenOrder =
  | { type: "begin"; options: OpenOptions }
  /** From now on, so many requests a second, evenly. */
  | { type: "offer"; perSecond: number }
  /**
   * So many requests, evenly over this time; the report `settled` follows when all are answered. A
   * refused caller comes again as Retry-After says, if it `follows`.
   */
  | { type: "burst"; count: number; overMs: number; follows: boolean }
  | { type: "open-window" }
  | { type: "close-window" };

/**
 * Observations between `open-window` and `close-window`. Times are milliseconds, from when the
 * request was due.
 */
export interface OpenWindow {
  seconds: number;
  offered: number;
  complete: number;
  refused: number;
  chunks: number;
  /** To the response of a refused request. */
  refusalP50: number;
  refusalP99: number;
  /** In seconds, as the header says. */
  retryAfterP50: number;
  retryAfterMax: number;
  /**
   * From when an answered request was due to when the upstream sent its first chunk: queueing and
   * dispatch.
   */
  waitP50: number;
  waitP99: number;
  waitMax: number;
  /** From when the upstream sent the first chunk to the end of the answer at the caller. */
  servedP50: number;
  servedP99: number;
  /** To the first chunk at the caller. */
  firstP50: number;
  firstP99: number;
  firstMax: number;
  /** By how much the time between two chunks differs from the upstream's own. */
  gapP50: number;
  gapP99: number;
  /**
   * From the window's begin to when the last refused request of the window was due; 0 if none was
   * refused.
   */
  lastRefusedMs: number;
  /** The same of the last request that waited for more than 100 ms. */
  lastWaitedMs: number;
  /** The most times that one caller asked until it was answered, and the median. */
  asksP50: number;
  asksMax: number;
  /** The first few. */
  errors: string[];
}

export type OpenReport = { type: "ready" } | { type: "settled" } | { type: "window"; window: OpenWindow };
