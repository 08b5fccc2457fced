/** The audit log: who changed what, and from where. */
import { Button, Code, Group, Modal, SimpleGrid, Stack, Text, TextInput, UnstyledButton } from "@mantine/core";
import { useMemo, useState } from "react";
import { useFilters } from "../app/address.ts";
import { type Item, useList } from "../app/queries.ts";
import { useAccounts } from "../parts/accounts.ts";
import { Cut } from "../parts/facts.tsx";
import { FilterSelect } from "../parts/filters.tsx";
import { Empty, Page } from "../parts/page.tsx";
import { ListTable, RowButton, useColumns } from "../parts/table.tsx";
import { useAuditTexts } from "./audit.texts.ts";
import { actionNames } from "./audit-actions.texts.ts";

type Entry = Item<"listAudit">;
const pageRows = 100;
const dayMs = 86_400_000;

/** The start of a day as the browser's clock has it; `days` later. */
const startOf = (day: string | undefined, days = 0): string | undefined => {
  const ms = Date.parse(`${day}T00:00:00`);
  return Number.isNaN(ms) ? undefined : new Date(ms + days * dayMs).toISOString();
};

/** The object by the name in its state; by its id if it has none. */
function objectNameOf({ subject, before, after }: Entry): string {
  const [kind, id] = subject.split(" ", 2);
  if (id === undefined) return subject;
  for (const state of [after, before] as ({ name?: unknown; email?: unknown } | null)[]) {
    const name = state?.name || state?.email;
    if (typeof name === "string") return `${kind} ${name}`;
  }
  return subject;
}

export function Audit() {
  const t = useAuditTexts();
  const { search } = useFilters();
  const { account, action, actor, subject, from, to } = search;
  const query = { limit: pageRows, account, action, actor, subject, from: startOf(from), to: startOf(to, 1) };
  const [details, setDetails] = useState<Entry>();
  return (
    <Page title={t.audit} about={t.about}>
      <AuditFilters />
      <ListTable
        from={useList("listAudit", { query }, { isKept: true })}
        label={t.audit}
        columns={useAuditColumns(setDetails)}
        isEndless
        minWidth={860}
        empty={<Empty title={t.none} />}
      />
      {details && (
        <Modal
          opened
          onClose={() => setDetails(undefined)}
          title={`${t.words(details.action)}: ${objectNameOf(details)}`}
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

function AuditFilters() {
  const t = useAuditTexts();
  const { search, filter } = useFilters();
  const { actor, name, subject, object } = search;
  return (
    <Group>
      <FilterSelect name="account" title={t.account} data={useAccounts("owner")} searchable w={220} />
      <FilterSelect
        name="action"
        title={t.action}
        data={actionNames.map((value) => ({ value, label: t.words(value) }))}
        searchable
        w={260}
      />
      {(["from", "to"] as const).map((side) => (
        <TextInput
          key={side}
          type="date"
          aria-label={t[side]}
          title={t[side]}
          value={search[side] ?? ""}
          onChange={({ currentTarget: { value } }) => filter({ [side]: value || undefined })}
        />
      ))}
      {actor !== undefined && (
        <Button variant="light" onClick={() => filter({ actor: undefined, name: undefined })}>
          {`${t.onlyActor(name ?? actor)} ×`}
        </Button>
      )}
      {subject !== undefined && (
        <Button variant="light" onClick={() => filter({ subject: undefined, object: undefined })}>
          {`${t.onlySubject(object ?? subject)} ×`}
        </Button>
      )}
    </Group>
  );
}

function useAuditColumns(show: (entry: Entry) => void) {
  const t = useAuditTexts();
  const { filter } = useFilters();
  const c = useColumns<Entry>();
  return useMemo(
    () => [
      c.cell("at", t.time, ({ at }) => c.format.time(at)),
      c.cell("actor", t.actor, ({ actor: { id, name, kind } }) =>
        id === "" ? (
          name || kind
        ) : (
          <RowButton label={t.onlyActor(name || id)} onClick={() => filter({ actor: id, name: name || id })}>
            <Cut>{name || id}</Cut>
          </RowButton>
        ),
      ),
      c.cell("action", t.action, (entry) => (
        <UnstyledButton c="var(--mantine-color-anchor)" fz="inherit" title={entry.action} onClick={() => show(entry)}>
          {t.words(entry.action)}
        </UnstyledButton>
      )),
      c.cell("subject", t.subject, (entry) => {
        const objectName = objectNameOf(entry);
        return (
          <RowButton
            label={t.onlySubject(objectName)}
            onClick={() => filter({ subject: entry.subject, object: objectName })}
          >
            <Cut width={300} title={entry.subject}>
              {objectName}
            </Cut>
          </RowButton>
        );
      }),
      c.account(t.account),
      c.cell("address", t.address, ({ address }) => address || "–"),
    ],
    [t, c, filter, show],
  );
}
