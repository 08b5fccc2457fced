/** The generations that wait or run now, oldest first; one or several can be stopped. */
import { Alert, Button, Checkbox, Group, Text } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { memo, useMemo, useState } from "react";
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

/** Without these columns the buttons that stop are in sight at a width of 1,440 pixels. */
const hiddenAtFirst = ["worker", "ingress"];

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
  const [ticked, setTicked] = useState<readonly string[]>([]);
  const columns = useGenerationColumns(setTicked);
  const { items = [], total = 0 } = generations.data ?? {};
  const rows = items.map((item) => ({ ...item, isTicked: ticked.includes(item.id) }));
  const tickedNow = rows.filter(({ isTicked }) => isTicked).map(({ id }) => id);
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
          {items.length > 1 && (
            <Button
              variant="subtle"
              size="compact-sm"
              onClick={() => setTicked(tickedNow.length > 0 ? [] : items.map(({ id }) => id))}
            >
              {tickedNow.length > 0 ? t.tickNone : t.tickAll(items.length)}
            </Button>
          )}
          {tickedNow.length > 0 && (
            <Button color="red.9" size="compact-sm" onClick={() => openDialog(<StopDialog ids={tickedNow} />)}>
              {t.stopTicked(tickedNow.length)}
            </Button>
          )}
          {(["model", "key", "queue"] as const).map((name) => (
            <FilterSelect key={name} name={name} title={t[name]} data={choices[name]} searchable size="xs" w={170} />
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
              rows={rows}
              minWidth={1_000}
              chooser="generations"
              hiddenAtFirst={hiddenAtFirst}
              empty={<Empty title={t.none}>{t.noneWhy}</Empty>}
            />
          </>
        )}
      </Loaded>
    </Section>
  );
});

function StopDialog({ ids }: { ids: string[] }) {
  const t = useGenerationsTexts();
  return (
    <ReasonDialog
      title={t.stopSeveral(ids.length)}
      submit={t.stop}
      consequence={t.stopSeveralWhy}
      isDestructive
      onSubmit={async (reason) => {
        const { ended, silent } = await call("stopGenerations", { body: { generations: ids, reason } });
        notifications.show({
          message: silent.length === 0 ? t.stoppedSeveral(ended) : t.stoppedSome(ended, silent.join(", ")),
          color: silent.length === 0 ? "teal" : "yellow",
        });
      }}
    />
  );
}

function useGenerationColumns(setTicked: (change: (ids: readonly string[]) => readonly string[]) => void) {
  const t = useGenerationsTexts();
  const c = useColumns<Generation & { isTicked: boolean }>();
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
      c.cell("tick", t.tick, ({ id, isTicked }) => (
        <Checkbox
          size="xs"
          aria-label={t.tickOf(id)}
          checked={isTicked}
          onChange={({ currentTarget: { checked } }) =>
            setTicked((ids) => (checked ? [...ids, id] : ids.filter((each) => each !== id)))
          }
        />
      )),
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
  }, [t, c, setTicked]);
}

/** Such as `7 (2–6 s)`: the place in its line, and the expected wait. */
function placeTextOf(position: Generation["position"], seconds: Generation["expectedSeconds"]): string {
  if (position === null) return "–";
  return seconds === null ? String(position) : `${position} (${seconds.from}–${seconds.to} s)`;
}
