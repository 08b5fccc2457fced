/** All users and operator tokens, for operators. */
import { Badge, Button, Group, Stack, TagsInput, Text, TextInput, Title } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useState } from "react";
import { type Answer, call } from "../app/call.ts";
import { translated, useFormats, useTexts } from "../app/language.tsx";
import { type Item, useList } from "../app/pages.ts";
import { queryClient } from "../app/queries.ts";
import { useMe } from "../app/session.ts";
import { CopyText } from "../parts/copy.tsx";
import type { Column } from "../parts/data-table.tsx";
import { ConfirmDialog, FormDialog, SecretDialog } from "../parts/dialogs.tsx";
import { NameField } from "../parts/fields.tsx";
import { Field } from "../parts/form.tsx";
import { ListTable } from "../parts/list-table.tsx";
import { Page } from "../parts/page.tsx";
import { Empty } from "../parts/states.tsx";

const texts = translated({
  en: {
    title: "People",
    about: "Everybody who can sign in. Invite people from the page of an account.",
    search: "Search by name or address",
    name: "Name",
    rights: "Rights",
    operator: "Operator",
    secondFactor: "Second factor",
    on: "On",
    off: "Off",
    since: "Since",
    promote: "Make operator",
    demote: "Remove operator rights",
    promoteTitle: (name: string) => `Make ${name} an operator?`,
    promoteWhy: "An operator sees and changes everything in every account.",
    demoteTitle: (name: string) => `Remove ${name}'s operator rights?`,
    demoteWhy: "The person keeps only the roles in accounts.",
    link: "Sign-in link",
    linkTitle: "A link that signs in once",
    linkWhy: (name: string, time: string) =>
      `Whoever opens it first is signed in as ${name}, without password and second factor. It is valid until ${time}.`,
    endSessions: "End sessions",
    endTitle: (name: string) => `End all sessions of ${name}?`,
    endWhy: "The person must sign in again on every device.",
    remove: "Remove",
    removeTitle: (name: string) => `Remove ${name}?`,
    removeWhy: "Sessions and memberships are removed. The audit log keeps the name. This cannot be undone.",
    done: "Done",
    none: "Nobody matches",
    tokens: "Operator tokens",
    tokensAbout: "For machines: scripts, exporters, deployments.",
    createToken: "Create token",
    scopes: "Operations",
    scopesHelp: "Names of operations, or prefixes that end with *, such as list*. A single * allows everything.",
    ends: "Token",
    lastUsed: "Last used",
    never: "Never",
    revoked: "Revoked",
    revoke: "Revoke",
    revokeTitle: (name: string) => `Revoke ${name}?`,
    revokeWhy: "Machines with this token are refused at once. This cannot be undone.",
    tokenTitle: "Copy the token now",
    tokenWhy: "It is shown only here.",
    noTokens: "No operator tokens",
  },
  zh: {
    title: "人员",
    about: "所有可以登录的人。请在账户页面邀请人员。",
    search: "按名称或地址搜索",
    name: "名称",
    rights: "权限",
    operator: "运维人员",
    secondFactor: "双重验证",
    on: "已开启",
    off: "未开启",
    since: "加入时间",
    promote: "设为运维人员",
    demote: "取消运维权限",
    promoteTitle: (name: string) => `将 ${name} 设为运维人员？`,
    promoteWhy: "运维人员可以查看和修改所有账户的全部内容。",
    demoteTitle: (name: string) => `取消 ${name} 的运维权限？`,
    demoteWhy: "此人仅保留其在各账户中的角色。",
    link: "登录链接",
    linkTitle: "一次性登录链接",
    linkWhy: (name: string, time: string) =>
      `首个打开链接的人将以 ${name} 的身份登录，无需密码和双重验证。有效期至 ${time}。`,
    endSessions: "结束会话",
    endTitle: (name: string) => `结束 ${name} 的全部会话？`,
    endWhy: "此人必须在每台设备上重新登录。",
    remove: "移除",
    removeTitle: (name: string) => `移除 ${name}？`,
    removeWhy: "其会话和成员资格会被移除，审计日志会保留其名称。此操作无法撤销。",
    done: "完成",
    none: "没有匹配的人员",
    tokens: "运维令牌",
    tokensAbout: "供机器使用：脚本、导出程序、部署流程。",
    createToken: "创建令牌",
    scopes: "操作",
    scopesHelp: "操作名称，或以 * 结尾的前缀，例如 list*。单独一个 * 表示全部允许。",
    ends: "令牌",
    lastUsed: "最近使用",
    never: "从未",
    revoked: "已吊销",
    revoke: "吊销",
    revokeTitle: (name: string) => `吊销 ${name}？`,
    revokeWhy: "使用此令牌的机器会立即被拒绝。此操作无法撤销。",
    tokenTitle: "请立即复制令牌",
    tokenWhy: "令牌仅在此显示一次。",
    noTokens: "没有运维令牌",
  },
});

type User = Item<"listUsers">;
type Question = "promote" | "demote" | "end" | "remove";

export function People() {
  const t = useTexts(texts);
  const format = useFormats();
  const me = useMe();
  const [typed, setTyped] = useState("");
  const [search] = useDebouncedValue(typed, 250);
  const users = useList("listUsers", { query: { ...(search !== "" && { search }) } });
  const [asked, setAsked] = useState<{ question: Question; user: User }>();
  const [link, setLink] = useState<Answer<"createSignInLink"> & { name: string }>();
  const ask = (question: Question, user: User) => () => setAsked({ question, user });
  const columns: Column<User>[] = [
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
    {
      id: "rights",
      title: t.rights,
      cell: ({ isOperator }) =>
        isOperator ? (
          <Badge variant="light" radius="sm" tt="none">
            {t.operator}
          </Badge>
        ) : null,
    },
    { id: "factor", title: t.secondFactor, cell: ({ hasSecondFactor }) => (hasSecondFactor ? t.on : t.off) },
    {
      id: "since",
      title: t.since,
      sortBy: ({ createdAt }) => createdAt,
      cell: ({ createdAt }) => format.day(createdAt),
    },
    {
      id: "actions",
      title: "",
      cell: (user) => (
        <Group gap={4} justify="flex-end" wrap="nowrap">
          <Button
            size="compact-xs"
            variant="subtle"
            onClick={() =>
              void call("createSignInLink", { body: { user: user.id } }).then((made) =>
                setLink({ ...made, name: user.name }),
              )
            }
          >
            {t.link}
          </Button>
          <Button size="compact-xs" variant="subtle" onClick={ask("end", user)}>
            {t.endSessions}
          </Button>
          <Button size="compact-xs" variant="subtle" onClick={ask(user.isOperator ? "demote" : "promote", user)}>
            {user.isOperator ? t.demote : t.promote}
          </Button>
          {user.id !== me.id && (
            <Button size="compact-xs" variant="subtle" color="red" onClick={ask("remove", user)}>
              {t.remove}
            </Button>
          )}
        </Group>
      ),
    },
  ];
  return (
    <Page title={t.title} about={t.about}>
      <TextInput
        aria-label={t.search}
        placeholder={t.search}
        value={typed}
        onChange={({ currentTarget }) => setTyped(currentTarget.value)}
        maw={280}
      />
      <ListTable
        from={users}
        label={t.title}
        columns={columns}
        rowId={({ id }) => id}
        minWidth={980}
        empty={<Empty title={t.none} />}
      />
      <Tokens />
      {asked && <UserQuestion {...asked} onClose={() => setAsked(undefined)} />}
      {link && (
        <SecretDialog title={t.linkTitle} done={t.done} onClose={() => setLink(undefined)}>
          <Text>{t.linkWhy(link.name, format.time(link.expiresAt))}</Text>
          <CopyText value={link.url} />
        </SecretDialog>
      )}
    </Page>
  );
}

function UserQuestion({ question, user, onClose }: { question: Question; user: User; onClose(): void }) {
  const t = useTexts(texts);
  const params = { user: user.id };
  const asked = {
    promote: [
      t.promoteTitle(user.name),
      t.promote,
      t.promoteWhy,
      () => call("updateUser", { params, body: { isOperator: true } }),
    ],
    demote: [
      t.demoteTitle(user.name),
      t.demote,
      t.demoteWhy,
      () => call("updateUser", { params, body: { isOperator: false } }),
    ],
    end: [t.endTitle(user.name), t.endSessions, t.endWhy, () => call("endUserSessions", { params })],
    remove: [t.removeTitle(user.name), t.remove, t.removeWhy, () => call("removeUser", { params })],
  } as const;
  const [title, submit, consequence, change] = asked[question];
  return (
    <ConfirmDialog
      title={title}
      submit={submit}
      consequence={consequence}
      onClose={onClose}
      onSubmit={async () => {
        await change();
        await queryClient.invalidateQueries();
      }}
    />
  );
}

type Token = Item<"listTokens">;

function Tokens() {
  const t = useTexts(texts);
  const format = useFormats();
  const tokens = useList("listTokens");
  const [isCreating, setIsCreating] = useState(false);
  const [name, setName] = useState("");
  const [scopes, setScopes] = useState<string[]>(["get*", "list*", "sumUsage"]);
  const [created, setCreated] = useState<Answer<"createToken">>();
  const [revoking, setRevoking] = useState<Token>();
  const columns: Column<Token>[] = [
    { id: "name", title: t.name, sortBy: (token) => token.name, cell: (token) => token.name },
    { id: "hint", title: t.ends, cell: ({ hint }) => `…${hint}` },
    { id: "scopes", title: t.scopes, cell: (token) => token.scopes.join(", ") },
    {
      id: "used",
      title: t.lastUsed,
      cell: ({ lastUsedAt }) => (lastUsedAt === null ? t.never : format.ago(lastUsedAt)),
    },
    {
      id: "revoke",
      title: "",
      isNumber: true,
      cell: (token) =>
        token.revokedAt === null ? (
          <Button size="compact-xs" variant="subtle" color="red" onClick={() => setRevoking(token)}>
            {t.revoke}
          </Button>
        ) : (
          t.revoked
        ),
    },
  ];
  return (
    <Stack gap="xs">
      <Group justify="space-between">
        <Title order={2}>{t.tokens}</Title>
        <Button size="xs" onClick={() => setIsCreating(true)}>
          {t.createToken}
        </Button>
      </Group>
      <ListTable
        from={tokens}
        waitingRows={2}
        label={t.tokens}
        columns={columns}
        rowId={({ id }) => id}
        empty={<Empty title={t.noTokens}>{t.tokensAbout}</Empty>}
      />
      {isCreating && (
        <FormDialog
          title={t.createToken}
          submit={t.createToken}
          onClose={() => setIsCreating(false)}
          onSubmit={async () => {
            setCreated(await call("createToken", { body: { name, scopes } }));
            await queryClient.invalidateQueries();
          }}
        >
          <NameField data-autofocus value={name} onChange={setName} />
          <Field name="scopes">
            <TagsInput label={t.scopes} description={t.scopesHelp} value={scopes} onChange={setScopes} />
          </Field>
        </FormDialog>
      )}
      {created && (
        <SecretDialog title={t.tokenTitle} done={t.done} onClose={() => setCreated(undefined)}>
          <Text>{t.tokenWhy}</Text>
          <CopyText value={created.token} />
        </SecretDialog>
      )}
      {revoking && (
        <ConfirmDialog
          title={t.revokeTitle(revoking.name)}
          submit={t.revoke}
          consequence={t.revokeWhy}
          onClose={() => setRevoking(undefined)}
          onSubmit={async () => {
            await call("revokeToken", { params: { token: revoking.id } });
            await queryClient.invalidateQueries();
          }}
        />
      )}
    </Stack>
  );
}
