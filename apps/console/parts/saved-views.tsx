/** Saved views of a page: its filters under a name, for the person alone or for an account. */
import { ActionIcon, Button, Divider, Group, NavLink, Popover, Stack, Text } from "@mantine/core";
import { useNavigate } from "@tanstack/react-router";
import { type ReactNode, useState } from "react";
import type { Search } from "../app/address.ts";
import { type Answer, call } from "../app/call.ts";
import { queryClient, read, useRead } from "../app/queries.ts";
import { may, useMe } from "../app/session.ts";
import { useAccounts } from "./accounts.ts";
import { ConfirmDialog, FormDialog, openDialog } from "./dialogs.tsx";
import { CheckboxField, NameField, SelectField } from "./form.tsx";
import { CrossIcon, PencilIcon } from "./icons.tsx";
import { Loaded } from "./page.tsx";
import { useSavedViewsTexts } from "./saved-views.texts.ts";

type View = Answer<"createView">;
type PageName = View["page"];

const query = (page: PageName) => ({ query: { page, limit: 500 } });

/** The part of an address that a view keeps: no empty fields, and only choices of a page. */
const storedSearch = (search: Search): Record<string, string> =>
  Object.fromEntries(
    Object.entries(search).filter(
      (field): field is [string, string] => Boolean(field[1]) && /^[A-Za-z]{1,30}$/.test(field[0]),
    ),
  );

const byName = (left: View, right: View) => left.name.localeCompare(right.name);

/** The people who share it. */
const descriptionOf = ({ account, isOwn, person }: View, t: ReturnType<typeof useSavedViewsTexts>) =>
  account === null ? undefined : isOwn ? t.shared(account) : t.sharedBy(account, person);

export interface SavedViewsProps {
  page: PageName;
  /** The choices that the page shows now. */
  search: Search;
}

export function SavedViews({ page, search }: SavedViewsProps) {
  const t = useSavedViewsTexts();
  const me = useMe();
  const navigate = useNavigate();
  const [isOpen, setIsOpen] = useState(false);
  const views = useRead("listViews", query(page), { enabled: isOpen });
  const open = (dialog: ReactNode) => {
    setIsOpen(false);
    openDialog(dialog);
  };
  const remove = ({ id, name, account }: View) => (
    <ConfirmDialog
      title={t.removeTitle(name)}
      submit={t.removeButton}
      consequence={account === null ? t.removeOwn : t.removeShared(account)}
      changes="listViews"
      onSubmit={() => call("removeView", { params: { view: id } })}
    />
  );
  const iconButton = (label: string, icon: ReactNode, dialog: ReactNode) => (
    <ActionIcon variant="subtle" color="gray" aria-label={label} onClick={() => open(dialog)}>
      {icon}
    </ActionIcon>
  );
  const prefetch = () => void queryClient.prefetchQuery(read("listViews", query(page)));
  return (
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
                        void navigate({ to: ".", search: view.search });
                      }}
                      style={{ flex: 1, minWidth: 0, borderRadius: 4 }}
                    />
                    {view.isOwn &&
                      iconButton(t.change(view.name), <PencilIcon />, <ViewForm of={view} {...{ page, search }} />)}
                    {(view.isOwn || (view.account !== null && may(me, "owner", view.account))) &&
                      iconButton(t.remove(view.name), <CrossIcon />, remove(view))}
                  </Group>
                ))}
              </Stack>
            )
          }
        </Loaded>
        <Divider my={4} />
        <Button variant="subtle" fullWidth size="xs" onClick={() => open(<ViewForm {...{ page, search }} />)}>
          {t.save}
        </Button>
      </Popover.Dropdown>
    </Popover>
  );
}

function ViewForm({ of, page, search }: { of?: View; page: PageName; search: Search }) {
  const t = useSavedViewsTexts();
  const accounts = useAccounts("reader");
  return (
    <FormDialog
      title={of === undefined ? t.save : t.change(of.name)}
      submit={t.saveButton}
      initialValues={{ name: of?.name ?? "", account: of?.account ?? "", replaces: of === undefined }}
      changes="listViews"
      onSubmit={({ name, account, replaces }) => {
        const settings = { name: name.trim(), account: account || null };
        return of === undefined
          ? call("createView", { body: { ...settings, page, search: storedSearch(search) } })
          : call("updateView", {
              params: { view: of.id },
              body: { ...settings, search: replaces ? storedSearch(search) : undefined },
            });
      }}
    >
      <NameField data-autofocus />
      <SelectField
        name="account"
        label={t.sharedWith}
        data={[
          { value: "", label: t.onlyMe },
          ...accounts.map(({ value, label }) => ({ value, label: t.members(label) })),
        ]}
        allowDeselect={false}
        searchable={accounts.length > 8}
      />
      {of !== undefined && <CheckboxField name="replaces" label={t.replaces} />}
    </FormDialog>
  );
}
