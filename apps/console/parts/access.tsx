/** With which account, group and address the console's pages call the gateway. */
import { Select } from "@mantine/core";
import { useMemo } from "react";
import type { Answer } from "../app/call.ts";
import { translated, useTexts } from "../app/language.tsx";
import { useRead } from "../app/queries.ts";
import { useMe } from "../app/session.ts";
import { useAccounts } from "./accounts.ts";

export type Catalogue = Answer<"readCatalogue">;
export type Model = Catalogue["models"][number];

const texts = translated({
  en: {
    account: "Account",
    group: "Group",
    address: "Base URL",
    main: "main",
  },
  zh: { account: "账户", group: "分组", address: "Base URL", main: "主地址" },
});

/** Base URLs are named without /v1, which not every client wants. */
const withoutVersion = (url: string) => url.replace(/\/(?:v1\/?)?$/, "");

export interface Chosen {
  account?: string | undefined;
  group?: string | undefined;
  address?: string | undefined;
}

/** What is chosen, or the default of each. */
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
  const known = <Item,>(items: readonly Item[], nameOf: (item: Item) => string, ...names: (string | undefined)[]) =>
    names.map((name) => items.find((item) => nameOf(item) === name)).find((item) => item !== undefined) ?? items[0];
  const chosenAccount = known(accounts, ({ value }) => value, account, "default")?.value;
  const allowed = useRead(
    "getAccount",
    { params: { account: chosenAccount ?? "" } },
    { enabled: chosenAccount !== undefined },
  ).data?.groups;
  const groups = useMemo(
    () =>
      (catalogue?.groups ?? []).filter(
        ({ name, models }) =>
          (model === undefined || models.includes(model)) && (allowed == null || allowed.includes(name)),
      ),
    [catalogue, model, allowed],
  );
  const chosenGroup = known(groups, ({ name }) => name, group, "default")?.name;
  const chosenAddress = known(addresses, ({ value }) => value, address, "main");
  const wish =
    chosenAccount !== undefined && chosenGroup !== undefined && chosenAddress !== undefined
      ? { account: chosenAccount, group: chosenGroup, person: me.name, baseUrl: chosenAddress.url }
      : undefined;
  return { accounts, groups, addresses, account: chosenAccount, group: chosenGroup, address: chosenAddress, wish };
}

export type Access = ReturnType<typeof useAccess>;

/** Fields for what can be chosen; none if there is one of each. */
export function AccessFields({ access, onChange }: { access: Access; onChange(change: Chosen): void }) {
  const t = useTexts(texts);
  const { accounts, groups, addresses, account, group, address } = access;
  return (
    <>
      {addresses.length > 1 && (
        <Select
          label={t.address}
          data={addresses.map(({ value, url }) => ({ value, label: `${url} (${value === "main" ? t.main : value})` }))}
          value={address?.value ?? null}
          onChange={(value) => onChange({ address: value ?? undefined })}
          allowDeselect={false}
          w={260}
        />
      )}
      {groups.length > 1 && (
        <Select
          label={t.group}
          data={groups.map(({ name }) => name)}
          value={group ?? null}
          onChange={(value) => onChange({ group: value ?? undefined })}
          allowDeselect={false}
          w={160}
        />
      )}
      {accounts.length > 1 && (
        <Select
          label={t.account}
          data={accounts}
          value={account ?? null}
          onChange={(value) => onChange({ account: value ?? undefined })}
          allowDeselect={false}
          searchable
          w={200}
        />
      )}
    </>
  );
}
