/**
 * One of the conversations side by side: what was said, and the request that runs. It lives in the
 * page only.
 */
import { useState } from "react";
import type { KeyWish } from "../app/console-key.ts";
import type { Dialect, DialectRequest, Settings, ToolCall, Turn } from "./conversation.ts";
import { modules } from "./dialects.ts";
import { isRunning, useRun } from "./use-run.ts";

export interface Sending {
  wish: KeyWish;
  dialect: Dialect;
  settings: Settings;
}

export function useSide() {
  const [turns, setTurns] = useState<readonly Turn[]>([]);
  const [sent, setSent] = useState<DialectRequest>();
  const { run, start, stop, clear } = useRun();
  const last = turns.at(-1);
  /** Calls whose results the model waits for. */
  const openCalls: readonly ToolCall[] = last?.role === "assistant" && !isRunning(run) ? last.calls : [];

  const send = async (next: readonly Turn[], { wish, dialect, settings }: Sending) => {
    const request = modules[dialect].requestOf(next, settings);
    setTurns(next);
    setSent(request);
    const { turn, state } = await start(wish, dialect, request);
    const hasContent = turn.text !== "" || turn.calls.length > 0;
    if (state === "complete" || (state === "stopped" && hasContent))
      // A call that was stopped half-way cannot be answered.
      setTurns((now) =>
        now === next ? [...next, state === "stopped" ? { ...turn, calls: [], native: undefined } : turn] : now,
      );
  };
  return {
    turns,
    run,
    sent,
    openCalls,
    isBusy: isRunning(run),
    stop,
    say: (turn: Turn, sending: Sending) => send([...turns, turn], sending),
    /** Sends what failed once more. */
    again: (sending: Sending) => send([...turns], sending),
    clear() {
      clear();
      setTurns([]);
      setSent(undefined);
    },
  };
}

export type Side = ReturnType<typeof useSide>;
