/**
 * The search part of an address: filters and other choices of a page, which checks their values.
 */
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useCallback } from "react";

export type Search = Record<string, string | undefined>;

export const searchOf = (search: Record<string, unknown>): Search =>
  Object.fromEntries(
    Object.entries(search).flatMap(([name, value]) =>
      typeof value === "string" || typeof value === "number" ? [[name, String(value)]] : [],
    ),
  );

/**
 * `filter` changes some fields; with `isStep` the browser's back button returns to the former ones.
 */
export function useFilters(): { search: Search; filter(change: Search, options?: { isStep?: boolean }): void } {
  const search: Search = useSearch({ strict: false });
  const navigate = useNavigate();
  const filter = useCallback(
    (change: Search, { isStep = false }: { isStep?: boolean } = {}) =>
      void navigate({
        to: ".",
        search: (now: Search) => ({ ...now, ...change }),
        replace: !isStep,
        resetScroll: false,
      }),
    [navigate],
  );
  return { search, filter };
}
