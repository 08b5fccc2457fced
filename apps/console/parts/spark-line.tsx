/**
 * A small line of the last minutes. The figure beside it says the value; a table on the page has
 * the same.
 */

export interface SparkLineProps {
  values: readonly number[];
  /** A description of the line for screen readers. */
  label: string;
}

const width = 240;
const height = 40;

export function SparkLine({ values, label }: SparkLineProps) {
  const top = Math.max(1e-9, ...values);
  const step = width / Math.max(1, values.length - 1);
  const points = values.map(
    (value, index) => `${(index * step).toFixed(1)},${(height - 2 - (value / top) * (height - 4)).toFixed(1)}`,
  );
  return (
    <svg
      role="img"
      aria-label={label}
      viewBox={`0 0 ${width} ${height}`}
      preserveAspectRatio="none"
      width="100%"
      height={height}
    >
      <polyline
        points={points.join(" ")}
        fill="none"
        stroke="var(--mantine-primary-color-filled)"
        strokeWidth={1.5}
        vectorEffect="non-scaling-stroke"
      />
    </svg>
  );
}
