/** The first page: today's figures, and all that is needed to call a model. */
import { Alert, Badge, Button, Group, Paper, Stack, Text, Title } from "@mantine/core";
import { lazy, Suspense, useState } from "react";
import { type Search, useFilters } from "../app/address.ts";
import type { Answer } from "../app/call.ts";
import { useFormats } from "../app/language.tsx";
import { useRead } from "../app/queries.ts";
import { may, useMe } from "../app/session.ts";
import { type Access, AccessFields, type Catalogue, useAccess } from "../parts/access.tsx";
import { useRecentAlerts } from "../parts/alerts.ts";
import { precisionOf } from "../parts/amounts.ts";
import { type Client, clientNames, clientsFor, dialectOf, kindOf, snippetsOf } from "../parts/client-code.ts";
import { openDialog } from "../parts/dialogs.tsx";
import { Figures, useMoney } from "../parts/facts.tsx";
import { FilterSelect } from "../parts/filters.tsx";
import { AccountLink, ButtonLink, PageLink } from "../parts/link.tsx";
import { Empty, Failure, Loaded, Page, Section } from "../parts/page.tsx";
import { Snippets } from "../parts/snippets.tsx";
import type { Dialect } from "../playground/conversation.ts";
import { knownDialect, modules } from "../playground/dialects.ts";
import { RunCard } from "../playground/run-view.tsx";
import { isRunning, useRun } from "../playground/use-run.ts";
import { useStartTexts } from "./start.texts.ts";

/** Loaded when somebody wants a key, so that the page is there sooner. */
const keyDialogs = () => import("../parts/key-dialogs.tsx");
const KeyForm = lazy(async () => ({ default: (await keyDialogs()).KeyForm }));

const everyMs = 15_000;
const prompt = "Hello! Who are you?";
const placeholder = "YOUR_KEY";

export function Start() {
  const t = useStartTexts();
  const me = useMe();
  const catalogue = useRead("readCatalogue");
  return (
    <Page title={t.start}>
      {me.isOperator && me.kind === "person" && !me.hasPassword && (
        <Alert color="yellow" role="status">
          <Group gap="md" justify="space-between">
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
      <Today />
      <RecentAlerts />
      <Title order={2}>{t.callTitle}</Title>
      <Loaded from={catalogue}>{(value) => <CallModel catalogue={value} />}</Loaded>
    </Page>
  );
}

interface TodayFigure {
  name: string;
  value: string | undefined;
  exact: string | undefined;
  to: "/usage" | "/requests";
  filter?: Search;
}

function useTodayFigures(total: Answer<"sumUsage">["total"] | undefined): TodayFigure[] {
  const t = useStartTexts();
  const format = useFormats();
  const money = useMoney();
  return [
    {
      name: t.requests,
      value: total && format.short(total.requests),
      exact: total && format.count(total.requests),
      to: "/requests",
    },
    {
      name: t.cost,
      value: total && money.rounded(total.cost, precisionOf(total)),
      exact: total && money.exact(total.cost, precisionOf(total)),
      to: "/usage",
    },
    {
      name: t.tokens,
      value: total && format.short(total.inputTokens + total.outputTokens),
      exact: total && t.tokensOf(format.count(total.inputTokens), format.count(total.outputTokens)),
      to: "/usage",
    },
    {
      name: t.errors,
      value: total && format.short(total.failed + total.refused),
      exact: total && t.errorsOf(format.count(total.failed), format.count(total.refused)),
      to: "/requests",
      filter: { outcome: "failed,refused" },
    },
  ];
}

function Today() {
  const t = useStartTexts();
  const from = `${new Date().toISOString().slice(0, 10)}T00:00:00Z`;
  const sums = useRead("sumUsage", { query: { from, interval: "none" } }, { everyMs, keepsPrevious: true });
  const figures = useTodayFigures(sums.data?.total);
  return (
    <>
      {sums.error && <Failure error={sums.error} retry={() => void sums.refetch()} />}
      <Section title={t.today}>
        <Figures
          cols={{ base: 2, sm: 4 }}
          figures={figures.map(({ to, filter, value = "–", ...figure }) => ({
            ...figure,
            value,
            title: (
              <PageLink to={to} search={{ from, ...filter }} c="inherit" underline="hover">
                {figure.name}
              </PageLink>
            ),
          }))}
        />
      </Section>
    </>
  );
}

const alertsShown = 5;

/** The newest alerts of the last week, with their number; nothing if there are none. */
function RecentAlerts() {
  const t = useStartTexts();
  const format = useFormats();
  const recent = useRecentAlerts();
  if (recent.length === 0) return null;
  return (
    <Section
      title={
        <Group component="span">
          {t.alerts}
          <Badge color="red">{format.count(recent.length)}</Badge>
        </Group>
      }
    >
      <Paper withBorder p="sm">
        <Stack gap={4}>
          {recent.slice(0, alertsShown).map(({ id, at, kind, account, subject, detail }) => (
            <Group key={id} gap="sm">
              <Text fw={600}>{t.kinds[kind]}</Text>
              <Text>{typeof detail.name === "string" ? detail.name : subject}</Text>
              {account !== null && <AccountLink id={account} />}
              <Text c="dimmed" title={format.time(at)}>
                {format.ago(at)}
              </Text>
            </Group>
          ))}
        </Stack>
      </Paper>
    </Section>
  );
}

/** The model, the client and the dialect that the address or the catalogue choose. */
function useCallChoice(catalogue: Catalogue) {
  const { search } = useFilters();
  const models = catalogue.models.filter(({ capabilities }) => kindOf(capabilities) !== undefined);
  const model =
    models.find(({ id }) => id === search.model) ??
    models.find(({ capabilities }) => kindOf(capabilities) === "chat") ??
    models[0];
  const kind = kindOf(model?.capabilities ?? []) ?? "chat";
  const clients = clientsFor(kind);
  const client = clients.find((each) => each === search.client) ?? (clients[0] as Client);
  const dialect = dialectOf(client) ?? knownDialect(model?.recommendedDialect);
  return { models, model, kind, clients, client, dialect, access: useAccess(catalogue, search, model?.id) };
}

function CallModel({ catalogue }: { catalogue: Catalogue }) {
  const t = useStartTexts();
  const me = useMe();
  const { filter } = useFilters();
  const { models, model, kind, clients, client, dialect, access } = useCallChoice(catalogue);
  const [created, setCreated] = useState<Answer<"createKey">>();
  const runner = useRun();
  if (model === undefined)
    return (
      <Paper withBorder>
        <Empty title={t.noModels}>{t.noneWhy}</Empty>
      </Paper>
    );
  const { address } = access;
  const mayCall = may(me, "member");
  const createKey = (
    <Suspense>
      <KeyForm
        onCreated={async (key) => {
          setCreated(key);
          (await keyDialogs()).showNewKey(key);
        }}
      />
    </Suspense>
  );
  return (
    <Paper withBorder p="sm">
      <Stack gap="sm">
        <Group align="flex-end">
          <FilterSelect
            name="model"
            label={t.model}
            data={models.map(({ id }) => id)}
            value={model.id}
            onChange={(value) => {
              runner.clear();
              filter({ model: value ?? undefined });
            }}
            searchable
            allowDeselect={false}
            w={240}
          />
          <FilterSelect
            name="client"
            label={t.client}
            data={clients.map((value) => ({ value, label: clientNames[value] }))}
            value={client}
            searchable
            allowDeselect={false}
            w={220}
          />
          <AccessFields access={access} />
        </Group>
        {address === undefined ? (
          <Alert color="yellow">{t.noAddress}</Alert>
        ) : (
          <Snippets
            snippets={snippetsOf(client, kind, {
              baseUrl: address.url,
              key: created?.key ?? placeholder,
              model: model.id,
              prompt,
              dialect,
            })}
          />
        )}
        {!mayCall && <Alert color="gray">{t.readersOnly}</Alert>}
        <Group>
          {mayCall && (
            <Button variant="default" onClick={() => openDialog(createKey)}>
              {t.createKey}
            </Button>
          )}
          <Text size="sm" c="dimmed" style={{ flex: "1 1 240px" }}>
            {created ? t.filled(created.name) : t.placeholder}
          </Text>
        </Group>
        {kind === "chat" && mayCall && <RunLine model={model.id} {...{ dialect, access, runner }} />}
        {(kind === "chat" || kind === "image") && (
          <div>
            <PageLink to="/playground" search={{ model: model.id }}>
              {t.playground}
            </PageLink>
          </div>
        )}
        {runner.run && kind === "chat" && <RunCard run={runner.run} />}
      </Stack>
    </Paper>
  );
}

interface RunLineProps {
  model: string;
  dialect: Dialect;
  access: Access;
  runner: ReturnType<typeof useRun>;
}

function RunLine({ model, dialect, access: { wish }, runner: { run, start, stop } }: RunLineProps) {
  const t = useStartTexts();
  if (wish === undefined) return null;
  const request = () => modules[dialect].requestOf([{ role: "user", text: prompt, images: [] }], { model });
  return (
    <Group>
      {isRunning(run) ? (
        <Button variant="default" onClick={stop}>
          {t.stop}
        </Button>
      ) : (
        <Button onClick={() => void start(wish, dialect, request())}>{t.run}</Button>
      )}
      <Text size="sm" c="dimmed" style={{ flex: "1 1 240px" }}>
        {t.runWhy}
      </Text>
    </Group>
  );
}
