/**
 * One request of a page at a time: its progress, drawn at most once a frame, and its cost when the
 * ledger has it.
 */
import { useQuery } from "@tanstack/react-query";
import { useCallback, useEffect, useRef, useState } from "react";
import { call } from "../app/call.ts";
import { consoleKey, forgetConsoleKey, type KeyWish } from "../app/console-key.ts";
import type { UsageRecord } from "../parts/usage-types.ts";
import type { Dialect, DialectRequest } from "./conversation.ts";
import { newRun, type Run, send } from "./run.ts";

/** A run as a page shows it. */
export interface ShownRun extends Run {
  /** The id of the key that paid. */
  keyId: string | undefined;
  /** An error of the console's API, before the gateway was called. */
  fault: unknown;
}

const shown = (run: Run, keyId: string | undefined, fault?: unknown): ShownRun => ({
  ...run,
  turn: { ...run.turn, calls: run.turn.calls.map((each) => ({ ...each })) },
  lines: [...run.lines],
  keyId,
  fault,
});

export const isRunning = (run: Run | undefined): boolean => run?.state === "waiting" || run?.state === "streaming";

export function useRun() {
  const [run, setRun] = useState<ShownRun>();
  const stopping = useRef<AbortController>(undefined);
  useEffect(() => () => stopping.current?.abort(), []);

  const start = useCallback(async (wish: KeyWish, dialect: Dialect, request: DialectRequest): Promise<ShownRun> => {
    stopping.current?.abort();
    const controller = new AbortController();
    stopping.current = controller;
    const isCurrent = () => stopping.current === controller;
    const show = (next: ShownRun) => {
      if (isCurrent()) setRun(next);
      return next;
    };
    show(shown(newRun(), undefined));
    try {
      const { id, key } = await consoleKey(wish);
      let frame: number | undefined;
      const ended = await send({ baseUrl: wish.baseUrl, key }, dialect, request, {
        signal: controller.signal,
        onChange(changed) {
          frame ??= requestAnimationFrame(() => {
            frame = undefined;
            show(shown(changed, id));
          });
        },
      });
      if (frame !== undefined) cancelAnimationFrame(frame);
      if (ended.status === 401 || ended.status === 403) forgetConsoleKey(wish);
      return show(shown(ended, id));
    } catch (fault) {
      return show(shown({ ...newRun(), state: "failed" }, undefined, fault));
    }
  }, []);

  const stop = useCallback(() => stopping.current?.abort(), []);
  const clear = useCallback(() => {
    stopping.current?.abort();
    stopping.current = undefined;
    setRun(undefined);
  }, []);
  return { run, start, stop, clear };
}

/** The ledger has a record a second or two after the end of an answer. */
const costPauseMs = 700;
const costTries = 20;

/** The record of a request; null while the ledger does not have it. */
export function useCost(
  requestId: string | undefined,
  keyId: string | undefined,
  isEnded: boolean,
): UsageRecord | null {
  const { data } = useQuery<UsageRecord | null>({
    queryKey: ["cost", requestId],
    enabled: isEnded && requestId !== undefined && keyId !== undefined,
    staleTime: Number.POSITIVE_INFINITY,
    refetchInterval: ({ state }) => (state.data != null || state.dataUpdateCount >= costTries ? false : costPauseMs),
    // A list, because asking for a record that is not there yet is an error.
    queryFn: async ({ signal }) => {
      const { items } = await call("listUsage", { query: { key: keyId ?? "", limit: 20 } }, { signal });
      return items.find((record) => record.requestId === requestId) ?? null;
    },
  });
  return data ?? null;
}
