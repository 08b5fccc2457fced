/** Code and settings for a client, each with what it is pasted into. */
import { Code, Stack, Text } from "@mantine/core";
import { useTexts } from "../app/texts.ts";
import type { Snippet } from "./client-code.ts";
import { CodeBlock } from "./copy.tsx";

export function Snippets({ snippets }: { snippets: readonly Snippet[] }) {
  const t = useTexts();
  return (
    <Stack>
      {snippets.map(({ file, code }) => (
        <div key={`${file}${code}`}>
          <Text size="sm" c="dimmed" mb={2}>
            {file === null ? (
              t.inTerminal
            ) : (
              <>
                {t.inFile} <Code>{file}</Code>
              </>
            )}
          </Text>
          <CodeBlock code={code} label={file ?? t.inTerminal} />
        </div>
      ))}
    </Stack>
  );
}
