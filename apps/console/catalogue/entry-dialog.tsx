/** All settings of an entry as text, for those that no field shows. */
import { Textarea } from "@mantine/core";
import { FormDialog, openDialog } from "../parts/dialogs.tsx";
import { TextField, useField } from "../parts/form.tsx";
import { ChangeDialog } from "./change-view.tsx";
import { deleteEntry, type Entries, type EntryKind, putEntry } from "./entries.ts";
import { useEntryDialogTexts } from "./entry-dialog.texts.ts";

interface EntryDialogProps {
  entries: Entries;
  kind: EntryKind;
  /** The entry to change; absent for a new one. */
  name?: string;
  entry: object;
}

function JsonField({ name, label }: { name: string; label: string }) {
  const field = useField(name, { label });
  return (
    <Textarea
      {...field}
      autosize
      minRows={8}
      maxRows={24}
      spellCheck={false}
      styles={{ input: { fontFamily: "var(--mantine-font-family-monospace)" } }}
    />
  );
}

export function EntryDialog({ entries, kind, name, entry }: EntryDialogProps) {
  const t = useEntryDialogTexts();
  return (
    <FormDialog
      title={name === undefined ? t.addTitles[kind] : t.settings(name)}
      submit={t.next}
      size="xl"
      initialValues={{ name: name ?? "", json: JSON.stringify(entry, null, 2) }}
      onSubmit={async (values, form) => {
        const parsed = parse(values.json);
        if ("problem" in parsed) {
          form.setFieldError("json", t.notJson(parsed.problem));
          throw new Error(parsed.problem);
        }
        askFor(entries, { kind, name: values.name, entry: parsed.value, submit: t.apply });
      }}
    >
      {name === undefined && <TextField name="name" label={t.names[kind]} required maxLength={129} data-autofocus />}
      <JsonField name="json" label={t.json} />
    </FormDialog>
  );
}

function parse(text: string): { value: Record<string, unknown> } | { problem: string } {
  try {
    return { value: JSON.parse(text) as Record<string, unknown> };
  } catch (error) {
    return { problem: (error as Error).message };
  }
}

interface Proposal {
  kind: EntryKind;
  name: string;
  entry: Record<string, unknown>;
  /** The button. */
  submit: string;
}

/** Shows what an entry would change, and asks whether it comes in force. */
function askFor(entries: Entries, { kind, name, entry, submit }: Proposal): void {
  openDialog(<ChangeDialog title={name} submit={submit} change={putEntry(entries, { kind, name }, entry)} />);
}

export function askToRemove(
  entries: Entries,
  { title, submit, ...of }: { kind: EntryKind; name: string; title: string; submit: string },
): void {
  openDialog(<ChangeDialog title={title} submit={submit} isDestructive change={deleteEntry(entries, of)} />);
}
