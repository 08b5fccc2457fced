/** The accounts that a person can choose from. */
import { useRead } from "../app/queries.ts";
import { may, type Role, useMe } from "../app/session.ts";

const accountsMax = 500;

/** The accounts in which the person has this role or a higher one: all for an operator. */
export function useAccounts(role: Role): { value: string; label: string }[] {
  const me = useMe();
  const all = useRead("listAccounts", { query: { limit: accountsMax } }, { enabled: me.isOperator });
  const accounts = me.isOperator ? (all.data?.items ?? []) : me.accounts.filter(({ id }) => may(me, role, id));
  return accounts.map(({ id, name }) => ({ value: id, label: name === id ? id : `${name} (${id})` }));
}
