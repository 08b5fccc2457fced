/** Reads of the API: cached by operation and input, and read again after a change. */
import { QueryClient, queryOptions, useQuery } from "@tanstack/react-query";
import { type Answer, ApiFault, call, type Input, type OperationName } from "./call.ts";

const retriesMax = 2;

export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 5_000,
      // Errors of the caller do not pass by themselves.
      retry: (count, error) => count < retriesMax && !(error instanceof ApiFault && error.status < 500),
    },
  },
});

/** A read of an operation, for loaders and `useQuery`. */
export const read = <Name extends OperationName>(name: Name, input: Input<Name> = {}) =>
  queryOptions({
    queryKey: [name, input] as const,
    queryFn: ({ signal }): Promise<Answer<Name>> => call(name, input, { signal }),
  });

export interface ReadOptions {
  enabled?: boolean;
  /** Reads again after this many milliseconds while the page is visible. */
  everyMs?: number;
  /** Shows what the previous input gave until the new answer is there. */
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
    ...(everyMs !== undefined && { refetchInterval: everyMs }),
    ...(keepsPrevious && { placeholderData: (previous: Answer<Name> | undefined) => previous }),
  });
}
