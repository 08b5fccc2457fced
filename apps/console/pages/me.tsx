/** The person who is signed in: name, password, second factor, sessions. */
import { Alert, Badge, Button, Code, Group, Image, Paper, Stack, Text } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import type { ReactNode } from "react";
import { renderSVG } from "uqr";
import { call, callAuth } from "../app/call.ts";
import { change, type Item, useList } from "../app/queries.ts";
import { signOut, useMe } from "../app/session.ts";
import { CopyText } from "../parts/copy.tsx";
import { FormDialog, openDialog, SecretDialog } from "../parts/dialogs.tsx";
import { Cut } from "../parts/facts.tsx";
import {
  EmailField,
  Form,
  type FormProps,
  NameField,
  NewPasswordField,
  PasswordField,
  TextField,
} from "../parts/form.tsx";
import { Page, Section } from "../parts/page.tsx";
import { ListTable, RowButton, useColumns } from "../parts/table.tsx";
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
      <Boxed title={t.person}>
        <PersonForm />
      </Boxed>
      <Boxed title={t.password}>
        <PasswordForm />
      </Boxed>
      <Boxed title={t.secondFactor}>
        <SecondFactor />
      </Boxed>
      <Sessions />
    </Page>
  );
}

const Boxed = ({ title, children }: { title: string; children: ReactNode }) => (
  <Section title={title}>
    <Paper withBorder p="md" maw={560}>
      {children}
    </Paper>
  </Section>
);

interface StayingFormProps<Values extends object> extends Pick<FormProps<Values>, "initialValues" | "onSubmit"> {
  done: string;
  submit: string;
  isUnchanged?(values: Values): boolean;
  children(values: Values): ReactNode;
}

/** A form that stays: says when its change is done. */
function StayingForm<Values extends object>({
  done,
  submit,
  isUnchanged,
  children,
  ...form
}: StayingFormProps<Values>) {
  return (
    <Form {...form} onDone={() => notifications.show({ message: done })}>
      {({ isBusy, notice, values }) => (
        <Stack gap="sm">
          {children(values)}
          {notice}
          <Group gap="md" justify="flex-end">
            <Button type="submit" loading={isBusy} disabled={isUnchanged?.(values) ?? false}>
              {submit}
            </Button>
          </Group>
        </Stack>
      )}
    </Form>
  );
}

function CurrentPassword() {
  const t = useMeTexts();
  return (
    <PasswordField
      name="currentPassword"
      label={t.currentPassword}
      description={t.currentHelp}
      autoComplete="current-password"
    />
  );
}

function PersonForm() {
  const t = useMeTexts();
  const me = useMe();
  return (
    <StayingForm
      initialValues={{ name: me.name, email: me.email ?? "", currentPassword: "" }}
      onSubmit={({ name, email, currentPassword }) =>
        call("updateMe", {
          body: { name, email: email === me.email ? undefined : email, currentPassword: currentPassword || undefined },
        })
      }
      done={t.saved}
      submit={t.save}
      isUnchanged={({ name, email }) => name === me.name && email === me.email}
    >
      {({ email }) => (
        <>
          <NameField />
          <EmailField description={t.emailHelp} required />
          {email !== me.email && me.hasPassword && <CurrentPassword />}
        </>
      )}
    </StayingForm>
  );
}

function PasswordForm() {
  const t = useMeTexts();
  const me = useMe();
  return (
    <StayingForm
      initialValues={{ password: "", currentPassword: "" }}
      onSubmit={async ({ password, currentPassword }, form) => {
        await call("setMyPassword", { body: { password, currentPassword: currentPassword || undefined } });
        form.reset();
      }}
      done={t.passwordSet}
      submit={t.setPassword}
    >
      {() => (
        <>
          {!me.hasPassword && <Alert color="yellow">{t.noPassword}</Alert>}
          <NewPasswordField description={t.passwordHelp} />
          {me.hasPassword && <CurrentPassword />}
        </>
      )}
    </StayingForm>
  );
}

interface Enrolment {
  totpURI: string;
  backupCodes: string[];
}

function SecondFactor() {
  const t = useMeTexts();
  const { hasSecondFactor, hasPassword } = useMe();
  const action = hasSecondFactor ? t.disable : t.enable;
  const askPassword = () =>
    openDialog(
      <FormDialog
        title={t.secondFactor}
        submit={action}
        initialValues={{ password: "" }}
        onSubmit={async (body) => {
          if (hasSecondFactor) await callAuth("/two-factor/disable", body);
          else openDialog(<EnrolmentForm {...(await callAuth<Enrolment>("/two-factor/enable", body))} />);
        }}
      >
        <PasswordField name="password" label={t.yourPassword} autoComplete="current-password" required data-autofocus />
      </FormDialog>,
    );
  return (
    <Group gap="md" justify="space-between">
      <Text>{hasSecondFactor ? t.factorOn : t.factorOff}</Text>
      <Button variant="default" disabled={!hasPassword} onClick={askPassword}>
        {action}
      </Button>
    </Group>
  );
}

function EnrolmentForm({ totpURI, backupCodes }: Enrolment) {
  const t = useMeTexts();
  return (
    <FormDialog
      title={t.secondFactor}
      submit={t.enable}
      initialValues={{ code: "" }}
      onSubmit={async (body) => {
        await callAuth("/two-factor/verify-totp", body);
        openDialog(
          <SecretDialog title={t.secondFactor} done={t.backupDone}>
            <Text>{t.backup}</Text>
            <Code block>{backupCodes.join("\n")}</Code>
          </SecretDialog>,
        );
      }}
    >
      <Text>{t.scan}</Text>
      <Image src={`data:image/svg+xml,${encodeURIComponent(renderSVG(totpURI))}`} alt="" w={180} bg="white" />
      <Group>
        <Text>{t.secret}</Text>
        <CopyText value={new URL(totpURI).searchParams.get("secret") ?? ""} />
      </Group>
      <TextField name="code" label={t.code} inputMode="numeric" autoComplete="one-time-code" required data-autofocus />
    </FormDialog>
  );
}

function Sessions() {
  const t = useMeTexts();
  const c = useColumns<Item<"listSessions">>();
  const columns = [
    c.cell("device", t.device, ({ userAgent, isCurrent }) => (
      <Group wrap="nowrap">
        <Cut width={320}>{userAgent ?? "–"}</Cut>
        {isCurrent && <Badge>{t.current}</Badge>}
      </Group>
    )),
    c.cell("method", t.method, ({ method }) => t.methods[method] ?? method),
    c.text("address", t.address),
    c.time("createdAt", t.since),
    c.actions(
      ({ id, isCurrent }) =>
        !isCurrent && (
          <RowButton isDestructive onClick={() => void change("endSession", { params: { session: id } })}>
            {t.end}
          </RowButton>
        ),
    ),
  ];
  return (
    <Section
      title={t.sessions}
      aside={
        <Button
          size="xs"
          variant="default"
          onClick={() => void change("endSessions", { query: { keepsCurrent: true } })}
        >
          {t.endOthers}
        </Button>
      }
    >
      <ListTable from={useList("listSessions")} waitingRows={2} label={t.sessions} columns={columns} />
    </Section>
  );
}
