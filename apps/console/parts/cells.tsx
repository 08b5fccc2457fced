/** Cells of tables: plain elements, because those of Mantine cost much more to draw. */
import type { ReactNode } from "react";

export type CellColor = "teal" | "yellow" | "red" | "orange" | "gray";

export const StateCell = ({ color, children }: { color: CellColor; children: ReactNode }) => (
  <span
    className="state-cell"
    style={{
      background: `var(--mantine-color-${color}-light)`,
      color: `var(--mantine-color-${color}-light-color)`,
    }}
  >
    {children}
  </span>
);

interface RowButtonProps {
  /** Names the row too, for screen readers; by default the text. */
  label?: string;
  isDestructive?: boolean;
  onClick(): void;
  children: ReactNode;
}

export const RowButton = ({ label, isDestructive = false, onClick, children }: RowButtonProps) => (
  <button
    type="button"
    className="row-button"
    data-destructive={isDestructive || undefined}
    aria-label={label}
    onClick={onClick}
  >
    {children}
  </button>
);
