/** The accounts that a person can choose from. */
import { useRead } from "../app/queries.ts";
import { may, type Role, useMe } from "../app/session.ts";

const accountsMax = 500;

function useAccountsWith(role: Role): readonly { id: string; name: string }[] {
  const me = useMe();
  const all = useRead("listAccounts", { query: { limit: accountsMax } }, { enabled: me.isOperator });
  return me.isOperator ? (all.data?.items ?? []) : me.accounts.filter(({ id }) => may(me, role, id));
}

/** The name of an account; its id where the name is not known. */
export function useAccountName(): (id: string) => string {
  const accounts = useAccountsWith("reader");
  return (id) => accounts.find((account) => account.id === id)?.name ?? id;
}

/** The accounts in which the person has this role or a higher one: all for an operator. */
export function useAccounts(role: Role): { value: string; label: string }[] {
  return useAccountsWith(role).map(({ id, name }) => ({ value: id, label: name === id ? id : `${name} (${id})` }));
}
