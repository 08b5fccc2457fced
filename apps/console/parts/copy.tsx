/** Texts to copy: a line with a button, and code. */
import { ActionIcon, Box, Button, Code, CopyButton, Group, Tooltip } from "@mantine/core";
import { useTexts } from "../app/texts.ts";
import { CheckIcon, CopyIcon } from "./icons.tsx";

function CopyIconButton({ value, label }: { value: string; label?: string }) {
  const t = useTexts();
  return (
    <CopyButton value={value} timeout={1_500}>
      {({ copied, copy }) => (
        <Tooltip label={copied ? t.copied : (label ?? t.copy)}>
          <ActionIcon variant="subtle" color="gray" size="sm" onClick={copy} aria-label={label ?? t.copy}>
            {copied ? <CheckIcon /> : <CopyIcon />}
          </ActionIcon>
        </Tooltip>
      )}
    </CopyButton>
  );
}

/** An id or a key in full, with a button. */
export function CopyText({ value, label }: { value: string; label?: string }) {
  return (
    <Group gap={4} wrap="nowrap" style={{ minWidth: 0 }}>
      <Code style={{ overflowWrap: "anywhere" }}>{value}</Code>
      <CopyIconButton value={value} label={label} />
    </Group>
  );
}

export function CodeBlock({ code, label }: { code: string; label: string }) {
  const t = useTexts();
  return (
    <Box pos="relative">
      <Code block tabIndex={0} aria-label={label} style={{ maxHeight: 420, overflow: "auto", paddingRight: 90 }}>
        {code}
      </Code>
      <CopyButton value={code} timeout={1_500}>
        {({ copied, copy }) => (
          <Button pos="absolute" top={6} right={6} size="compact-xs" variant="default" onClick={copy}>
            {copied ? t.copied : t.copy}
          </Button>
        )}
      </CopyButton>
    </Box>
  );
}
