/** The person who is signed in: name, password, second factor, sessions. */
import { Alert, Badge, Button, Code, Group, Image, Paper, Stack, Text, TextInput, Title } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { type ReactNode, useState } from "react";
import { renderSVG } from "uqr";
import { call, callAuth } from "../app/call.ts";
import { useFormats } from "../app/language.tsx";
import { type Item, useList } from "../app/pages.ts";
import { queryClient } from "../app/queries.ts";
import { signOut, useMe } from "../app/session.ts";
import { CopyText } from "../parts/copy.tsx";
import { type Column, Cut } from "../parts/data-table.tsx";
import { FormDialog, SecretDialog } from "../parts/dialogs.tsx";
import { EmailField, NameField, NewPasswordField } from "../parts/fields.tsx";
import { Field, Form } from "../parts/form.tsx";
import { ListTable } from "../parts/list-table.tsx";
import { Page } from "../parts/page.tsx";
import { PasswordField } from "../parts/password-field.tsx";
import { useMeTexts } from "./me.texts.ts";

export function Me() {
  const t = useMeTexts();
  return (
    <Page
      title={t.profile}
      actions={
        <Button variant="default" onClick={() => void signOut()}>
          {t.signOut}
        </Button>
      }
    >
      <Section title={t.person}>
        <PersonForm />
      </Section>
      <Section title={t.password}>
        <PasswordForm />
      </Section>
      <Section title={t.secondFactor}>
        <SecondFactor />
      </Section>
      <Sessions />
    </Page>
  );
}

const Section = ({ title, children }: { title: string; children: ReactNode }) => (
  <Stack gap="xs">
    <Title order={2}>{title}</Title>
    <Paper withBorder p="md" maw={560}>
      {children}
    </Paper>
  </Stack>
);

/** A form that stays: says when its change is done. */
function StayingForm({
  change,
  done,
  submit,
  isUnchanged = false,
  children,
}: {
  change(): Promise<unknown>;
  done: string;
  submit: string;
  isUnchanged?: boolean;
  children: ReactNode;
}) {
  const send = async () => {
    await change();
    await queryClient.invalidateQueries();
    notifications.show({ message: done, closeButtonProps: { "aria-label": "×" } });
  };
  return (
    <Form onSubmit={send}>
      {({ isBusy, notice }) => (
        <Stack gap="sm">
          {children}
          {notice}
          <Group justify="flex-end">
            <Button type="submit" loading={isBusy} disabled={isUnchanged}>
              {submit}
            </Button>
          </Group>
        </Stack>
      )}
    </Form>
  );
}

function CurrentPassword({ value, onChange }: { value: string; onChange(value: string): void }) {
  const t = useMeTexts();
  return (
    <Field name="currentPassword">
      <PasswordField
        label={t.currentPassword}
        description={t.currentHelp}
        autoComplete="current-password"
        value={value}
        onChange={({ currentTarget }) => onChange(currentTarget.value)}
      />
    </Field>
  );
}

function PersonForm() {
  const t = useMeTexts();
  const me = useMe();
  const [name, setName] = useState(me.name);
  const [email, setEmail] = useState(me.email ?? "");
  const [currentPassword, setCurrentPassword] = useState("");
  const isNewAddress = email !== me.email;
  const change = () =>
    call("updateMe", {
      body: { name, ...(isNewAddress && { email }), ...(currentPassword !== "" && { currentPassword }) },
    });
  return (
    <StayingForm change={change} done={t.saved} submit={t.save} isUnchanged={name === me.name && !isNewAddress}>
      <NameField value={name} onChange={setName} />
      <EmailField description={t.emailHelp} required value={email} onChange={setEmail} />
      {isNewAddress && me.hasPassword && <CurrentPassword value={currentPassword} onChange={setCurrentPassword} />}
    </StayingForm>
  );
}

function PasswordForm() {
  const t = useMeTexts();
  const me = useMe();
  const [password, setPassword] = useState("");
  const [currentPassword, setCurrentPassword] = useState("");
  const change = async () => {
    await call("setMyPassword", { body: { password, ...(currentPassword !== "" && { currentPassword }) } });
    setPassword("");
    setCurrentPassword("");
  };
  return (
    <StayingForm change={change} done={t.passwordSet} submit={t.setPassword}>
      {!me.hasPassword && <Alert color="yellow">{t.noPassword}</Alert>}
      <NewPasswordField description={t.passwordHelp} value={password} onChange={setPassword} />
      {me.hasPassword && <CurrentPassword value={currentPassword} onChange={setCurrentPassword} />}
    </StayingForm>
  );
}

interface Enrolment {
  totpURI: string;
  backupCodes: string[];
}

function SecondFactor() {
  const t = useMeTexts();
  const me = useMe();
  const [asksPassword, setAsksPassword] = useState(false);
  const [password, setPassword] = useState("");
  const [code, setCode] = useState("");
  const [enrolment, setEnrolment] = useState<Enrolment>();
  const [backupCodes, setBackupCodes] = useState<string[]>();
  const confirm = async () => {
    if (me.hasSecondFactor) {
      await callAuth("/two-factor/disable", { password });
      await queryClient.invalidateQueries();
    } else setEnrolment(await callAuth<Enrolment>("/two-factor/enable", { password }));
    setPassword("");
  };
  const secret = enrolment && new URL(enrolment.totpURI).searchParams.get("secret");
  return (
    <Group justify="space-between">
      <Text>{me.hasSecondFactor ? t.factorOn : t.factorOff}</Text>
      <Button variant="default" disabled={!me.hasPassword} onClick={() => setAsksPassword(true)}>
        {me.hasSecondFactor ? t.disable : t.enable}
      </Button>
      {asksPassword && (
        <FormDialog
          title={t.secondFactor}
          submit={me.hasSecondFactor ? t.disable : t.enable}
          onClose={() => setAsksPassword(false)}
          onSubmit={confirm}
        >
          <Field name="password">
            <PasswordField
              label={t.yourPassword}
              autoComplete="current-password"
              required
              data-autofocus
              value={password}
              onChange={({ currentTarget }) => setPassword(currentTarget.value)}
            />
          </Field>
        </FormDialog>
      )}
      {enrolment && (
        <FormDialog
          title={t.secondFactor}
          submit={t.verify}
          onClose={() => setEnrolment(undefined)}
          onSubmit={async () => {
            await callAuth("/two-factor/verify-totp", { code });
            setBackupCodes(enrolment.backupCodes);
            setCode("");
            await queryClient.invalidateQueries();
          }}
        >
          <Text>{t.scan}</Text>
          <Image
            src={`data:image/svg+xml,${encodeURIComponent(renderSVG(enrolment.totpURI))}`}
            alt=""
            w={180}
            bg="white"
          />
          <Group gap="xs">
            <Text>{t.secret}</Text>
            <CopyText value={secret ?? ""} />
          </Group>
          <Field name="code">
            <TextInput
              label={t.code}
              inputMode="numeric"
              autoComplete="one-time-code"
              required
              data-autofocus
              value={code}
              onChange={({ currentTarget }) => setCode(currentTarget.value)}
            />
          </Field>
        </FormDialog>
      )}
      {backupCodes && (
        <SecretDialog title={t.secondFactor} done={t.backupDone} onClose={() => setBackupCodes(undefined)}>
          <Text>{t.backup}</Text>
          <Code block>{backupCodes.join("\n")}</Code>
        </SecretDialog>
      )}
    </Group>
  );
}

function Sessions() {
  const t = useMeTexts();
  const format = useFormats();
  const sessions = useList("listSessions");
  const end = (work: Promise<unknown>) => void work.then(() => queryClient.invalidateQueries());
  const columns: Column<Item<"listSessions">>[] = [
    {
      id: "device",
      title: t.device,
      cell: ({ userAgent, isCurrent }) => (
        <Group gap="xs" wrap="nowrap">
          <Cut width={320}>{userAgent ?? "–"}</Cut>
          {isCurrent && (
            <Badge variant="light" radius="sm" tt="none">
              {t.current}
            </Badge>
          )}
        </Group>
      ),
    },
    { id: "method", title: t.method, cell: ({ method }) => t.methods[method] ?? method },
    { id: "address", title: t.address, cell: ({ address }) => address ?? "–" },
    { id: "since", title: t.since, cell: ({ createdAt }) => format.time(createdAt) },
    {
      id: "end",
      title: "",
      isNumber: true,
      cell: ({ id, isCurrent }) =>
        isCurrent ? null : (
          <Button
            size="compact-xs"
            variant="subtle"
            color="red"
            onClick={() => end(call("endSession", { params: { session: id } }))}
          >
            {t.end}
          </Button>
        ),
    },
  ];
  return (
    <Stack gap="xs">
      <Group justify="space-between">
        <Title order={2}>{t.sessions}</Title>
        <Button size="xs" variant="default" onClick={() => end(call("endSessions", { query: { keepsCurrent: true } }))}>
          {t.endOthers}
        </Button>
      </Group>
      <ListTable
        from={sessions}
        waitingRows={2}
        label={t.sessions}
        columns={columns}
        rowId={({ id }) => id}
        empty={null}
      />
    </Stack>
  );
}
