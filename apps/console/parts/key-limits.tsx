/** How much of a key's limits is used now, and what its account has spent. */
import { Group, Paper, Progress, Stack, Table, Text, Title } from "@mantine/core";
import type { Answer } from "../app/call.ts";
import { type Formats, useFormats } from "../app/language.tsx";
import { useRead } from "../app/queries.ts";
import { useKeyLimitsTexts } from "./key-limits.texts.ts";
import { useLimitTexts } from "./limit.texts.ts";
import { isBudget } from "./limit-texts.ts";
import { PageLink } from "./link.tsx";
import { Loaded } from "./states.tsx";

type Standing = Answer<"getKeyLimits">["limits"][number];
type Texts = ReturnType<typeof useKeyLimitsTexts>;

const everyMs = 3_000;
/** A share from which on a limit is marked, in percent. */
const nearFull = 80;

export function KeyLimits({ id, account, currency }: { id: string; account: string; currency: string }) {
  const t = useKeyLimitsTexts();
  const names = useLimitTexts();
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
