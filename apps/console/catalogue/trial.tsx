/**
 * A request to a model that shows which target answers and why, also while others count as failing.
 */
import { Alert, Button, Checkbox, Group, Paper, Stack, Table, Text, TextInput } from "@mantine/core";
import { useState } from "react";
import { useAction } from "../app/action.ts";
import { call } from "../app/call.ts";
import { consoleKey, type KeyWish } from "../app/console-key.ts";
import { useFormats } from "../app/language.tsx";
import { useRead } from "../app/queries.ts";
import { AccessFields, type Catalogue, useAccess } from "../parts/access.tsx";
import { precisionOf } from "../parts/amounts.ts";
import { kindOf } from "../parts/client-code.ts";
import { FigureLine, Money } from "../parts/facts.tsx";
import { RequestLink } from "../parts/link.tsx";
import { FaultNotice, Loaded } from "../parts/page.tsx";
import { type CellColor, StateCell } from "../parts/table.tsx";
import type { UsageRecord } from "../parts/usage-types.ts";
import { modules } from "../playground/dialects.ts";
import { type Run, send } from "../playground/run.ts";
import { type Entry, type RouteTarget, routeOf, textOf } from "./entries.ts";
import { useTrialTexts } from "./trial.texts.ts";

/** The route is the one that is in force. */
export function Trial({ model }: { model: Entry }) {
  return (
    <Loaded from={useRead("readCatalogue")} rows={2}>
      {(catalogue) => <TrialForm model={model} catalogue={catalogue} />}
    </Loaded>
  );
}

const dialect = "openai-chat";
const nameOf = ({ upstream, model }: Pick<RouteTarget, "upstream" | "model">) => `${upstream} / ${model}`;

interface TrialRequest {
  wish: KeyWish;
  model: string;
  text: string;
  failing: readonly RouteTarget[];
}

/** The ledger has a record a second or two after the end of an answer. */
const recordPauseMs = 500;
const recordTries = 30;

/** Undefined if the ledger does not get it in time. */
async function recordOf(key: string, requestId: string | undefined): Promise<UsageRecord | undefined> {
  for (let tries = 0; tries < recordTries && requestId !== undefined; tries++) {
    const { items } = await call("listUsage", { query: { key, limit: 20 } });
    const item = items.find((record) => record.requestId === requestId);
    if (item !== undefined) return call("getUsage", { params: { id: item.id } });
    await new Promise((resolve) => setTimeout(resolve, recordPauseMs));
  }
  return undefined;
}

async function run({ wish, model, text, failing }: TrialRequest) {
  const { id, key } = await consoleKey(wish);
  const trial = await call("createTrial", {
    body: { key: id, model, failing: failing.map(({ upstream, model: target }) => ({ upstream, target })) },
  });
  const gateway = { baseUrl: wish.baseUrl, key, headers: { [trial.header]: trial.value } };
  const request = modules[dialect].requestOf([{ role: "user", text, images: [] }], { model });
  const signal = AbortSignal.timeout(answerMsMax);
  const answer = await send(gateway, dialect, request, { signal, onChange() {} });
  return { answer, record: await recordOf(id, answer.requestId) };
}

const answerMsMax = 120_000;

function TrialForm({ model, catalogue }: { model: Entry; catalogue: Catalogue }) {
  const t = useTrialTexts();
  const route = routeOf(model);
  const shown = catalogue.models.find(({ id }) => id === model.name);
  const access = useAccess(catalogue, {}, model.name);
  const [text, setText] = useState<string>(t.example);
  const [failing, setFailing] = useState<string[]>([]);
  const trial = useAction(run);
  const { wish, address } = access;
  if (shown === undefined || kindOf(shown.capabilities) !== "chat") return <Text c="dimmed">{t.onlyChat}</Text>;
  if (address === undefined) return <Text c="dimmed">{t.noAddress}</Text>;
  return (
    <Stack gap="sm">
      <Text c="dimmed">{t.about}</Text>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          const targets = route.filter((target) => failing.includes(nameOf(target)));
          if (wish !== undefined) trial.run({ wish, model: model.name, text, failing: targets });
        }}
      >
        <Stack gap="sm">
          <Group align="flex-end">
            <TextInput
              label={t.message}
              value={text}
              onChange={({ currentTarget }) => setText(currentTarget.value)}
              required
              maxLength={2_000}
              style={{ flex: "1 1 260px" }}
            />
            <AccessFields access={access} />
            <Button type="submit" loading={trial.isBusy} disabled={wish === undefined}>
              {t.tryIt}
            </Button>
          </Group>
          <Checkbox.Group label={t.failing} description={t.failingWhy} value={failing} onChange={setFailing}>
            <Group gap="lg" mt={6}>
              {route.map(nameOf).map((name) => (
                <Checkbox key={name} value={name} label={name} />
              ))}
            </Group>
          </Checkbox.Group>
        </Stack>
      </form>
      {trial.fault !== undefined && <FaultNotice error={trial.fault} />}
      {trial.result !== undefined && <TrialResult model={model} {...trial.result} />}
    </Stack>
  );
}

interface TrialResultProps {
  model: Entry;
  answer: Run;
  record: UsageRecord | undefined;
}

function TrialResult({ model, answer, record }: TrialResultProps) {
  const t = useTrialTexts();
  const format = useFormats();
  const text = answer.error ?? answer.turn.text;
  const isAnswered = answer.state === "complete";
  return (
    <Paper withBorder p="sm" role="status">
      <Stack gap="sm">
        {isAnswered && record?.upstream != null && record.target !== null ? (
          <Text fw={600}>{t.answeredBy(nameOf({ upstream: record.upstream, model: record.target }))}</Text>
        ) : (
          <Alert color={isAnswered ? "gray" : "red"}>{isAnswered ? t.noRecord : text}</Alert>
        )}
        {isAnswered && (
          <>
            {record !== undefined && <Reason model={model} record={record} />}
            <Text c="dimmed" lineClamp={3}>
              {text}
            </Text>
          </>
        )}
        {record !== undefined && (
          <>
            <Passages model={model} record={record} />
            <FigureLine
              figures={[
                { name: t.firstToken, value: format.ms(record.firstContentMs) },
                { name: t.duration, value: format.ms(record.durationMs) },
                { name: t.cost, value: <Money of={record.cost} precision={precisionOf(record)} /> },
                {
                  name: t.upstreamCost,
                  value: <Money of={record.upstreamCost} />,
                },
                { name: t.request, value: <RequestLink id={record.id}>{t.details}</RequestLink> },
              ]}
            />
          </>
        )}
      </Stack>
    </Paper>
  );
}

type RecordProps = Pick<TrialResultProps, "model"> & { record: UsageRecord };

const Reason = ({ model, record }: RecordProps) => <Text>{reasonOf(useTrialTexts(), model, record)}</Text>;

/** Why this target answered. */
function reasonOf(
  t: ReturnType<typeof useTrialTexts>,
  { name, entry }: Entry,
  { modelAnswered, upstream, target, callLog }: UsageRecord,
): string {
  if (modelAnswered !== null && modelAnswered !== name) return t.byFallback(modelAnswered);
  if ((callLog?.length ?? 0) > 1) return t.afterOthers;
  const route = routeOf({ entry });
  const chosen = route.find((each) => each.upstream === upstream && each.model === target);
  const strategy = textOf(entry.strategy) || "weights";
  const isDrawn = chosen?.weight !== undefined && route.filter(({ weight }) => weight !== undefined).length > 1;
  return isDrawn ? (t.drawn[strategy as keyof typeof t.drawn] ?? t.first) : t.first;
}

const colorOf = (outcome: string): CellColor =>
  outcome === "answered" ? "teal" : outcome === "simulated" ? "yellow" : "red";

/** The targets in the order in which they were looked at, and then those that were not needed. */
function Passages({ model, record }: RecordProps) {
  const t = useTrialTexts();
  const format = useFormats();
  const calls = record.callLog ?? [];
  const others = routeOf(model).filter(
    (target) => !calls.some((each) => each.upstream === target.upstream && each.target === target.model),
  );
  return (
    <Table aria-label={t.order}>
      <Table.Thead>
        <Table.Tr>
          <Table.Th>{t.target}</Table.Th>
          <Table.Th>{t.result}</Table.Th>
          <Table.Th className="number">{t.begins}</Table.Th>
          <Table.Th className="number">{t.duration}</Table.Th>
        </Table.Tr>
      </Table.Thead>
      <Table.Tbody>
        {calls.map(({ upstream, target, outcome, status, startedMs, durationMs }, place) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: the calls of a record do not change.
          <Table.Tr key={place}>
            <Table.Td>{nameOf({ upstream, model: target })}</Table.Td>
            <Table.Td>
              <StateCell color={colorOf(outcome)}>
                {(t.outcomes as Record<string, string>)[outcome] ?? outcome}
                {status !== null && ` ${status}`}
              </StateCell>{" "}
              {t.errors[outcome]?.[0]}
            </Table.Td>
            <Table.Td className="number">{format.ms(startedMs)}</Table.Td>
            <Table.Td className="number">{format.ms(durationMs)}</Table.Td>
          </Table.Tr>
        ))}
        {others.map((target) => (
          <Table.Tr key={nameOf(target)}>
            <Table.Td>{nameOf(target)}</Table.Td>
            <Table.Td colSpan={3}>
              <Text c="dimmed">{t.notNeeded}</Text>
            </Table.Td>
          </Table.Tr>
        ))}
      </Table.Tbody>
    </Table>
  );
}
