/** The effect of a change of the catalogue: names, lines, and keys that lose something. */
import { Badge, Group, Stack, Text } from "@mantine/core";
import { type ReactNode, useEffect } from "react";
import { useAction } from "../app/action.ts";
import { FormDialog } from "../parts/dialogs.tsx";
import { DiffView } from "../parts/diff-view.tsx";
import { TextField } from "../parts/form.tsx";
import { FaultNotice, Waiting } from "../parts/page.tsx";
import { DataTable, useColumns } from "../parts/table.tsx";
import { useChangeViewTexts } from "./change-view.texts.ts";
import type { Change, EntryChange } from "./entries.ts";

const colours = { added: "teal", removed: "red", changed: "yellow" } as const;

export function ChangeList({ changes }: Pick<Change, "changes">) {
  const t = useChangeViewTexts();
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

export function ChangeView({ changes, diff, affected }: Pick<Change, "changes" | "diff" | "affected">) {
  const t = useChangeViewTexts();
  const c = useColumns<Change["affected"][number]>();
  const columns = [
    c.text("group", t.group),
    c.count("keys", t.keys),
    c.cell("loses", t.loses, ({ isRemoved, modelsLost }) => (isRemoved ? t.wholeGroup : modelsLost.join(", "))),
  ];
  return (
    <Stack>
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

interface ChangeDialogProps {
  title: string;
  submit: string;
  /** Red: it takes something away. */
  isDestructive?: boolean;
  change: EntryChange;
  onDone?(change: Change): void;
  /** Below the effect. */
  children?: ReactNode;
}

/** Shows the effect of a change, and makes it once the person says so. */
export function ChangeDialog({ title, submit, isDestructive = false, change, onDone, children }: ChangeDialogProps) {
  const t = useChangeViewTexts();
  const preview = useAction(() => change({ dryRun: true }));
  useEffect(preview.run, []);
  return (
    <FormDialog
      title={title}
      submit={submit}
      size="xl"
      {...(isDestructive && { color: "red.9" })}
      initialValues={{ comment: "" }}
      onSubmit={async ({ comment }) => {
        const made = await change({ dryRun: false, ...(comment !== "" && { comment }) });
        onDone?.(made);
      }}
    >
      {preview.fault !== undefined ? (
        <FaultNotice error={preview.fault} />
      ) : preview.result === undefined ? (
        <Waiting rows={3} />
      ) : (
        <ChangeView {...preview.result} />
      )}
      {children}
      <TextField name="comment" label={t.comment} description={t.commentHelp} maxLength={500} />
      <Text c="dimmed" size="sm">
        {t.stays}
      </Text>
    </FormDialog>
  );
}
