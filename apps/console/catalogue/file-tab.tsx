/** The catalogue's file: what is in force, and what a change would do before it is saved. */
import { Alert, Button, Group, Stack, Text, Textarea } from "@mantine/core";
import { useState } from "react";
import { useAction } from "../app/action.ts";
import { type Answer, call } from "../app/call.ts";
import { useFormats } from "../app/language.tsx";
import { useRead } from "../app/queries.ts";
import { CodeBlock } from "../parts/copy.tsx";
import { DiffView, FaultExcerpt } from "../parts/diff-view.tsx";
import { FaultNotice, Loaded, Section } from "../parts/page.tsx";
import { ChangeList, ChangeView } from "./change-view.tsx";
import { useFileTabTexts } from "./file-tab.texts.ts";

type Check = Answer<"checkCatalogue">;

export function FileTab() {
  const t = useFileTabTexts();
  const format = useFormats();
  return (
    <Loaded from={useRead("readCatalogueFile", {}, { everyMs: 5_000 })}>
      {({ file, text, version, fault, lastChange }) => (
        <Stack gap="lg">
          {fault === null ? <Text>{t.inForce(version)}</Text> : <Mistake title={t.fault} text={text} fault={fault} />}
          {lastChange && (
            <Section title={t.lastChange(format.time(lastChange.at))}>
              <ChangeList changes={lastChange.changes} />
              <DiffView label={t.difference} diff={lastChange.diff} />
            </Section>
          )}
          <CheckForm current={text} />
          <Section title={`${t.file}: ${file}`}>
            <CodeBlock code={text} label={t.file} />
          </Section>
        </Stack>
      )}
    </Loaded>
  );
}

function Mistake({ title, text, fault }: { title?: string; text: string; fault: string }) {
  const t = useFileTabTexts();
  return (
    <Stack>
      <Alert color="red" title={title} role="alert">
        {fault}
      </Alert>
      <FaultExcerpt label={t.mistake} text={text} fault={fault} />
    </Stack>
  );
}

function CheckForm({ current }: { current: string }) {
  const t = useFileTabTexts();
  const [text, setText] = useState("");
  const check = useAction(() => call("checkCatalogue", { body: { text } }));
  return (
    <Section title={t.check}>
      <Text c="dimmed">{t.checkAbout}</Text>
      <Textarea
        aria-label={t.proposed}
        autosize
        minRows={6}
        maxRows={20}
        styles={{ input: { fontFamily: "var(--mantine-font-family-monospace)" } }}
        spellCheck={false}
        value={text}
        onChange={({ currentTarget }) => {
          setText(currentTarget.value);
          check.clear();
        }}
      />
      <Group>
        <Button loading={check.isBusy} disabled={text.trim() === ""} onClick={() => check.run()}>
          {t.run}
        </Button>
        <Button variant="default" onClick={() => setText(current)}>
          {t.fromFile}
        </Button>
      </Group>
      {check.fault !== undefined && <FaultNotice error={check.fault} />}
      {check.result && <CheckResult result={check.result} text={text} />}
    </Section>
  );
}

function CheckResult({ result: { fault, changes, diff, affected }, text }: { result: Check; text: string }) {
  const t = useFileTabTexts();
  if (fault !== null || changes === null) return <Mistake text={text} fault={fault ?? ""} />;
  return (
    <Stack role="status">
      <Text>{t.valid}</Text>
      <ChangeView changes={changes} diff={diff} affected={affected} />
    </Stack>
  );
}
