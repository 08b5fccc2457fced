/** Saved views of a page: its filters under a name, for the person alone or for an account. */
import { ActionIcon, Button, Checkbox, Divider, Group, NavLink, Popover, Select, Stack, Text } from "@mantine/core";
import { useState } from "react";
import { type Answer, call } from "../app/call.ts";
import { translated, useTexts } from "../app/language.tsx";
import { queryClient, read, useRead } from "../app/queries.ts";
import type { Search } from "../app/router.tsx";
import { may, useMe } from "../app/session.ts";
import { useAccounts } from "./accounts.ts";
import { ConfirmDialog, FormDialog } from "./dialogs.tsx";
import { NameField } from "./fields.tsx";
import { CrossIcon, PencilIcon } from "./icons.tsx";
import { Loaded } from "./states.tsx";

const texts = translated({
  en: {
    views: "Views",
    none: "No saved views yet",
    save: "Save this view",
    saveButton: "Save",
    change: (name: string) => `Change ${name}`,
    remove: (name: string) => `Remove ${name}`,
    removeTitle: (name: string) => `Remove the view ${name}?`,
    removeButton: "Remove",
    removeOwn: "Only the saved filters are removed.",
    removeShared: (account: string) => `Only the saved filters are removed, for all members of ${account}.`,
    sharedWith: "Who sees it",
    onlyMe: "Only me",
    members: (account: string) => `Members of ${account}`,
    replaces: "Replace its filters with those that are shown now",
    sharedBy: (account: string, person: string) => `${account}, by ${person}`,
    shared: (account: string) => `Shared with ${account}`,
  },
  zh: {
    views: "视图",
    none: "还没有保存的视图",
    save: "保存此视图",
    saveButton: "保存",
    change: (name: string) => `修改 ${name}`,
    remove: (name: string) => `移除 ${name}`,
    removeTitle: (name: string) => `移除视图 ${name}？`,
    removeButton: "移除",
    removeOwn: "只移除所保存的筛选。",
    removeShared: (account: string) => `只移除所保存的筛选，对 ${account} 的所有成员生效。`,
    sharedWith: "谁可以看到",
    onlyMe: "仅自己",
    members: (account: string) => `${account} 的成员`,
    replaces: "用当前显示的筛选替换",
    sharedBy: (account: string, person: string) => `${account}，来自 ${person}`,
    shared: (account: string) => `与 ${account} 共享`,
  },
});

type View = Answer<"createView">;
type PageName = View["page"];

const query = (page: PageName) => ({ query: { page, limit: 500 } });

/** What a view keeps of an address: neither empty fields nor those that are no choice of a page. */
const kept = (search: Search): Record<string, string> =>
  Object.fromEntries(
    Object.entries(search).filter(
      (field): field is [string, string] => Boolean(field[1]) && /^[A-Za-z]{1,30}$/.test(field[0]),
    ),
  );

const byName = (left: View, right: View) => left.name.localeCompare(right.name);

/** With whom it is shared. */
const descriptionOf = ({ account, isOwn, person }: View, t: typeof texts.en) =>
  account === null ? undefined : isOwn ? t.shared(account) : t.sharedBy(account, person);

export interface SavedViewsProps {
  page: PageName;
  /** What is shown now. */
  search: Search;
  onChoose(search: Search): void;
}

export function SavedViews({ page, search, onChoose }: SavedViewsProps) {
  const t = useTexts(texts);
  const me = useMe();
  const [isOpen, setIsOpen] = useState(false);
  const [editing, setEditing] = useState<{ view?: View }>();
  const [removing, setRemoving] = useState<View>();
  const views = useRead("listViews", query(page), { enabled: isOpen });
  const openDialog = (open: () => void) => {
    setIsOpen(false);
    open();
  };
  const prefetch = () => void queryClient.prefetchQuery(read("listViews", query(page)));
  return (
    <>
      <Popover
        position="bottom-end"
        width={320}
        opened={isOpen}
        onChange={setIsOpen}
        trapFocus
        returnFocus
        transitionProps={{ duration: 0 }}
      >
        <Popover.Target>
          <Button variant="default" onClick={() => setIsOpen((was) => !was)} onMouseEnter={prefetch} onFocus={prefetch}>
            {t.views}
          </Button>
        </Popover.Target>
        <Popover.Dropdown p={4} aria-label={t.views} mah={420} style={{ overflowY: "auto" }}>
          <Loaded from={views} rows={2}>
            {({ items }) =>
              items.length === 0 ? (
                <Text c="dimmed" size="sm" p="xs">
                  {t.none}
                </Text>
              ) : (
                <Stack component="ul" gap={0} m={0} p={0} style={{ listStyle: "none" }}>
                  {[...items].sort(byName).map((view) => (
                    <Group key={view.id} component="li" gap={0} wrap="nowrap">
                      <NavLink
                        component="button"
                        type="button"
                        label={view.name}
                        description={descriptionOf(view, t)}
                        noWrap
                        onClick={() => {
                          setIsOpen(false);
                          onChoose(view.search);
                        }}
                        style={{ flex: 1, minWidth: 0, borderRadius: 4 }}
                      />
                      {view.isOwn && (
                        <ActionIcon
                          variant="subtle"
                          color="gray"
                          aria-label={t.change(view.name)}
                          onClick={() => openDialog(() => setEditing({ view }))}
                        >
                          <PencilIcon />
                        </ActionIcon>
                      )}
                      {(view.isOwn || (view.account !== null && may(me, "owner", view.account))) && (
                        <ActionIcon
                          variant="subtle"
                          color="gray"
                          aria-label={t.remove(view.name)}
                          onClick={() => openDialog(() => setRemoving(view))}
                        >
                          <CrossIcon />
                        </ActionIcon>
                      )}
                    </Group>
                  ))}
                </Stack>
              )
            }
          </Loaded>
          <Divider my={4} />
          <Button variant="subtle" fullWidth size="xs" onClick={() => openDialog(() => setEditing({}))}>
            {t.save}
          </Button>
        </Popover.Dropdown>
      </Popover>
      {editing && (
        <ViewForm
          {...(editing.view && { of: editing.view })}
          {...{ page, search }}
          onClose={() => setEditing(undefined)}
        />
      )}
      {removing && (
        <ConfirmDialog
          title={t.removeTitle(removing.name)}
          submit={t.removeButton}
          consequence={removing.account === null ? t.removeOwn : t.removeShared(removing.account)}
          onClose={() => setRemoving(undefined)}
          onSubmit={async () => {
            await call("removeView", { params: { view: removing.id } });
            await queryClient.invalidateQueries({ queryKey: ["listViews"] });
          }}
        />
      )}
    </>
  );
}

function ViewForm({ of, page, search, onClose }: { of?: View; page: PageName; search: Search; onClose(): void }) {
  const t = useTexts(texts);
  const accounts = useAccounts("reader");
  const [name, setName] = useState(of?.name ?? "");
  const [account, setAccount] = useState(of?.account ?? null);
  const [replaces, setReplaces] = useState(false);
  return (
    <FormDialog
      title={of === undefined ? t.save : t.change(of.name)}
      submit={t.saveButton}
      onClose={onClose}
      onSubmit={async () => {
        const settings = { name: name.trim(), account };
        if (of === undefined) await call("createView", { body: { ...settings, page, search: kept(search) } });
        else
          await call("updateView", {
            params: { view: of.id },
            body: { ...settings, ...(replaces && { search: kept(search) }) },
          });
        await queryClient.invalidateQueries({ queryKey: ["listViews"] });
      }}
    >
      <NameField data-autofocus value={name} onChange={setName} />
      <Select
        label={t.sharedWith}
        data={[
          { value: "", label: t.onlyMe },
          ...accounts.map(({ value, label }) => ({ value, label: t.members(label) })),
        ]}
        value={account ?? ""}
        onChange={(value) => setAccount(value || null)}
        allowDeselect={false}
        searchable={accounts.length > 8}
      />
      {of !== undefined && (
        <Checkbox
          label={t.replaces}
          checked={replaces}
          onChange={({ currentTarget }) => setReplaces(currentTarget.checked)}
        />
      )}
    </FormDialog>
  );
}
