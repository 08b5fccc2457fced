/** The settings of this installation, for operators. */
import {
  Button,
  Code,
  FileButton,
  Group,
  Image,
  Input,
  List,
  Paper,
  SimpleGrid,
  Stack,
  Text,
  Title,
} from "@mantine/core";
import type { UseFormReturnType } from "@mantine/form";
import { type ReactNode, useEffect, useState } from "react";
import { useAction } from "../app/action.ts";
import { useFilters } from "../app/address.ts";
import { type Answer, ApiFault, type Input as CallInput, call, callVersioned } from "../app/call.ts";
import { installation } from "../app/installation.ts";
import { useRead, useVersioned } from "../app/queries.ts";
import { useMe } from "../app/session.ts";
import { confirmed, FormDialog, openDialog } from "../parts/dialogs.tsx";
import { dataUrlOf } from "../parts/files.ts";
import { Form, NumberField, PasswordField, SelectField, TextField, useField } from "../parts/form.tsx";
import { PageLink } from "../parts/link.tsx";
import { FaultNotice, Loaded, Page } from "../parts/page.tsx";
import { useSettingsTexts } from "./settings.texts.ts";

type Settings = Answer<"readSettings">;
type Change = NonNullable<CallInput<"updateSettings">["body"]>;
type Name = keyof Change;
const oidcTexts = [
  ...(["oidcIssuer", "oidcClientId", "oidcName", "oidcEmailClaim", "oidcNameClaim", "oidcGroupsClaim"] as const),
  ...(["oidcGroups", "oidcMapping"] as const),
];
const oidcNames = [...oidcTexts, "oidcClientSecret", "oidcCreatesAccounts"] as const;
type TextName = "name" | "gatewayUrl" | "mailFrom" | (typeof oidcTexts)[number] | "oidcCreatesAccounts";
type DaysName = "usageDays" | "auditDays";
type SecretName = "smtpUrl" | "alertWebhookUrl" | "alertWebhookSecret" | "oidcClientSecret";
/** The values of fields; null removes what is stored. */
type Values = Partial<Record<Name, string | number | null>>;
type SettingsForm = UseFormReturnType<Values>;

const logoBytesMax = 65_536;
/** The default of USAGE_DAYS. */
const defaultUsageDays = 400;

/** The stored value as a field shows it: a default is empty, and a secret is never shown. */
function fieldValueOf(settings: Settings, name: Name): string | number {
  if (name === "logo") return settings.logo?.address ?? "";
  const setting = settings[name];
  return "isSet" in setting || (typeof setting.value === "string" && setting.source === "default") ? "" : setting.value;
}
const valuesOf = (settings: Settings, names: readonly Name[]): Values =>
  Object.fromEntries(names.map((name) => [name, fieldValueOf(settings, name)]));

export function Settings() {
  const t = useSettingsTexts();
  return (
    <Page title={t.settings} about={t.about}>
      <Loaded from={useVersioned("readSettings")} rows={16}>
        {({ value, etag }) => (
          <Stack gap="md" maw={760}>
            <General settings={value} etag={etag} />
            <Addresses settings={value} etag={etag} />
            <MailSection settings={value} etag={etag} />
            <AlertsSection settings={value} etag={etag} />
            <ProviderSection settings={value} etag={etag} />
            <Retention settings={value} etag={etag} />
            <PublicModels />
          </Stack>
        )}
      </Loaded>
    </Page>
  );
}

interface PartProps {
  settings: Settings;
  etag: string | undefined;
}

interface SectionProps extends PartProps {
  title: string;
  about?: string;
  names: readonly Name[];
  /** Asked before it is saved. */
  consequenceOf?(changes: Change): string | undefined;
  /** Buttons for stored values. */
  tests?: ReactNode;
  /** It may depend on the values of the fields. */
  children: ReactNode | ((values: Values) => ReactNode);
}

function Section({ settings, etag, title, about, names, consequenceOf, tests, children }: SectionProps) {
  const t = useSettingsTexts();
  const [discards, setDiscards] = useState(0);
  const [outcome, setOutcome] = useState<"saved" | "outdated">();
  const save = async (values: Values, form: SettingsForm) => {
    setOutcome(undefined);
    const changed = names.filter((name) => form.isDirty(name));
    const body: Change = Object.fromEntries(changed.map((name) => [name, values[name] === "" ? null : values[name]]));
    const consequence = consequenceOf?.(body);
    const question = { title: t.lowerTitle, submit: t.save, consequence: `${consequence} ${t.cannotUndo}` };
    if (consequence !== undefined && !(await confirmed(question))) return;
    try {
      const { value } = await callVersioned("updateSettings", { body }, { ifMatch: etag });
      installation.set({ name: value.name.value, logo: value.logo?.address });
      form.setValues(valuesOf(value, names));
      form.resetDirty();
      setOutcome("saved");
    } catch (fault) {
      if (!(fault instanceof ApiFault && fault.status === 412)) throw fault;
      setOutcome("outdated");
    }
  };
  const discard = () => {
    setOutcome(undefined);
    setDiscards(discards + 1);
  };
  return (
    <Paper withBorder p="md" component="section" aria-label={title}>
      {/* A new form has no faults. */}
      <Form
        key={discards}
        initialValues={valuesOf(settings, names)}
        onSubmit={save}
        faultTextOf={(name) => t.wrong[name as Name]}
      >
        {({ form, values, isBusy, notice }) => (
          <Stack gap="sm">
            <Stack gap={2}>
              <Title order={2}>{title}</Title>
              {about !== undefined && <Text c="dimmed">{about}</Text>}
            </Stack>
            {typeof children === "function" ? children(values) : children}
            <Refresh form={form} settings={settings} names={names} />
            {outcome === "outdated" ? <Text role="alert">{t.changed}</Text> : notice}
            <SectionActions
              isFixed={names.every((name) => name !== "logo" && settings[name].source === "environment")}
              isChanged={names.some((name) => form.isDirty(name))}
              isSaved={outcome === "saved"}
              {...{ isBusy, discard, tests }}
            />
          </Stack>
        )}
      </Form>
    </Paper>
  );
}

interface RefreshProps {
  form: SettingsForm;
  settings: Settings;
  names: readonly Name[];
}

/** Shows new settings in the fields that the person has not changed. */
function Refresh({ form, settings, names }: RefreshProps) {
  // biome-ignore lint/correctness/useExhaustiveDependencies: only new settings matter.
  useEffect(() => {
    const stored = valuesOf(settings, names);
    form.setValues(Object.fromEntries(Object.entries(stored).filter(([name]) => !form.isDirty(name as Name))));
    form.resetDirty(stored);
  }, [settings]);
  return null;
}

interface SectionActionsProps {
  isFixed: boolean;
  isChanged: boolean;
  isSaved: boolean;
  isBusy: boolean;
  discard(): void;
  tests: ReactNode;
}

function SectionActions({ isFixed, isChanged, isSaved, isBusy, discard, tests }: SectionActionsProps) {
  const t = useSettingsTexts();
  return (
    <Group mih={isFixed && tests === undefined ? 0 : 36}>
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
  );
}

/** The properties of a field, which a variable of the environment makes read-only. */
function useSetting(settings: Settings, name: TextName | DaysName | SecretName) {
  const t = useSettingsTexts();
  const { source, variable } = settings[name];
  const isFixed = source === "environment";
  return {
    name,
    label: t[name],
    description: isFixed ? t.fixed(variable) : t[`${name}Help`],
    readOnly: isFixed,
    variant: isFixed ? "filled" : "default",
  };
}

/** A text; empty returns to the default. */
function TextSetting({ settings, name }: { settings: Settings; name: TextName }) {
  const { value, source } = settings[name];
  return <TextField {...useSetting(settings, name)} placeholder={source === "default" ? value : ""} />;
}

/** A secret: what is stored stays in the database, and a new value replaces it. */
function SecretSetting({ settings, name }: { settings: Settings; name: SecretName }) {
  const t = useSettingsTexts();
  const { isSet, shown } = settings[name];
  const setting = useSetting(settings, name);
  const { value, onChange } = useField(name, {});
  return (
    <Group align="flex-end" wrap="nowrap">
      <PasswordField
        {...setting}
        autoComplete="off"
        data-1p-ignore
        placeholder={value === null ? t.removing : isSet ? (shown ?? t.isSet) : t.notSet}
        value={value ?? ""}
        style={{ flex: 1 }}
      />
      {isSet && !setting.readOnly && (
        <Button variant="default" disabled={value === null} onClick={() => onChange(null)}>
          {t.remove}
        </Button>
      )}
    </Group>
  );
}

function General(part: PartProps) {
  const t = useSettingsTexts();
  return (
    <Section {...part} title={t.general} names={["name", "logo"]}>
      <TextSetting settings={part.settings} name="name" />
      <LogoField />
    </Section>
  );
}

function LogoField() {
  const t = useSettingsTexts();
  const [isTooLarge, setIsTooLarge] = useState(false);
  const { name, value, onChange, error } = useField("logo", {});
  const choose = async (file: File | null) => {
    if (file === null) return;
    setIsTooLarge(file.size > logoBytesMax);
    if (file.size <= logoBytesMax) onChange(await dataUrlOf(file));
  };
  return (
    <Input.Wrapper
      label={t.logo}
      description={t.logoHelp}
      error={isTooLarge ? t.logoTooLarge : error}
      labelElement="div"
    >
      <Group gap="sm" h={36}>
        {value ? <Image src={value} alt={t.logo} h={24} w="auto" maw={120} /> : <Text c="dimmed">{t.noLogo}</Text>}
        <FileButton name={name} accept="image/png,image/svg+xml" onChange={(file) => void choose(file)}>
          {(props) => (
            <Button variant="default" size="xs" {...props}>
              {t.chooseLogo}
            </Button>
          )}
        </FileButton>
        {value && (
          <Button variant="default" size="xs" onClick={() => onChange("")}>
            {t.removeLogo}
          </Button>
        )}
      </Group>
    </Input.Wrapper>
  );
}

function Addresses(part: PartProps) {
  const t = useSettingsTexts();
  const { baseUrl, alternatives } = useRead("readCatalogue").data ?? {};
  return (
    <Section {...part} title={t.addresses} names={["gatewayUrl"]}>
      <TextSetting settings={part.settings} name="gatewayUrl" />
      {baseUrl != null && baseUrl !== part.settings.gatewayUrl.value && (
        <Text>
          {t.catalogueWins([baseUrl, ...Object.values(alternatives ?? {})].join(", "))}{" "}
          <PageLink to="/catalogue" underline="always">
            {t.catalogue}
          </PageLink>
        </Text>
      )}
    </Section>
  );
}

function MailSection(part: PartProps) {
  const t = useSettingsTexts();
  const me = useMe();
  const [result, setResult] = useState<string>();
  const sendTest = () =>
    openDialog(
      <FormDialog
        title={t.sendTestMail}
        submit={t.send}
        initialValues={{ to: me.email ?? "" }}
        onSubmit={async (body) => {
          const { problem } = await call("sendTestMail", { body });
          setResult(problem === null ? t.mailWorked(body.to) : t.mailFailed(problem));
        }}
      >
        <TextField name="to" label={t.testMailTo} type="email" required data-autofocus />
      </FormDialog>,
    );
  const tests = (
    <>
      <Button variant="default" disabled={!part.settings.smtpUrl.isSet} onClick={sendTest}>
        {t.sendTestMail}
      </Button>
      {result && <Text role="status">{result}</Text>}
    </>
  );
  return (
    <Section {...part} title={t.mail} about={t.mailAbout} names={["smtpUrl", "mailFrom"]} tests={tests}>
      <SecretSetting settings={part.settings} name="smtpUrl" />
      <TextSetting settings={part.settings} name="mailFrom" />
    </Section>
  );
}

function AlertsSection(part: PartProps) {
  const t = useSettingsTexts();
  const { isBusy, result, fault, run } = useAction(async () => {
    const { problem } = await call("sendTestAlert");
    return problem === null ? t.alertWorked : t.alertFailed(problem);
  });
  const tests = (
    <>
      <Button variant="default" loading={isBusy} disabled={!part.settings.alertWebhookUrl.isSet} onClick={run}>
        {t.sendTestAlert}
      </Button>
      {result && <Text role="status">{result}</Text>}
      {fault !== undefined && <FaultNotice error={fault} />}
    </>
  );
  return (
    <Section
      {...part}
      title={t.alerts}
      about={t.alertsAbout}
      names={["alertWebhookUrl", "alertWebhookSecret"]}
      tests={tests}
    >
      <SecretSetting settings={part.settings} name="alertWebhookUrl" />
      <SecretSetting settings={part.settings} name="alertWebhookSecret" />
    </Section>
  );
}

/** The OpenID Connect provider. */
function ProviderSection(part: PartProps) {
  const t = useSettingsTexts();
  const { settings } = part;
  return (
    <Section {...part} title={t.provider} about={t.providerAbout} names={oidcNames}>
      {(values) => (
        <>
          <TextSetting settings={settings} name="oidcIssuer" />
          <TextSetting settings={settings} name="oidcClientId" />
          <SecretSetting settings={settings} name="oidcClientSecret" />
          <TextSetting settings={settings} name="oidcName" />
          <SimpleGrid cols={{ base: 1, sm: 3 }}>
            <TextSetting settings={settings} name="oidcEmailClaim" />
            <TextSetting settings={settings} name="oidcNameClaim" />
            <TextSetting settings={settings} name="oidcGroupsClaim" />
          </SimpleGrid>
          <TextSetting settings={settings} name="oidcGroups" />
          <TextSetting settings={settings} name="oidcMapping" />
          <CreatesAccounts settings={settings} />
          <Text c="dimmed">{t.redirectAddress(`${location.origin}/api/auth/callback/oidc`)}</Text>
          <ProviderTest settings={settings} values={values} />
        </>
      )}
    </Section>
  );
}

function CreatesAccounts({ settings }: { settings: Settings }) {
  const t = useSettingsTexts();
  return (
    <SelectField
      {...useSetting(settings, "oidcCreatesAccounts")}
      data={[
        { value: "", label: t.no },
        { value: "true", label: t.yes },
      ]}
      allowDeselect={false}
    />
  );
}

/** Signs in with the values of the fields, without saving them, and shows what came of it. */
function ProviderTest({ settings, values }: { settings: Settings; values: Values }) {
  const t = useSettingsTexts();
  const { search } = useFilters();
  const { isBusy, fault, run } = useAction(async () => {
    const changed = oidcNames.filter((name) => values[name] !== fieldValueOf(settings, name));
    const body: Change = Object.fromEntries(changed.map((name) => [name, values[name] === "" ? null : values[name]]));
    const { url } = await call("startOidcTest", { body });
    window.open(url, "_blank", "noopener");
  });
  return (
    <>
      <Group>
        <Button variant="default" loading={isBusy} onClick={run}>
          {t.testSignIn}
        </Button>
        <Text c="dimmed">{t.testSignInHelp}</Text>
      </Group>
      {fault !== undefined && <FaultNotice error={fault} />}
      {search.test !== undefined && <ProviderResult test={search.test} />}
    </>
  );
}

function ProviderResult({ test }: { test: string }) {
  const t = useSettingsTexts();
  return (
    <Loaded from={useRead("readOidcTest", { query: { test } })}>
      {({ problem, claims, isAllowed, email, groups, memberships }) => (
        <Stack gap="xs" role="status">
          <Text fw={600}>
            {problem === null ? (isAllowed ? t.testAllowed(email ?? "") : t.testRefused) : t.testFailed(problem)}
          </Text>
          {problem === null && (
            <>
              <Text>{groups === null ? t.noGroups : t.groupsAre(groups.join(", "))}</Text>
              <List>
                {memberships.map(({ account, role, exists }) => (
                  <List.Item key={account}>
                    {`${account}: ${role}`}
                    {!exists && ` ${t.accountMissing}`}
                  </List.Item>
                ))}
              </List>
              <Code block>{claims}</Code>
            </>
          )}
        </Stack>
      )}
    </Loaded>
  );
}

function Retention(part: PartProps) {
  const t = useSettingsTexts();
  const { usageDays, auditDays } = part.settings;
  const consequenceOf = ({ usageDays: usage, auditDays: audit }: Change): string | undefined => {
    // Null is the default, which may be lower too.
    const usageNext = usage === null ? defaultUsageDays : usage;
    const lines = [
      ...(usageNext !== undefined && usageNext < usageDays.value ? [t.lowerUsage(usageNext)] : []),
      ...(audit && (auditDays.value === 0 || audit < auditDays.value) ? [t.lowerAudit(audit)] : []),
    ];
    return lines.length === 0 ? undefined : lines.join(" ");
  };
  const days = { allowDecimal: false, allowNegative: false, hideControls: true, w: 260 };
  return (
    <Section {...part} title={t.retention} names={["usageDays", "auditDays"]} consequenceOf={consequenceOf}>
      <Group gap="md" align="flex-start">
        <NumberField {...useSetting(part.settings, "usageDays")} {...days} />
        <NumberField {...useSetting(part.settings, "auditDays")} {...days} />
      </Group>
    </Section>
  );
}

function PublicModels() {
  const t = useSettingsTexts();
  const catalogue = useRead("readCatalogue").data;
  if (catalogue === undefined) return null;
  return (
    <Paper withBorder p="md" component="section" aria-label={t.publicModels}>
      <Stack>
        <Title order={2}>{t.publicModels}</Title>
        <Text>{catalogue.publicGroup === null ? t.notPublic : t.isPublic(catalogue.publicGroup)}</Text>
        <Group gap="md">
          <PageLink to="/models">{t.models}</PageLink>
          <PageLink to="/catalogue">{t.catalogue}</PageLink>
        </Group>
      </Stack>
    </Paper>
  );
}
