/** The usage and the cost of an account in a month, for printing. */
import { Button, Stack, Text, TextInput } from "@mantine/core";
import { getRouteApi } from "@tanstack/react-router";
import { useFilters } from "../app/address.ts";
import { useFormats } from "../app/language.tsx";
import { useRead } from "../app/queries.ts";
import { useLanguage } from "../app/texts.ts";
import { precisionOf } from "../parts/amounts.ts";
import { CsvButton } from "../parts/csv-button.tsx";
import { useCurrency, useMoney } from "../parts/facts.tsx";
import { Loaded, Page, Section } from "../parts/page.tsx";
import { DataTable, useColumns } from "../parts/table.tsx";
import type { SumRow, Sums, UsageSums } from "../parts/usage-types.ts";
import { useStatementTexts } from "./statement.texts.ts";

const route = getRouteApi("/inside/accounts/$account/statement");

/** The first moment of a month such as 2026-11, and that of the next one. */
function boundsOf(month: string): { from: string; to: string } {
  const from = new Date(`${month}-01T00:00:00Z`);
  const to = new Date(from);
  to.setUTCMonth(to.getUTCMonth() + 1);
  return { from: from.toISOString(), to: to.toISOString() };
}

export function Statement() {
  const t = useStatementTexts();
  const format = useFormats();
  const { language } = useLanguage();
  const currency = useCurrency();
  const { account } = route.useParams();
  const { search, filter } = useFilters();
  const thisMonth = new Date().toISOString().slice(0, 7);
  const month = /^\d{4}-(?:0[1-9]|1[0-2])$/.test(search.month ?? "") ? String(search.month) : thisMonth;
  const query = { ...boundsOf(month), account, timeZone: "UTC" };
  const name = useRead("getAccount", { params: { account } }).data?.name ?? account;
  const monthName = new Intl.DateTimeFormat(language, { month: "long", year: "numeric", timeZone: "UTC" }).format(
    new Date(query.from),
  );
  const models = useRead("sumUsage", { query: { ...query, by: "model", interval: "none" } });
  const keys = useRead("sumUsage", { query: { ...query, by: "key", interval: "none" } });
  return (
    <Page
      title={t.title(name)}
      about={`${t.about(monthName)}${month === thisMonth ? `, ${t.soFar}` : ""}`}
      actions={
        <>
          <TextInput
            type="month"
            aria-label={t.month}
            value={month}
            max={thisMonth}
            onChange={({ currentTarget: { value } }) => filter({ month: value || undefined })}
          />
          <CsvButton query={{ ...query, by: "model,key" }} interval="day" isGrouped />
          <Button onClick={() => print()}>{t.print}</Button>
        </>
      }
    >
      <Stack gap="lg">
        <Loaded from={models}>
          {(sums) => <Lines title={t.byModel} heading={t.model} sums={sums} nameOf={(row) => row.model} />}
        </Loaded>
        <Loaded from={keys}>
          {(sums) => (
            <Lines title={t.byKey} heading={t.key} sums={sums} nameOf={({ key = "" }) => sums.keyNames[key] ?? key} />
          )}
        </Loaded>
        <Text c="dimmed" size="sm">
          {t.madeAt(format.time(Date.now()), currency)}
        </Text>
      </Stack>
    </Page>
  );
}

interface LinesProps {
  title: string;
  /** Heads the first column. */
  heading: string;
  sums: UsageSums;
  nameOf(group: Record<string, string>): string | undefined;
}

/** Every digit, as on a bill. */
function Lines({ title, heading, sums: { rows, total }, nameOf }: LinesProps) {
  const t = useStatementTexts();
  const c = useColumns<SumRow>();
  const money = useMoney();
  const figure = (id: string, name: string, of: (sums: Sums) => string) =>
    c.cell(id, name, of, { isNumber: true, footer: of(total) });
  return (
    <Section title={title}>
      <DataTable
        label={title}
        columns={[
          c.cell("name", heading, ({ group }) => nameOf(group) || t.unknown, { footer: t.total }),
          figure("requests", t.requests, ({ requests }) => c.format.count(requests)),
          figure("inputTokens", t.inputTokens, ({ inputTokens }) => c.format.count(inputTokens)),
          figure("outputTokens", t.tokens, ({ outputTokens }) => c.format.count(outputTokens)),
          figure("cost", t.cost, (sums) => money.exact(sums.cost, precisionOf(sums))),
        ]}
        rows={rows.toSorted((a, b) => Number(b.cost) - Number(a.cost))}
        rowId={({ group }) => JSON.stringify(group)}
        empty={<Text>{t.nothing}</Text>}
      />
      {total.isCostPartial && (
        <Text c="dimmed" size="sm">
          ≥ {t.atLeast}
        </Text>
      )}
    </Section>
  );
}
