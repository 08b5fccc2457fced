/** The settings of this installation, for operators. */
import {
  Button,
  FileButton,
  Group,
  Image,
  Input,
  NumberInput,
  Paper,
  PasswordInput,
  Stack,
  Text,
  TextInput,
  Title,
} from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import { type Answer, ApiFault, type Input as CallInput, call, callVersioned, type Versioned } from "../app/call.ts";
import { setInstallation } from "../app/installation.ts";
import { translated, useTexts } from "../app/language.tsx";
import { queryClient, useRead } from "../app/queries.ts";
import { useMe } from "../app/session.ts";
import { ConfirmDialog, FormDialog } from "../parts/dialogs.tsx";
import { Field, Form } from "../parts/form.tsx";
import { PageLink } from "../parts/link.tsx";
import { Page } from "../parts/page.tsx";
import { FaultNotice, Loaded } from "../parts/states.tsx";

const texts = translated({
  en: {
    title: "Settings",
    about: "Of this installation. Changes take effect within seconds, without a restart.",
    save: "Save",
    discard: "Discard",
    saved: "Saved.",
    fixed: (variable: string) => `Set by the environment variable ${variable}, so it cannot be changed here.`,
    changed:
      "Somebody else has changed the settings meanwhile. What you see is new; your own changes are still in the fields.",
    general: "General",
    name: "Name",
    nameHelp: "In the console, in the browser's tab and as the sender of mails.",
    logo: "Logo",
    logoHelp: "A PNG or SVG file of at most 64 KiB. It is shown 24 pixels high.",
    chooseLogo: "Choose a file",
    removeLogo: "Remove",
    logoTooLarge: "The file is larger than 64 KiB.",
    noLogo: "No logo",
    addresses: "Address of the gateway",
    gatewayUrl: "Base URL",
    gatewayUrlHelp:
      "Where browsers and programs reach the ingress, such as https://api.example.com. Used in snippets and by the playground.",
    catalogueWins: (url: string) => `The catalogue names ${url}, which wins.`,
    none: "none",
    mail: "Mail",
    mailAbout: "For invitations, forgotten passwords and alerts. Without a mail server, links are copied by hand.",
    smtpUrl: "Mail server",
    smtpUrlHelp: "Such as smtps://user:password@mail.example.com:465. It is stored encrypted and never shown again.",
    mailFrom: "Sender",
    mailFromHelp: "The e-mail address in From.",
    sendTestMail: "Send a test mail",
    testMailTo: "To",
    send: "Send",
    mailWorked: (to: string) => `The mail server took the mail for ${to}.`,
    mailFailed: (problem: string) => `The mail server did not take the mail: ${problem}.`,
    alerts: "Webhook for alerts",
    alertsAbout:
      "Receives every alert about budgets and keys as JSON by POST, and again for two days if it is not accepted.",
    alertWebhookUrl: "Address",
    alertWebhookUrlHelp: "It may contain a secret, so only its host is shown again.",
    alertWebhookSecret: "Signing secret",
    alertWebhookSecretHelp:
      "Signs each delivery (standardwebhooks.com). At least 8 characters; after whsec_ comes base64.",
    sendTestAlert: "Send a test alert",
    alertWorked: "The webhook accepted the test alert.",
    alertFailed: (problem: string) => `The webhook did not accept the test alert: ${problem}.`,
    isSet: "Set",
    notSet: "Not set",
    remove: "Remove",
    removing: "Will be removed when you save.",
    retention: "Retention",
    usageDays: "Days of usage records",
    usageDaysHelp: "Older records and alerts are deleted within an hour. Sums by half hour and by day stay.",
    auditDays: "Days of the audit log",
    auditDaysHelp: "Older entries are deleted within an hour. 0 keeps them for ever.",
    lowerTitle: "Delete older records?",
    lowerUsage: (days: number) =>
      `Usage records and alerts that are older than ${days} days are deleted within an hour.`,
    lowerAudit: (days: number) =>
      `Entries of the audit log that are older than ${days} days are deleted within an hour.`,
    cannotUndo: "This cannot be undone.",
    publicModels: "Public models",
    isPublic: (group: string) =>
      `Anybody may read the models and prices of the group ${group} without signing in. The catalogue's publicGroup decides this.`,
    notPublic:
      "Nobody sees models without signing in. To publish those of a group, name it as publicGroup in the catalogue.",
    seeCatalogue: "Catalogue",
    wrong: {
      name: "Up to 100 characters, at least one of them visible.",
      logo: "This is no PNG or SVG file, or it has more than 4,096 pixels on a side.",
      gatewayUrl: "http:// or https:// and a host, without a path.",
      mailFrom: "An e-mail address, such as gateway@example.com.",
      smtpUrl: "smtp:// or smtps://, then the host, such as smtps://mail.example.com.",
      alertWebhookUrl: "http:// or https://, then the host and the path.",
      alertWebhookSecret: "8 to 200 characters without spaces.",
      usageDays: "A whole number from 1 to 3,650.",
      auditDays: "A whole number from 0 to 3,650.",
    },
    seeModels: "Models",
  },
  zh: {
    title: "设置",
    about: "此安装的设置。更改在数秒内生效，无需重启。",
    save: "保存",
    discard: "放弃",
    saved: "已保存。",
    fixed: (variable: string) => `由环境变量 ${variable} 设置，无法在此更改。`,
    changed: "其他人刚刚更改了设置。当前显示的是新值，您的更改仍保留在输入框中。",
    general: "常规",
    name: "名称",
    nameHelp: "显示在控制台、浏览器标签页，并作为邮件的发件人名称。",
    logo: "徽标",
    logoHelp: "不超过 64 KiB 的 PNG 或 SVG 文件，显示高度为 24 像素。",
    chooseLogo: "选择文件",
    removeLogo: "移除",
    logoTooLarge: "文件超过 64 KiB。",
    noLogo: "没有徽标",
    addresses: "网关地址",
    gatewayUrl: "基础 URL",
    gatewayUrlHelp: "浏览器和程序访问入口的地址，例如 https://api.example.com。用于代码片段和试验场。",
    catalogueWins: (url: string) => `目录中指定了 ${url}，以其为准。`,
    none: "无",
    mail: "邮件",
    mailAbout: "用于邀请、忘记密码和告警。没有邮件服务器时，需手动复制链接。",
    smtpUrl: "邮件服务器",
    smtpUrlHelp: "例如 smtps://user:password@mail.example.com:465。加密保存，不再显示。",
    mailFrom: "发件人",
    mailFromHelp: "From 中的电子邮件地址。",
    sendTestMail: "发送测试邮件",
    testMailTo: "收件人",
    send: "发送",
    mailWorked: (to: string) => `邮件服务器已接收发往 ${to} 的邮件。`,
    mailFailed: (problem: string) => `邮件服务器没有接收邮件：${problem}。`,
    alerts: "告警 Webhook",
    alertsAbout: "以 POST 方式接收有关预算和密钥的每条告警（JSON）；未被接受时，两天内会重试。",
    alertWebhookUrl: "地址",
    alertWebhookUrlHelp: "地址可能包含机密，因此之后只显示主机名。",
    alertWebhookSecret: "签名密钥",
    alertWebhookSecretHelp: "为每次投递签名（standardwebhooks.com）。至少 8 个字符；whsec_ 之后为 base64。",
    sendTestAlert: "发送测试告警",
    alertWorked: "Webhook 已接受测试告警。",
    alertFailed: (problem: string) => `Webhook 没有接受测试告警：${problem}。`,
    isSet: "已设置",
    notSet: "未设置",
    remove: "移除",
    removing: "保存后将被移除。",
    retention: "保留期",
    usageDays: "用量记录保留天数",
    usageDaysHelp: "更早的记录和告警会在一小时内删除。按半小时和按天的汇总会保留。",
    auditDays: "审计日志保留天数",
    auditDaysHelp: "更早的记录会在一小时内删除。0 表示永久保留。",
    lowerTitle: "删除更早的记录？",
    lowerUsage: (days: number) => `早于 ${days} 天的用量记录和告警会在一小时内删除。`,
    lowerAudit: (days: number) => `早于 ${days} 天的审计日志会在一小时内删除。`,
    cannotUndo: "此操作无法撤销。",
    publicModels: "公开的模型",
    isPublic: (group: string) => `任何人无需登录即可查看分组 ${group} 的模型与价格。由目录中的 publicGroup 决定。`,
    notPublic: "未登录者看不到模型。若要公开某个分组的模型，请在目录中将其设为 publicGroup。",
    seeCatalogue: "目录",
    wrong: {
      name: "最多 100 个字符，且至少有一个可见字符。",
      logo: "这不是 PNG 或 SVG 文件，或边长超过 4,096 像素。",
      gatewayUrl: "http:// 或 https:// 加主机名，不含路径。",
      mailFrom: "电子邮件地址，例如 gateway@example.com。",
      smtpUrl: "smtp:// 或 smtps:// 加主机名，例如 smtps://mail.example.com。",
      alertWebhookUrl: "http:// 或 https:// 加主机名和路径。",
      alertWebhookSecret: "8 到 200 个字符，不含空格。",
      usageDays: "1 到 3,650 的整数。",
      auditDays: "0 到 3,650 的整数。",
    },
    seeModels: "模型",
  },
});

type Values = Answer<"readSettings">;
type Change = NonNullable<CallInput<"updateSettings">["body"]>;
type Name = keyof Change;
type Texts = typeof texts.en;

const logoBytesMax = 65_536;
const queryKey = ["readSettings"];

export function Settings() {
  const t = useTexts(texts);
  const read = useQuery({
    queryKey,
    queryFn: ({ signal }) => callVersioned("readSettings", {}, { signal }),
  });
  return (
    <Page title={t.title} about={t.about}>
      <Loaded from={read} rows={16}>
        {(settings) => <Sections settings={settings} />}
      </Loaded>
    </Page>
  );
}

/** What a section needs: the stored values, and the changed ones until they are saved. */
interface Draft {
  values: Values;
  changes: Change;
  set(name: Name, value: Change[Name]): void;
  discard(names: readonly Name[]): void;
  /** Rejects with the fault of the API. */
  save(names: readonly Name[]): Promise<void>;
}

function Sections({ settings: { value: values, etag } }: { settings: Versioned<Values> }) {
  const [changes, setChanges] = useState<Change>({});
  const discard = (names: readonly Name[]) =>
    setChanges((now) => Object.fromEntries(Object.entries(now).filter(([name]) => !names.includes(name as Name))));
  const draft: Draft = {
    values,
    changes,
    set: (name, value) => setChanges((now) => ({ ...now, [name]: value })),
    discard,
    async save(names) {
      const body = Object.fromEntries(
        names.flatMap((name) => (name in changes ? [[name, changes[name]]] : [])),
      ) as Change;
      try {
        const saved = await callVersioned("updateSettings", { body }, { ifMatch: etag });
        queryClient.setQueryData(queryKey, saved);
        setInstallation({ name: saved.value.name.value, logo: saved.value.logo?.address });
        discard(names);
        await queryClient.invalidateQueries({ predicate: ({ queryKey: [first] }) => first !== queryKey[0] });
      } catch (fault) {
        if (fault instanceof ApiFault && fault.status === 412) await queryClient.invalidateQueries({ queryKey });
        throw fault;
      }
    },
  };
  return (
    <Stack gap="md" maw={760}>
      <General draft={draft} />
      <Addresses draft={draft} />
      <MailSection draft={draft} />
      <AlertsSection draft={draft} />
      <Retention draft={draft} />
      <PublicModels />
    </Stack>
  );
}

interface SectionProps {
  title: string;
  about?: string;
  draft: Draft;
  names: readonly Name[];
  /** Asked before it is saved. */
  consequence?: string | undefined;
  /** Buttons for what is saved already. */
  tests?: ReactNode;
  children: ReactNode;
}

function Section({ title, about, draft, names, consequence, tests, children }: SectionProps) {
  const t = useTexts(texts);
  const [isSaved, setIsSaved] = useState(false);
  const [isOutdated, setIsOutdated] = useState(false);
  const [discards, setDiscards] = useState(0);
  const [answer, setAnswer] = useState<(isYes: boolean) => void>();
  const isChanged = names.some((name) => name in draft.changes);
  const isFixed = names.every((name) => name !== "logo" && draft.values[name].source === "environment");
  const save = async () => {
    setIsSaved(false);
    setIsOutdated(false);
    if (consequence !== undefined && !(await new Promise<boolean>((resolve) => setAnswer(() => resolve)))) return;
    try {
      await draft.save(names);
      setIsSaved(true);
    } catch (fault) {
      if (!(fault instanceof ApiFault && fault.status === 412)) throw fault;
      setIsOutdated(true);
    }
  };
  const discard = () => {
    draft.discard(names);
    setIsSaved(false);
    setIsOutdated(false);
    setDiscards(discards + 1);
  };
  return (
    <Paper withBorder p="md" component="section" aria-label={title}>
      {/* A new form has no faults. */}
      <Form key={discards} onSubmit={save} faultTextOf={(name) => t.wrong[name as Name]}>
        {({ isBusy, notice }) => (
          <Stack gap="sm">
            <Stack gap={2}>
              <Title order={2}>{title}</Title>
              {about !== undefined && <Text c="dimmed">{about}</Text>}
            </Stack>
            {children}
            {isOutdated ? <Text role="alert">{t.changed}</Text> : notice}
            <Group gap="xs" mih={isFixed && tests === undefined ? 0 : 36}>
              {!isFixed && (
                <Button type="submit" loading={isBusy} disabled={!isChanged}>
                  {t.save}
                </Button>
              )}
              {isChanged && (
                <Button variant="default" onClick={discard}>
                  {t.discard}
                </Button>
              )}
              {!isChanged && tests}
              {isSaved && !isChanged && (
                <Text role="status" c="dimmed">
                  {t.saved}
                </Text>
              )}
            </Group>
          </Stack>
        )}
      </Form>
      {answer && (
        <ConfirmDialog
          title={t.lowerTitle}
          submit={t.save}
          consequence={`${consequence} ${t.cannotUndo}`}
          onClose={() => {
            answer(false);
            setAnswer(undefined);
          }}
          onSubmit={async () => answer(true)}
        />
      )}
    </Paper>
  );
}

type TextName = "name" | "gatewayUrl" | "mailFrom";

/** A text; empty returns to the default. */
function TextField({ draft, name, help }: FieldProps<TextName>) {
  const t = useTexts(texts);
  const { value, source, variable } = draft.values[name];
  const isFixed = source === "environment";
  const shown = draft.changes[name] === undefined ? (source === "default" ? "" : value) : (draft.changes[name] ?? "");
  return (
    <Field name={name}>
      <TextInput
        label={t[name]}
        description={isFixed ? t.fixed(variable) : help}
        readOnly={isFixed}
        variant={isFixed ? "filled" : "default"}
        placeholder={source === "default" ? value : ""}
        value={shown}
        onChange={({ currentTarget }) => draft.set(name, currentTarget.value === "" ? null : currentTarget.value)}
      />
    </Field>
  );
}

interface FieldProps<Of extends Name> {
  draft: Draft;
  name: Of;
  help: string;
}

function DaysField({ draft, name, help }: FieldProps<"usageDays" | "auditDays">) {
  const t = useTexts(texts);
  const { value, source, variable } = draft.values[name];
  const isFixed = source === "environment";
  return (
    <Field name={name}>
      <NumberInput
        label={t[name]}
        description={isFixed ? t.fixed(variable) : help}
        readOnly={isFixed}
        variant={isFixed ? "filled" : "default"}
        value={draft.changes[name] === undefined ? value : (draft.changes[name] ?? "")}
        allowDecimal={false}
        allowNegative={false}
        hideControls
        w={260}
        onChange={(next) => draft.set(name, next === "" ? null : Number(next))}
      />
    </Field>
  );
}

/** A secret: what is stored stays in the database, and a new value replaces it. */
function SecretField({ draft, name, help }: FieldProps<"smtpUrl" | "alertWebhookUrl" | "alertWebhookSecret">) {
  const t = useTexts(texts);
  const { isSet, shown, source, variable } = draft.values[name];
  const isFixed = source === "environment";
  const change = draft.changes[name];
  return (
    <Group gap="xs" align="flex-end" wrap="nowrap">
      <Field name={name}>
        <PasswordInput
          label={t[name]}
          description={isFixed ? t.fixed(variable) : help}
          readOnly={isFixed}
          variant={isFixed ? "filled" : "default"}
          autoComplete="off"
          data-1p-ignore
          placeholder={change === null ? t.removing : isSet ? (shown ?? t.isSet) : t.notSet}
          value={change ?? ""}
          onChange={({ currentTarget: { value } }) => (value === "" ? draft.discard([name]) : draft.set(name, value))}
          style={{ flex: 1 }}
        />
      </Field>
      {isSet && !isFixed && (
        <Button variant="default" disabled={change === null} onClick={() => draft.set(name, null)}>
          {t.remove}
        </Button>
      )}
    </Group>
  );
}

function General({ draft }: { draft: Draft }) {
  const t = useTexts(texts);
  return (
    <Section title={t.general} draft={draft} names={["name", "logo"]}>
      <TextField draft={draft} name="name" help={t.nameHelp} />
      <Field name="logo">
        <LogoField draft={draft} />
      </Field>
    </Section>
  );
}

/** `name` and `error` come from its `Field`. */
function LogoField({ draft, name, error }: { draft: Draft; name?: string; error?: ReactNode }) {
  const t = useTexts(texts);
  const [isTooLarge, setIsTooLarge] = useState(false);
  const change = draft.changes.logo;
  const shown = change === undefined ? draft.values.logo?.address : (change ?? undefined);
  const choose = async (file: File | null) => {
    if (file === null) return;
    setIsTooLarge(file.size > logoBytesMax);
    if (file.size <= logoBytesMax) draft.set("logo", await dataUrlOf(file));
  };
  return (
    <Input.Wrapper
      label={t.logo}
      description={t.logoHelp}
      error={isTooLarge ? t.logoTooLarge : error}
      labelElement="div"
    >
      <Group gap="sm" h={36}>
        {shown === undefined ? (
          <Text c="dimmed">{t.noLogo}</Text>
        ) : (
          <Image src={shown} alt={t.logo} h={24} w="auto" maw={120} />
        )}
        <FileButton
          {...(name !== undefined && { name })}
          accept="image/png,image/svg+xml"
          onChange={(file) => void choose(file)}
        >
          {(props) => (
            <Button variant="default" size="xs" {...props}>
              {t.chooseLogo}
            </Button>
          )}
        </FileButton>
        {shown !== undefined && (
          <Button
            variant="default"
            size="xs"
            onClick={() => (draft.values.logo ? draft.set("logo", null) : draft.discard(["logo"]))}
          >
            {t.removeLogo}
          </Button>
        )}
      </Group>
    </Input.Wrapper>
  );
}

const dataUrlOf = (file: File): Promise<string> =>
  new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(reader.error as Error);
    reader.readAsDataURL(file);
  });

function Addresses({ draft }: { draft: Draft }) {
  const t = useTexts(texts);
  const catalogue = useRead("readCatalogue").data;
  const isOfCatalogue = catalogue?.baseUrl != null && catalogue.baseUrl !== draft.values.gatewayUrl.value;
  return (
    <Section title={t.addresses} draft={draft} names={["gatewayUrl"]}>
      <TextField draft={draft} name="gatewayUrl" help={t.gatewayUrlHelp} />
      {isOfCatalogue && (
        <Text>
          {t.catalogueWins([catalogue.baseUrl, ...Object.values(catalogue.alternatives)].join(", "))}{" "}
          <PageLink to="/catalogue" underline="always">
            {t.seeCatalogue}
          </PageLink>
        </Text>
      )}
    </Section>
  );
}

/** What a test brought, in words. */
function TestResult({ text }: { text: string | undefined }) {
  return text === undefined ? null : <Text role="status">{text}</Text>;
}

function MailSection({ draft }: { draft: Draft }) {
  const t = useTexts(texts);
  const me = useMe();
  const [isAsking, setIsAsking] = useState(false);
  const [to, setTo] = useState(me.email ?? "");
  const [result, setResult] = useState<string>();
  const tests = (
    <>
      <Button variant="default" disabled={!draft.values.smtpUrl.isSet} onClick={() => setIsAsking(true)}>
        {t.sendTestMail}
      </Button>
      <TestResult text={result} />
    </>
  );
  return (
    <>
      <Section title={t.mail} about={t.mailAbout} draft={draft} names={["smtpUrl", "mailFrom"]} tests={tests}>
        <SecretField draft={draft} name="smtpUrl" help={t.smtpUrlHelp} />
        <TextField draft={draft} name="mailFrom" help={t.mailFromHelp} />
      </Section>
      {isAsking && (
        <FormDialog
          title={t.sendTestMail}
          submit={t.send}
          onClose={() => setIsAsking(false)}
          onSubmit={async () => {
            const { problem } = await call("sendTestMail", { body: { to } });
            setResult(problem === null ? t.mailWorked(to) : t.mailFailed(problem));
          }}
        >
          <TextInput
            label={t.testMailTo}
            type="email"
            required
            data-autofocus
            value={to}
            onChange={({ currentTarget }) => setTo(currentTarget.value)}
          />
        </FormDialog>
      )}
    </>
  );
}

function AlertsSection({ draft }: { draft: Draft }) {
  const t = useTexts(texts);
  const [isBusy, setIsBusy] = useState(false);
  const [result, setResult] = useState<string>();
  const [fault, setFault] = useState<unknown>();
  const test = async () => {
    setIsBusy(true);
    setFault(undefined);
    try {
      const { problem } = await call("sendTestAlert");
      setResult(problem === null ? t.alertWorked : t.alertFailed(problem));
    } catch (error) {
      setFault(error);
    } finally {
      setIsBusy(false);
    }
  };
  const tests = (
    <>
      <Button
        variant="default"
        loading={isBusy}
        disabled={!draft.values.alertWebhookUrl.isSet}
        onClick={() => void test()}
      >
        {t.sendTestAlert}
      </Button>
      <TestResult text={result} />
      {fault !== undefined && <FaultNotice error={fault} />}
    </>
  );
  return (
    <Section
      title={t.alerts}
      about={t.alertsAbout}
      draft={draft}
      names={["alertWebhookUrl", "alertWebhookSecret"]}
      tests={tests}
    >
      <SecretField draft={draft} name="alertWebhookUrl" help={t.alertWebhookUrlHelp} />
      <SecretField draft={draft} name="alertWebhookSecret" help={t.alertWebhookSecretHelp} />
    </Section>
  );
}

function Retention({ draft }: { draft: Draft }) {
  const t = useTexts(texts);
  return (
    <Section title={t.retention} draft={draft} names={["usageDays", "auditDays"]} consequence={deletionOf(draft, t)}>
      <Group gap="md" align="flex-start">
        <DaysField draft={draft} name="usageDays" help={t.usageDaysHelp} />
        <DaysField draft={draft} name="auditDays" help={t.auditDaysHelp} />
      </Group>
    </Section>
  );
}

/** What a change would delete; undefined if nothing. */
function deletionOf({ values: { usageDays, auditDays }, changes }: Draft, t: Texts): string | undefined {
  // Null is the default, which may be lower too.
  const usage = changes.usageDays === null ? defaultUsageDays : changes.usageDays;
  const audit = changes.auditDays ?? 0;
  const lines = [
    ...(usage !== undefined && usage < usageDays.value ? [t.lowerUsage(usage)] : []),
    ...(audit > 0 && (auditDays.value === 0 || audit < auditDays.value) ? [t.lowerAudit(audit)] : []),
  ];
  return lines.length === 0 ? undefined : lines.join(" ");
}

/** Of USAGE_DAYS. */
const defaultUsageDays = 400;

function PublicModels() {
  const t = useTexts(texts);
  const catalogue = useRead("readCatalogue").data;
  if (catalogue === undefined) return null;
  return (
    <Paper withBorder p="md" component="section" aria-label={t.publicModels}>
      <Stack gap="xs">
        <Title order={2}>{t.publicModels}</Title>
        <Text>{catalogue.publicGroup === null ? t.notPublic : t.isPublic(catalogue.publicGroup)}</Text>
        <Group gap="md">
          <PageLink to="/models">{t.seeModels}</PageLink>
          <PageLink to="/catalogue">{t.seeCatalogue}</PageLink>
        </Group>
      </Stack>
    </Paper>
  );
}
