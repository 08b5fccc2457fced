/** All users and operator tokens, for operators. */
import { Badge, Button, Group, Stack, TagsInput, Text, TextInput, Title } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useState } from "react";
import { type Answer, call } from "../app/call.ts";
import { useFormats } from "../app/language.tsx";
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
import { usePeopleTexts } from "./people.texts.ts";

type User = Item<"listUsers">;
type Question = "promote" | "demote" | "end" | "remove";

export function People() {
  const t = usePeopleTexts();
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
    <Page title={t.people} about={t.about}>
      <TextInput
        aria-label={t.search}
        placeholder={t.search}
        value={typed}
        onChange={({ currentTarget }) => setTyped(currentTarget.value)}
        maw={280}
      />
      <ListTable
        from={users}
        label={t.people}
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
  const t = usePeopleTexts();
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
  const t = usePeopleTexts();
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
