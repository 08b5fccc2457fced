/**
 * The catalogue's file, for operators: what is in force, and what a change would do before it is
 * saved.
 */
import { Alert, Badge, Button, Group, Paper, Stack, Table, Text, Textarea, Title } from "@mantine/core";
import { useState } from "react";
import { type Answer, call } from "../app/call.ts";
import { useFormats } from "../app/language.tsx";
import { useRead } from "../app/queries.ts";
import { CodeBlock } from "../parts/copy.tsx";
import { DiffView, FaultExcerpt } from "../parts/diff-view.tsx";
import { Page } from "../parts/page.tsx";
import { FaultNotice, Loaded } from "../parts/states.tsx";
import { useCatalogueTexts } from "./catalogue.texts.ts";

type Checked = Answer<"checkCatalogue">;
type Changes = NonNullable<Checked["changes"]>;

export function Catalogue() {
  const t = useCatalogueTexts();
  const format = useFormats();
  const read = useRead("readCatalogueFile", {}, { everyMs: 5_000 });
  return (
    <Page title={t.title} about={t.about}>
      <Loaded from={read}>
        {({ file, text, version, fault, lastChange }) => (
          <Stack gap="lg">
            {fault === null ? (
              <Text>{t.inForce(version)}</Text>
            ) : (
              <Stack gap="xs">
                <Alert color="red" title={t.fault} role="alert">
                  {fault}
                </Alert>
                <FaultExcerpt label={t.mistake} text={text} fault={fault} />
              </Stack>
            )}
            {lastChange && (
              <Stack gap="xs">
                <Title order={2}>{t.lastChange(format.time(lastChange.at))}</Title>
                <ChangeList changes={lastChange.changes} />
                <DiffView label={t.difference} diff={lastChange.diff} />
              </Stack>
            )}
            <CheckForm current={text} />
            <Stack gap="xs">
              <Title order={2}>
                {t.file}: {file}
              </Title>
              <CodeBlock code={text} label={t.file} />
            </Stack>
          </Stack>
        )}
      </Loaded>
    </Page>
  );
}

function CheckForm({ current }: { current: string }) {
  const t = useCatalogueTexts();
  const [text, setText] = useState("");
  const [checked, setChecked] = useState<Checked>();
  const [error, setError] = useState<unknown>();
  const [isBusy, setIsBusy] = useState(false);
  const check = async () => {
    setIsBusy(true);
    setError(undefined);
    try {
      setChecked(await call("checkCatalogue", { body: { text } }));
    } catch (fault) {
      setError(fault);
    } finally {
      setIsBusy(false);
    }
  };
  return (
    <Stack gap="xs">
      <Title order={2}>{t.check}</Title>
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
          setChecked(undefined);
        }}
      />
      <Group gap="xs">
        <Button loading={isBusy} disabled={text.trim() === ""} onClick={() => void check()}>
          {t.run}
        </Button>
        <Button variant="default" onClick={() => setText(current)}>
          {t.fromFile}
        </Button>
      </Group>
      {error !== undefined && <FaultNotice error={error} />}
      {checked && <CheckResult checked={checked} text={text} />}
    </Stack>
  );
}

function CheckResult({ checked: { fault, changes, diff, affected }, text }: { checked: Checked; text: string }) {
  const t = useCatalogueTexts();
  const format = useFormats();
  if (fault !== null || changes === null)
    return (
      <Stack gap="xs">
        <Alert color="red" role="alert">
          {fault}
        </Alert>
        <FaultExcerpt label={t.mistake} text={text} fault={fault ?? ""} />
      </Stack>
    );
  return (
    <Stack gap="xs" role="status">
      <Text>{t.valid}</Text>
      <ChangeList changes={changes} />
      <DiffView label={t.difference} diff={diff} />
      {affected.length === 0 ? (
        <Text>{t.nobody}</Text>
      ) : (
        <Paper withBorder>
          <Table>
            <Table.Caption>{t.affected}</Table.Caption>
            <Table.Thead>
              <Table.Tr>
                <Table.Th>{t.group}</Table.Th>
                <Table.Th className="number">{t.keys}</Table.Th>
                <Table.Th>{t.loses}</Table.Th>
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {affected.map(({ group, keys, isRemoved, modelsLost }) => (
                <Table.Tr key={group}>
                  <Table.Td>{group}</Table.Td>
                  <Table.Td className="number">{format.count(keys)}</Table.Td>
                  <Table.Td>{isRemoved ? t.wholeGroup : modelsLost.join(", ")}</Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </Paper>
      )}
    </Stack>
  );
}

const colours = { added: "teal", removed: "red", changed: "yellow" } as const;

function ChangeList({ changes }: { changes: Changes }) {
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
        <Group key={`${kind} ${how}`} gap="xs" align="baseline">
          <Text w={90}>{t.kinds[kind]}</Text>
          <Badge variant="light" radius="sm" tt="none" color={colours[how]}>
            {t[how]}
          </Badge>
          <Text style={{ flex: 1 }}>{names.join(", ")}</Text>
        </Group>
      ))}
    </Stack>
  );
}
