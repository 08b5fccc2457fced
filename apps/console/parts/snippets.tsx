/** Code and settings for a client, each with what it is pasted into. */
import { Code, Stack, Text } from "@mantine/core";
import { translated, useTexts } from "../app/language.tsx";
import type { Snippet } from "../pages/snippets.ts";
import { CodeBlock } from "./copy.tsx";

const texts = translated({
  en: { terminal: "In a terminal", file: "In" },
  zh: { terminal: "在终端中", file: "写入" },
});

export function Snippets({ snippets }: { snippets: readonly Snippet[] }) {
  const t = useTexts(texts);
  return (
    <Stack gap="xs">
      {snippets.map(({ file, code }) => (
        <div key={`${file}${code}`}>
          <Text size="sm" c="dimmed" mb={2}>
            {file === null ? (
              t.terminal
            ) : (
              <>
                {t.file} <Code>{file}</Code>
              </>
            )}
          </Text>
          <CodeBlock code={code} label={file ?? t.terminal} />
        </div>
      ))}
    </Stack>
  );
}
