/** The generations that wait or run now, oldest first; one can be stopped. */
import { Alert, Group, Select, Text } from "@mantine/core";
import { memo, useState } from "react";
import { type Answer, call } from "../app/call.ts";
import { type Formats, useFormats } from "../app/language.tsx";
import { queryClient, useRead } from "../app/queries.ts";
import type { Search } from "../app/router.tsx";
import { type Column, Cut, DataTable } from "../parts/data-table.tsx";
import { PageLink } from "../parts/link.tsx";
import { Empty, Loaded } from "../parts/states.tsx";
import { RowButton, StateCell } from "./cells.tsx";
import { useGenerationsTexts } from "./generations.texts.ts";
import { ReasonDialog } from "./reason-dialog.tsx";
import { Section } from "./section.tsx";

type Texts = ReturnType<typeof useGenerationsTexts>;
type Listed = Answer<"listGenerations">;
type Generation = Listed["items"][number];

const everyMs = 2_000;
const stateColors = { queued: "gray", dispatched: "yellow", running: "teal" } as const;

export interface GenerationsProps {
  /** The names of the queues, separated by spaces. */
  queues: string;
  search: Search;
  onFilter(change: Search): void;
}

/** It has a pace of its own: the live state does not draw it again. */
export const Generations = memo(function Generations({
  queues,
  search: { model, key, queue },
  onFilter,
}: GenerationsProps) {
  const t = useGenerationsTexts();
  const format = useFormats();
  const query = { ...(model && { model }), ...(key && { key }), ...(queue && { queue }) };
  const listed = useRead("listGenerations", { query }, { everyMs, keepsPrevious: true });
  const { models = [] } = useRead("readCatalogue").data ?? {};
  const [stopping, setStopping] = useState<Generation>();
  const items = listed.data?.items ?? [];
  const keys = new Map(items.map(({ keyId, keyName }) => [keyId, keyName]));
  if (key !== undefined && !keys.has(key)) keys.set(key, key);
  const filter = (label: string, name: "model" | "key" | "queue", value: string | undefined, data: Option[]) => (
    <Select
      size="xs"
      w={170}
      aria-label={label}
      placeholder={`${label}: ${t.any}`}
      data={data}
      value={value ?? null}
      onChange={(chosen) => onFilter({ [name]: chosen ?? undefined })}
      clearable
      searchable
    />
  );
  return (
    <Section
      title={t.title}
      aside={
        <Group gap="xs">
          <Text c="dimmed" size="sm" role="status">
            {listed.data && countText(listed.data, t, format)}
          </Text>
          {filter(
            t.model,
            "model",
            model,
            models.map(({ id }) => ({ value: id, label: id })),
          )}
          {filter(
            t.key,
            "key",
            key,
            [...keys].map(([value, label]) => ({ value, label })),
          )}
          {filter(
            t.queue,
            "queue",
            queue,
            queues.split(" ").map((name) => ({ value: name, label: name })),
          )}
        </Group>
      }
    >
      <Loaded from={listed} rows={4}>
        {({ silent }) => (
          <>
            {silent.length > 0 && (
              <Alert color="yellow" p="xs">
                {t.silent(silent.join(", "))}
              </Alert>
            )}
            <DataTable
              label={t.title}
              columns={columnsOf(t, format, setStopping)}
              rows={items}
              rowId={({ id }) => id}
              minWidth={1_100}
              empty={<Empty title={t.none}>{t.noneWhy}</Empty>}
            />
          </>
        )}
      </Loaded>
      {stopping && (
        <ReasonDialog
          title={t.stopTitle}
          submit={t.stop}
          consequence={t.stopWhy(stopping.id, stopping.model)}
          isDestructive
          onClose={() => setStopping(undefined)}
          onSubmit={async (reason) => {
            await call("stopGeneration", { params: { generation: stopping.id }, body: { reason } });
            await queryClient.invalidateQueries({ queryKey: ["listGenerations"] });
          }}
        />
      )}
    </Section>
  );
});

interface Option {
  value: string;
  label: string;
}

const countText = ({ items, total }: Listed, t: Texts, format: Formats): string =>
  items.length < total ? t.shown(format.count(items.length), format.count(total)) : t.all(format.count(total));

const columnsOf = (t: Texts, format: Formats, stop: (generation: Generation) => void): Column<Generation>[] => [
  {
    id: "since",
    title: t.since,
    isNumber: true,
    sortBy: ({ since }) => -Date.parse(since),
    cell: ({ since }) => (
      <span title={format.time(since)}>
        {format.ms(Math.max(0, Math.round((Date.now() - Date.parse(since)) / 100) * 100))}
      </span>
    ),
  },
  { id: "model", title: t.model, sortBy: ({ model }) => model, cell: ({ model }) => <Cut width={130}>{model}</Cut> },
  {
    id: "key",
    title: t.key,
    sortBy: ({ keyName }) => keyName,
    cell: ({ keyId, keyName, account }) => (
      <PageLink to="/keys/$key" params={{ key: keyId }} title={account === null ? keyId : `${account}: ${keyId}`}>
        <Cut width={110}>{keyName}</Cut>
      </PageLink>
    ),
  },
  { id: "queue", title: t.queue, sortBy: ({ queue }) => queue, cell: ({ queue }) => queue },
  {
    id: "state",
    title: t.state,
    sortBy: ({ state }) => state,
    cell: ({ state }) => <StateCell color={stateColors[state]}>{t[state]}</StateCell>,
  },
  { id: "kind", title: t.kind, cell: ({ isStreamed }) => (isStreamed ? t.streamed : t.whole) },
  {
    id: "tokens",
    title: t.tokens,
    isNumber: true,
    sortBy: ({ outputTokens }) => outputTokens ?? -1,
    cell: ({ outputTokens }) => (outputTokens === null ? "–" : format.count(outputTokens)),
  },
  {
    id: "target",
    title: t.target,
    cell: ({ upstream, target }) => <Cut width={150}>{upstream === null ? "–" : `${upstream}/${target}`}</Cut>,
  },
  { id: "worker", title: t.worker, cell: ({ worker }) => <Cut width={84}>{worker ?? "–"}</Cut> },
  { id: "ingress", title: t.ingress, cell: ({ ingress }) => <Cut width={84}>{ingress}</Cut> },
  { id: "id", title: t.id, cell: ({ id }) => <Cut width={84}>{id}</Cut> },
  {
    id: "stop",
    title: "",
    isNumber: true,
    cell: (generation) => (
      <RowButton label={`${t.stop} ${generation.id}`} isDestructive onClick={() => stop(generation)}>
        {t.stop}
      </RowButton>
    ),
  },
];
