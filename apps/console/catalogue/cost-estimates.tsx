/** The cost of the last month's usage at other prices. */
import { Stack, Table, Text } from "@mantine/core";
import { useQueries } from "@tanstack/react-query";
import { useFormats } from "../app/language.tsx";
import { read } from "../app/queries.ts";
import { Money } from "../parts/facts.tsx";
import { FaultNotice, Waiting } from "../parts/page.tsx";
import { useCostEstimatesTexts } from "./cost-estimates.texts.ts";

export interface Proposal {
  /** A model of the catalogue in force. */
  model: string;
  prices: Record<string, unknown>;
}

/** More are not computed: each is a read of the ledger. */
const estimatesMax = 50;

export function CostEstimates({ proposals }: { proposals: readonly Proposal[] }) {
  const t = useCostEstimatesTexts();
  const format = useFormats();
  const shown = proposals.slice(0, estimatesMax);
  const estimates = useQueries({ queries: shown.map((body) => read("estimatePrices", { body })) });
  const fault = estimates.find(({ error }) => error !== null)?.error;
  if (fault !== undefined) return <FaultNotice error={fault} />;
  const rows = estimates.flatMap(({ data }, place) =>
    data === undefined ? [] : [{ model: shown[place]?.model ?? "", ...data }],
  );
  const [first] = rows;
  if (first === undefined || rows.length < shown.length) return shown.length === 0 ? null : <Waiting rows={2} />;
  return (
    <Stack gap={4}>
      <Text fw={600}>{t.title(first.days)}</Text>
      <Table aria-label={t.title(first.days)}>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>{t.model}</Table.Th>
            {[t.requests, t.billed, t.present, t.proposed].map((name) => (
              <Table.Th key={name} className="number">
                {name}
              </Table.Th>
            ))}
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {rows.map(({ model, requests, billed, present, proposed }) => (
            <Table.Tr key={model}>
              <Table.Td style={{ overflowWrap: "anywhere" }}>{model}</Table.Td>
              <Table.Td className="number">{format.count(requests)}</Table.Td>
              {[billed, present, proposed].map((amount, place) => (
                // biome-ignore lint/suspicious/noArrayIndexKey: the columns stay.
                <Table.Td key={place} className="number">
                  <Money of={amount} />
                </Table.Td>
              ))}
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
      {rows.some(({ isExact }) => !isExact) && (
        <Text c="dimmed" size="sm">
          {t.notExact}
        </Text>
      )}
      {proposals.length > estimatesMax && (
        <Text c="dimmed" size="sm">
          {t.more(proposals.length - estimatesMax)}
        </Text>
      )}
    </Stack>
  );
}
