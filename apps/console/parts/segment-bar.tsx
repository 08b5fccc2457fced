/** One bar of parts of a whole, and its legend. */
import { Group, Text } from "@mantine/core";

interface Segment {
  name: string;
  value: number;
  /** A colour of CSS. */
  color: string;
}

interface SegmentBarProps {
  /** Names the whole, for screen readers. */
  label: string;
  segments: readonly Segment[];
  /** The value of a full bar. */
  total: number;
  height?: number;
  textOf(value: number): string;
}

/** A part that is not empty has at least a sliver, so one of a million is seen. */
export function SegmentBar({ label, segments, total, height = 8, textOf }: SegmentBarProps) {
  const drawn = segments.filter(({ value }) => value > 0);
  return (
    <span
      role="img"
      className="segment-bar"
      style={{ height }}
      aria-label={`${label}: ${drawn.map(({ name, value }) => `${name} ${textOf(value)}`).join(", ")}`}
    >
      {drawn.map(({ name, value, color }) => (
        <span
          key={name}
          title={`${name}: ${textOf(value)}`}
          style={{ width: `${(100 * value) / Math.max(1, total)}%`, background: color }}
        />
      ))}
    </span>
  );
}

export function SegmentLegend({ segments, textOf }: Pick<SegmentBarProps, "segments" | "textOf">) {
  return (
    <Group gap="lg" component="dl" m={0} style={{ rowGap: 4 }}>
      {segments.map(({ name, value, color }) => (
        <Group key={name} gap={6} wrap="nowrap">
          <Text component="dt" c="dimmed">
            <span className="segment-dot" style={{ background: color }} /> {name}
          </Text>
          <Text component="dd" m={0} fw={600}>
            {textOf(value)}
          </Text>
        </Group>
      ))}
    </Group>
  );
}
