/** The first page: today's figures, and all that is needed to call a model. */
import { Alert, Button, Group, Paper, Select, SimpleGrid, Stack, Text, Title } from "@mantine/core";
import { getRouteApi } from "@tanstack/react-router";
import { useState } from "react";
import { translated, useFormats, useTexts } from "../app/language.tsx";
import { useRead } from "../app/queries.ts";
import { may, useMe } from "../app/session.ts";
import { AccessFields, type Catalogue, useAccess } from "../parts/access.tsx";
import { KeyForm, type NewKey, NewKeyDialog } from "../parts/key-dialogs.tsx";
import { ButtonLink, PageLink } from "../parts/link.tsx";
import { Page } from "../parts/page.tsx";
import { Snippets } from "../parts/snippets.tsx";
import { Empty, Failure, Loaded } from "../parts/states.tsx";
import { knownDialect, modules } from "../playground/dialects.ts";
import { RunCard } from "../playground/run-view.tsx";
import { isRunning, useRun } from "../playground/use-run.ts";
import { type Client, clientNames, clientsFor, dialectOf, kindOf, snippetsOf } from "./snippets.ts";

const texts = translated({
  en: {
    title: "Start",
    noPassword: "Set a password, or this link was your only way in",
    noPasswordWhy: "You have signed in with a link, which works once. With a password you can sign in again.",
    setPassword: "Set a password",
    today: "Today (UTC)",
    requests: "Requests",
    cost: "Cost",
    tokens: "Tokens",
    tokensOf: (input: string, output: string) => `${input} in, ${output} out`,
    errors: "Errors",
    errorsOf: (failed: string, refused: string) => `${failed} failed, ${refused} refused`,
    callTitle: "Call a model",
    model: "Model",
    client: "Client",
    noModels: "The catalogue has no models",
    noModelsWhy: "An operator adds models to catalogue.yaml; they appear here within a second.",
    noAddress: "The base URL is unknown. An operator sets addresses.baseUrl in the catalogue, or GATEWAY_URL.",
    createKey: "Create a key",
    placeholder: "Replace YOUR_KEY with one of your keys, or create one: it is filled in until you leave this page.",
    filled: (name: string) => `The key ${name} is filled in until you leave this page.`,
    run: "Run",
    stop: "Stop",
    runWhy: "Sends this prompt from the browser, with a key of its own that is valid for eight hours.",
    readersOnly: "Your role may read, so it cannot create keys. Ask an owner of your account for the role of a member.",
    playground: "Open in the playground",
  },
  zh: {
    title: "开始",
    noPassword: "请设置密码，否则此链接将是您唯一的登录方式",
    noPasswordWhy: "您使用的是一次性登录链接。设置密码后可以再次登录。",
    setPassword: "设置密码",
    today: "今日（UTC）",
    requests: "请求",
    cost: "费用",
    tokens: "令牌",
    tokensOf: (input: string, output: string) => `输入 ${input}，输出 ${output}`,
    errors: "错误",
    errorsOf: (failed: string, refused: string) => `失败 ${failed}，拒绝 ${refused}`,
    callTitle: "调用模型",
    model: "模型",
    client: "客户端",
    noModels: "目录中没有模型",
    noModelsWhy: "运维人员将模型加入 catalogue.yaml 后，一秒内会出现在这里。",
    noAddress: "Base URL 未知。运维人员可在目录中设置 addresses.baseUrl，或设置 GATEWAY_URL。",
    createKey: "创建密钥",
    placeholder: "将 YOUR_KEY 替换为您的密钥，或新建一个：离开此页面之前会自动填入。",
    filled: (name: string) => `密钥 ${name} 已填入，离开此页面后清除。`,
    run: "运行",
    stop: "停止",
    runWhy: "从浏览器发送此提示词，使用一个有效期八小时的专用密钥。",
    readersOnly: "您的角色只能查看，不能创建密钥。请联系账户所有者授予成员角色。",
    playground: "在试验场中打开",
  },
});

const route = getRouteApi("/inside/");
const everyMs = 15_000;
const prompt = "Hello! Who are you?";
const placeholder = "YOUR_KEY";

export function Start() {
  const t = useTexts(texts);
  const me = useMe();
  const catalogue = useRead("readCatalogue");
  return (
    <Page title={t.title}>
      {me.isOperator && me.kind === "person" && !me.hasPassword && (
        <Alert color="yellow" role="status">
          <Group justify="space-between">
            <div>
              <Text fw={600}>{t.noPassword}</Text>
              <Text>{t.noPasswordWhy}</Text>
            </div>
            <ButtonLink to="/me" size="xs" variant="default">
              {t.setPassword}
            </ButtonLink>
          </Group>
        </Alert>
      )}
      <Today currency={catalogue.data?.currency ?? "USD"} />
      <Title order={2}>{t.callTitle}</Title>
      <Loaded from={catalogue}>{(value) => <CallModel catalogue={value} />}</Loaded>
    </Page>
  );
}

const midnight = () => `${new Date().toISOString().slice(0, 10)}T00:00:00Z`;

function Today({ currency }: { currency: string }) {
  const t = useTexts(texts);
  const format = useFormats();
  const from = midnight();
  const { data, error, refetch } = useRead(
    "sumUsage",
    { query: { from, interval: "none" } },
    { everyMs, keepsPrevious: true },
  );
  const total = data?.total;
  const search = { from };
  const figures: {
    name: string;
    value: string | undefined;
    more?: string | undefined;
    to: "/usage" | "/requests";
    search: Record<string, string>;
  }[] = [
    {
      name: t.requests,
      value: total && format.short(total.requests),
      more: total && format.count(total.requests),
      to: "/requests",
      search,
    },
    {
      name: t.cost,
      value: total && format.money(total.cost, currency),
      more: total && format.exactMoney(total.cost, currency),
      to: "/usage",
      search,
    },
    {
      name: t.tokens,
      value: total && format.short(total.inputTokens + total.outputTokens),
      more: total && t.tokensOf(format.count(total.inputTokens), format.count(total.outputTokens)),
      to: "/usage",
      search,
    },
    {
      name: t.errors,
      value: total && format.short(total.failed + total.refused),
      more: total && t.errorsOf(format.count(total.failed), format.count(total.refused)),
      to: "/requests",
      search: { ...search, outcome: "failed,refused" },
    },
  ];
  return (
    <>
      {error && <Failure error={error} retry={() => void refetch()} />}
      <Stack gap="xs" component="section">
        <Title order={2}>{t.today}</Title>
        <SimpleGrid cols={{ base: 2, sm: 4 }} spacing="sm">
          {figures.map(({ name, value, more, to, search: filter }) => (
            <Paper key={name} withBorder p="sm">
              <Text size="sm" c="dimmed">
                <PageLink to={to} search={filter} c="inherit" underline="hover">
                  {name}
                </PageLink>
              </Text>
              <Text size="xl" fw={600} title={more}>
                {value ?? "–"}
              </Text>
            </Paper>
          ))}
        </SimpleGrid>
      </Stack>
    </>
  );
}

function CallModel({ catalogue }: { catalogue: Catalogue }) {
  const t = useTexts(texts);
  const me = useMe();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const choose = (change: Record<string, string | undefined>) =>
    void navigate({ search: (now) => ({ ...now, ...change }), replace: true, resetScroll: false });
  const callable = catalogue.models.filter(({ capabilities }) => kindOf(capabilities) !== undefined);
  const model =
    callable.find(({ id }) => id === search.model) ??
    callable.find(({ capabilities }) => kindOf(capabilities) === "chat") ??
    callable[0];
  const access = useAccess(catalogue, search, model?.id);
  const [isCreating, setIsCreating] = useState(false);
  const [created, setCreated] = useState<NewKey>();
  const [isShown, setIsShown] = useState(false);
  const { run, start, stop, clear } = useRun();
  if (model === undefined)
    return (
      <Paper withBorder>
        <Empty title={t.noModels}>{t.noModelsWhy}</Empty>
      </Paper>
    );
  const kind = kindOf(model.capabilities) ?? "chat";
  const clients = clientsFor(kind);
  const client = clients.find((each) => each === search.client) ?? (clients[0] as Client);
  const dialect = dialectOf(client) ?? knownDialect(model.recommendedDialect);
  const { address, wish } = access;
  const mayCall = may(me, "member");
  const snippets =
    address === undefined
      ? []
      : snippetsOf(client, kind, {
          baseUrl: address.url,
          key: created?.key ?? placeholder,
          model: model.id,
          prompt,
          dialect,
        });
  return (
    <Paper withBorder p="sm">
      <Stack gap="sm">
        <Group gap="xs" align="flex-end">
          <Select
            label={t.model}
            data={callable.map(({ id }) => id)}
            value={model.id}
            onChange={(value) => {
              clear();
              choose({ model: value ?? undefined });
            }}
            searchable
            allowDeselect={false}
            w={240}
          />
          <Select
            label={t.client}
            data={clients.map((value) => ({ value, label: clientNames[value] }))}
            value={client}
            onChange={(value) => choose({ client: value ?? undefined })}
            searchable
            allowDeselect={false}
            w={220}
          />
          <AccessFields access={access} onChange={(change) => choose({ ...change })} />
        </Group>
        {address === undefined ? <Alert color="yellow">{t.noAddress}</Alert> : <Snippets snippets={snippets} />}
        {!mayCall && <Alert color="gray">{t.readersOnly}</Alert>}
        <Group gap="xs">
          {mayCall && (
            <Button variant="default" onClick={() => setIsCreating(true)}>
              {t.createKey}
            </Button>
          )}
          <Text size="sm" c="dimmed" style={{ flex: "1 1 240px" }}>
            {created ? t.filled(created.name) : t.placeholder}
          </Text>
        </Group>
        {kind === "chat" && mayCall && wish && (
          <Group gap="xs">
            {isRunning(run) ? (
              <Button variant="default" onClick={stop}>
                {t.stop}
              </Button>
            ) : (
              <Button
                onClick={() =>
                  void start(
                    wish,
                    dialect,
                    modules[dialect].requestOf([{ role: "user", text: prompt, images: [] }], { model: model.id }),
                  )
                }
              >
                {t.run}
              </Button>
            )}
            <Text size="sm" c="dimmed" style={{ flex: "1 1 240px" }}>
              {t.runWhy}
            </Text>
          </Group>
        )}
        {(kind === "chat" || kind === "image") && (
          <div>
            <PageLink to="/playground" search={{ model: model.id }}>
              {t.playground}
            </PageLink>
          </div>
        )}
        {run && kind === "chat" && <RunCard run={run} currency={catalogue.currency} />}
      </Stack>
      {isCreating && (
        <KeyForm
          onClose={() => setIsCreating(false)}
          onCreated={(key) => {
            setCreated(key);
            setIsShown(true);
          }}
        />
      )}
      {created && isShown && <NewKeyDialog created={created} onClose={() => setIsShown(false)} />}
    </Paper>
  );
}
