/** Lines of a text: those that a change adds or removes, and those around a mistake. */
import { Box, Code, Stack, Text } from "@mantine/core";
import type { Answer } from "../app/call.ts";
import { useTexts } from "../app/texts.ts";

type Diff = Answer<"checkCatalogue">["diff"];
type Mark = "added" | "removed" | "mistake";

interface Line {
  /** The numbers of the line, as they are shown. */
  numbers: readonly (number | null)[];
  text: string;
  mark: Mark | undefined;
}

const signs = { added: "+", removed: "−", mistake: "▸" } as const satisfies Record<Mark, string>;
const colours = { added: "teal", removed: "red", mistake: "red" } as const satisfies Record<Mark, string>;

function Lines({ label, lines }: { label: string; lines: readonly Line[] }) {
  const t = useTexts();
  const width = Math.max(...lines.flatMap(({ numbers }) => numbers.map((number) => String(number ?? "").length)));
  return (
    <Code
      block
      component="section"
      tabIndex={0}
      aria-label={label}
      style={{ maxHeight: 420, overflow: "auto", padding: 0, whiteSpace: "pre" }}
    >
      <Box style={{ width: "max-content", minWidth: "100%" }} py={6}>
        {lines.map(({ numbers, text, mark }, index) => {
          const former = lines[index - 1]?.numbers;
          const isGap =
            former !== undefined &&
            numbers.every((number, at) => number !== null && number > (former[at] ?? number) + 1);
          return (
            // biome-ignore lint/suspicious/noArrayIndexKey: a line has no other identity.
            <Box key={index}>
              {isGap && (
                <Box c="dimmed" px="xs" aria-hidden>
                  {"⋯"}
                </Box>
              )}
              <Box px="xs" {...(mark && { bg: `var(--mantine-color-${colours[mark]}-light)` })}>
                <Text span inherit c="dimmed" aria-hidden>
                  {numbers.map((number) => String(number ?? "").padStart(width)).join(" ")}{" "}
                </Text>
                {mark ? (
                  <span role="img" aria-label={t[mark]}>
                    {signs[mark]}
                  </span>
                ) : (
                  " "
                )}{" "}
                {text}
              </Box>
            </Box>
          );
        })}
      </Box>
    </Code>
  );
}

export function DiffView({ label, diff }: { label: string; diff: Diff }) {
  const t = useTexts();
  if (diff === null) return <Text c="dimmed">{t.diffUnknown}</Text>;
  if (diff.lines.length === 0) return <Text c="dimmed">{t.noDifference}</Text>;
  return (
    <Stack gap={4}>
      <Lines
        label={label}
        lines={diff.lines.map(({ kind, before, after, text }) => ({
          numbers: [before, after],
          text,
          mark: kind === "same" ? undefined : kind,
        }))}
      />
      {diff.isCut && <Text c="dimmed">{t.diffCut}</Text>}
    </Stack>
  );
}

const linesAround = 3;

/**
 * The lines around the place that a fault names as `file:line:column: …`; nothing if it names none.
 */
export function FaultExcerpt({ label, text, fault }: { label: string; text: string; fault: string }) {
  const [, place] = /:(\d+):\d+: /.exec(fault) ?? [];
  const wrong = Number(place);
  const all = text.split("\n");
  if (place === undefined || wrong < 1 || wrong > all.length) return null;
  const first = Math.max(1, wrong - linesAround);
  return (
    <Lines
      label={label}
      lines={all.slice(first - 1, wrong + linesAround).map((line, index) => ({
        numbers: [first + index],
        text: line,
        mark: first + index === wrong ? "mistake" : undefined,
      }))}
    />
  );
}
