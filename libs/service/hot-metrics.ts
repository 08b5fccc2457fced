/**
 * Counters and histograms of what happens with every request or chunk. prom-client finds a series
 * by a text that it makes of the labels each time; these find it by the labels' values, and turn
 * their numbers into prom-client's form when they are read.
 */
import { Counter, Histogram, type Registry } from "prom-client";

type LabelValue = string | number;
type Labels<Label extends string> = Readonly<Record<Label, LabelValue>>;

/** The values of a label that are known before anything is counted. Those of a catalogue change. */
type KnownValues = readonly LabelValue[] | (() => readonly LabelValue[]);
type LabelValues<Label extends string> = Readonly<Record<Label, KnownValues>>;

/** Series of a metric that exist before anything is counted. */
const initialSeriesMax = 1_000;

/**
 * Every combination of these values, and no more than a thousand. A counter begins with them at
 * zero, because Prometheus does not see the first increase of a series that begins with it.
 */
export function combinationsOf<Label extends string>(values: LabelValues<Label>): Labels<Label>[] {
  let combinations = [{} as Labels<Label>];
  for (const [label, all] of Object.entries<KnownValues>(values)) {
    const each = typeof all === "function" ? all() : all;
    combinations = combinations.flatMap((labels) => each.map((value) => ({ ...labels, [label]: value })));
  }
  return combinations.slice(0, initialSeriesMax);
}

interface HotMetricOptions<Label extends string> {
  name: string;
  help: string;
  labelNames: [Label] | [Label, Label];
  registers: Registry[];
  /** The series to begin with; asked for at each scrape, because a catalogue may change. */
  initial?: () => readonly Labels<Label>[];
}

/** The series of a metric by the values of its labels, of which it has one or two. */
class SeriesMap<Label extends string, Series> {
  readonly all: Series[] = [];
  readonly #first: Label;
  readonly #second: Label | undefined;
  readonly #make: (labels: Labels<Label>) => Series;
  readonly #byValues = new Map<LabelValue, Map<LabelValue | undefined, Series>>();

  constructor([first, second]: [Label] | [Label, Label], make: (labels: Labels<Label>) => Series) {
    this.#first = first;
    this.#second = second;
    this.#make = make;
  }

  of(labels: Labels<Label>): Series {
    const first = labels[this.#first];
    const second = this.#second === undefined ? undefined : labels[this.#second];
    return this.#byValues.get(first)?.get(second) ?? this.#added(labels, first, second);
  }

  #added(labels: Labels<Label>, first: LabelValue, second: LabelValue | undefined): Series {
    const series = this.#make({ ...labels });
    this.all.push(series);
    const bySecond = this.#byValues.get(first) ?? new Map<LabelValue | undefined, Series>();
    this.#byValues.set(first, bySecond.set(second, series));
    return series;
  }
}

export class HotCounter<Label extends string> {
  readonly #series: SeriesMap<Label, { labels: Labels<Label>; count: number }>;

  constructor(options: HotMetricOptions<Label>) {
    const series = new SeriesMap(options.labelNames, (labels) => ({ labels, count: 0 }));
    this.#series = series;
    new Counter({
      ...options,
      collect() {
        for (const labels of options.initial?.() ?? []) series.of(labels);
        this.reset();
        for (const { labels, count } of series.all) this.inc(labels, count);
      },
    });
  }

  inc(labels: Labels<Label>, by = 1): void {
    this.#series.of(labels).count += by;
  }
}

export class HotHistogram<Label extends string> extends Histogram<Label> {
  readonly #name: string;
  readonly #help: string;
  readonly #bounds: readonly number[];
  readonly #initial: (() => readonly Labels<Label>[]) | undefined;
  /** `counts` has one number for each bucket, and a last one for what is above all. */
  readonly #series: SeriesMap<Label, { labels: Labels<Label>; counts: number[]; sum: number }>;

  constructor(options: HotMetricOptions<Label> & { buckets: number[] }) {
    super(options);
    const { name, help, labelNames, buckets, initial } = options;
    this.#name = name;
    this.#help = help;
    this.#bounds = buckets;
    this.#initial = initial;
    this.#series = new SeriesMap(labelNames, (labels) => ({ labels, counts: [0, ...buckets.map(() => 0)], sum: 0 }));
  }

  /** In place of `observe`, which prom-client assigns to each instance. */
  add(labels: Labels<Label>, value: number): void {
    const series = this.#series.of(labels);
    let place = 0;
    while (place < this.#bounds.length && value > (this.#bounds[place] as number)) place++;
    series.counts[place] = (series.counts[place] as number) + 1;
    series.sum += value;
  }

  /** The form from which prom-client makes its text and its JSON. */
  async getForPromString(): Promise<object> {
    for (const labels of this.#initial?.() ?? []) this.#series.of(labels);
    const values = this.#series.all.flatMap(({ labels: sharedLabels, counts, sum }) => {
      const named = (member: string, value: number, labels: object = {}) => ({
        metricName: `${this.#name}_${member}`,
        labels,
        sharedLabels,
        value,
      });
      let count = 0;
      const buckets = counts.map((ofBucket, place) => {
        count += ofBucket;
        return named("bucket", count, { le: this.#bounds[place] ?? "+Inf" });
      });
      return [...buckets, named("sum", sum), named("count", count)];
    });
    return { name: this.#name, help: this.#help, type: "histogram", values, aggregator: "sum" };
  }
}

const secondsBuckets = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300];

/** Metrics of a registry that begin with every combination of their labels' values. */
export function hotMetricsOf(registry: Registry) {
  const optionsOf = <Label extends string>(name: string, help: string, values: LabelValues<Label>) => ({
    name,
    help,
    labelNames: Object.keys(values) as [Label],
    initial: () => combinationsOf(values),
    registers: [registry],
  });
  return {
    counter: <Label extends string>(name: string, help: string, values: LabelValues<Label>) =>
      new HotCounter(optionsOf(name, help, values)),
    histogram: <Label extends string>(
      name: string,
      help: string,
      values: LabelValues<Label>,
      buckets = secondsBuckets,
    ) => new HotHistogram({ ...optionsOf(name, help, values), buckets }),
  };
}
