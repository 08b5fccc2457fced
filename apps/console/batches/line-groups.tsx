/** Lines with faults or errors, grouped by code: what is wrong in words, and the first lines. */
import { Code, Group, Paper, Stack, Table, Text } from "@mantine/core";
import { useFormats } from "../app/language.tsx";
import { Cut } from "../parts/facts.tsx";
import { useLineGroupsTexts } from "./line-groups.texts.ts";

interface FaultyLine {
  /** Counts from 1; null for the whole input. Absent where the id tells the line. */
  line?: number | null;
  /** The caller's id of the request. */
  customId?: string | null;
  message: string;
}

export interface LineGroup {
  code: string;
  count: number;
  /** The first ones. */
  lines: FaultyLine[];
}

const linesShown = 5;

/** By code, the most frequent first. */
export function groupsOf(faults: readonly (FaultyLine & { code: string })[]): LineGroup[] {
  const groups = Map.groupBy(faults, ({ code }) => code);
  return [...groups]
    .map(([code, lines]) => ({ code, count: lines.length, lines: lines.slice(0, linesShown) }))
    .toSorted((a, b) => b.count - a.count);
}

export function LineGroups({ groups }: { groups: readonly LineGroup[] }) {
  const t = useLineGroupsTexts();
  const format = useFormats();
  return (
    <Stack gap="sm">
      {groups.map(({ code, count, lines }) => (
        <Paper key={code} withBorder p="sm">
          <Stack>
            <Group justify="space-between" align="baseline" wrap="nowrap">
              <Group align="baseline">
                <Text fw={600}>{t.words(code) ?? code}</Text>
                <Code>{code}</Code>
              </Group>
              <Text fw={600}>{format.count(count)}</Text>
            </Group>
            <Table verticalSpacing={4}>
              <Table.Tbody>
                {lines.map(({ line, customId, message }, place) => (
                  // biome-ignore lint/suspicious/noArrayIndexKey: the same line may have two faults.
                  <Table.Tr key={place}>
                    <Table.Td w={{ base: 110, sm: 180 }} valign="top">
                      {line == null ? <Cut width={150}>{customId ?? t.whole}</Cut> : t.line(format.count(line))}
                    </Table.Td>
                    <Table.Td style={{ overflowWrap: "anywhere" }}>{message}</Table.Td>
                  </Table.Tr>
                ))}
              </Table.Tbody>
            </Table>
            {count > lines.length && <Text c="dimmed">{t.more(format.count(count - lines.length))}</Text>}
          </Stack>
        </Paper>
      ))}
    </Stack>
  );
}
