/** Reads of the API: cached by operation and input, and read again after a change. */
import { QueryClient, queryOptions, useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { type Answer, ApiFault, call, callVersioned, type Input, type OperationName } from "./call.ts";

const retriesMax = 2;

export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 5_000,
      // The gateway may be on this machine, whatever the browser says of its network.
      networkMode: "always",
      // Errors of the caller do not pass by themselves.
      retry: (count, error) => count < retriesMax && !(error instanceof ApiFault && error.status < 500),
    },
  },
});

/** Makes a change, then reads everything again that is shown. */
export async function change<Name extends OperationName>(name: Name, input?: Input<Name>): Promise<Answer<Name>> {
  const answer = await call(name, input);
  await queryClient.invalidateQueries();
  return answer;
}

/** A read of an operation, for loaders and `useQuery`. */
export const read = <Name extends OperationName>(name: Name, input: Input<Name> = {}) =>
  queryOptions({
    queryKey: [name, input] as const,
    queryFn: ({ signal }): Promise<Answer<Name>> => call(name, input, { signal }),
  });

export interface ReadOptions {
  enabled?: boolean;
  /** Reads again after this many milliseconds while the page is visible. */
  everyMs?: number | undefined;
  /** Shows the answer for the previous input until the new one is there. */
  keepsPrevious?: boolean;
}

export function useRead<Name extends OperationName>(
  name: Name,
  input: Input<Name> = {},
  { enabled = true, everyMs, keepsPrevious = false }: ReadOptions = {},
) {
  return useQuery({
    ...read(name, input),
    enabled,
    refetchInterval: everyMs,
    placeholderData: keepsPrevious ? (previous: Answer<Name> | undefined) => previous : undefined,
  });
}

/** One thing with its version, for changes that must not overwrite those of others. */
export const useVersioned = <Name extends OperationName>(name: Name, input: Input<Name> = {}, everyMs?: number) =>
  useQuery({
    queryKey: [name, "versioned", input],
    queryFn: ({ signal }) => callVersioned(name, input, { signal }),
    refetchInterval: everyMs,
  });

type PagedName = {
  [Name in OperationName]: Answer<Name> extends { items: unknown[]; nextCursor: string | null } ? Name : never;
}[OperationName];
export type Item<Name extends PagedName> = Answer<Name>["items"][number];

export interface ListOptions {
  everyMs?: number;
  /** Not read again by itself: for lists that may be long. */
  isKept?: boolean;
}

/**
 * A list that comes in pages: all rows that are loaded so far; `more` is undefined on the last
 * page.
 */
export function useList<Name extends PagedName>(
  name: Name,
  input: Input<Name> = {},
  { everyMs, isKept = false }: ListOptions = {},
) {
  const list = useInfiniteQuery({
    queryKey: [name, "list", input],
    queryFn: async ({ pageParam, signal }) => {
      const query = { ...input.query, cursor: pageParam };
      return (await call(name, { ...input, query } as Input<Name>, { signal })) as {
        items: Item<Name>[];
        nextCursor: string | null;
      };
    },
    initialPageParam: "",
    getNextPageParam: ({ nextCursor }) => nextCursor,
    refetchInterval: everyMs,
    ...(isKept && { staleTime: Number.POSITIVE_INFINITY, gcTime: 60_000 }),
  });
  return {
    data: list.data?.pages.flatMap(({ items }) => items),
    error: list.error,
    refetch: list.refetch,
    more: list.hasNextPage ? () => void list.fetchNextPage() : undefined,
    isLoadingMore: list.isFetchingNextPage,
  };
}
