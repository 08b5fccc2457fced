/**
 * The drawing of a plot by uPlot. A module of its own, so that uPlot is loaded with the first plot
 * only.
 */
import "uplot/dist/uPlot.min.css";
import { useComputedColorScheme } from "@mantine/core";
import { memo, useEffect, useRef } from "react";
import UPlot from "uplot";
import { coloursOf, type DrawnPlot, labelled, type PlotSeries } from "./plot-shape.ts";

const { bars, linear } = UPlot.paths;

export interface PlotCanvasProps extends DrawnPlot {
  height: number;
  /** The step below the cursor; undefined when the cursor leaves. */
  onHover(index: number | undefined): void;
  /** Steps that were dragged over or clicked, both included. */
  onSelect?: ((first: number, last: number) => void) | undefined;
}

export default memo(function PlotCanvas({ height, onHover, onSelect, ...drawn }: PlotCanvasProps) {
  const holder = useRef<HTMLDivElement>(null);
  const scheme = useComputedColorScheme("light");
  const handlers = useRef({ onHover, onSelect });
  handlers.current = { onHover, onSelect };
  const shape = JSON.stringify([drawn.labels, drawn.kind, drawn.isStacked, drawn.series.map(styleOf)]);
  const current = useRef<UPlot>(undefined);
  const isSelectable = onSelect !== undefined;
  // biome-ignore lint/correctness/useExhaustiveDependencies: drawn anew only when what is drawn changes.
  useEffect(() => {
    const element = holder.current;
    if (element === null) return;
    const plot = new UPlot(
      optionsOf(drawn, { scheme, width: element.clientWidth, height, isSelectable, handlers }),
      dataOf(drawn),
      element,
    );
    const observer = new ResizeObserver(() => {
      if (element.clientWidth > 0 && element.clientWidth !== plot.width)
        plot.setSize({ width: element.clientWidth, height });
    });
    observer.observe(element);
    current.current = plot;
    return () => {
      current.current = undefined;
      observer.disconnect();
      plot.destroy();
    };
  }, [shape, scheme, height, isSelectable, drawn.axis]);
  // New values leave a cursor or a drag as it is.
  // biome-ignore lint/correctness/useExhaustiveDependencies: `drawn` is a new object each time.
  useEffect(() => {
    const plot = current.current;
    if (
      plot !== undefined &&
      plot.data[0].length === drawn.labels.length &&
      plot.data.length === drawn.series.length + 1
    )
      plot.setData(dataOf(drawn));
  }, [drawn.series]);
  return <div ref={holder} style={{ height }} />;
});

const styleOf = ({ values: _, precisions: _precisions, ...style }: PlotSeries) => style;

/**
 * Series in the order of drawing: a stack from its top down, so that each lower sum covers a part
 * of the one before.
 */
function drawOrder({ series }: DrawnPlot): number[] {
  const own = series.flatMap(({ isBefore }, index) => (isBefore ? [] : [index]));
  const before = series.flatMap(({ isBefore }, index) => (isBefore ? [index] : []));
  return [...own.reverse(), ...before];
}

function dataOf(drawn: DrawnPlot): UPlot.AlignedData {
  const { series, isStacked, labels } = drawn;
  const sums = new Array<number>(labels.length).fill(0);
  const heights = series.map(({ values, isBefore }) =>
    isStacked && !isBefore
      ? values.map((value, index) => (sums[index] = (sums[index] ?? 0) + (value ?? 0)))
      : [...values],
  );
  return [labels.map((_, index) => index), ...drawOrder(drawn).map((index) => heights[index] ?? [])];
}

interface Drawing {
  scheme: "light" | "dark";
  width: number;
  height: number;
  isSelectable: boolean;
  handlers: { readonly current: Pick<PlotCanvasProps, "onHover" | "onSelect"> };
}

/** The widest bar. */
const barMax = 36;
/** Between the labels below a plot. */
const labelSpace = 76;

function optionsOf(drawn: DrawnPlot, { scheme, width, height, isSelectable, handlers }: Drawing): UPlot.Options {
  const { series, kind, labels, axis } = drawn;
  const colours = coloursOf(series, scheme);
  const [text, grid, back] = scheme === "dark" ? ["#b8b8b8", "#2e2e2e", "#242424"] : ["#545b62", "#eceef0", "#ffffff"];
  const styles = drawOrder(drawn).map((index): UPlot.Series => {
    const { isBefore } = series[index] as DrawnPlot["series"][number];
    const stroke = colours[index] as string;
    if (kind === "bars" && !isBefore)
      return {
        fill: stroke,
        stroke: back as string,
        width: labels.length > 90 ? 0 : 1,
        paths: bars?.({ size: [0.82, barMax] }) as UPlot.Series.PathBuilder,
        points: { show: false },
      };
    return {
      stroke,
      width: isBefore ? 1.5 : 2,
      paths: linear?.() as UPlot.Series.PathBuilder,
      points: { show: labels.length < 3, size: 6 },
      spanGaps: false,
      ...(isBefore && { dash: [5, 4] }),
      ...(drawn.isStacked && !isBefore && { fill: stroke, stroke: back as string, width: 1 }),
    };
  });
  const half = kind === "bars" ? 0.5 : labels.length === 1 ? 0.5 : 0;
  const axisStyle = { stroke: text as string, font: "12px system-ui, sans-serif", ticks: { show: false } };
  return {
    width,
    height,
    padding: [10, 8, 0, 0],
    legend: { show: false },
    cursor: {
      y: false,
      points: { show: kind === "lines" },
      drag: { x: isSelectable, y: false, setScale: false },
    },
    scales: {
      x: { time: false, range: [-half, labels.length - 1 + half] },
      y: { range: (_, min, max) => [Math.min(min, 0) * 1.06, max > 0 ? max * 1.06 : 1] },
    },
    axes: [
      {
        ...axisStyle,
        grid: { show: false },
        size: 28,
        splits: (plot) => labelled(drawn.ranks, Math.max(1, Math.floor((plot.width - 70) / labelSpace))),
        values: (_, splits) => splits.map((index) => labels[index] ?? ""),
      },
      {
        ...axisStyle,
        size: 64,
        grid: { stroke: grid as string, width: 1 },
        values: (_, splits) => splits.map((value) => axis(value)),
      },
    ],
    series: [{}, ...styles],
    hooks: {
      setCursor: [
        ({ cursor: { idx, left = -1 } }) =>
          handlers.current.onHover(idx === null || idx === undefined || left < 0 ? undefined : idx),
      ],
      ready: [
        (plot) => {
          let isDragged = false;
          plot.over.addEventListener("mousedown", () => {
            isDragged = false;
          });
          plot.hooks.setSelect = [
            ({ select }) => {
              if (select.width < 4) return;
              isDragged = true;
              const at = (left: number) =>
                Math.min(Math.max(Math.round(plot.posToVal(left, "x")), 0), labels.length - 1);
              handlers.current.onSelect?.(at(select.left), at(select.left + select.width));
              plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
            },
          ];
          plot.over.addEventListener("click", () => {
            const { idx } = plot.cursor;
            if (!isDragged && idx !== null && idx !== undefined) handlers.current.onSelect?.(idx, idx);
          });
        },
      ],
    },
  };
}
