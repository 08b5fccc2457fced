/** A plot over time with its legend, and the same figures as a table. */
import { Box, Button, Group, Stack, Text, useComputedColorScheme } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { lazy, Suspense, useMemo, useState } from "react";
import type { Precision } from "./amounts.ts";
import { usePlotTexts } from "./plot.texts.ts";
import { coloursOf, type DrawnPlot, type PlotSeries, ranksOf } from "./plot-shape.ts";
import { DataTable, useColumns } from "./table.tsx";

/** Loaded beside the data of the first page with a plot. */
const loading = import("./plot-canvas.tsx");
const PlotCanvas = lazy(() => loading);

export interface PlotProps extends Omit<DrawnPlot, "labels" | "ranks"> {
  /** A description of the plot, for screen readers and as the name of its table. */
  label: string;
  /** The beginning of each step. */
  times: readonly number[];
  /** The text of a step below the plot, and in the legend and the table. */
  shortTime(ms: number): string;
  longTime(ms: number): string;
  /** The text of a value. */
  format(value: number | null, precision?: Precision): string;
  /** The text of a series for the whole time. */
  total?: (series: PlotSeries) => string;
  /** Steps that were dragged over or clicked, both included. */
  onSelect?: (first: number, last: number) => void;
  height?: number;
}

export function Plot({
  label,
  times,
  series,
  shortTime,
  longTime,
  format,
  total,
  onSelect,
  height = 260,
  ...drawn
}: PlotProps) {
  const t = usePlotTexts();
  const scheme = useComputedColorScheme("light");
  const [hovered, setHovered] = useState<number>();
  const [hasFigures, { toggle }] = useDisclosure();
  const index = hovered !== undefined && hovered < times.length ? hovered : undefined;
  const colours = coloursOf(series, scheme);
  const labels = useMemo(() => times.map(shortTime), [times, shortTime]);
  const ranks = useMemo(() => ranksOf(times), [times]);
  const isEmpty = series.every(({ values }) => values.every((value) => value === null || value === 0));
  return (
    <Stack>
      <Box role="img" aria-label={label} pos="relative" style={{ cursor: onSelect ? "pointer" : undefined }}>
        <Suspense fallback={<Box h={height} />}>
          <PlotCanvas
            {...drawn}
            labels={labels}
            ranks={ranks}
            series={series}
            height={height}
            onHover={setHovered}
            onSelect={onSelect}
          />
        </Suspense>
        {isEmpty && (
          <Text pos="absolute" inset={0} c="dimmed" ta="center" pt={height / 2 - 30} style={{ pointerEvents: "none" }}>
            {t.none}
          </Text>
        )}
      </Box>
      <Group justify="space-between" align="flex-start" wrap="nowrap">
        <Group gap="md" style={{ flex: 1, minWidth: 0, rowGap: 2 }} data-legend="">
          <Text size="sm" c="dimmed" miw={150}>
            {index === undefined ? t.total : longTime(times[index] as number)}
          </Text>
          {series.map((each, place) => (
            <Group key={each.id} gap={6} wrap="nowrap" style={{ minWidth: 0 }}>
              <Mark colour={colours[place] as string} isDashed={each.isBefore === true} />
              <Text size="sm" truncate maw={220} title={each.name}>
                {each.name}
              </Text>
              <Text size="sm" fw={600} style={{ whiteSpace: "nowrap" }}>
                {index === undefined
                  ? (total?.(each) ?? "")
                  : format(each.values[index] ?? null, each.precisions?.[index])}
              </Text>
            </Group>
          ))}
        </Group>
        <Button variant="subtle" size="compact-sm" onClick={toggle} aria-expanded={hasFigures}>
          {hasFigures ? t.hideFigures : t.figures}
        </Button>
      </Group>
      {hasFigures && <Figures {...{ label, times, series, longTime, format }} />}
    </Stack>
  );
}

function Mark({ colour, isDashed }: { colour: string; isDashed: boolean }) {
  return (
    <svg width={12} height={12} aria-hidden="true" style={{ flex: "none" }}>
      {isDashed ? (
        <path d="M0 6h12" stroke={colour} strokeWidth={2} strokeDasharray="4 3" />
      ) : (
        <rect width={12} height={12} rx={2} fill={colour} />
      )}
    </svg>
  );
}

function Figures({
  label,
  times,
  series,
  longTime,
  format,
}: Pick<PlotProps, "label" | "times" | "series" | "longTime" | "format">) {
  const t = usePlotTexts();
  const c = useColumns<{ id: number; time: number }>();
  const columns = [
    c.cell("time", t.time, ({ time }) => longTime(time), { sortBy: ({ time }) => time }),
    ...series.map(({ id, name, values, precisions }) =>
      c.cell(id, name, (step) => format(values[step.id] ?? null, precisions?.[step.id]), {
        isNumber: true,
        sortBy: (step) => values[step.id] ?? -1,
      }),
    ),
  ];
  return (
    <DataTable
      label={label}
      columns={columns}
      rows={times.map((time, id) => ({ id, time }))}
      minWidth={180 + series.length * 110}
    />
  );
}
