/** The batches of the person's accounts, newest first. */
import { Group, Text } from "@mantine/core";
import { useMemo } from "react";
import { useFilters } from "../app/address.ts";
import { useList } from "../app/queries.ts";
import { may, useMe } from "../app/session.ts";
import { type Batch, BatchBar, BatchState, doneOf } from "../batches/batch-state.tsx";
import { useAccounts } from "../parts/accounts.ts";
import { precisionOf } from "../parts/amounts.ts";
import { Cut } from "../parts/facts.tsx";
import { FilterSelect } from "../parts/filters.tsx";
import { ButtonLink, PageLink } from "../parts/link.tsx";
import { Empty, Page } from "../parts/page.tsx";
import { ListTable, useColumns } from "../parts/table.tsx";
import { useBatchesTexts } from "./batches.texts.ts";

const everyMs = 3_000;

export function Batches() {
  const t = useBatchesTexts();
  const { account } = useFilters().search;
  const accounts = useAccounts("reader");
  const hasAccounts = accounts.length > 1;
  const create = may(useMe(), "member") && <ButtonLink to="/batches/new">{t.create}</ButtonLink>;
  return (
    <Page title={t.title} about={t.about} actions={create}>
      {hasAccounts && (
        <Group>
          <FilterSelect name="account" title={t.account} data={accounts} searchable w={220} />
        </Group>
      )}
      <ListTable
        from={useList("listBatches", { query: { account } }, { everyMs })}
        label={t.title}
        columns={useBatchColumns(hasAccounts)}
        minWidth={980}
        chooser="batches"
        empty={<Empty title={t.none}>{t.noneWhy}</Empty>}
      />
    </Page>
  );
}

function useBatchColumns(hasAccounts: boolean) {
  const t = useBatchesTexts();
  const c = useColumns<Batch>();
  return useMemo(
    () => [
      c.cell("id", t.batch, ({ id }) => (
        <PageLink to="/batches/$batch" params={{ batch: id }} fw={500}>
          <Cut width={96}>{id}</Cut>
        </PageLink>
      )),
      c.cell("state", t.state, (batch) => <BatchState batch={batch} />, { sortBy: ({ state }) => state }),
      c.cell("progress", t.requests, (batch) => <BatchBar batch={batch} />, { width: 80 }),
      c.cell(
        "done",
        t.done,
        (batch) => (batch.total === 0 ? "–" : `${c.format.short(doneOf(batch))} / ${c.format.short(batch.total)}`),
        { isNumber: true, sortBy: doneOf },
      ),
      c.cell(
        "errored",
        t.failed,
        ({ errored }) => (errored === 0 ? "–" : <Text c="red">{c.format.count(errored)}</Text>),
        { isNumber: true, sortBy: ({ errored }) => errored },
      ),
      c.cell("model", t.model, ({ model, total }) => <Cut width={96}>{model ?? (total === 0 ? "–" : t.several)}</Cut>, {
        sortBy: ({ model }) => model ?? "",
      }),
      ...(hasAccounts ? [c.account(t.account, 80)] : []),
      c.money("cost", t.cost, ({ cost }) => cost, { precisionOf }),
      c.ago("createdAt", t.created),
      c.cell("end", t.end, ({ endedAt, expectedEndAt }) =>
        endedAt === null ? c.format.until(expectedEndAt) : c.format.ago(endedAt),
      ),
    ],
    [t, c, hasAccounts],
  );
}
