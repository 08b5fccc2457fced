/**
 * Memberships that follow from the groups of a provider. They are set at each sign-in; those that
 * people have given by hand stay as they are.
 */
import { roleIncludes } from "../api/actor.ts";
import { recordChange, systemContext } from "../database/change.ts";
import type { Database } from "../database/database.ts";
import type { Role } from "../database/tables.ts";

/** Members of the group have the role in the account; `*` is everybody. */
export type Mapping = readonly { group: string; account: string; role: Role }[];
export type Memberships = ReadonlyMap<string, Role>;

/** Such as `eng=acme:member, ops=acme:owner`, as the setting's pattern allows. */
export const mappingOf = (text: string): Mapping =>
  text
    .split(",")
    .map((part) => /^\s*(.+)=([^=:]+):(\w+)\s*$/.exec(part))
    .flatMap((match) => {
      const [, group = "", account = "", role = ""] = match ?? [];
      return match === null ? [] : [{ group: group.trim(), account: account.trim(), role: role as Role }];
    });

/** The highest role of each account. */
export function membershipsOf(mapping: Mapping, groups: readonly string[]): Memberships {
  const memberships = new Map<string, Role>();
  for (const { group, account, role } of mapping) {
    if (group !== "*" && !groups.includes(group)) continue;
    const other = memberships.get(account);
    if (other === undefined || roleIncludes(role, other)) memberships.set(account, role);
  }
  return memberships;
}

export interface MembershipChange {
  user: string;
  memberships: Memberships;
  /** Where the provider said nothing of groups: what a group may give is not taken away. */
  possible: Mapping;
  /** Whether accounts are made that do not exist. */
  createsAccounts: boolean;
  now: Date;
}

/** Makes the mapped memberships of a user these. The last owner of an account stays. */
export async function applyMemberships(
  database: Database,
  { user, memberships, possible, createsAccounts, now }: MembershipChange,
): Promise<void> {
  await database.transaction().execute(async (transaction) => {
    const context = systemContext(transaction, now);
    const subject = `member ${user}`;
    const record = (account: string, before: Role | undefined, after: Role | undefined) =>
      recordChange(context, "mapMembership", {
        account,
        subject,
        ...(before && { before: { role: before } }),
        ...(after && { after: { role: after } }),
      });
    const present = await transaction.selectFrom("members").selectAll().where("user_id", "=", user).execute();
    const accounts = [...new Set([...memberships.keys(), ...present.map(({ account }) => account)])].sort();
    for (const account of accounts) {
      const role = memberships.get(account);
      const before = present.find((row) => row.account === account);
      if (before?.role === role || before?.is_mapped === false) continue;
      if (possible.some((line) => line.account === account && line.role === before?.role && line.group !== "*"))
        continue;
      if (before === undefined && createsAccounts) {
        const made = await transaction
          .insertInto("accounts")
          .values({ id: account, name: account, created_at: now, disabled_at: null })
          .onConflict((conflict) => conflict.doNothing())
          .returning("id")
          .executeTakeFirst();
        if (made !== undefined)
          await recordChange(context, "createAccount", {
            account,
            subject: `account ${account}`,
            after: { id: account, name: account },
          });
      }
      const locked = await transaction
        .selectFrom("accounts")
        .select("id")
        .where("id", "=", account)
        .forUpdate()
        .executeTakeFirst();
      if (locked === undefined) continue;
      if (before?.role === "owner" && !(await hasOtherOwner(transaction, account, user))) continue;
      if (role === undefined)
        await transaction.deleteFrom("members").where("account", "=", account).where("user_id", "=", user).execute();
      else
        await transaction
          .insertInto("members")
          .values({ account, user_id: user, role, is_mapped: true, created_at: now })
          .onConflict((conflict) => conflict.columns(["account", "user_id"]).doUpdateSet({ role }))
          .execute();
      await record(account, before?.role, role);
    }
  });
}

const hasOtherOwner = async (database: Database, account: string, user: string): Promise<boolean> =>
  (await database
    .selectFrom("members")
    .select("user_id")
    .where("account", "=", account)
    .where("role", "=", "owner")
    .where("user_id", "<>", user)
    .executeTakeFirst()) !== undefined;
