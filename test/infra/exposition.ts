/**
 * Reads the text in which a process exports its metrics:
 * https://prometheus.io/docs/instrumenting/exposition_formats/.
 */

export interface Exposition {
  /** The type of each metric; a histogram is one metric. */
  types: Map<string, string>;
  /** By the name of a series. */
  series: Map<string, { labels: Record<string, string>; value: number }[]>;
}

export function expositionOf(text: string): Exposition {
  const types = new Map<string, string>();
  const series: Exposition["series"] = new Map();
  for (const line of text.split("\n")) {
    const type = /^# TYPE (\S+) (\S+)$/.exec(line);
    if (type) types.set(type[1] as string, type[2] as string);
    const sample = /^([^#\s{]+)(?:\{(.*)\})? (\S+)$/.exec(line);
    if (!sample) continue;
    const [, name = "", list = "", value = ""] = sample;
    const labels = [...list.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(([, label, text]) => [label, text] as const);
    const members = series.get(name) ?? [];
    members.push({ labels: Object.fromEntries(labels), value: Number(value) });
    series.set(name, members);
  }
  return { types, series };
}

export const scrape = async (operations: string): Promise<Exposition> =>
  expositionOf(await (await fetch(`${operations}/metrics`)).text());
