/** One account: its members, invitations and alerts. */
import { Badge, Button, Group, MultiSelect, Select, Stack, Switch, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useState } from "react";
import { type Answer, call, callVersioned, type Input } from "../app/call.ts";
import { translated, useFormats, useTexts } from "../app/language.tsx";
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
import { ContentStorage } from "./content-storage.tsx";

const texts = translated({
  en: {
    rename: "Rename",
    groups: "Groups",
    groupsTitle: (name: string) => `Groups of ${name}`,
    groupsHelp: "Members may give these groups to keys of the account. Keys that have another group keep it.",
    allGroups: "All groups, also those to come",
    groupsAre: (names: string) => `Groups: ${names}`,
    noGroups: "None",
    seeGroups: "Models of the groups",
    disable: "Disable",
    enable: "Enable",
    disabled: "Disabled: its keys are refused",
    disableTitle: (name: string) => `Disable ${name}?`,
    disableWhy: "Its keys get status 401 within a second. Enabling the account makes them valid again.",
    keys: "Keys",
    usage: "Usage",
    audit: "Audit log",
    members: "Members",
    invite: "Invite",
    inviteTitle: "Invite somebody",
    email: "E-mail address",
    emailHelp: "Only the user with this address may accept. Empty: whoever has the link.",
    role: "Role",
    owner: "Owner",
    member: "Member",
    reader: "Reader",
    ownerHelp: "Also invites and removes people, and reads the audit log.",
    memberHelp: "Also creates, changes and revokes keys.",
    readerHelp: "Sees keys, usage and members.",
    name: "Name",
    since: "Since",
    secondFactor: "Second factor",
    on: "On",
    off: "Off",
    remove: "Remove",
    removeTitle: (name: string) => `Remove ${name}?`,
    removeWhy: "The person can no longer see or change anything in this account. Keys stay valid.",
    linkTitle: "Send this link",
    linkWhy: (hours: string) => `It is shown only here, works for one person, and is valid until ${hours}.`,
    sentTitle: "The invitation was sent",
    sent: (hours: string) =>
      `The link went by mail and is shown to nobody else. It works for one person, and is valid until ${hours}.`,
    done: "Done",
    invitations: "Open invitations",
    anyone: "Anyone with the link",
    expires: "Valid until",
    revoke: "Revoke",
    noMembers: "Nobody belongs to this account yet",
    alerts: "Alerts",
    noAlerts: "No alerts",
    noAlertsWhy: "An alert is raised when 80 % or all of a budget are spent, and before a key expires.",
    kinds: {
      "budget.share": "80 % of a budget are spent",
      "budget.spent": "A budget is spent",
      "key.expiring": "A key expires soon",
      "key.revoked": "A key was revoked",
    },
    at: "Time",
    kind: "Alert",
    subject: "Concerns",
    save: "Save",
    changeRole: (name: string) => `Role of ${name}`,
  },
  zh: {
    rename: "重命名",
    groups: "分组",
    groupsTitle: (name: string) => `${name} 的分组`,
    groupsHelp: "成员可以将这些分组赋予账户的密钥。已有其他分组的密钥保持不变。",
    allGroups: "全部分组，包括以后新增的",
    groupsAre: (names: string) => `分组：${names}`,
    noGroups: "无",
    seeGroups: "各分组的模型",
    disable: "停用",
    enable: "启用",
    disabled: "已停用：其密钥会被拒绝",
    disableTitle: (name: string) => `停用 ${name}？`,
    disableWhy: "其密钥会在一秒内收到 401。重新启用账户后，密钥恢复有效。",
    keys: "密钥",
    usage: "用量",
    audit: "审计日志",
    members: "成员",
    invite: "邀请",
    inviteTitle: "邀请成员",
    email: "电子邮件地址",
    emailHelp: "只有使用该地址的用户可以接受。留空则任何持有链接的人均可接受。",
    role: "角色",
    owner: "所有者",
    member: "成员",
    reader: "只读成员",
    ownerHelp: "还可以邀请和移除人员，并查看审计日志。",
    memberHelp: "还可以创建、修改和吊销密钥。",
    readerHelp: "查看密钥、用量和成员。",
    name: "名称",
    since: "加入时间",
    secondFactor: "双重验证",
    on: "已开启",
    off: "未开启",
    remove: "移除",
    removeTitle: (name: string) => `移除 ${name}？`,
    removeWhy: "此人将无法再查看或修改此账户的任何内容。密钥仍然有效。",
    linkTitle: "请发送此链接",
    linkWhy: (hours: string) => `链接仅在此显示一次，仅限一人使用，有效期至 ${hours}。`,
    sentTitle: "邀请已发送",
    sent: (hours: string) => `链接已通过邮件发送，不会向其他人显示。仅限一人使用，有效期至 ${hours}。`,
    done: "完成",
    invitations: "待接受的邀请",
    anyone: "任何持有链接的人",
    expires: "有效期至",
    revoke: "撤销",
    noMembers: "此账户还没有成员",
    alerts: "告警",
    noAlerts: "没有告警",
    noAlertsWhy: "预算用到 80 % 或用完时，以及密钥即将过期时，会产生告警。",
    kinds: {
      "budget.share": "预算已用 80 %",
      "budget.spent": "预算已用完",
      "key.expiring": "密钥即将过期",
      "key.revoked": "密钥已吊销",
    },
    at: "时间",
    kind: "告警",
    subject: "对象",
    save: "保存",
    changeRole: (name: string) => `${name} 的角色`,
  },
});

const route = getRouteApi("/inside/accounts/$account");
const roles = ["reader", "member", "owner"] as const satisfies Role[];

export function Account() {
  const t = useTexts(texts);
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
  const t = useTexts(texts);
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
  const t = useTexts(texts);
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
  const t = useTexts(texts);
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
  const t = useTexts(texts);
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
  const t = useTexts(texts);
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
  const t = useTexts(texts);
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
