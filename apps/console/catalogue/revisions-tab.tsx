/** The revisions of the catalogue's entries: compared, restored, exported and imported. */
import { Badge, Button, Group, Menu, Modal, Stack, Text, Textarea } from "@mantine/core";
import { useMemo } from "react";
import { addressOf, call } from "../app/call.ts";
import { type Item, useList, useRead } from "../app/queries.ts";
import { FormDialog, openDialog, useCloseDialog } from "../parts/dialogs.tsx";
import { DiffView } from "../parts/diff-view.tsx";
import { Cut } from "../parts/facts.tsx";
import { SelectField, useField } from "../parts/form.tsx";
import { Empty, Loaded } from "../parts/page.tsx";
import { ListTable, RowButton, useColumns } from "../parts/table.tsx";
import { ChangeDialog } from "./change-view.tsx";
import { basedOn, type Entries } from "./entries.ts";
import { useRevisionsTabTexts } from "./revisions-tab.texts.ts";

type Revision = Item<"listCatalogueRevisions">;
const everyMs = 10_000;

export function RevisionsTab({ entries }: { entries: Entries }) {
  const t = useRevisionsTabTexts();
  return (
    <Stack gap="md">
      <Text c="dimmed">{t.about}</Text>
      <Group>
        <Menu>
          <Menu.Target>
            <Button variant="default">{t.exportAs}</Button>
          </Menu.Target>
          <Menu.Dropdown>
            {(["all", "database"] as const).map((source) => (
              <Menu.Item
                key={source}
                component="a"
                href={addressOf("exportCatalogue", { query: { source } })}
                download="catalogue.yaml"
              >
                {source === "all" ? t.exportAll : t.exportDatabase}
              </Menu.Item>
            ))}
          </Menu.Dropdown>
        </Menu>
        {!entries.isReadOnly && (
          <Button variant="default" onClick={() => openDialog(<ImportForm entries={entries} />)}>
            {t.importTitle}
          </Button>
        )}
      </Group>
      <ListTable
        from={useList("listCatalogueRevisions", {}, { everyMs })}
        label={t.about}
        columns={useRevisionColumns(entries)}
        rowId={({ number }) => String(number)}
        minWidth={860}
        empty={<Empty title={t.none}>{t.noneWhy}</Empty>}
      />
    </Stack>
  );
}

function useRevisionColumns(entries: Entries) {
  const t = useRevisionsTabTexts();
  const c = useColumns<Revision>();
  return useMemo(() => {
    const restore = (revision: number) => (
      <ChangeDialog
        title={t.restoreTitle(revision)}
        submit={t.restore}
        change={(query) => call("restoreCatalogueRevision", { params: { revision }, query }, basedOn(entries))}
      />
    );
    return [
      c.cell("number", t.revision, ({ number, isActive }) => (
        <Group gap="xs" wrap="nowrap">
          {number}
          {isActive && <Badge>{t.active}</Badge>}
        </Group>
      )),
      c.cut("summary", t.summary, 340),
      c.cell("comment", t.comment, ({ comment }) => <Cut width={240}>{comment || "–"}</Cut>),
      c.cut("author", t.author, 140),
      c.ago("createdAt", t.time),
      c.actions(({ number, parent, isActive }) => (
        <>
          <RowButton
            label={`${t.compare} ${number}`}
            onClick={() => openDialog(<Comparison from={isActive ? parent : number} />)}
          >
            {t.compare}
          </RowButton>
          {!isActive && !entries.isReadOnly && (
            <RowButton label={`${t.restore} ${number}`} onClick={() => openDialog(restore(number))}>
              {t.restore}
            </RowButton>
          )}
        </>
      )),
    ];
  }, [t, c, entries]);
}

/** With the active revision. */
function Comparison({ from: revision }: { from: number }) {
  const t = useRevisionsTabTexts();
  const close = useCloseDialog();
  const comparison = useRead("compareCatalogueRevision", { params: { revision }, query: {} });
  const to = comparison.data?.to ?? "…";
  return (
    <Modal
      opened
      onClose={close}
      size="xl"
      title={t.compareTitle(revision, to)}
      closeButtonProps={{ "aria-label": t.close }}
    >
      <Loaded from={comparison} rows={3}>
        {({ diff }) => <DiffView label={t.difference} diff={diff} />}
      </Loaded>
    </Modal>
  );
}

function YamlField({ name, label, description }: { name: string; label: string; description: string }) {
  return (
    <Textarea
      {...useField(name, { label, description })}
      autosize
      minRows={8}
      maxRows={20}
      required
      spellCheck={false}
      styles={{ input: { fontFamily: "var(--mantine-font-family-monospace)" } }}
    />
  );
}

function ImportForm({ entries }: { entries: Entries }) {
  const t = useRevisionsTabTexts();
  return (
    <FormDialog
      title={t.importTitle}
      submit={t.next}
      size="xl"
      initialValues={{ text: "", mode: "merge" as "merge" | "replace" }}
      onSubmit={async (body) => {
        openDialog(
          <ChangeDialog
            title={t.importTitle}
            submit={t.apply}
            change={(query) => call("importCatalogue", { body, query }, basedOn(entries))}
          />,
        );
      }}
    >
      <YamlField name="text" label={t.text} description={t.textHelp} />
      <SelectField
        name="mode"
        label={t.mode}
        data={(["merge", "replace"] as const).map((value) => ({ value, label: t.modes[value] }))}
        allowDeselect={false}
      />
    </FormDialog>
  );
}
