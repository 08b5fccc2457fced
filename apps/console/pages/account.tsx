/** One account: its members, invitations and alerts. */
import { Badge, Button, Group, MultiSelect, Select, Stack, Switch, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useState } from "react";
import { type Answer, call, callVersioned, type Input } from "../app/call.ts";
import { useFormats } from "../app/language.tsx";
import { type Item, useList } from "../app/pages.ts";
import { queryClient, useRead } from "../app/queries.ts";
import { may, type Role, useMe } from "../app/session.ts";
import { CopyText } from "../parts/copy.tsx";
import { type Column, DataTable } from "../parts/data-table.tsx";
import { ConfirmDialog, FormDialog, SecretDialog } from "../parts/dialogs.tsx";
import { EmailField, NameField } from "../parts/fields.tsx";
import { PageLink } from "../parts/link.tsx";
import { ListTable } from "../parts/list-table.tsx";
import { Page } from "../parts/page.tsx";
import { Empty, Loaded } from "../parts/states.tsx";
import { useAccountTexts } from "./account.texts.ts";
import { ContentStorage } from "./content-storage.tsx";

const route = getRouteApi("/inside/accounts/$account");
const roles = ["reader", "member", "owner"] as const satisfies Role[];

export function Account() {
  const t = useAccountTexts();
  const me = useMe();
  const { account: id } = route.useParams();
  const read = useQuery({
    queryKey: ["getAccount", id],
    queryFn: ({ signal }) => callVersioned("getAccount", { params: { account: id } }, { signal }),
  });
  const [dialog, setDialog] = useState<"rename" | "groups" | "disable">();
  const [name, setName] = useState("");
  const close = () => setDialog(undefined);
  const isOwner = may(me, "owner", id);
  return (
    <Loaded from={read}>
      {({ value: account, etag }) => {
        const update = async (body: NonNullable<Input<"updateAccount">["body"]>) => {
          await call("updateAccount", { params: { account: id }, body }, { ifMatch: etag });
          await queryClient.invalidateQueries();
        };
        return (
          <Page
            title={account.name}
            about={account.disabledAt === null ? account.id : t.disabled}
            actions={
              me.isOperator && (
                <>
                  <Button
                    variant="default"
                    onClick={() => {
                      setName(account.name);
                      setDialog("rename");
                    }}
                  >
                    {t.rename}
                  </Button>
                  <Button variant="default" onClick={() => setDialog("groups")}>
                    {t.groups}
                  </Button>
                  {account.disabledAt === null ? (
                    <Button variant="light" color="red" onClick={() => setDialog("disable")}>
                      {t.disable}
                    </Button>
                  ) : (
                    <Button onClick={() => void update({ isDisabled: false })}>{t.enable}</Button>
                  )}
                </>
              )
            }
          >
            <Text>
              {t.groupsAre(account.groups === null ? t.allGroups : account.groups.join(", ") || t.noGroups)}{" "}
              <PageLink to="/models" search={{ view: "groups" }} underline="always">
                {t.seeGroups}
              </PageLink>
            </Text>
            <Group gap="md">
              <PageLink to="/keys" search={{ account: id }}>
                {t.keys}
              </PageLink>
              <PageLink to="/usage" search={{ account: id }}>
                {t.usage}
              </PageLink>
              {isOwner && (
                <PageLink to="/audit" search={{ account: id }}>
                  {t.audit}
                </PageLink>
              )}
            </Group>
            <Members account={id} canManage={isOwner} />
            {isOwner && <Invitations account={id} />}
            <ContentStorage account={account} etag={etag} canManage={isOwner} />
            <Alerts account={id} />
            {dialog === "rename" && (
              <FormDialog title={t.rename} submit={t.save} onClose={close} onSubmit={() => update({ name })}>
                <NameField data-autofocus value={name} onChange={setName} />
              </FormDialog>
            )}
            {dialog === "groups" && (
              <GroupsForm
                name={account.name}
                groups={account.groups}
                onClose={close}
                onSubmit={(groups) => update({ groups })}
              />
            )}
            {dialog === "disable" && (
              <ConfirmDialog
                title={t.disableTitle(account.name)}
                submit={t.disable}
                consequence={t.disableWhy}
                onClose={close}
                onSubmit={() => update({ isDisabled: true })}
              />
            )}
          </Page>
        );
      }}
    </Loaded>
  );
}

function GroupsForm({
  name,
  groups,
  onClose,
  onSubmit,
}: {
  name: string;
  /** Null for all. */
  groups: readonly string[] | null;
  onClose(): void;
  onSubmit(groups: string[] | null): Promise<void>;
}) {
  const t = useAccountTexts();
  const catalogue = useRead("readCatalogue").data;
  const [isAll, setIsAll] = useState(groups === null);
  const [chosen, setChosen] = useState<string[]>([...(groups ?? [])]);
  const known = [...new Set([...(catalogue?.groups.map((group) => group.name) ?? []), ...chosen])];
  return (
    <FormDialog
      title={t.groupsTitle(name)}
      submit={t.save}
      onClose={onClose}
      onSubmit={() => onSubmit(isAll ? null : chosen)}
    >
      <Text>{t.groupsHelp}</Text>
      <Switch
        label={t.allGroups}
        checked={isAll}
        data-autofocus
        onChange={({ currentTarget }) => setIsAll(currentTarget.checked)}
      />
      <MultiSelect
        label={t.groups}
        data={known}
        value={isAll ? [] : chosen}
        onChange={setChosen}
        disabled={isAll}
        searchable
        clearable
        clearButtonProps={{ "aria-label": `${t.groups} ×` }}
      />
    </FormDialog>
  );
}

type Member = Item<"listMembers">;

function Members({ account, canManage }: { account: string; canManage: boolean }) {
  const t = useAccountTexts();
  const format = useFormats();
  const members = useList("listMembers", { params: { account } });
  const [removing, setRemoving] = useState<Member>();
  const [changing, setChanging] = useState<Member>();
  const [role, setRole] = useState<Role>("reader");
  const [isInviting, setIsInviting] = useState(false);
  const [invited, setInvited] = useState<Answer<"createInvitation">>();
  const columns: Column<Member>[] = [
    {
      id: "name",
      title: t.name,
      sortBy: ({ name }) => name,
      cell: ({ name, email }) => (
        <>
          {name}{" "}
          <Text span c="dimmed">
            {email}
          </Text>
        </>
      ),
    },
    { id: "role", title: t.role, sortBy: (member) => roles.indexOf(member.role), cell: (member) => t[member.role] },
    { id: "factor", title: t.secondFactor, cell: ({ hasSecondFactor }) => (hasSecondFactor ? t.on : t.off) },
    {
      id: "since",
      title: t.since,
      sortBy: ({ createdAt }) => createdAt,
      cell: ({ createdAt }) => format.day(createdAt),
    },
    ...(canManage
      ? [
          {
            id: "actions",
            title: "",
            cell: (member: Member) => (
              <Group gap={4} justify="flex-end" wrap="nowrap">
                <Button
                  size="compact-xs"
                  variant="subtle"
                  onClick={() => {
                    setRole(member.role);
                    setChanging(member);
                  }}
                >
                  {t.role}
                </Button>
                <Button size="compact-xs" variant="subtle" color="red" onClick={() => setRemoving(member)}>
                  {t.remove}
                </Button>
              </Group>
            ),
          },
        ]
      : []),
  ];
  return (
    <Stack gap="xs">
      <Group justify="space-between">
        <Title order={2}>{t.members}</Title>
        {canManage && (
          <Button size="xs" onClick={() => setIsInviting(true)}>
            {t.invite}
          </Button>
        )}
      </Group>
      <ListTable
        from={members}
        waitingRows={3}
        label={t.members}
        columns={columns}
        rowId={({ user }) => user}
        empty={<Empty title={t.noMembers} />}
      />
      {changing && (
        <FormDialog
          title={t.changeRole(changing.name)}
          submit={t.save}
          onClose={() => setChanging(undefined)}
          onSubmit={async () => {
            await call("updateMember", { params: { account, user: changing.user }, body: { role } });
            await queryClient.invalidateQueries();
          }}
        >
          <RoleSelect value={role} onChange={setRole} />
        </FormDialog>
      )}
      {removing && (
        <ConfirmDialog
          title={t.removeTitle(removing.name)}
          submit={t.remove}
          consequence={t.removeWhy}
          onClose={() => setRemoving(undefined)}
          onSubmit={async () => {
            await call("removeMember", { params: { account, user: removing.user } });
            await queryClient.invalidateQueries();
          }}
        />
      )}
      {isInviting && <InviteForm account={account} onClose={() => setIsInviting(false)} onCreated={setInvited} />}
      {invited && (
        <SecretDialog
          title={invited.url === null ? t.sentTitle : t.linkTitle}
          done={t.done}
          onClose={() => setInvited(undefined)}
        >
          <Text>{(invited.url === null ? t.sent : t.linkWhy)(format.time(invited.expiresAt))}</Text>
          {invited.url !== null && <CopyText value={invited.url} />}
        </SecretDialog>
      )}
    </Stack>
  );
}

function RoleSelect({ value, onChange }: { value: Role; onChange(role: Role): void }) {
  const t = useAccountTexts();
  return (
    <Select
      label={t.role}
      description={t[`${value}Help`]}
      data={roles.map((role) => ({ value: role, label: t[role] }))}
      value={value}
      onChange={(role) => role && onChange(role as Role)}
      allowDeselect={false}
    />
  );
}

function InviteForm({
  account,
  onClose,
  onCreated,
}: {
  account: string;
  onClose(): void;
  onCreated(invitation: Answer<"createInvitation">): void;
}) {
  const t = useAccountTexts();
  const [role, setRole] = useState<Role>("member");
  const [email, setEmail] = useState("");
  return (
    <FormDialog
      title={t.inviteTitle}
      submit={t.invite}
      onClose={onClose}
      onSubmit={async () => {
        onCreated(
          await call("createInvitation", { params: { account }, body: { role, ...(email !== "" && { email }) } }),
        );
        await queryClient.invalidateQueries();
      }}
    >
      <RoleSelect value={role} onChange={setRole} />
      <EmailField description={t.emailHelp} data-autofocus value={email} onChange={setEmail} />
    </FormDialog>
  );
}

function Invitations({ account }: { account: string }) {
  const t = useAccountTexts();
  const format = useFormats();
  const invitations = useList("listInvitations", { params: { account } });
  const open = invitations.data?.filter(({ state }) => state === "open") ?? [];
  if (open.length === 0) return null;
  const columns: Column<Item<"listInvitations">>[] = [
    { id: "email", title: t.email, cell: ({ email }) => email ?? t.anyone },
    { id: "role", title: t.role, cell: ({ role }) => t[role] },
    { id: "expires", title: t.expires, cell: ({ expiresAt }) => format.time(expiresAt) },
    {
      id: "revoke",
      title: "",
      isNumber: true,
      cell: ({ id }) => (
        <Button
          size="compact-xs"
          variant="subtle"
          color="red"
          onClick={() =>
            void call("revokeInvitation", { params: { account, invitation: id } }).then(() =>
              queryClient.invalidateQueries(),
            )
          }
        >
          {t.revoke}
        </Button>
      ),
    },
  ];
  return (
    <Stack gap="xs">
      <Title order={2}>{t.invitations}</Title>
      <DataTable label={t.invitations} columns={columns} rows={open} rowId={({ id }) => id} empty={null} />
    </Stack>
  );
}

function Alerts({ account }: { account: string }) {
  const t = useAccountTexts();
  const format = useFormats();
  const alerts = useList("listAlerts", { query: { account } });
  const columns: Column<Item<"listAlerts">>[] = [
    { id: "at", title: t.at, cell: ({ at }) => format.time(at) },
    {
      id: "kind",
      title: t.kind,
      cell: ({ kind }) => (
        <Badge variant="light" radius="sm" tt="none" color={kind === "budget.spent" ? "red" : "yellow"}>
          {t.kinds[kind]}
        </Badge>
      ),
    },
    {
      id: "subject",
      title: t.subject,
      cell: ({ subject, detail }) => `${subject}${detail.name ? ` (${String(detail.name)})` : ""}`,
    },
  ];
  return (
    <Stack gap="xs">
      <Title order={2}>{t.alerts}</Title>
      <ListTable
        from={alerts}
        waitingRows={2}
        label={t.alerts}
        columns={columns}
        rowId={({ id }) => id}
        empty={<Empty title={t.noAlerts}>{t.noAlertsWhy}</Empty>}
      />
    </Stack>
  );
}
