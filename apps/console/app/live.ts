/** Follows the live state over a WebSocket, and keeps the last minutes for plots. */
import { useEffect, useState } from "react";
import type { Answer } from "./call.ts";

export type LiveState = Answer<"readOperations">;

export interface Live {
  state: LiveState | undefined;
  /** The last minutes, oldest first. */
  history: readonly LiveState[];
  /** False while there is no connection: what is shown may be old. */
  isConnected: boolean;
}

const historyMax = 300;
const retryMsMin = 500;
const retryMsMax = 10_000;

/** The connection ends with the component, and pauses while the page is hidden. */
export function useLive(): Live {
  const [live, setLive] = useState<Live>({ state: undefined, history: [], isConnected: false });
  useEffect(() => {
    let socket: WebSocket | undefined;
    let timer: number | undefined;
    let retryMs = retryMsMin;
    const open = () => {
      clearTimeout(timer);
      if (document.hidden || socket !== undefined) return;
      const own = new WebSocket(`${location.origin.replace(/^http/, "ws")}/api/v1/operations/live`);
      socket = own;
      own.onmessage = ({ data }) => {
        retryMs = retryMsMin;
        const state = JSON.parse(String(data)) as LiveState;
        setLive(({ history }) => ({ state, isConnected: true, history: [...history.slice(1 - historyMax), state] }));
      };
      own.onclose = () => {
        if (socket !== own) return;
        socket = undefined;
        setLive((now) => ({ ...now, isConnected: false }));
        timer = window.setTimeout(open, retryMs);
        retryMs = Math.min(2 * retryMs, retryMsMax);
      };
    };
    const close = () => {
      clearTimeout(timer);
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
