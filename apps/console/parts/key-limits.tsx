/** How much of a key's limits is used now, and what its account has spent. */
import { Group, Paper, Progress, Stack, Table, Text, Title } from "@mantine/core";
import type { Answer } from "../app/call.ts";
import { type Formats, translated, useFormats, useTexts } from "../app/language.tsx";
import { useRead } from "../app/queries.ts";
import { isBudget, limitTexts } from "./limit-texts.ts";
import { PageLink } from "./link.tsx";
import { Loaded } from "./states.tsx";

const texts = translated({
  en: {
    title: "Limits now",
    none: "Nothing limits this key: neither its own settings, nor its group or account.",
    limit: "Limit",
    who: "Counts",
    key: "This key",
    group: (name: string) => `All keys of the group ${name}`,
    account: (name: string) => `All keys of ${name} in this group`,
    used: "Used",
    of: (used: string, max: string) => `${used} of ${max}`,
    reserved: (amount: string) => `and ${amount} reserved by running requests`,
    remaining: "Remaining",
    resets: "Resets",
    never: "Never",
    asTheyEnd: "As requests end",
    full: "Not in use",
    inSeconds: (seconds: string) => `In ${seconds} s`,
    accountSpent: "Spent by all keys of the account:",
    today: (amount: string) => `${amount} today`,
    month: (amount: string) => `${amount} this month`,
    total: (amount: string) => `${amount} in total`,
  },
  zh: {
    title: "当前限额",
    none: "此密钥不受限制：其自身设置、分组和账户均无限额。",
    limit: "限额",
    who: "计入范围",
    key: "此密钥",
    group: (name: string) => `分组 ${name} 的全部密钥`,
    account: (name: string) => `${name} 在此分组中的全部密钥`,
    used: "已用",
    of: (used: string, max: string) => `${used} / ${max}`,
    reserved: (amount: string) => `另有 ${amount} 由进行中的请求预留`,
    remaining: "剩余",
    resets: "重置",
    never: "从不",
    asTheyEnd: "随请求结束",
    full: "未使用",
    inSeconds: (seconds: string) => `${seconds} 秒后`,
    accountSpent: "该账户全部密钥的花费：",
    today: (amount: string) => `今日 ${amount}`,
    month: (amount: string) => `本月 ${amount}`,
    total: (amount: string) => `总计 ${amount}`,
  },
});

type Standing = Answer<"getKeyLimits">["limits"][number];
type Texts = typeof texts.en;

const everyMs = 3_000;
/** A share from which on a limit is marked, in percent. */
const nearFull = 80;

export function KeyLimits({ id, account, currency }: { id: string; account: string; currency: string }) {
  const t = useTexts(texts);
  const names = useTexts(limitTexts);
  const format = useFormats();
  const read = useRead("getKeyLimits", { params: { key: id } }, { everyMs });
  const amount = (limit: Standing["limit"], value: string) =>
    isBudget(limit) ? format.money(value, currency) : format.count(Number(value));
  return (
    <Stack gap="xs">
      <Title order={2}>{t.title}</Title>
      <Loaded from={read} rows={3}>
        {({ limits, accountSpend }) => (
          <>
            {limits.length === 0 ? (
              <Text>{t.none}</Text>
            ) : (
              <Paper withBorder>
                <Table.ScrollContainer minWidth={640} type="native">
                  <Table aria-label={t.title}>
                    <Table.Thead>
                      <Table.Tr>
                        {[t.limit, t.who, t.used, t.remaining, t.resets].map((title) => (
                          <Table.Th key={title}>{title}</Table.Th>
                        ))}
                      </Table.Tr>
                    </Table.Thead>
                    <Table.Tbody>
                      {limits.map(({ scope, subject, limit, max, used, reserved, remaining, resetsAt }) => (
                        <Table.Tr key={`${scope} ${limit}`}>
                          <Table.Td>{names[limit]}</Table.Td>
                          <Table.Td>{scope === "key" ? t.key : t[scope](subject)}</Table.Td>
                          <Table.Td w={260}>
                            <Text size="sm">{t.of(amount(limit, used), amount(limit, max))}</Text>
                            {Number(reserved) > 0 && (
                              <Text size="xs" c="dimmed">
                                {t.reserved(amount(limit, reserved))}
                              </Text>
                            )}
                            <Progress
                              value={percentOf(max, remaining)}
                              color={percentOf(max, remaining) >= nearFull ? "red" : "teal"}
                              size="sm"
                              aria-hidden
                            />
                          </Table.Td>
                          <Table.Td>{amount(limit, remaining)}</Table.Td>
                          <Table.Td>{resetText(limit, used, resetsAt, t, format)}</Table.Td>
                        </Table.Tr>
                      ))}
                    </Table.Tbody>
                  </Table>
                </Table.ScrollContainer>
              </Paper>
            )}
            <Group gap="md">
              <Text>
                {t.accountSpent}{" "}
                <PageLink to="/accounts/$account" params={{ account }} underline="always">
                  {account}
                </PageLink>
              </Text>
              {(["today", "month", "total"] as const).map((period) => (
                <Text key={period} title={format.exactMoney(accountSpend[period], currency)}>
                  {t[period](format.money(accountSpend[period], currency))}
                </Text>
              ))}
            </Group>
          </>
        )}
      </Loaded>
    </Stack>
  );
}

/** How much is used or reserved, in percent. A limit of nothing is full. */
const percentOf = (max: string, remaining: string): number =>
  Number(max) === 0 ? 100 : 100 - (100 * Number(remaining)) / Number(max);

function resetText(limit: Standing["limit"], used: string, resetsAt: string | null, t: Texts, format: Formats): string {
  if (isBudget(limit)) return resetsAt === null ? t.never : format.time(resetsAt);
  if (limit === "generationsMax") return used === "0" ? t.full : t.asTheyEnd;
  if (resetsAt === null) return t.full;
  return t.inSeconds(format.count(Math.max(0, Math.round((Date.parse(resetsAt) - Date.now()) / 1_000))));
}
