/** The deliveries of events, with their attempts. */
import { Group, Modal, Table } from "@mantine/core";
import { useMemo, useState } from "react";
import { useFilters } from "../app/address.ts";
import { useFormats } from "../app/language.tsx";
import { change, type Item, useList } from "../app/queries.ts";
import { Cut } from "../parts/facts.tsx";
import { FilterSelect } from "../parts/filters.tsx";
import { PageLink } from "../parts/link.tsx";
import { Empty, Section } from "../parts/page.tsx";
import { ListTable, RowButton, StateCell, useColumns } from "../parts/table.tsx";
import { useWebhooksTexts } from "./webhooks.texts.ts";

type Webhook = Item<"listWebhooks">;
type Delivery = Item<"listDeliveries">;

const everyMs = 3_000;
const colors = { pending: "gray", delivered: "teal", failed: "red" } as const;

export function Deliveries({ webhooks }: { webhooks: readonly Webhook[] }) {
  const t = useWebhooksTexts();
  const { account, webhook, state } = useFilters().search;
  const [shown, setShown] = useState<Delivery>();
  const query = { account, webhook, state: state as Delivery["state"] | undefined };
  return (
    <Section
      id="deliveries"
      title={t.deliveries}
      aside={
        <Group>
          <FilterSelect
            name="webhook"
            title={t.webhook}
            data={webhooks.map(({ id, name }) => ({ value: id, label: name }))}
            w={180}
          />
          <FilterSelect
            name="state"
            title={t.state}
            data={(["pending", "delivered", "failed"] as const).map((value) => ({ value, label: t.states[value] }))}
            w={160}
          />
        </Group>
      }
    >
      <ListTable
        from={useList("listDeliveries", { query }, { everyMs })}
        label={t.deliveries}
        columns={useDeliveryColumns(webhooks, setShown)}
        minWidth={980}
        empty={<Empty title={t.noDeliveries} />}
      />
      {shown && (
        <Modal
          opened
          onClose={() => setShown(undefined)}
          title={t.showAttempts(shown.eventId)}
          size="xl"
          closeButtonProps={{ "aria-label": t.close }}
        >
          <Attempts attempts={shown.attempts} />
        </Modal>
      )}
    </Section>
  );
}

function useDeliveryColumns(webhooks: readonly Webhook[], show: (delivery: Delivery) => void) {
  const t = useWebhooksTexts();
  const c = useColumns<Delivery>();
  const names = webhooks.map(({ id, name }) => `${id} ${name}`).join("\n");
  return useMemo(() => {
    const nameOf = new Map(names.split("\n").map((line) => [line.split(" ", 1)[0], line.slice(line.indexOf(" ") + 1)]));
    return [
      c.ago("createdAt", t.time),
      c.cell("type", t.event, ({ type }) => (
        <span title={type}>{t.eventNames[type as keyof typeof t.eventNames] ?? t.testEvent}</span>
      )),
      c.cell("subject", t.subject, ({ type, subject }) => {
        const text = <Cut width={170}>{subject}</Cut>;
        return type.startsWith("batch.") ? (
          <PageLink to="/batches/$batch" params={{ batch: subject }}>
            {text}
          </PageLink>
        ) : (
          text
        );
      }),
      c.cell("webhook", t.webhook, ({ webhook }) => <Cut width={130}>{nameOf.get(webhook) ?? webhook}</Cut>),
      c.cell("state", t.state, ({ state }) => <StateCell color={colors[state]}>{t.states[state]}</StateCell>, {
        sortBy: ({ state }) => state,
      }),
      c.cell("answer", t.lastAnswer, ({ attempts }) => <AnswerText attempt={attempts.at(-1)} />),
      c.cell("next", t.next, ({ nextAttemptAt }) => c.format.until(nextAttemptAt)),
      c.actions((delivery) => (
        <>
          <RowButton
            label={`${t.attempts} ${delivery.attempts.length}: ${delivery.eventId}`}
            onClick={() => show(delivery)}
          >
            {`${t.attempts} ${delivery.attempts.length}`}
          </RowButton>
          <RowButton
            label={`${t.repeat} ${delivery.eventId}`}
            onClick={() => void change("repeatDelivery", { params: { delivery: delivery.id } })}
          >
            {t.repeat}
          </RowButton>
        </>
      )),
    ];
  }, [t, c, names, show]);
}

function AnswerText({ attempt }: { attempt: Delivery["attempts"][number] | undefined }) {
  const t = useWebhooksTexts();
  if (attempt === undefined) return "–";
  const { status, problem } = attempt;
  if (problem === null) return t.accepted(status ?? "");
  return <Cut width={240}>{problem}</Cut>;
}

function Attempts({ attempts }: Pick<Delivery, "attempts">) {
  const t = useWebhooksTexts();
  const format = useFormats();
  return (
    <Table>
      <Table.Thead>
        <Table.Tr>
          <Table.Th>{t.time}</Table.Th>
          <Table.Th>{t.takes}</Table.Th>
          <Table.Th>{t.state}</Table.Th>
          <Table.Th>{t.answer}</Table.Th>
        </Table.Tr>
      </Table.Thead>
      <Table.Tbody>
        {attempts.map(({ at, status, problem, durationMs }) => (
          <Table.Tr key={at}>
            <Table.Td>{format.time(at)}</Table.Td>
            <Table.Td>{format.ms(durationMs)}</Table.Td>
            <Table.Td>{status ?? t.noAnswer}</Table.Td>
            <Table.Td style={{ overflowWrap: "anywhere" }}>{problem ?? t.accepted(status ?? "")}</Table.Td>
          </Table.Tr>
        ))}
      </Table.Tbody>
    </Table>
  );
}
