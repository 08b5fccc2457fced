/** The settings of a key, for a new one and for changes. */
import { Accordion, Group, NumberInput, Select, Stack, TagsInput, Text, TextInput } from "@mantine/core";
import { useMemo, useState } from "react";
import { call } from "../app/call.ts";
import { translated, useTexts } from "../app/language.tsx";
import { queryClient, useRead } from "../app/queries.ts";
import { useAccounts } from "./accounts.ts";
import { FormDialog } from "./dialogs.tsx";
import { NameField } from "./fields.tsx";
import { Field } from "./form.tsx";
import type { KeyFormProps, KeyRow } from "./key-dialogs.tsx";
import { isBudget, limitNames, limitTexts } from "./limit-texts.ts";

type Limits = NonNullable<KeyRow["limits"]>;

const texts = translated({
  en: {
    create: "Create key",
    edit: "Change key",
    save: "Save",
    account: "Account",
    nameHelp: "For people, such as the program that uses the key.",
    group: "Group",
    groupHelp: "Decides which models the key may use, and their prices.",
    expires: "Expires",
    expiresHelp: "Empty: never.",
    limits: "Limits and budgets",
    limitsHelp: "Empty: the limit of the group.",
    access: "Models, addresses and tags",
    models: "Models",
    modelsHelp: "Ids, or prefixes that end with *. Empty: all models of the group.",
    addresses: "Addresses",
    addressesHelp: "Addresses or networks that may use the key, such as 203.0.113.0/24. Empty: any.",
    origins: "Web origins",
    originsHelp: "Pages that may use the key in a browser, such as https://app.example.com. Empty: those of the group.",
    tags: "Tags",
    tagsHelp: "In every usage record of the key.",
    changed:
      "Somebody else has changed this key meanwhile. Close this, look at the key again, then repeat your change.",
  },
  zh: {
    create: "创建密钥",
    edit: "修改密钥",
    save: "保存",
    account: "账户",
    nameHelp: "供人识别，例如使用此密钥的程序。",
    group: "分组",
    groupHelp: "决定密钥可用的模型及其价格。",
    expires: "过期时间",
    expiresHelp: "留空表示永不过期。",
    limits: "限额与预算",
    limitsHelp: "留空则使用分组的限额。",
    access: "模型、地址与标签",
    models: "模型",
    modelsHelp: "模型 ID，或以 * 结尾的前缀。留空表示分组的全部模型。",
    addresses: "地址",
    addressesHelp: "允许使用密钥的地址或网段，例如 203.0.113.0/24。留空表示不限。",
    origins: "网页来源",
    originsHelp: "允许在浏览器中使用密钥的网页，例如 https://app.example.com。留空则使用分组的设置。",
    tags: "标签",
    tagsHelp: "写入此密钥的每条用量记录。",
    changed: "其他人刚刚修改了此密钥。请关闭窗口，重新查看密钥后再修改。",
  },
});

export function KeyForm({ of, etag, onClose, onCreated }: KeyFormProps) {
  const t = useTexts(texts);
  const names = useTexts(limitTexts);
  const accounts = useAccounts("member");
  const catalogue = useRead("readCatalogue");
  const [account, setAccount] = useState(of?.account ?? "");
  const [name, setName] = useState(of?.name ?? "");
  const [group, setGroup] = useState(of?.group ?? "");
  const [expires, setExpires] = useState(localTimeOf(of?.expiresAt ?? null));
  const [limits, setLimits] = useState<Limits>(of?.limits ?? {});
  const [models, setModels] = useState<string[]>(of?.models ?? []);
  const [addresses, setAddresses] = useState<string[]>(of?.addresses ?? []);
  const [origins, setOrigins] = useState<string[]>(of?.origins ?? []);
  const [tags, setTags] = useState<string[]>(of?.tags ?? []);
  const [open, setOpen] = useState(of?.limits ? ["limits"] : []);
  const groups = catalogue.data?.groups ?? [];
  const chosenGroup = group || (groups.find((each) => each.name === "default") ?? groups[0])?.name || "";
  const chosenAccount = account || (accounts.find(({ value }) => value === "default") ?? accounts[0])?.value || "";
  const known = useMemo(() => groups.find((each) => each.name === chosenGroup)?.models ?? [], [groups, chosenGroup]);
  const orNull = (list: string[]) => (list.length === 0 ? null : list);

  const send = async () => {
    const settings = {
      name,
      group: chosenGroup,
      models: orNull(models),
      expiresAt: expires === "" ? null : new Date(expires).toISOString(),
      limits: Object.keys(limits).length === 0 ? null : limits,
      addresses: orNull(addresses),
      origins: orNull(origins),
      tags,
    };
    if (of === undefined) onCreated?.(await call("createKey", { body: { account: chosenAccount, ...settings } }));
    else await call("updateKey", { params: { key: of.id }, body: settings }, { ifMatch: etag });
    await queryClient.invalidateQueries();
  };

  return (
    <FormDialog
      title={of ? t.edit : t.create}
      submit={of ? t.save : t.create}
      onSubmit={send}
      onFault={(field) => setOpen([...new Set([...open, ...(sectionOf(field) ?? [])])])}
      onClose={onClose}
      size="lg"
    >
      {of === undefined && accounts.length > 1 && (
        <Field name="account">
          <Select
            label={t.account}
            data={accounts}
            value={chosenAccount}
            onChange={(value) => setAccount(value ?? "")}
            searchable
            allowDeselect={false}
          />
        </Field>
      )}
      <NameField description={t.nameHelp} data-autofocus value={name} onChange={setName} />
      <Field name="group">
        <Select
          label={t.group}
          description={t.groupHelp}
          data={groups.map((each) => each.name)}
          value={chosenGroup}
          onChange={(value) => setGroup(value ?? "")}
          allowDeselect={false}
        />
      </Field>
      <Field name="expiresAt">
        <TextInput
          type="datetime-local"
          label={t.expires}
          description={t.expiresHelp}
          value={expires}
          onChange={({ currentTarget }) => setExpires(currentTarget.value)}
        />
      </Field>
      <Accordion variant="contained" multiple value={open} onChange={setOpen}>
        <Accordion.Item value="limits">
          <Accordion.Control>{t.limits}</Accordion.Control>
          <Accordion.Panel>
            <Text size="xs" c="dimmed" mb="xs">
              {t.limitsHelp}
            </Text>
            <Group grow wrap="wrap" preventGrowOverflow={false}>
              {limitNames.map((limit) => (
                <Field key={limit} name={`limits.${limit}`}>
                  <NumberInput
                    label={isBudget(limit) ? `${names[limit]} (${catalogue.data?.currency ?? ""})` : names[limit]}
                    min={isBudget(limit) ? 0 : 1}
                    allowDecimal={isBudget(limit)}
                    decimalScale={9}
                    thousandSeparator=" "
                    hideControls
                    value={limits[limit] ?? ""}
                    onChange={(value) => setLimits(withLimit(limits, limit, value))}
                    miw={200}
                  />
                </Field>
              ))}
            </Group>
          </Accordion.Panel>
        </Accordion.Item>
        <Accordion.Item value="access">
          <Accordion.Control>{t.access}</Accordion.Control>
          <Accordion.Panel>
            <Stack gap="sm">
              <Field name="models">
                <TagsInput
                  label={t.models}
                  description={t.modelsHelp}
                  data={known}
                  openOnFocus={false}
                  value={models}
                  onChange={setModels}
                />
              </Field>
              <Field name="addresses">
                <TagsInput
                  label={t.addresses}
                  description={t.addressesHelp}
                  value={addresses}
                  onChange={setAddresses}
                />
              </Field>
              <Field name="origins">
                <TagsInput label={t.origins} description={t.originsHelp} value={origins} onChange={setOrigins} />
              </Field>
              <Field name="tags">
                <TagsInput label={t.tags} description={t.tagsHelp} value={tags} onChange={setTags} />
              </Field>
            </Stack>
          </Accordion.Panel>
        </Accordion.Item>
      </Accordion>
    </FormDialog>
  );
}

/** The closed section that a field may be in. */
const sectionOf = (field: string): string[] | undefined =>
  field.startsWith("limits.") ? ["limits"] : /^(models|addresses|origins|tags)$/.test(field) ? ["access"] : undefined;

function withLimit(limits: Limits, name: keyof Limits, value: string | number): Limits {
  const { [name]: _, ...others } = limits;
  return value === "" ? others : { ...others, [name]: Number(value) };
}

/** For an input of local time: without seconds and zone. */
function localTimeOf(iso: string | null): string {
  if (iso === null) return "";
  const time = new Date(iso);
  return new Date(time.getTime() - time.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}
