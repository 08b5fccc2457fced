/** Follows the live state over a WebSocket, and keeps the figures of the last minutes for plots. */
import { useEffect, useState } from "react";
import type { Answer } from "./call.ts";

export type LiveState = Answer<"readOperations">;

export interface Live {
  state: LiveState | undefined;
  /** The last minutes, oldest first. */
  history: readonly LiveFigures[];
  /** False while nothing arrives: what is shown is old. */
  isConnected: boolean;
}

/** Per second, and over all queues. */
export interface LiveFigures {
  requests: number;
  failed: number;
  refused: number;
  chunks: number;
  running: number;
  waiting: number;
}

const sumOf = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0);

export const figuresOf = ({ rates, queues }: LiveState): LiveFigures => ({
  requests: rates?.requests ?? 0,
  failed: rates?.failed ?? 0,
  refused: rates?.refused ?? 0,
  chunks: rates?.chunks ?? 0,
  running: sumOf(queues.map(({ running }) => running)),
  waiting: sumOf(queues.map(({ queued }) => queued)),
});

const historyMax = 300;
const retryMsMin = 500;
const retryMsMax = 10_000;
/** The state comes every second. */
const staleMs = 5_000;

/** The connection ends with the component, and pauses while the page is hidden. */
export function useLive(): Live {
  const [live, setLive] = useState<Live>({ state: undefined, history: [], isConnected: false });
  useEffect(() => {
    let socket: WebSocket | undefined;
    let timer: number | undefined;
    let staleTimer: number | undefined;
    let retryMs = retryMsMin;
    const lost = () => setLive((now) => ({ ...now, isConnected: false }));
    const open = () => {
      clearTimeout(timer);
      if (document.hidden || socket !== undefined) return;
      const own = new WebSocket(`${location.origin.replace(/^http/, "ws")}/api/v1/operations/live`);
      socket = own;
      own.onmessage = ({ data }) => {
        retryMs = retryMsMin;
        const state = JSON.parse(String(data)) as LiveState;
        setLive(({ history }) => ({
          state,
          isConnected: true,
          history: [...history.slice(1 - historyMax), figuresOf(state)],
        }));
        clearTimeout(staleTimer);
        staleTimer = window.setTimeout(lost, staleMs);
      };
      own.onclose = () => {
        if (socket !== own) return;
        socket = undefined;
        lost();
        timer = window.setTimeout(open, retryMs);
        retryMs = Math.min(2 * retryMs, retryMsMax);
      };
    };
    const close = () => {
      clearTimeout(timer);
      clearTimeout(staleTimer);
      const own = socket;
      socket = undefined;
      own?.close();
    };
    const follow = () => (document.hidden ? close() : open());
    document.addEventListener("visibilitychange", follow);
    open();
    return () => {
      document.removeEventListener("visibilitychange", follow);
      close();
    };
  }, []);
  return live;
}
