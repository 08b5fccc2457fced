/** All users and operator tokens, for operators. */
import { Badge, Button, Text, TextInput } from "@mantine/core";
import { useDebouncedValue, useInputState } from "@mantine/hooks";
import { call } from "../app/call.ts";
import { useFormats } from "../app/language.tsx";
import { type Item, useList } from "../app/queries.ts";
import { useMe } from "../app/session.ts";
import { CopyText } from "../parts/copy.tsx";
import { ConfirmDialog, FormDialog, openDialog, SecretDialog } from "../parts/dialogs.tsx";
import { Person } from "../parts/facts.tsx";
import { NameField, TagsField } from "../parts/form.tsx";
import { Empty, Page, Section } from "../parts/page.tsx";
import { ListTable, RowButton, useColumns } from "../parts/table.tsx";
import { usePeopleTexts } from "./people.texts.ts";

type User = Item<"listUsers">;

export function People() {
  const t = usePeopleTexts();
  const [text, setText] = useInputState("");
  const [search] = useDebouncedValue(text, 250);
  return (
    <Page title={t.people} about={t.about}>
      <TextInput aria-label={t.search} placeholder={t.search} value={text} onChange={setText} maw={280} />
      <ListTable
        from={useList("listUsers", { query: { search } })}
        label={t.people}
        columns={useUserColumns()}
        minWidth={980}
        empty={<Empty title={t.none} />}
      />
      <Tokens />
    </Page>
  );
}

function useUserColumns() {
  const t = usePeopleTexts();
  const format = useFormats();
  const me = useMe();
  const c = useColumns<User>();
  const showLink = async ({ id, name }: User) => {
    const { url, expiresAt } = await call("createSignInLink", { body: { user: id } });
    openDialog(
      <SecretDialog title={t.linkTitle} done={t.done}>
        <Text>{t.linkWhy(name, format.time(expiresAt))}</Text>
        <CopyText value={url} />
      </SecretDialog>,
    );
  };
  return [
    c.cell("name", t.name, Person, { sortBy: ({ name }) => name }),
    c.cell("rights", t.rights, ({ isOperator }) => isOperator && <Badge>{t.operator}</Badge>),
    c.cell("factor", t.secondFactor, ({ hasSecondFactor }) => (hasSecondFactor ? t.on : t.off)),
    c.day("createdAt", t.since),
    c.actions((user) => {
      const question = user.isOperator ? "demote" : "promote";
      return (
        <>
          <RowButton onClick={() => void showLink(user)}>{t.link}</RowButton>
          <RowButton onClick={() => openDialog(<UserQuestion question="end" user={user} />)}>{t.endSessions}</RowButton>
          <RowButton onClick={() => openDialog(<UserQuestion question={question} user={user} />)}>
            {t[question]}
          </RowButton>
          {user.id !== me.id && (
            <RowButton isDestructive onClick={() => openDialog(<UserQuestion question="remove" user={user} />)}>
              {t.remove}
            </RowButton>
          )}
        </>
      );
    }),
  ];
}

function UserQuestion({ question, user }: { question: "promote" | "demote" | "end" | "remove"; user: User }) {
  const t = usePeopleTexts();
  const params = { user: user.id };
  return (
    <ConfirmDialog
      title={t[`${question}Title`](user.name)}
      submit={question === "end" ? t.endSessions : t[question]}
      consequence={t[`${question}Why`]}
      onSubmit={() =>
        question === "end"
          ? call("endUserSessions", { params })
          : question === "remove"
            ? call("removeUser", { params })
            : call("updateUser", { params, body: { isOperator: question === "promote" } })
      }
    />
  );
}

type Token = Item<"listTokens">;

function Tokens() {
  const t = usePeopleTexts();
  const c = useColumns<Token>();
  const revoke = ({ id, name }: Token) => (
    <ConfirmDialog
      title={t.revokeTitle(name)}
      submit={t.revoke}
      consequence={t.revokeWhy}
      onSubmit={() => call("revokeToken", { params: { token: id } })}
    />
  );
  const columns = [
    c.text("name", t.name),
    c.cell("hint", t.ends, ({ hint }) => `…${hint}`),
    c.cell("scopes", t.scopes, ({ scopes }) => scopes.join(", ")),
    c.ago("lastUsedAt", t.lastUsed, t.never),
    c.actions((token) =>
      token.revokedAt === null ? (
        <RowButton isDestructive onClick={() => openDialog(revoke(token))}>
          {t.revoke}
        </RowButton>
      ) : (
        t.revoked
      ),
    ),
  ];
  return (
    <Section
      title={t.tokens}
      aside={
        <Button size="xs" onClick={() => openDialog(<TokenForm />)}>
          {t.createToken}
        </Button>
      }
    >
      <ListTable
        from={useList("listTokens")}
        waitingRows={2}
        label={t.tokens}
        columns={columns}
        empty={<Empty title={t.noTokens}>{t.tokensAbout}</Empty>}
      />
    </Section>
  );
}

function TokenForm() {
  const t = usePeopleTexts();
  return (
    <FormDialog
      title={t.createToken}
      submit={t.createToken}
      initialValues={{ name: "", scopes: ["get*", "list*", "sumUsage"] }}
      onSubmit={async (body) => {
        const { token } = await call("createToken", { body });
        openDialog(
          <SecretDialog title={t.tokenTitle} done={t.done}>
            <Text>{t.tokenWhy}</Text>
            <CopyText value={token} />
          </SecretDialog>,
        );
      }}
    >
      <NameField data-autofocus />
      <TagsField name="scopes" label={t.scopes} description={t.scopesHelp} />
    </FormDialog>
  );
}
