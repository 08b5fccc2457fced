/** Saved views of usage, and its CSV. */

import { ActionIcon, Button, Group, Menu, Text, TextInput } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useState } from "react";
import { addressOf, type Input } from "../app/call.ts";
import { useTexts } from "../app/language.tsx";
import type { Search } from "../app/router.tsx";
import { FormDialog } from "./dialogs.tsx";
import { Field } from "./form.tsx";
import { usageTexts } from "./usage-texts.ts";

type CsvQuery = NonNullable<Input<"exportUsage">["query"]>;

/** Downloads what is filtered. Fetched first, so that an error has words. */
export function CsvButton({ query, interval, isGrouped }: { query: CsvQuery; interval: string; isGrouped: boolean }) {
  const t = useTexts(usageTexts);
  const save = async (of: "none" | typeof interval) => {
    try {
      const response = await fetch(
        addressOf("exportUsage", { query: { ...query, interval: of as "none" } as CsvQuery }),
      );
      if (!response.ok) throw new Error(((await response.json()) as { detail?: string }).detail);
      const link = document.createElement("a");
      link.href = URL.createObjectURL(await response.blob());
      link.download = `usage-${new Date().toISOString().slice(0, 10)}.csv`;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
    } catch (error) {
      notifications.show({
        color: "red",
        title: t.csvFailed,
        message: (error as Error).message,
        closeButtonProps: { "aria-label": "×" },
      });
    }
  };
  return (
    <Menu position="bottom-end">
      <Menu.Target>
        <Button variant="default">{t.csv}</Button>
      </Menu.Target>
      <Menu.Dropdown>
        {isGrouped && <Menu.Item onClick={() => void save("none")}>{t.csvGroups}</Menu.Item>}
        <Menu.Item onClick={() => void save(interval)}>{t.csvSteps}</Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}

/** Saved views of this person in this browser: names with the address's search part. */
function useViews(person: string) {
  const place = `sluice-usage-views-${person}`;
  const [views, setViews] = useState<Record<string, Search>>(() => {
    try {
      return JSON.parse(localStorage.getItem(place) ?? "{}") as Record<string, Search>;
    } catch {
      return {};
    }
  });
  const set = (next: Record<string, Search>) => {
    localStorage.setItem(place, JSON.stringify(next));
    setViews(next);
  };
  return {
    views,
    save: (name: string, search: Search) => set({ ...views, [name]: search }),
    remove: (name: string) => set(Object.fromEntries(Object.entries(views).filter(([each]) => each !== name))),
  };
}

export function Views({ search, person, onChoose }: { search: Search; person: string; onChoose(view: Search): void }) {
  const t = useTexts(usageTexts);
  const { views, save, remove } = useViews(person);
  const [isSaving, setIsSaving] = useState(false);
  const [name, setName] = useState("");
  const names = Object.keys(views).sort((left, right) => left.localeCompare(right));
  return (
    <>
      <Menu position="bottom-end" width={260}>
        <Menu.Target>
          <Button variant="default">{t.views}</Button>
        </Menu.Target>
        <Menu.Dropdown>
          {names.length === 0 && <Menu.Label>{t.noViews}</Menu.Label>}
          {names.map((each) => (
            <Group key={each} gap={0} wrap="nowrap">
              <Menu.Item onClick={() => onChoose(views[each] ?? {})} style={{ flex: 1, minWidth: 0 }}>
                <Text truncate>{each}</Text>
              </Menu.Item>
              <ActionIcon variant="subtle" color="gray" aria-label={t.removeView(each)} onClick={() => remove(each)}>
                ×
              </ActionIcon>
            </Group>
          ))}
          <Menu.Divider />
          <Menu.Item onClick={() => setIsSaving(true)}>{t.saveView}</Menu.Item>
        </Menu.Dropdown>
      </Menu>
      {isSaving && (
        <FormDialog
          title={t.saveView}
          submit={t.save}
          onClose={() => setIsSaving(false)}
          onSubmit={async () => save(name.trim(), search)}
        >
          <Field name="name">
            <TextInput
              label={t.viewName}
              description={t.viewHelp}
              required
              maxLength={60}
              value={name}
              onChange={({ currentTarget }) => setName(currentTarget.value)}
              data-autofocus
            />
          </Field>
        </FormDialog>
      )}
    </>
  );
}
