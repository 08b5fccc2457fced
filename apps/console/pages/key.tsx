/** One key: its settings, what it has spent, and what can be done with it. */
import { Badge, Button, Group, NumberInput, Paper, SimpleGrid, Stack, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useState } from "react";
import { call, callVersioned } from "../app/call.ts";
import { translated, useFormats, useTexts } from "../app/language.tsx";
import { queryClient, useRead } from "../app/queries.ts";
import { may, useMe } from "../app/session.ts";
import { CopyText } from "../parts/copy.tsx";
import { ConfirmDialog, FormDialog } from "../parts/dialogs.tsx";
import { type Fact, Facts } from "../parts/facts.tsx";
import { Field } from "../parts/form.tsx";
import { KeyForm, type NewKey, NewKeyDialog } from "../parts/key-dialogs.tsx";
import { KeyLimits } from "../parts/key-limits.tsx";
import { isBudget, limitNames, limitTexts } from "../parts/limit-texts.ts";
import { PageLink } from "../parts/link.tsx";
import { Page } from "../parts/page.tsx";
import { Loaded } from "../parts/states.tsx";
import { KeyState } from "./keys.tsx";

const texts = translated({
  en: {
    edit: "Change",
    rotate: "Rotate",
    revoke: "Revoke",
    rotateTitle: "Rotate this key",
    rotateWhy:
      "Creates a key with the same settings. The old key stays valid for the overlap, so that programs can change over.",
    overlap: "Overlap in hours",
    revokeTitle: (name: string) => `Revoke ${name}?`,
    revokeWhy:
      "Programs that use this key get status 401 within a second, and their running requests end. This cannot be undone.",
    today: "Today",
    month: "This month",
    total: "In total",
    settings: "Settings",
    id: "Id",
    ends: "Ends with",
    account: "Account",
    group: "Group",
    created: "Created",
    expires: "Expires",
    revokedAt: "Revoked",
    replacedBy: "Replaced by",
    lastUsed: "Last used",
    never: "Never",
    models: "Models",
    allModels: "All of the group",
    addresses: "Addresses",
    any: "Any",
    origins: "Web origins",
    ofGroup: "Those of the group",
    tags: "Tags",
    none: "None",
    limits: "Limits and budgets",
    limit: "Limit",
    value: "Value",
    seeUsage: "Usage of this key",
    seeRequests: "Requests of this key",
  },
  zh: {
    edit: "修改",
    rotate: "轮换",
    revoke: "吊销",
    rotateTitle: "轮换此密钥",
    rotateWhy: "创建一个设置相同的新密钥。旧密钥在重叠期内继续有效，便于程序切换。",
    overlap: "重叠期（小时）",
    revokeTitle: (name: string) => `吊销 ${name}？`,
    revokeWhy: "使用此密钥的程序会在一秒内收到 401，其正在进行的请求会终止。此操作无法撤销。",
    today: "今日",
    month: "本月",
    total: "总计",
    settings: "设置",
    id: "ID",
    ends: "末尾字符",
    account: "账户",
    group: "分组",
    created: "创建时间",
    expires: "过期时间",
    revokedAt: "吊销时间",
    replacedBy: "替代密钥",
    lastUsed: "最近使用",
    never: "从未",
    models: "模型",
    allModels: "分组的全部模型",
    addresses: "地址",
    any: "不限",
    origins: "网页来源",
    ofGroup: "使用分组的设置",
    tags: "标签",
    none: "无",
    limits: "限额与预算",
    limit: "限额",
    value: "值",
    seeUsage: "此密钥的用量",
    seeRequests: "此密钥的请求",
  },
});

const route = getRouteApi("/inside/keys/$key");
const overlapHours = 24;

export function Key() {
  const t = useTexts(texts);
  const limitNamesOf = useTexts(limitTexts);
  const format = useFormats();
  const me = useMe();
  const { key: id } = route.useParams();
  const read = useQuery({
    queryKey: ["getKey", id],
    queryFn: ({ signal }) => callVersioned("getKey", { params: { key: id } }, { signal }),
    refetchInterval: 15_000,
  });
  const currency = useRead("readCatalogue").data?.currency ?? "USD";
  const [dialog, setDialog] = useState<"edit" | "rotate" | "revoke">();
  const [hours, setHours] = useState<string | number>(overlapHours);
  const [created, setCreated] = useState<NewKey>();
  const close = () => setDialog(undefined);
  return (
    <Loaded from={read}>
      {({ value: key, etag }) => {
        const canChange = may(me, "member", key.account) && key.state !== "revoked";
        const facts: Fact[] = [
          [t.id, <CopyText key="id" value={key.id} />],
          [t.ends, `…${key.hint}`],
          [t.account, key.account],
          [t.group, key.group],
          [t.created, format.time(key.createdAt)],
          [
            t.lastUsed,
            key.lastUsedAt === null ? t.never : `${format.time(key.lastUsedAt)} (${format.ago(key.lastUsedAt)})`,
          ],
          [t.expires, key.expiresAt === null ? t.never : format.time(key.expiresAt)],
          ...(key.revokedAt === null ? [] : [[t.revokedAt, format.time(key.revokedAt)] satisfies Fact]),
          ...(key.replacedBy === null
            ? []
            : [
                [
                  t.replacedBy,
                  <PageLink key="replaced" to="/keys/$key" params={{ key: key.replacedBy }}>
                    {key.replacedBy}
                  </PageLink>,
                ] satisfies Fact,
              ]),
          [t.models, key.models?.join(", ") ?? t.allModels],
          [t.addresses, key.addresses?.join(", ") ?? t.any],
          [t.origins, key.origins?.join(", ") ?? t.ofGroup],
          [
            t.tags,
            key.tags.length === 0
              ? t.none
              : key.tags.map((tag) => (
                  <Badge key={tag} variant="default" tt="none" mr={4}>
                    {tag}
                  </Badge>
                )),
          ],
        ];
        const limits = limitNames.filter((name) => key.limits?.[name] !== undefined);
        return (
          <Page
            title={key.name}
            about={<KeyState state={key.state} />}
            actions={
              canChange && (
                <>
                  <Button variant="default" onClick={() => setDialog("edit")}>
                    {t.edit}
                  </Button>
                  <Button variant="default" onClick={() => setDialog("rotate")}>
                    {t.rotate}
                  </Button>
                  <Button variant="light" color="red" onClick={() => setDialog("revoke")}>
                    {t.revoke}
                  </Button>
                </>
              )
            }
          >
            <SimpleGrid cols={{ base: 1, xs: 3 }}>
              {(["today", "month", "total"] as const).map((period) => (
                <Paper key={period} withBorder p="sm">
                  <Text c="dimmed" size="sm">
                    {t[period]}
                  </Text>
                  <Text size="xl" fw={600} title={format.exactMoney(key.spend[period], currency)}>
                    {format.money(key.spend[period], currency)}
                  </Text>
                </Paper>
              ))}
            </SimpleGrid>
            <Group gap="md">
              <PageLink to="/usage" search={{ key: key.id }}>
                {t.seeUsage}
              </PageLink>
              <PageLink to="/requests" search={{ key: key.id }}>
                {t.seeRequests}
              </PageLink>
            </Group>
            {key.state !== "revoked" && <KeyLimits id={key.id} account={key.account} currency={currency} />}
            <Stack gap="xs">
              <Title order={2}>{t.settings}</Title>
              <Facts
                facts={[
                  ...facts,
                  ...limits.map((name): Fact => {
                    const value = key.limits?.[name] ?? 0;
                    return [limitNamesOf[name], isBudget(name) ? format.money(value, currency) : format.count(value)];
                  }),
                ]}
              />
            </Stack>
            {dialog === "edit" && <KeyForm of={key} etag={etag} onClose={close} />}
            {dialog === "rotate" && (
              <FormDialog
                title={t.rotateTitle}
                submit={t.rotate}
                onClose={close}
                onSubmit={async () => {
                  const body = { overlapSeconds: Math.round(Number(hours) * 3_600) };
                  setCreated(await call("rotateKey", { params: { key: key.id }, body }));
                  await queryClient.invalidateQueries();
                }}
              >
                <Text>{t.rotateWhy}</Text>
                <Field name="overlapSeconds">
                  <NumberInput
                    label={t.overlap}
                    required
                    min={0}
                    max={720}
                    value={hours}
                    onChange={setHours}
                    data-autofocus
                  />
                </Field>
              </FormDialog>
            )}
            {dialog === "revoke" && (
              <ConfirmDialog
                title={t.revokeTitle(key.name)}
                submit={t.revoke}
                consequence={t.revokeWhy}
                onClose={close}
                onSubmit={async () => {
                  await call("revokeKey", { params: { key: key.id } });
                  await queryClient.invalidateQueries();
                }}
              />
            )}
            {created && <NewKeyDialog created={created} onClose={() => setCreated(undefined)} />}
          </Page>
        );
      }}
    </Loaded>
  );
}
