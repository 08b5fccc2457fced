/** The series of a plot, and their colours. */
import type { Precision } from "./amounts.ts";

export interface PlotSeries {
  id: string;
  name: string;
  /** One for each step; null where there is none, such as the latency without requests. */
  values: readonly (number | null)[];
  /** How precise the values are that are not exact. */
  precisions?: readonly (Precision | undefined)[];
  /** It is of the period before: a dashed line, not part of a stack. */
  isBefore?: boolean;
  /** The sum of all groups that are not among the largest: grey. */
  isOthers?: boolean;
  /** Such as "red"; otherwise by place. */
  colour?: keyof typeof named;
}

export interface DrawnPlot {
  /** One for each step, below the plot. */
  labels: readonly string[];
  /**
   * How well a step suits for a label, such as midnight better than noon: hours of the clock that
   * divide its time.
   */
  ranks: readonly number[];
  series: readonly PlotSeries[];
  kind: "bars" | "lines";
  isStacked: boolean;
  /** The text of a value at the axis. */
  axis(value: number): string;
}

/** Contrast of at least 3 to the background, and neighbours that differ for the colour-blind. */
const palettes = {
  light: ["#0f766e", "#d9480f", "#2563eb", "#be185d", "#a16207", "#6d28d9", "#4d7c0f", "#0284c7"],
  dark: ["#34c3ae", "#fb923c", "#60a5fa", "#f472b6", "#facc15", "#a78bfa", "#a3e635", "#38bdf8"],
} as const;
const named = {
  grey: { light: "#868e96", dark: "#8d9399" },
  /** A line above all else. */
  ink: { light: "#343a40", dark: "#f1f3f5" },
  red: { light: "#c92a2a", dark: "#ff8787" },
  amber: { light: "#b35c00", dark: "#ffc078" },
} as const;

export function coloursOf(series: readonly PlotSeries[], scheme: "light" | "dark"): string[] {
  const palette = palettes[scheme];
  let place = 0;
  return series.map(({ isBefore, isOthers, colour }) =>
    isBefore
      ? named.ink[scheme]
      : isOthers
        ? named.grey[scheme]
        : colour !== undefined
          ? named[colour][scheme]
          : (palette[place++ % palette.length] as string),
  );
}

/** Each divides the one before. */
const clockSteps = [24, 12, 6, 2, 1, 0.5];

/** The ranks of steps within a day; all are equal where each step is a day or longer. */
export function ranksOf(times: readonly number[]): number[] {
  const isClock = times.length > 1 && (times[1] as number) - (times[0] as number) <= 3_600_000;
  return times.map((time) => {
    if (!isClock) return 0;
    const date = new Date(time);
    const hours = date.getHours() + date.getMinutes() / 60;
    return clockSteps.find((step) => hours % step === 0) ?? 0;
  });
}

/**
 * The steps that get a label, so that no more than `max` are there: of the highest ranks, or else
 * evenly spread.
 */
export function labelled(ranks: readonly number[], max: number): number[] {
  const all = ranks.map((_, index) => index);
  for (const rank of [...new Set(ranks)].sort((left, right) => left - right)) {
    const chosen = all.filter((index) => (ranks[index] as number) >= rank);
    if (chosen.length <= max) return chosen;
  }
  const top = Math.max(...ranks);
  const chosen = all.filter((index) => ranks[index] === top);
  const every = Math.ceil(chosen.length / max);
  return chosen.filter((_, place) => place % every === 0);
}
