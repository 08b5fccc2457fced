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
import { queryClient, useRead } from "../app/queries.ts";
import { useMe } from "../app/session.ts";
import { ConfirmDialog, FormDialog } from "../parts/dialogs.tsx";
import { Field, Form } from "../parts/form.tsx";
import { PageLink } from "../parts/link.tsx";
import { Page } from "../parts/page.tsx";
import { FaultNotice, Loaded } from "../parts/states.tsx";
import { useSettingsTexts } from "./settings.texts.ts";

type Values = Answer<"readSettings">;
type Change = NonNullable<CallInput<"updateSettings">["body"]>;
type Name = keyof Change;
type Texts = ReturnType<typeof useSettingsTexts>;

const logoBytesMax = 65_536;
const queryKey = ["readSettings"];

export function Settings() {
  const t = useSettingsTexts();
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
  const t = useSettingsTexts();
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
  const t = useSettingsTexts();
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
  const t = useSettingsTexts();
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
  const t = useSettingsTexts();
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
  const t = useSettingsTexts();
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
  const t = useSettingsTexts();
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
  const t = useSettingsTexts();
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
  const t = useSettingsTexts();
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
  const t = useSettingsTexts();
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
  const t = useSettingsTexts();
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
  const t = useSettingsTexts();
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
