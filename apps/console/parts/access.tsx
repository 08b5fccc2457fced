/** With which account, group and address the console's pages call the gateway. */
import { useMemo } from "react";
import type { Answer } from "../app/call.ts";
import { useRead } from "../app/queries.ts";
import { useMe } from "../app/session.ts";
import { useTexts } from "../app/texts.ts";
import { useAccounts } from "./accounts.ts";
import { FilterSelect } from "./filters.tsx";

export type Catalogue = Answer<"readCatalogue">;
export type Model = Catalogue["models"][number];

/** Base URLs are named without /v1, which not every client wants. */
const withoutVersion = (url: string) => url.replace(/\/(?:v1\/?)?$/, "");

export interface Chosen {
  account?: string | undefined;
  group?: string | undefined;
  address?: string | undefined;
}

/** The choices, or the default of each. */
export function useAccess(catalogue: Catalogue | undefined, { account, group, address }: Chosen, model?: string) {
  const me = useMe();
  const accounts = useAccounts("member");
  const addresses = useMemo(
    () =>
      catalogue === undefined
        ? []
        : [
            ...(catalogue.baseUrl === null ? [] : [{ value: "main", url: withoutVersion(catalogue.baseUrl) }]),
            ...Object.entries(catalogue.alternatives).map(([value, url]) => ({ value, url: withoutVersion(url) })),
          ],
    [catalogue],
  );
  const firstOf = <Item,>(items: readonly Item[], nameOf: (item: Item) => string, ...names: (string | undefined)[]) =>
    names.map((name) => items.find((item) => nameOf(item) === name)).find((item) => item !== undefined) ?? items[0];
  const chosenAccount = firstOf(accounts, ({ value }) => value, account, "default")?.value;
  const { data: accountData, isLoading } = useRead(
    "getAccount",
    { params: { account: chosenAccount ?? "" } },
    { enabled: chosenAccount !== undefined },
  );
  const allowed = accountData?.groups;
  const groups = useMemo(
    () =>
      (catalogue?.groups ?? []).filter(
        ({ name, models }) =>
          (model === undefined || models.includes(model)) && (allowed == null || allowed.includes(name)),
      ),
    [catalogue, model, allowed],
  );
  const chosenGroup = firstOf(groups, ({ name }) => name, group, "default")?.name;
  const chosenAddress = firstOf(addresses, ({ value }) => value, address, "main");
  // Until the account is loaded, the group may be one that it does not have.
  const wish =
    !isLoading && chosenAccount !== undefined && chosenGroup !== undefined && chosenAddress !== undefined
      ? { account: chosenAccount, group: chosenGroup, person: me.name, baseUrl: chosenAddress.url }
      : undefined;
  return { accounts, groups, addresses, account: chosenAccount, group: chosenGroup, address: chosenAddress, wish };
}

export type Access = ReturnType<typeof useAccess>;

/** Fields for what can be chosen; none if there is one of each. */
export function AccessFields({ access }: { access: Access }) {
  const t = useTexts();
  const { accounts, groups, addresses, account, group, address } = access;
  const fields = {
    address: {
      label: t.baseUrl,
      data: addresses.map(({ value, url }) => ({
        value,
        label: `${url} (${value === "main" ? t.mainAddress : value})`,
      })),
      value: address?.value,
      w: 260,
    },
    group: { label: t.group, data: groups.map(({ name }) => name), value: group, w: 160 },
    account: { label: t.account, data: accounts, value: account, w: 200, searchable: true },
  };
  return Object.entries(fields).map(
    ([name, { value = null, ...field }]) =>
      field.data.length > 1 && <FilterSelect key={name} name={name} value={value} {...field} allowDeselect={false} />,
  );
}
