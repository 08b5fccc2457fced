/** The audit log: who changed what, and from where. */
import { Code, Group, Modal, SimpleGrid, Stack, Text, TextInput, UnstyledButton } from "@mantine/core";
import { useInputState } from "@mantine/hooks";
import { useState } from "react";
import { useFilters } from "../app/address.ts";
import { type Item, useList } from "../app/queries.ts";
import { useAccounts } from "../parts/accounts.ts";
import { Cut } from "../parts/facts.tsx";
import { FilterSelect } from "../parts/filters.tsx";
import { Empty, Page } from "../parts/page.tsx";
import { ListTable, useColumns } from "../parts/table.tsx";
import { useAuditTexts } from "./audit.texts.ts";

type Entry = Item<"listAudit">;
const pageRows = 100;

export function Audit() {
  const t = useAuditTexts();
  const { search, filter } = useFilters();
  const { account, action = "" } = search;
  const query = { limit: pageRows, account, action };
  const [details, setDetails] = useState<Entry>();
  const [text, setText] = useInputState(action);
  const apply = () => filter({ action: text || undefined });
  const c = useColumns<Entry>();
  const columns = [
    c.cell("at", t.time, ({ at }) => c.format.time(at)),
    c.cell("actor", t.actor, ({ actor }) => <Cut>{actor.name || actor.kind}</Cut>),
    c.cell("action", t.action, (entry) => (
      <UnstyledButton c="var(--mantine-color-anchor)" fz="inherit" onClick={() => setDetails(entry)}>
        {entry.action}
      </UnstyledButton>
    )),
    c.cell("subject", t.subject, ({ subject }) => <Cut width={320}>{subject}</Cut>),
    c.cell("account", t.account, (entry) => entry.account ?? "–"),
    c.cell("address", t.address, ({ address }) => address || "–"),
  ];
  return (
    <Page title={t.audit} about={t.about}>
      <Group>
        <FilterSelect name="account" title={t.account} data={useAccounts("owner")} searchable w={220} />
        <form
          onSubmit={(event) => {
            event.preventDefault();
            apply();
          }}
        >
          <TextInput
            aria-label={t.action}
            placeholder={`${t.action} (revokeKey, signIn, …)`}
            value={text}
            onChange={setText}
            onBlur={apply}
            w={240}
          />
        </form>
      </Group>
      <ListTable
        from={useList("listAudit", { query }, { isKept: true })}
        label={t.audit}
        columns={columns}
        isEndless
        minWidth={860}
        empty={<Empty title={t.none} />}
      />
      {details && (
        <Modal
          opened
          onClose={() => setDetails(undefined)}
          title={`${t.details}: ${details.action}`}
          size="xl"
          closeButtonProps={{ "aria-label": t.close }}
        >
          <SimpleGrid cols={{ base: 1, sm: 2 }}>
            {(["before", "after"] as const).map((side) => (
              <Stack gap={4} key={side}>
                <Text fw={600}>{t[side]}</Text>
                <Code block>{details[side] == null ? t.nothing : JSON.stringify(details[side], null, 2)}</Code>
              </Stack>
            ))}
          </SimpleGrid>
        </Modal>
      )}
    </Page>
  );
}
