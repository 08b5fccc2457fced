/** The route of a model: its targets as cards in order, with what is known of each. */
import { ActionIcon, Button, Group, NumberInput, Paper, Select, Stack, Text, TextInput } from "@mantine/core";
import { type DragEvent, useState } from "react";
import { useFormats } from "../app/language.tsx";
import type { LiveState } from "../app/live.ts";
import { useRead } from "../app/queries.ts";
import { useMoney } from "../parts/facts.tsx";
import { CrossIcon, DownIcon, GripIcon, UpIcon } from "../parts/icons.tsx";
import { StateCell } from "../parts/table.tsx";
import { type Entries, plainPricesOf, type RouteTarget, textOf } from "./entries.ts";
import { useRouteCardsTexts } from "./route-cards.texts.ts";

type LiveTarget = LiveState["targets"][number];

const liveEveryMs = 5_000;
const targetsMax = 20;
/** The part of its calls from which on a target counts as failing. */
const failingShare = 0.2;

interface RouteCardsProps {
  entries: Entries;
  route: readonly RouteTarget[];
  isEditable: boolean;
  onChange(route: RouteTarget[]): void;
}

/** The share of the requests that a target gets first, among its neighbours with weights. */
function shareOf(route: readonly RouteTarget[], place: number): number | undefined {
  if (route[place]?.weight === undefined) return undefined;
  const edge = (step: 1 | -1) => {
    let at = place;
    while (route[at + step]?.weight !== undefined) at += step;
    return at;
  };
  const neighbours = route.slice(edge(-1), edge(1) + 1);
  if (neighbours.length < 2) return undefined;
  return (route[place].weight ?? 0) / neighbours.reduce((sum, { weight = 0 }) => sum + weight, 0);
}

const moved = (route: readonly RouteTarget[], from: number, to: number): RouteTarget[] => {
  const target = route[from];
  if (target === undefined || to < 0 || to >= route.length) return [...route];
  return route.toSpliced(from, 1).toSpliced(to, 0, target);
};

export function RouteCards({ entries, route, isEditable, onChange }: RouteCardsProps) {
  const t = useRouteCardsTexts();
  const { data: live } = useRead("readOperations", {}, { everyMs: liveEveryMs });
  const [dragged, setDragged] = useState<number>();
  const dropAt = (place: number) => (event: DragEvent) => {
    event.preventDefault();
    if (dragged !== undefined) onChange(moved(route, dragged, place));
    setDragged(undefined);
  };
  return (
    <Stack gap="sm">
      <Text c="dimmed">{t.tried}</Text>
      <Stack component="ol" gap="sm" p={0} m={0} style={{ listStyle: "none" }}>
        {route.map((target, place) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: a target may be in a route twice.
          <li key={place} onDragOver={(event) => event.preventDefault()} onDrop={dropAt(place)}>
            <TargetCard
              target={target}
              place={place}
              share={shareOf(route, place)}
              live={live?.targets.find((each) => each.target === `${target.upstream}/${target.model}`)}
              entries={entries}
              isEditable={isEditable}
              isLast={place === route.length - 1}
              onDrag={setDragged}
              onMove={(step) => onChange(moved(route, place, place + step))}
              onChange={(next) =>
                onChange(next === undefined ? route.toSpliced(place, 1) : route.toSpliced(place, 1, next))
              }
            />
          </li>
        ))}
      </Stack>
      {isEditable && route.length < targetsMax && (
        <NewTarget entries={entries} onAdd={(target) => onChange([...route, target])} />
      )}
    </Stack>
  );
}

interface TargetCardProps {
  target: RouteTarget;
  place: number;
  share: number | undefined;
  live: LiveTarget | undefined;
  entries: Entries;
  isEditable: boolean;
  isLast: boolean;
  onDrag(place: number | undefined): void;
  onMove(step: 1 | -1): void;
  /** Undefined removes it. */
  onChange(target: RouteTarget | undefined): void;
}

function TargetCard({ target, place, share, live, entries, isEditable, isLast, ...on }: TargetCardProps) {
  const t = useRouteCardsTexts();
  const format = useFormats();
  const { weight, ...rest } = target;
  const name = `${target.upstream} / ${target.model}`;
  return (
    <Paper
      withBorder
      p="sm"
      draggable={isEditable}
      onDragStart={() => on.onDrag(place)}
      onDragEnd={() => on.onDrag(undefined)}
    >
      <Group justify="space-between" align="center" gap="sm">
        <Group gap="sm" wrap="nowrap" style={{ flex: "1 1 300px", minWidth: 0 }}>
          {isEditable && (
            <Text c="dimmed" title={t.drag} style={{ cursor: "grab", lineHeight: 0 }}>
              <GripIcon />
            </Text>
          )}
          <Text c="dimmed" w={16} aria-label={t.place(place + 1)}>
            {place + 1}
          </Text>
          <div style={{ minWidth: 0 }}>
            <Text fw={600} style={{ overflowWrap: "anywhere" }}>
              {name}
            </Text>
            <TargetFacts target={target} entries={entries} live={live} />
          </div>
        </Group>
        <Group gap="sm" wrap="nowrap">
          {share !== undefined && <Text c="dimmed">{t.share(format.percent(share))}</Text>}
          <NumberInput
            aria-label={`${t.weight}: ${name}`}
            placeholder={`${t.weight}: ${t.noWeight}`}
            value={weight ?? ""}
            min={1}
            max={1_000}
            w={120}
            hideControls
            disabled={!isEditable}
            onChange={(next) => on.onChange(next === "" ? rest : { ...rest, weight: Number(next) })}
          />
          {isEditable && (
            <Group gap={0} wrap="nowrap">
              <ActionIcon
                variant="subtle"
                color="gray"
                aria-label={t.up(name)}
                disabled={place === 0}
                onClick={() => on.onMove(-1)}
              >
                <UpIcon />
              </ActionIcon>
              <ActionIcon
                variant="subtle"
                color="gray"
                aria-label={t.down(name)}
                disabled={isLast}
                onClick={() => on.onMove(1)}
              >
                <DownIcon />
              </ActionIcon>
              <ActionIcon
                variant="subtle"
                color="red"
                aria-label={t.removeOf(name)}
                disabled={isLast && place === 0}
                onClick={() => on.onChange(undefined)}
              >
                <CrossIcon />
              </ActionIcon>
            </Group>
          )}
        </Group>
      </Group>
    </Paper>
  );
}

function TargetFacts({ target, entries, live }: Pick<TargetCardProps, "target" | "entries" | "live">) {
  const t = useRouteCardsTexts();
  const format = useFormats();
  const money = useMoney();
  const credentials = useRead("listCredentials");
  const upstream = entries.upstreams.find(({ name }) => name === target.upstream)?.entry;
  if (upstream === undefined) return <StateCell color="red">{t.missing}</StateCell>;
  const { inputPerMillion: input, outputPerMillion: output } = plainPricesOf(target.prices);
  const reference = textOf(upstream.credential);
  const stored = credentials.data?.items.find((each) => each.reference === reference);
  const facts = [
    ...(live !== undefined && live.calls > 0
      ? [t.calls(format.count(live.calls)), t.failures(format.percent(live.failed / live.calls))]
      : []),
    ...(live !== undefined && live.firstTokenMs !== null ? [t.firstTokenIn(format.ms(live.firstTokenMs))] : []),
    input === undefined || output === undefined ? t.unknownCost : t.costs(money.rounded(input), money.rounded(output)),
    reference === "" ? t.noCredential : t.credentialOf(stored?.hint ? `…${stored.hint}` : reference),
  ];
  return (
    <Group gap="xs" mt={4}>
      <TargetState live={live} />
      {stored !== undefined && (stored.problem !== null || stored.state === "unreadable") && (
        <StateCell color="red">{stored.problem ?? t.unreadable}</StateCell>
      )}
      <Text c="dimmed" size="sm">
        {facts.join(" · ")}
      </Text>
    </Group>
  );
}

function TargetState({ live }: Pick<TargetCardProps, "live">) {
  const t = useRouteCardsTexts();
  if (live === undefined || (live.state === "closed" && live.calls === 0 && live.cooling === 0))
    return <StateCell color="gray">{t.idle}</StateCell>;
  if (live.state !== "closed") return <StateCell color="red">{t[live.state]}</StateCell>;
  if (live.cooling > 0) return <StateCell color="yellow">{t.cooling}</StateCell>;
  return live.failed > failingShare * live.calls ? (
    <StateCell color="red">{t.failing}</StateCell>
  ) : (
    <StateCell color="teal">{t.closed}</StateCell>
  );
}

function NewTarget({ entries, onAdd }: { entries: Entries; onAdd(target: RouteTarget): void }) {
  const t = useRouteCardsTexts();
  const [upstream, setUpstream] = useState<string | null>(null);
  const [model, setModel] = useState("");
  return (
    <Group align="flex-end">
      <Select
        label={t.upstreamName}
        data={entries.upstreams.map(({ name }) => name)}
        value={upstream}
        onChange={setUpstream}
        searchable
        w={220}
      />
      <TextInput
        label={t.modelThere}
        value={model}
        onChange={({ currentTarget }) => setModel(currentTarget.value)}
        w={260}
      />
      <Button
        variant="default"
        disabled={upstream === null || model.trim() === ""}
        onClick={() => {
          onAdd({ upstream: upstream ?? "", model: model.trim() });
          setModel("");
        }}
      >
        {t.add}
      </Button>
    </Group>
  );
}
