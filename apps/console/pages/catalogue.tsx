/**
 * The catalogue's file, for operators: what is in force, and what a change would do before it is
 * saved.
 */
import { Alert, Badge, Button, Group, Stack, Text, Textarea } from "@mantine/core";
import { useState } from "react";
import { useAction } from "../app/action.ts";
import { type Answer, call } from "../app/call.ts";
import { useFormats } from "../app/language.tsx";
import { useRead } from "../app/queries.ts";
import { CodeBlock } from "../parts/copy.tsx";
import { DiffView, FaultExcerpt } from "../parts/diff-view.tsx";
import { FaultNotice, Loaded, Page, Section } from "../parts/page.tsx";
import { DataTable, useColumns } from "../parts/table.tsx";
import { useCatalogueTexts } from "./catalogue.texts.ts";

type Check = Answer<"checkCatalogue">;

export function Catalogue() {
  const t = useCatalogueTexts();
  const format = useFormats();
  return (
    <Page title={t.catalogue} about={t.about}>
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
    </Page>
  );
}

function Mistake({ title, text, fault }: { title?: string; text: string; fault: string }) {
  const t = useCatalogueTexts();
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
  const t = useCatalogueTexts();
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
  const t = useCatalogueTexts();
  const c = useColumns<Check["affected"][number]>();
  if (fault !== null || changes === null) return <Mistake text={text} fault={fault ?? ""} />;
  const columns = [
    c.text("group", t.group),
    c.count("keys", t.keys),
    c.cell("loses", t.loses, ({ isRemoved, modelsLost }) => (isRemoved ? t.wholeGroup : modelsLost.join(", "))),
  ];
  return (
    <Stack role="status">
      <Text>{t.valid}</Text>
      <ChangeList changes={changes} />
      <DiffView label={t.difference} diff={diff} />
      {affected.length > 0 && <Text>{t.affected}</Text>}
      <DataTable
        label={t.affected}
        columns={columns}
        rows={affected}
        rowId="group"
        minWidth={0}
        empty={<Text>{t.nobody}</Text>}
      />
    </Stack>
  );
}

const colours = { added: "teal", removed: "red", changed: "yellow" } as const;

function ChangeList({ changes }: { changes: NonNullable<Check["changes"]> }) {
  const t = useCatalogueTexts();
  const rows = (["models", "groups", "upstreams", "queues"] as const).flatMap((kind) =>
    (["added", "removed", "changed"] as const).flatMap((how) =>
      changes[kind][how].length === 0 ? [] : [{ kind, how, names: changes[kind][how] }],
    ),
  );
  if (rows.length === 0) return <Text>{t.noChange}</Text>;
  return (
    <Stack gap={4}>
      {rows.map(({ kind, how, names }) => (
        <Group key={`${kind} ${how}`} align="baseline">
          <Text w={90}>{t.kinds[kind]}</Text>
          <Badge color={colours[how]}>{t[how]}</Badge>
          <Text style={{ flex: 1 }}>{names.join(", ")}</Text>
        </Group>
      ))}
    </Stack>
  );
}
