/**
 * A line plot as SVG: time on the x axis in minutes, values from zero on the y axis, marks below
 * it.
 */

export interface Line {
  name: string;
  /** Seconds, and the value; undefined leaves a gap. */
  points: readonly (readonly [number, number | undefined])[];
}

const width = 900;
const height = 320;
const left = 60;
const right = 170;
const top = 30;
const bottom = 40;
const colors = ["#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b", "#17becf", "#7f7f7f"];
const ticks = 5;
/** Points of a line; of more, every n-th is drawn. */
const pointsMax = 300;

export function plotOf({
  title,
  lines,
  marks,
}: {
  title: string;
  lines: readonly Line[];
  marks: readonly number[];
}): string {
  const drawn = lines.map(({ name, points }) => ({ name, points: thinned(points) }));
  const all = drawn.flatMap(({ points }) => points);
  const endAt = Math.max(1, ...all.map(([at]) => at));
  const highest = niceAbove(Math.max(1, ...all.map(([, value]) => value ?? 0)));
  const x = (at: number) => left + (at / endAt) * (width - left - right);
  const y = (value: number) => height - bottom - (value / highest) * (height - top - bottom);
  const parts = [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="sans-serif" font-size="11">`,
    `<title>${escaped(title)}</title>`,
    `<rect width="${width}" height="${height}" fill="#fff"/>`,
    `<text x="${left}" y="18" font-size="13">${escaped(title)}</text>`,
  ];
  for (let tick = 0; tick <= ticks; tick++) {
    const value = (highest * tick) / ticks;
    const at = (endAt * tick) / ticks;
    parts.push(
      `<path d="M${left} ${round(y(value))}H${width - right}" stroke="#ddd"/>`,
      `<text x="${left - 6}" y="${round(y(value) + 4)}" text-anchor="end">${Number(value.toPrecision(3)).toLocaleString("en")}</text>`,
      `<text x="${round(x(at))}" y="${height - 14}" text-anchor="middle">${(at / 60).toFixed(endAt < 600 ? 1 : 0)} min</text>`,
    );
  }
  for (const at of marks) parts.push(`<path d="M${round(x(at))} ${height - bottom}v5" stroke="#888"/>`);
  for (const [place, { name, points }] of drawn.entries()) {
    const color = colors[place % colors.length] as string;
    parts.push(
      `<path d="${pathOf(points, x, y)}" fill="none" stroke="${color}"/>`,
      `<text x="${width - right + 10}" y="${top + 14 * place + 6}" fill="${color}">${escaped(name)}</text>`,
    );
  }
  return `${parts.join("\n")}\n</svg>\n`;
}

function thinned(points: Line["points"]): Line["points"] {
  const every = Math.ceil(points.length / pointsMax);
  return points.filter((_, place) => place % every === 0);
}

function pathOf(points: Line["points"], x: (at: number) => number, y: (value: number) => number): string {
  let path = "";
  let isDrawing = false;
  for (const [at, value] of points) {
    if (value !== undefined) path += `${isDrawing ? "L" : "M"}${round(x(at))} ${round(y(value))}`;
    isDrawing = value !== undefined;
  }
  return path;
}

const round = (value: number): number => Math.round(value * 10) / 10;

/** The next of 1, 2 and 5 times a power of ten. */
function niceAbove(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value));
  return ([1, 2, 5, 10].find((factor) => factor * power >= value) as number) * power;
}

const escaped = (text: string): string => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
