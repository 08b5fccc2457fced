// @ts-nocheck: it runs in a page, where uPlot is a global.
/** Draws the rows of dashboard-picture.ts into the page. */
globalThis.draw = function draw(all) {
  const colors = [
    "#7eb26d",
    "#eab839",
    "#6ed0e0",
    "#ef843c",
    "#e24d42",
    "#5195ce",
    "#ba43a9",
    "#a68cdc",
    "#c0d8ff",
    "#96d98d",
  ];
  const scaled = (value, factors) => {
    const [factor, suffix] = factors.find(([at]) => Math.abs(value) >= at) ?? factors.at(-1) ?? [1, ""];
    return `${Number((value / factor).toPrecision(3))}${suffix}`;
  };
  const format = (value, unit) => {
    if (Number.isNaN(value)) return "–";
    if (unit === "percentunit") return `${Number((value * 100).toPrecision(3))} %`;
    if (unit === "s")
      return value === 0
        ? "0 s"
        : scaled(value, [
            [60, " min"],
            [1, " s"],
            [0.001, " ms"],
            [1e-6, " µs"],
          ]);
    if (unit === "bytes")
      return scaled(value, [
        [2 ** 30, " GiB"],
        [2 ** 20, " MiB"],
        [2 ** 10, " KiB"],
        [1, " B"],
      ]);
    return `${scaled(value, [
      [1e6, " M"],
      [1e3, " k"],
      [1, ""],
    ])}${unit === "reqps" ? " /s" : ""}`;
  };
  const element = (parent, className, text = "") => {
    const made = document.createElement("div");
    made.className = className;
    made.textContent = text;
    return parent.appendChild(made);
  };
  for (const { title, panels } of all) {
    element(document.body, "row", title);
    const grid = element(document.body, panels.every(({ kind }) => kind === "stat") ? "grid stats" : "grid");
    for (const { title: heading, kind, unit, series } of panels) {
      const box = element(grid, "panel");
      element(box, "title", heading);
      const lasts = series.map(({ name, values }) => [name, values.at(-1)?.[1] ?? Number.NaN]);
      if (kind !== "timeseries") {
        if (series.length === 0) element(box, "none", "No data");
        for (const [name, value] of lasts.slice(0, 8))
          if (kind === "stat") element(box, "value", `${lasts.length > 1 ? `${name} ` : ""}${format(value, unit)}`);
          else element(box, "line", name);
        continue;
      }
      const times = [...new Set(series.flatMap(({ values }) => values.map(([at]) => at)))].sort((a, b) => a - b);
      if (times.length === 0) {
        element(box, "none", "No data");
        continue;
      }
      const columns = series.map(({ values }) => {
        const at = new Map(values);
        return times.map((time) => (Number.isFinite(at.get(time)) ? at.get(time) : null));
      });
      const axis = {
        stroke: "#9a9ba0",
        grid: { stroke: "#2c2f36", width: 1 },
        ticks: { show: false },
        font: "11px sans-serif",
      };
      new uPlot(
        {
          width: 440,
          height: 170,
          legend: { show: false },
          cursor: { show: false },
          scales: { y: { range: (_, _low, high) => [0, high > 0 ? high * 1.1 : 1] } },
          axes: [axis, { ...axis, size: 64, values: (_, ticks) => ticks.map((tick) => format(tick, unit)) }],
          series: [
            {},
            ...series.map((_, index) => ({
              stroke: colors[index % colors.length],
              width: 1.5,
              points: { show: false },
              fill: `${colors[index % colors.length]}14`,
            })),
          ],
        },
        [times, ...columns],
        box,
      );
      const legend = element(box, "legend");
      series.slice(0, 9).forEach(({ name }, index) => {
        element(legend, "name", name).style.color = colors[index % colors.length];
      });
      if (series.length > 9) element(legend, "name", `and ${series.length - 9} more`);
    }
  }
};
