/** The generations that wait or run now, oldest first; one can be stopped. */
import { Alert, Group, Text } from "@mantine/core";
import { memo, useMemo } from "react";
import { useFilters } from "../app/address.ts";
import { type Answer, call } from "../app/call.ts";
import { useFormats } from "../app/language.tsx";
import { useRead } from "../app/queries.ts";
import { openDialog } from "../parts/dialogs.tsx";
import { Cut } from "../parts/facts.tsx";
import { FilterSelect } from "../parts/filters.tsx";
import { KeyLink } from "../parts/link.tsx";
import { Empty, Loaded, Section } from "../parts/page.tsx";
import { DataTable, RowButton, StateCell, useColumns } from "../parts/table.tsx";
import { useGenerationsTexts } from "./generations.texts.ts";
import { ReasonDialog } from "./reason-dialog.tsx";

type Generation = Answer<"listGenerations">["items"][number];

const everyMs = 2_000;
const stateColors = { rate_limited: "gray", queued: "gray", dispatched: "yellow", running: "teal" } as const;

/**
 * It has a pace of its own: the live state does not draw it again. `queues` has the names of the
 * queues, separated by spaces.
 */
export const Generations = memo(function Generations({ queues }: { queues: string }) {
  const t = useGenerationsTexts();
  const format = useFormats();
  const { model, key, queue } = useFilters().search;
  const query = { model, key, queue };
  const generations = useRead("listGenerations", { query }, { everyMs, keepsPrevious: true });
  const { models = [] } = useRead("readCatalogue").data ?? {};
  const columns = useGenerationColumns();
  const { items = [], total = 0 } = generations.data ?? {};
  const keys = new Map(items.map(({ keyId, keyName }) => [keyId, keyName]));
  if (key !== undefined && !keys.has(key)) keys.set(key, key);
  const choices = {
    model: models.map(({ id }) => id),
    key: [...keys].map(([value, label]) => ({ value, label })),
    queue: queues.split(" "),
  };
  return (
    <Section
      title={t.title}
      aside={
        <Group>
          <Text c="dimmed" size="sm" role="status">
            {generations.data &&
              (items.length < total
                ? t.shown(format.count(items.length), format.count(total))
                : t.all(format.count(total)))}
          </Text>
          {(["model", "key", "queue"] as const).map((name) => (
            <FilterSelect
              key={name}
              name={name}
              title={t[name]}
              placeholder={`${t[name]}: ${t.any}`}
              data={choices[name]}
              searchable
              size="xs"
              w={170}
            />
          ))}
        </Group>
      }
    >
      <Loaded from={generations} rows={4}>
        {({ silent }) => (
          <>
            {silent.length > 0 && (
              <Alert color="yellow" p="xs">
                {t.silent(silent.join(", "))}
              </Alert>
            )}
            <DataTable
              label={t.title}
              columns={columns}
              rows={items}
              minWidth={1_040}
              empty={<Empty title={t.none}>{t.noneWhy}</Empty>}
            />
          </>
        )}
      </Loaded>
    </Section>
  );
});

function useGenerationColumns() {
  const t = useGenerationsTexts();
  const c = useColumns<Generation>();
  return useMemo(() => {
    const stop = ({ id, model }: Generation) => (
      <ReasonDialog
        title={t.stopTitle}
        submit={t.stop}
        consequence={t.stopWhy(id, model)}
        isDestructive
        onSubmit={(reason) => call("stopGeneration", { params: { generation: id }, body: { reason } })}
      />
    );
    return [
      c.cell(
        "since",
        t.since,
        ({ since }) => (
          <span title={c.format.time(since)}>
            {c.format.ms(Math.max(0, Math.round((Date.now() - Date.parse(since)) / 100) * 100))}
          </span>
        ),
        { isNumber: true, sortBy: ({ since }) => -Date.parse(since) },
      ),
      c.cut("model", t.model, 130),
      c.cell(
        "key",
        t.key,
        ({ keyId, keyName, account }) => (
          <KeyLink id={keyId} title={account === null ? keyId : `${account}: ${keyId}`}>
            <Cut width={110}>{keyName}</Cut>
          </KeyLink>
        ),
        { sortBy: ({ keyName }) => keyName },
      ),
      c.text("queue", t.queue),
      c.cell("state", t.state, ({ state }) => <StateCell color={stateColors[state]}>{t[state]}</StateCell>, {
        sortBy: ({ state }) => state,
      }),
      c.cell("place", t.place, ({ position, expectedSeconds }) => placeTextOf(position, expectedSeconds), {
        isNumber: true,
        sortBy: ({ position }) => position ?? 0,
      }),
      c.count("outputTokens", t.tokens),
      c.cell("target", t.target, ({ upstream, target }) => (
        <Cut width={120}>{upstream === null ? "–" : `${upstream}/${target}`}</Cut>
      )),
      c.cut("worker", t.worker, 72),
      c.cut("ingress", t.ingress, 72),
      c.cut("id", t.id, 72),
      c.actions((generation) => (
        <RowButton label={`${t.stop} ${generation.id}`} isDestructive onClick={() => openDialog(stop(generation))}>
          {t.stop}
        </RowButton>
      )),
    ];
  }, [t, c]);
}

/** Such as `7 (2–6 s)`: the place in its line, and the expected wait. */
function placeTextOf(position: Generation["position"], seconds: Generation["expectedSeconds"]): string {
  if (position === null) return "–";
  return seconds === null ? String(position) : `${position} (${seconds.from}–${seconds.to} s)`;
}
