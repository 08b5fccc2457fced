/** The settings of a key, for a new one and for changes. */
import { Accordion, Group, Stack, Text } from "@mantine/core";
import { useState } from "react";
import { type Answer, call } from "../app/call.ts";
import { type Item, useRead } from "../app/queries.ts";
import { useAccounts } from "./accounts.ts";
import { FormDialog } from "./dialogs.tsx";
import { NameField, NumberField, SelectField, TagsField, TextField } from "./form.tsx";
import { useKeyFormTexts } from "./key-form.texts.ts";
import { useLimitsTexts } from "./limits.texts.ts";
import { excessNames, isBudget, type Limits, limitNames } from "./limits.ts";

export interface KeyFormProps {
  /** The key to change; absent for a new one. */
  of?: Item<"listKeys">;
  etag?: string | undefined;
  onClose?(): void;
  onCreated?(key: Answer<"createKey">): void;
}

const priorities = ["interactive", "normal", "background"] as const;
const excesses = ["refuse", "wait"] as const;
/** Removes every limit in a change. */
const noLimits = Object.fromEntries([...limitNames, ...excessNames].map((name) => [name, null]));
const lists = ["models", "addresses", "origins", "tags"] as const;

const valuesOf = (key: KeyFormProps["of"]) => ({
  account: key?.account ?? "",
  name: key?.name ?? "",
  group: key?.group ?? "",
  expiresAt: localTimeOf(key?.expiresAt ?? null),
  limits: Object.fromEntries(
    [...limitNames, ...excessNames].map((name): [string, string | number | null] => [name, key?.limits?.[name] ?? ""]),
  ),
  models: key?.models ?? [],
  addresses: key?.addresses ?? [],
  origins: key?.origins ?? [],
  tags: key?.tags ?? [],
  priority: key?.priority ?? null,
});
type Values = ReturnType<typeof valuesOf>;

export function KeyForm({ of, etag, onClose, onCreated }: KeyFormProps) {
  const t = useKeyFormTexts();
  const names = useLimitsTexts();
  const accounts = useAccounts("member");
  const groups = useRead("readCatalogue").data?.groups ?? [];
  const [openSections, setOpenSections] = useState(of?.limits ? ["limits"] : []);
  const defaultGroup = (groups.find(({ name }) => name === "default") ?? groups[0])?.name ?? "";
  const defaultAccount = (accounts.find(({ value }) => value === "default") ?? accounts[0])?.value ?? "";
  const send = async ({ account, ...values }: Values) => {
    const body = settingsOf({ ...values, group: values.group || defaultGroup });
    if (of === undefined)
      onCreated?.(await call("createKey", { body: { account: account || defaultAccount, ...body } }));
    else {
      const limits = { ...noLimits, ...body.limits };
      await call("updateKey", { params: { key: of.id }, body: { ...body, limits } }, { ifMatch: etag });
    }
  };
  return (
    <FormDialog
      title={of ? t.edit : t.create}
      submit={of ? t.save : t.create}
      initialValues={valuesOf(of)}
      onSubmit={send}
      onFault={(field) => setOpenSections([...new Set([...openSections, ...sectionsOf(field)])])}
      onClose={onClose}
      size="lg"
    >
      {({ account, group }) => (
        <>
          {of === undefined && accounts.length > 1 && (
            <SelectField
              name="account"
              label={t.account}
              data={accounts}
              value={account || defaultAccount}
              searchable
              allowDeselect={false}
            />
          )}
          <NameField description={t.nameHelp} data-autofocus />
          <SelectField
            name="group"
            label={t.group}
            description={t.groupHelp}
            data={groups.map(({ name }) => name)}
            value={group || defaultGroup}
            allowDeselect={false}
          />
          <SelectField
            name="priority"
            label={names.priority}
            description={t.priorityHelp}
            placeholder={t.ofGroup}
            data={priorities.map((value) => ({ value, label: names[value] }))}
            clearable
          />
          <TextField name="expiresAt" type="datetime-local" label={t.expires} description={t.expiresHelp} />
          <Accordion variant="contained" multiple value={openSections} onChange={setOpenSections}>
            <LimitFields />
            <AccessFields models={groups.find(({ name }) => name === (group || defaultGroup))?.models ?? []} />
          </Accordion>
        </>
      )}
    </FormDialog>
  );
}

function LimitFields() {
  const t = useKeyFormTexts();
  const names = useLimitsTexts();
  const currency = useRead("readCatalogue").data?.currency ?? "";
  return (
    <Accordion.Item value="limits">
      <Accordion.Control>{t.limits}</Accordion.Control>
      <Accordion.Panel>
        <Text size="xs" c="dimmed" mb="xs">
          {t.limitsHelp}
        </Text>
        <Group gap="md" grow wrap="wrap" preventGrowOverflow={false}>
          {limitNames.map((limit) => (
            <NumberField
              key={limit}
              name={`limits.${limit}`}
              label={isBudget(limit) ? `${names[limit]} (${currency})` : names[limit]}
              min={isBudget(limit) ? 0 : 1}
              allowDecimal={isBudget(limit)}
              decimalScale={9}
              thousandSeparator=" "
              hideControls
              miw={200}
            />
          ))}
          <SelectField
            name="limits.onLimit"
            label={names.onLimit}
            placeholder={t.ofGroup}
            data={excesses.map((value) => ({ value, label: names[value] }))}
            clearable
            miw={200}
          />
          <NumberField
            name="limits.waitMs"
            label={names.waitMs}
            min={1}
            allowDecimal={false}
            thousandSeparator=" "
            hideControls
            miw={200}
          />
        </Group>
      </Accordion.Panel>
    </Accordion.Item>
  );
}

/** `models` are offered; prefixes are allowed too. */
function AccessFields({ models }: { models: string[] }) {
  const t = useKeyFormTexts();
  return (
    <Accordion.Item value="access">
      <Accordion.Control>{t.access}</Accordion.Control>
      <Accordion.Panel>
        <Stack gap="sm">
          {lists.map((name) => (
            <TagsField
              key={name}
              name={name}
              label={t[name]}
              description={t[`${name}Help`]}
              {...(name === "models" && { data: models, openOnFocus: false })}
            />
          ))}
        </Stack>
      </Accordion.Panel>
    </Accordion.Item>
  );
}

/** The closed section that a field may be in. */
const sectionsOf = (field: string): string[] =>
  field.startsWith("limits.") ? ["limits"] : lists.some((name) => name === field) ? ["access"] : [];

const orNull = <Value,>(value: Value, isEmpty: boolean): Value | null => (isEmpty ? null : value);

function settingsOf({ expiresAt, limits, models, addresses, origins, ...others }: Omit<Values, "account">) {
  const typed = Object.entries(limits).filter(([, value]) => value !== "" && value !== null);
  return {
    ...others,
    models: orNull(models, models.length === 0),
    expiresAt: expiresAt === "" ? null : new Date(expiresAt).toISOString(),
    limits: orNull(
      Object.fromEntries(typed.map(([name, value]) => [name, name === "onLimit" ? value : Number(value)])) as Limits,
      typed.length === 0,
    ),
    addresses: orNull(addresses, addresses.length === 0),
    origins: orNull(origins, origins.length === 0),
  };
}

/** For an input of local time: without seconds and zone. */
function localTimeOf(iso: string | null): string {
  if (iso === null) return "";
  const time = new Date(iso);
  return new Date(time.getTime() - time.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}
