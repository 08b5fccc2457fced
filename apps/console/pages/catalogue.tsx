/**
 * The catalogue's file, for operators: what is in force, and what a change would do before it is
 * saved.
 */
import { Alert, Badge, Button, Group, Paper, Stack, Table, Text, Textarea, Title } from "@mantine/core";
import { useState } from "react";
import { type Answer, call } from "../app/call.ts";
import { translated, useFormats, useTexts } from "../app/language.tsx";
import { useRead } from "../app/queries.ts";
import { CodeBlock } from "../parts/copy.tsx";
import { DiffView, FaultExcerpt } from "../parts/diff-view.tsx";
import { Page } from "../parts/page.tsx";
import { FaultNotice, Loaded } from "../parts/states.tsx";

const texts = translated({
  en: {
    title: "Catalogue",
    about: "Models, groups, prices, routes and queues. Every process follows the file within a second of a change.",
    inForce: (version: string) => `Version ${version} is in force`,
    fault: "The file is not in force: the last valid catalogue stays",
    file: "File",
    lastChange: (time: string) => `The last change, ${time}`,
    check: "Check a change",
    checkAbout: "Paste a whole file. Nothing is saved: change the file on the server when you like the result.",
    fromFile: "Begin with the file",
    proposed: "Proposed file",
    run: "Check",
    valid: "The file is valid.",
    noChange: "It changes nothing.",
    kinds: { models: "Models", groups: "Groups", upstreams: "Upstreams", queues: "Queues" },
    added: "added",
    removed: "removed",
    changed: "changed",
    affected: "Keys that would lose something",
    group: "Group",
    keys: "Keys",
    loses: "Loses",
    wholeGroup: "The group itself: its keys would be refused",
    nobody: "No key would lose a model.",
    difference: "Lines that differ",
    mistake: "The place of the mistake",
  },
  zh: {
    title: "目录",
    about: "模型、分组、价格、路由与队列。文件更改后，每个进程会在一秒内生效。",
    inForce: (version: string) => `版本 ${version} 生效中`,
    fault: "文件未生效：继续使用上一个有效的目录",
    file: "文件",
    lastChange: (time: string) => `最近一次更改，${time}`,
    check: "检查更改",
    checkAbout: "粘贴完整的文件。此处不会保存：对结果满意后，请修改服务器上的文件。",
    fromFile: "从当前文件开始",
    proposed: "拟议的文件",
    run: "检查",
    valid: "文件有效。",
    noChange: "没有任何变化。",
    kinds: { models: "模型", groups: "分组", upstreams: "上游", queues: "队列" },
    added: "新增",
    removed: "移除",
    changed: "更改",
    affected: "会受影响的密钥",
    group: "分组",
    keys: "密钥数",
    loses: "失去",
    wholeGroup: "整个分组：其密钥将被拒绝",
    nobody: "没有密钥会失去模型。",
    difference: "不同的行",
    mistake: "错误位置",
  },
});

type Checked = Answer<"checkCatalogue">;
type Changes = NonNullable<Checked["changes"]>;

export function Catalogue() {
  const t = useTexts(texts);
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
  const t = useTexts(texts);
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
  const t = useTexts(texts);
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
  const t = useTexts(texts);
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
