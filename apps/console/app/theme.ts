/** The look: quiet, dense, with one accent colour. */
import { createTheme, type MantineColorsTuple } from "@mantine/core";

/** Shade 7 on white and shade 4 on the dark background have a contrast above 4.5. */
const teal: MantineColorsTuple = [
  "#effcf9",
  "#d6f5ef",
  "#abebdf",
  "#72dcca",
  "#34c3ae",
  "#16a391",
  "#0d8678",
  "#0f766e",
  "#115e59",
  "#134e4a",
];

export const theme = createTheme({
  respectReducedMotion: true,
  primaryColor: "teal",
  primaryShade: { light: 7, dark: 8 },
  colors: { teal },
  fontFamily: 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "Noto Sans SC", "PingFang SC", sans-serif',
  fontFamilyMonospace: 'ui-monospace, SFMono-Regular, Menlo, Consolas, "Liberation Mono", monospace',
  defaultRadius: "sm",
  fontSizes: { xs: "0.75rem", sm: "0.8125rem", md: "0.875rem", lg: "1rem", xl: "1.25rem" },
  headings: {
    fontWeight: "650",
    sizes: { h1: { fontSize: "1.5rem", lineHeight: "1.25" }, h2: { fontSize: "1rem" }, h3: { fontSize: "0.875rem" } },
  },
  components: {
    Table: { defaultProps: { verticalSpacing: 6, horizontalSpacing: "sm" } },
    Button: { defaultProps: { fw: 550 } },
    Badge: { defaultProps: { miw: "max-content", variant: "light", radius: "sm", tt: "none" } },
    Notification: { defaultProps: { closeButtonProps: { "aria-label": "×" } } },
    // A form says what is out of bounds; another number than the typed one would be sent silently.
    NumberInput: { defaultProps: { clampBehavior: "none" } },
    Group: { defaultProps: { gap: "xs" } },
    Stack: { defaultProps: { gap: "xs" } },
    Tooltip: { defaultProps: { openDelay: 300 } },
  },
});
