/** The stored credentials of upstreams. A value goes in and is never shown. */
import { Button, Stack, Text } from "@mantine/core";
import { useMemo } from "react";
import { type Answer, call } from "../app/call.ts";
import { useRead } from "../app/queries.ts";
import { ConfirmDialog, FormDialog, openDialog } from "../parts/dialogs.tsx";
import { Cut } from "../parts/facts.tsx";
import { NumberField, PasswordField, TextField } from "../parts/form.tsx";
import { Empty, Loaded } from "../parts/page.tsx";
import { DataTable, RowButton, StateCell, useColumns } from "../parts/table.tsx";
import { useCredentialsTabTexts } from "./credentials-tab.texts.ts";

type Credential = Answer<"listCredentials">["items"][number];

const everyMs = 10_000;
const overlapHoursMax = 720;

export function CredentialsTab({ isReadOnly }: { isReadOnly: boolean }) {
  const t = useCredentialsTabTexts();
  const columns = useCredentialColumns();
  return (
    <Stack gap="md">
      <Text c="dimmed">{t.about}</Text>
      {!isReadOnly && (
        <Button style={{ alignSelf: "flex-start" }} onClick={() => openDialog(<CredentialForm />)}>
          {t.add}
        </Button>
      )}
      <Loaded from={useRead("listCredentials", {}, { everyMs })}>
        {({ items }) => (
          <DataTable
            label={t.add}
            columns={columns}
            rows={items}
            rowId="name"
            minWidth={820}
            empty={<Empty title={t.none}>{t.noneWhy}</Empty>}
          />
        )}
      </Loaded>
    </Stack>
  );
}

function useCredentialColumns() {
  const t = useCredentialsTabTexts();
  const c = useColumns<Credential>();
  return useMemo(() => {
    const remove = ({ name }: Credential) => (
      <ConfirmDialog
        title={t.removeTitle(name)}
        submit={t.remove}
        consequence={t.removeWhy}
        onSubmit={() => call("deleteCredential", { params: { credential: name } })}
      />
    );
    return [
      c.cell("name", t.name, ({ name }) => <Text fw={500}>{name}</Text>, { sortBy: ({ name }) => name }),
      c.cell("hint", t.hint, ({ hint }) => (hint === "" ? "–" : `…${hint}`)),
      c.cell("state", t.state, ({ state, problem }) =>
        problem === null ? (
          <StateCell color={state === "usable" ? "teal" : "red"}>{t[state]}</StateCell>
        ) : (
          <StateCell color="red">
            <Cut width={260}>{problem}</Cut>
          </StateCell>
        ),
      ),
      c.cell("usedBy", t.usedBy, ({ usedBy }) => <Cut width={220}>{usedBy.join(", ") || t.nobody}</Cut>),
      c.ago("updatedAt", t.updated),
      c.cell("overlapUntil", t.overlap, ({ overlapUntil }) => c.format.until(overlapUntil)),
      c.actions((credential) => (
        <>
          <RowButton
            label={`${t.replace} ${credential.name}`}
            onClick={() => openDialog(<CredentialForm name={credential.name} />)}
          >
            {t.replace}
          </RowButton>
          {credential.usedBy.length === 0 && (
            <RowButton
              label={`${t.remove} ${credential.name}`}
              isDestructive
              onClick={() => openDialog(remove(credential))}
            >
              {t.remove}
            </RowButton>
          )}
        </>
      )),
    ];
  }, [t, c]);
}

/** Stores a new credential, or another value of one. */
function CredentialForm({ name }: { name?: string }) {
  const t = useCredentialsTabTexts();
  return (
    <FormDialog
      title={name === undefined ? t.add : t.replaceTitle(name)}
      submit={name === undefined ? t.add : t.replace}
      initialValues={{ credential: name ?? "", value: "", overlapSeconds: 0 as string | number }}
      onSubmit={({ credential, value, overlapSeconds: hours }) =>
        call("putCredential", {
          params: { credential },
          body: {
            value: value.trim(),
            ...(name !== undefined && { overlapSeconds: Math.round(Number(hours) * 3_600) }),
          },
        })
      }
    >
      {name === undefined ? (
        <TextField name="credential" label={t.name} required maxLength={40} data-autofocus />
      ) : (
        <Text>{t.replaceWhy}</Text>
      )}
      <PasswordField
        name="value"
        label={name === undefined ? t.valueOf : t.value}
        autoComplete="new-password"
        required
        {...(name !== undefined && { "data-autofocus": true })}
      />
      {name !== undefined && (
        <NumberField
          name="overlapSeconds"
          label={t.overlapHours}
          description={t.overlapHelp}
          required
          min={0}
          max={overlapHoursMax}
        />
      )}
    </FormDialog>
  );
}
