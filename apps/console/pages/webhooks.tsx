/** The webhooks of the person's accounts, and the deliveries of their events. */

import { Button, Group, Text } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useMemo } from "react";
import { webhookEvents } from "#api/vocabulary.ts";
import { useFilters } from "../app/address.ts";
import { call } from "../app/call.ts";
import { change, type Item, queryClient, useList } from "../app/queries.ts";
import { useAccounts } from "../parts/accounts.ts";
import { ConfirmDialog, FormDialog, openDialog } from "../parts/dialogs.tsx";
import { Cut } from "../parts/facts.tsx";
import { FilterSelect } from "../parts/filters.tsx";
import { NumberField } from "../parts/form.tsx";
import { Empty, Page } from "../parts/page.tsx";
import { RowMenu } from "../parts/row-menu.tsx";
import { ListTable, RowButton, StateCell, useColumns } from "../parts/table.tsx";
import { Deliveries } from "../webhooks/deliveries.tsx";
import { showSecret, WebhookForm } from "../webhooks/webhook-form.tsx";
import { useWebhooksTexts } from "../webhooks/webhooks.texts.ts";

type Webhook = Item<"listWebhooks">;
const everyMs = 10_000;
const overlapHours = 24;

export function Webhooks() {
  const t = useWebhooksTexts();
  const { account } = useFilters().search;
  const accounts = useAccounts("member");
  const webhooks = useList("listWebhooks", { query: { account } }, { everyMs });
  const create = (
    <Button onClick={() => openDialog(<WebhookForm accounts={accounts} account={account} />)}>{t.create}</Button>
  );
  return (
    <Page title={t.title} about={t.about} actions={create}>
      {accounts.length > 1 && (
        <Group>
          <FilterSelect name="account" title={t.account} data={accounts} searchable w={220} />
        </Group>
      )}
      <ListTable
        from={webhooks}
        label={t.title}
        columns={useWebhookColumns(accounts.length > 1)}
        minWidth={980}
        waitingRows={3}
        empty={<Empty title={t.none}>{t.noneWhy}</Empty>}
      />
      {(webhooks.data?.length ?? 0) > 0 && <Deliveries webhooks={webhooks.data ?? []} />}
    </Page>
  );
}

function useWebhookColumns(hasAccounts: boolean) {
  const t = useWebhooksTexts();
  const c = useColumns<Webhook>();
  return useMemo(
    () => [
      c.cell(
        "name",
        t.name,
        ({ name }) => (
          <Text fw={500}>
            <Cut width={160}>{name}</Cut>
          </Text>
        ),
        { sortBy: ({ name }) => name },
      ),
      c.cut("url", t.url, 280),
      c.cell("state", t.state, (webhook) => <WebhookState webhook={webhook} />),
      c.cell("events", t.events, ({ events }) => (
        <span title={events.join("\n")}>
          {events.length === webhookEvents.length ? t.allEvents : t.eventCount(events.length)}
        </span>
      )),
      ...(hasAccounts ? [c.account(t.account)] : []),
      c.ago("createdAt", t.created),
      c.actions((webhook) => <WebhookActions webhook={webhook} />),
    ],
    [t, c, hasAccounts],
  );
}

function WebhookState({ webhook: { isEnabled, disabledReason, failingSince } }: { webhook: Webhook }) {
  const t = useWebhooksTexts();
  const c = useColumns<Webhook>();
  if (!isEnabled)
    return (
      <StateCell color={disabledReason === "person" ? "gray" : "red"}>
        {t.reasons[disabledReason ?? "person"]}
      </StateCell>
    );
  return failingSince === null ? (
    <StateCell color="teal">{t.enabled}</StateCell>
  ) : (
    <span title={c.format.time(failingSince)}>
      <StateCell color="yellow">{t.failing}</StateCell>
    </span>
  );
}

function WebhookActions({ webhook }: { webhook: Webhook }) {
  const t = useWebhooksTexts();
  const { id, name, isEnabled } = webhook;
  const params = { webhook: id };
  const test = async () => {
    await call("testWebhook", { params });
    notifications.show({ message: t.tested });
    await queryClient.invalidateQueries({ queryKey: ["listDeliveries"] });
  };
  const enable = () => change("updateWebhook", { params, body: { isEnabled: true } });
  const ask = (question: "disable" | "remove") => () =>
    openDialog(<WebhookQuestion webhook={webhook} question={question} />);
  return (
    <Group gap={4} justify="flex-end" wrap="nowrap">
      {isEnabled && (
        <RowButton label={`${t.test} ${name}`} onClick={() => void test()}>
          {t.test}
        </RowButton>
      )}
      <RowMenu
        label={t.actionsOf(name)}
        items={[
          { text: t.edit, onClick: () => openDialog(<WebhookForm of={webhook} />) },
          { text: t.rotate, onClick: () => openDialog(<RotateForm webhook={webhook} />) },
          isEnabled ? { text: t.disable, onClick: ask("disable") } : { text: t.enable, onClick: () => void enable() },
          { text: t.remove, isDestructive: true, onClick: ask("remove") },
        ]}
      />
    </Group>
  );
}

function WebhookQuestion({ webhook: { id, name }, question }: { webhook: Webhook; question: "disable" | "remove" }) {
  const t = useWebhooksTexts();
  const params = { webhook: id };
  return (
    <ConfirmDialog
      title={t[`${question}Title`](name)}
      submit={t[question]}
      consequence={t[`${question}Why`]}
      onSubmit={() =>
        question === "remove"
          ? call("deleteWebhook", { params })
          : call("updateWebhook", { params, body: { isEnabled: false } })
      }
    />
  );
}

function RotateForm({ webhook: { id, name } }: { webhook: Webhook }) {
  const t = useWebhooksTexts();
  return (
    <FormDialog
      title={t.rotateTitle(name)}
      submit={t.rotate}
      initialValues={{ overlapSeconds: overlapHours as string | number }}
      onSubmit={async ({ overlapSeconds: hours }) => {
        const body = { overlapSeconds: Math.round(Number(hours) * 3_600) };
        showSecret(await call("rotateWebhookSecret", { params: { webhook: id }, body }));
      }}
    >
      <Text>{t.rotateWhy}</Text>
      <NumberField name="overlapSeconds" label={t.overlap} required min={0} max={168} data-autofocus />
    </FormDialog>
  );
}
