/** The person who is signed in, and what they may do. */
import { queryOptions, useSuspenseQuery } from "@tanstack/react-query";
import { type Answer, ApiFault, call, callAuth } from "./call.ts";
import { queryClient } from "./queries.ts";

export type Me = Answer<"getMe">;
export type Role = Me["accounts"][number]["role"];

/** Null without a valid session. */
export const meQuery = queryOptions({
  queryKey: ["me"],
  staleTime: 60_000,
  queryFn: async (): Promise<Me | null> => {
    try {
      return await call("getMe");
    } catch (error) {
      if (error instanceof ApiFault && error.status === 401) return null;
      throw error;
    }
  },
});

/** For pages that are also open without sign-in: null without it. */
export const useMaybeMe = (): Me | null => useSuspenseQuery(meQuery).data;

/** For pages behind the sign-in. */
export function useMe(): Me {
  const me = useMaybeMe();
  if (me === null) throw new ApiFault(401, "signed out");
  return me;
}

const ranks: Role[] = ["reader", "member", "owner"];

/** Whether the person has this role or a higher one in the account; without an account, in any. */
export const may = (me: Me, role: Role, account?: string): boolean =>
  me.isOperator ||
  me.accounts.some(
    (own) => (account === undefined || own.id === account) && ranks.indexOf(own.role) >= ranks.indexOf(role),
  );

export async function signOut(): Promise<void> {
  const { revokeConsoleKeys } = await import("./console-key.ts");
  await revokeConsoleKeys();
  await callAuth("/sign-out", {});
  queryClient.clear();
  location.assign("/");
}
