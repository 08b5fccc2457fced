/** How much of the limits of a key or an account is used now, and what the account has spent. */
import { Group, Progress, Text } from "@mantine/core";
import { useQueries } from "@tanstack/react-query";
import type { Answer } from "../app/call.ts";
import { useFormats } from "../app/language.tsx";
import { read, useRead } from "../app/queries.ts";
import { precisionOf } from "./amounts.ts";
import { useMoney } from "./facts.tsx";
import { useKeyLimitsTexts } from "./key-limits.texts.ts";
import { useLimitsTexts } from "./limits.texts.ts";
import { isBudget } from "./limits.ts";
import { AccountLink } from "./link.tsx";
import { Loaded, Section } from "./page.tsx";
import { DataTable, useColumns } from "./table.tsx";

type Limit = Answer<"getKeyLimits">["limits"][number];

const everyMs = 3_000;
/** A share from which on a limit is marked, in percent. */
const nearFull = 80;

/** How much is used or reserved, in percent. A limit of nothing is full. */
const percentOf = ({ max, remaining }: Limit): number =>
  Number(max) === 0 ? 100 : 100 - (100 * Number(remaining)) / Number(max);

function useLimitColumns() {
  const t = useKeyLimitsTexts();
  const names = useLimitsTexts();
  const format = useFormats();
  const money = useMoney();
  const c = useColumns<Limit>();
  const amount = (limit: Limit["limit"], value: string) =>
    isBudget(limit) ? money.rounded(value) : format.count(Number(value));
  const resetText = ({ limit, used, resetsAt }: Limit): string => {
    if (isBudget(limit)) return resetsAt === null ? t.never : format.time(resetsAt);
    if (limit === "generationsMax") return used === "0" ? t.full : t.asTheyEnd;
    if (resetsAt === null) return t.full;
    return t.inSeconds(format.count(Math.max(0, Math.round((Date.parse(resetsAt) - Date.now()) / 1_000))));
  };
  return [
    c.cell("limit", t.limit, ({ limit }) => names[limit]),
    c.cell("who", t.who, ({ scope, subject }) => (scope === "key" ? t.key : t[scope](subject))),
    c.cell(
      "used",
      t.used,
      (row) => (
        <>
          <Text size="sm">{t.of(amount(row.limit, row.used), amount(row.limit, row.max))}</Text>
          {Number(row.reserved) > 0 && (
            <Text size="xs" c="dimmed">
              {t.reserved(amount(row.limit, row.reserved))}
            </Text>
          )}
          <Progress value={percentOf(row)} color={percentOf(row) >= nearFull ? "red" : "teal"} size="sm" aria-hidden />
        </>
      ),
      { width: 260 },
    ),
    c.cell("remaining", t.remaining, ({ limit, remaining }) => amount(limit, remaining)),
    c.cell("resets", t.resets, resetText),
  ];
}

const rowIdOf = ({ scope, subject, limit, max }: Limit) => `${scope} ${subject} ${limit} ${max}`;

/** The limits that all keys of an account in a group share; nothing if there are none. */
export function AccountLimits({ account }: { account: string }) {
  const t = useKeyLimitsTexts();
  const columns = useLimitColumns();
  const { items = [] } = useRead("listKeys", { query: { account, state: "live", limit: 500 } }).data ?? {};
  const rows = useQueries({
    queries: [...new Map(items.map(({ group, id }) => [group, id])).values()].map((key) => ({
      ...read("getKeyLimits", { params: { key } }),
      refetchInterval: everyMs,
    })),
    combine: (answers) => {
      const limits = answers.flatMap(({ data }) => data?.limits ?? []).filter(({ scope }) => scope !== "key");
      return [...new Map(limits.map((limit) => [rowIdOf(limit), limit])).values()];
    },
  });
  if (rows.length === 0) return null;
  return (
    <Section title={t.title}>
      <DataTable label={t.title} columns={columns} rows={rows} rowId={rowIdOf} />
    </Section>
  );
}

export function KeyLimits({ id, account }: { id: string; account: string }) {
  const t = useKeyLimitsTexts();
  const money = useMoney();
  const columns = useLimitColumns();
  return (
    <Section title={t.title}>
      <Loaded from={useRead("getKeyLimits", { params: { key: id } }, { everyMs })} rows={3}>
        {({ limits, accountSpend }) => (
          <>
            <DataTable label={t.title} columns={columns} rows={limits} rowId={rowIdOf} empty={<Text>{t.none}</Text>} />
            <Group gap="md">
              <Text>
                {t.accountSpent} <AccountLink id={account} underline="always" />
              </Text>
              {(["today", "month", "total"] as const).map((period) => (
                <Text
                  key={period}
                  title={money.exact(accountSpend[period], precisionOf({ isCostPartial: accountSpend.isPartial }))}
                >
                  {t[period](
                    money.rounded(accountSpend[period], precisionOf({ isCostPartial: accountSpend.isPartial })),
                  )}
                </Text>
              ))}
            </Group>
          </>
        )}
      </Loaded>
    </Section>
  );
}
