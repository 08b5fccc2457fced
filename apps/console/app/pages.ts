/** Lists of the API that come in pages. */
import { useInfiniteQuery } from "@tanstack/react-query";
import { type Answer, call, type Input, type OperationName } from "./call.ts";

type PagedName = {
  [Name in OperationName]: Answer<Name> extends { items: unknown[]; nextCursor: string | null } ? Name : never;
}[OperationName];
export type Item<Name extends PagedName> = Answer<Name>["items"][number];

/** All rows that are loaded so far; `more` is undefined on the last page. */
export function useList<Name extends PagedName>(
  name: Name,
  input: Input<Name> = {},
  {
    everyMs,
    isKept = false,
  }: { everyMs?: number /** Not read again by itself: for lists that may be long. */; isKept?: boolean } = {},
) {
  const list = useInfiniteQuery({
    queryKey: [name, "list", input],
    queryFn: async ({ pageParam, signal }) => {
      const query = { ...input.query, ...(pageParam !== "" && { cursor: pageParam }) };
      return (await call(name, { ...input, query } as Input<Name>, { signal })) as {
        items: Item<Name>[];
        nextCursor: string | null;
      };
    },
    initialPageParam: "",
    getNextPageParam: ({ nextCursor }) => nextCursor,
    ...(everyMs !== undefined && { refetchInterval: everyMs }),
    ...(isKept && { staleTime: Number.POSITIVE_INFINITY, gcTime: 60_000 }),
  });
  const rows = list.data?.pages.flatMap(({ items }) => items);
  return {
    data: rows,
    error: list.error,
    refetch: list.refetch,
    more: list.hasNextPage ? () => void list.fetchNextPage() : undefined,
    isLoadingMore: list.isFetchingNextPage,
  };
}
