/** The person who is signed in: name, password, second factor, sessions. */
import { Alert, Badge, Button, Code, Group, Image, Paper, Stack, Text, TextInput, Title } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { type ReactNode, useState } from "react";
import { renderSVG } from "uqr";
import { call, callAuth } from "../app/call.ts";
import { translated, useFormats, useTexts } from "../app/language.tsx";
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

const texts = translated({
  en: {
    title: "Profile and sign-in",
    person: "Name and address",
    emailHelp: "You sign in with it.",
    currentPassword: "Current password",
    currentHelp: "Not needed within 15 minutes of a sign-in link.",
    save: "Save",
    saved: "Saved",
    password: "Password",
    noPassword: "You have no password yet: without one you need a new link for each sign-in.",
    passwordHelp: "At least 12 characters. Your other sessions end.",
    setPassword: "Set password",
    passwordSet: "Password set",
    factor: "Second factor",
    factorOn: "On: sign-in asks for a code of your authenticator app.",
    factorOff: "Off: the password alone signs you in.",
    enable: "Turn on",
    disable: "Turn off",
    yourPassword: "Your password",
    scan: "Scan this with an authenticator app, or enter the secret by hand. Then type the code that it shows.",
    secret: "Secret",
    code: "Code",
    verify: "Turn on",
    backup: "Store these backup codes. Each works once, without the app. They are shown only here.",
    backupDone: "I have stored them",
    sessions: "Sessions",
    device: "Browser",
    method: "Signed in with",
    methods: { password: "Password", "second-factor": "Second factor", link: "Link", oidc: "Single sign-on" } as Record<
      string,
      string
    >,
    address: "From",
    since: "Since",
    current: "This one",
    end: "End",
    endOthers: "End all others",
    signOut: "Sign out",
  },
  zh: {
    title: "个人资料与登录",
    person: "名称与地址",
    emailHelp: "用于登录。",
    currentPassword: "当前密码",
    currentHelp: "通过登录链接登录后 15 分钟内无需填写。",
    save: "保存",
    saved: "已保存",
    password: "密码",
    noPassword: "您还没有密码：没有密码时，每次登录都需要新的链接。",
    passwordHelp: "至少 12 个字符。您的其他会话将结束。",
    setPassword: "设置密码",
    passwordSet: "密码已设置",
    factor: "双重验证",
    factorOn: "已开启：登录时需要验证器应用的验证码。",
    factorOff: "未开启：仅凭密码即可登录。",
    enable: "开启",
    disable: "关闭",
    yourPassword: "您的密码",
    scan: "请用验证器应用扫描，或手动输入密钥，然后输入显示的验证码。",
    secret: "密钥",
    code: "验证码",
    verify: "开启",
    backup: "请保存这些备用代码。每个代码可在没有应用时使用一次，且仅在此显示。",
    backupDone: "我已保存",
    sessions: "会话",
    device: "浏览器",
    method: "登录方式",
    methods: { password: "密码", "second-factor": "双重验证", link: "链接", oidc: "单点登录" } as Record<
      string,
      string
    >,
    address: "来源",
    since: "开始时间",
    current: "当前会话",
    end: "结束",
    endOthers: "结束其他全部会话",
    signOut: "退出登录",
  },
});

export function Me() {
  const t = useTexts(texts);
  return (
    <Page
      title={t.title}
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
      <Section title={t.factor}>
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
  const t = useTexts(texts);
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
  const t = useTexts(texts);
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
  const t = useTexts(texts);
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
  const t = useTexts(texts);
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
          title={t.factor}
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
          title={t.factor}
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
        <SecretDialog title={t.factor} done={t.backupDone} onClose={() => setBackupCodes(undefined)}>
          <Text>{t.backup}</Text>
          <Code block>{backupCodes.join("\n")}</Code>
        </SecretDialog>
      )}
    </Group>
  );
}

function Sessions() {
  const t = useTexts(texts);
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
