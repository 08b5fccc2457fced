/** The usage and the cost of an account in a month, for printing. */
import { Box, Button, Stack, Table, Text, TextInput } from "@mantine/core";
import { getRouteApi } from "@tanstack/react-router";
import { useFilters } from "../app/address.ts";
import { useFormats } from "../app/language.tsx";
import { useRead } from "../app/queries.ts";
import { useLanguage } from "../app/texts.ts";
import { precisionOf } from "../parts/amounts.ts";
import { CsvButton } from "../parts/csv-button.tsx";
import { useCurrency, useMoney } from "../parts/facts.tsx";
import { Loaded, Page, Section } from "../parts/page.tsx";
import type { Sums, UsageSums } from "../parts/usage-types.ts";
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

function Lines({ title, heading, sums: { rows, total }, nameOf }: LinesProps) {
  const t = useStatementTexts();
  const format = useFormats();
  const money = useMoney();
  if (rows.length === 0) return <Text>{t.nothing}</Text>;
  const cells = (sums: Sums) =>
    [
      format.count(sums.requests),
      format.count(sums.inputTokens),
      format.count(sums.outputTokens),
      money.exact(sums.cost, precisionOf(sums)),
    ].map((text, place) => (
      // biome-ignore lint/suspicious/noArrayIndexKey: a cell has no other identity.
      <Table.Td key={place} className="number">
        {text}
      </Table.Td>
    ));
  return (
    <Section title={title}>
      <Box component="section" aria-label={title} tabIndex={0} style={{ overflowX: "auto" }}>
        <Table>
          <Table.Thead>
            <Table.Tr>
              <Table.Th w="30%">{heading}</Table.Th>
              {[t.requests, t.inputTokens, t.tokens, t.cost].map((name) => (
                <Table.Th key={name} className="number">
                  {name}
                </Table.Th>
              ))}
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {rows
              .toSorted((a, b) => Number(b.cost) - Number(a.cost))
              .map((row) => (
                <Table.Tr key={JSON.stringify(row.group)}>
                  <Table.Td style={{ overflowWrap: "anywhere" }}>{nameOf(row.group) || t.unknown}</Table.Td>
                  {cells(row)}
                </Table.Tr>
              ))}
          </Table.Tbody>
          <Table.Tfoot>
            <Table.Tr>
              <Table.Th>{t.total}</Table.Th>
              {cells(total)}
            </Table.Tr>
          </Table.Tfoot>
        </Table>
      </Box>
    </Section>
  );
}
