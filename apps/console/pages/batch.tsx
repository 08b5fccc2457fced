/** One batch: its progress, its cost, its errors in words, and what can be done with it. */
import { Alert, Button, Stack, Text } from "@mantine/core";
import { getRouteApi } from "@tanstack/react-router";
import { addressOf, call } from "../app/call.ts";
import { useFormats } from "../app/language.tsx";
import { useRead } from "../app/queries.ts";
import { may, useMe } from "../app/session.ts";
import { BatchProgress, type Batch as BatchRow, BatchState, doneOf } from "../batches/batch-state.tsx";
import { groupsOf, LineGroups } from "../batches/line-groups.tsx";
import { precisionOf } from "../parts/amounts.ts";
import { CopyText } from "../parts/copy.tsx";
import { ConfirmDialog, openDialog } from "../parts/dialogs.tsx";
import { Facts, Figures, useMoney } from "../parts/facts.tsx";
import { AccountLink, KeyLink, ModelLink } from "../parts/link.tsx";
import { Loaded, Page, Section } from "../parts/page.tsx";
import { useBatchTexts } from "./batch.texts.ts";

const route = getRouteApi("/inside/batches/$batch");
const everyMs = 2_000;
const errorsEveryMs = 10_000;

export function Batch() {
  const params = route.useParams();
  return (
    <Loaded from={useRead("getBatch", { params }, { everyMs })}>
      {(batch) => (
        <Page title={batch.id} about={<BatchState batch={batch} />} actions={<Actions of={batch} />}>
          <Stack gap="lg">
            {batch.total > 0 && (
              <Stack gap="sm">
                <BatchProgress batch={batch} />
                <BatchFigures batch={batch} />
              </Stack>
            )}
            {batch.faults.length > 0 && <Faults of={batch} />}
            {doneOf(batch) > batch.succeeded && <Errors of={batch} />}
            <Details of={batch} />
          </Stack>
        </Page>
      )}
    </Loaded>
  );
}

function Actions({ of: batch }: { of: BatchRow }) {
  const t = useBatchTexts();
  const { state, isOver, succeeded, api } = batch;
  if (!may(useMe(), "member", batch.account)) return null;
  if (isOver) {
    const kinds = { output: succeeded, error: doneOf(batch) - succeeded };
    // Other APIs have one list of results.
    const shownKinds = api === "openai" ? (["output", "error"] as const) : ([undefined] as const);
    return shownKinds.map(
      (kind) =>
        (kind === undefined ? doneOf(batch) : kinds[kind]) > 0 && (
          <Button
            key={kind ?? "all"}
            component="a"
            variant="default"
            download
            href={addressOf("downloadResults", { params: { batch: batch.id }, query: { kind } })}
          >
            {t[`${kind ?? "all"}Download`]}
          </Button>
        ),
    );
  }
  if (state !== "validating" && state !== "in_progress") return null;
  const cancel = () =>
    openDialog(
      <ConfirmDialog
        title={t.cancelTitle}
        submit={t.cancelBatch}
        consequence={t.cancelWhy}
        onSubmit={() => call("cancelBatch", { params: { batch: batch.id } })}
      />,
    );
  return (
    <Button variant="light" color="red" onClick={cancel}>
      {t.cancelBatch}
    </Button>
  );
}

function BatchFigures({ batch }: { batch: BatchRow }) {
  const t = useBatchTexts();
  const format = useFormats();
  const money = useMoney();
  const { total, ratePerSecond, expectedEndAt, startedAt, endedAt, expiresAt, cost, isOver } = batch;
  return (
    <Figures
      cols={{ base: 2, md: 4 }}
      figures={[
        {
          name: t.progress,
          value: format.percent(doneOf(batch) / total),
          detail: t.ofTotal(format.count(doneOf(batch)), format.count(total)),
        },
        { name: t.rate, value: ratePerSecond === null ? "–" : format.short(Math.round(ratePerSecond * 10) / 10) },
        endedAt === null
          ? {
              name: t.expectedEnd,
              value: format.until(expectedEndAt),
              exact: expectedEndAt === null ? undefined : format.time(expectedEndAt),
              detail: t.deadline(format.until(expiresAt)),
              isWrong: expectedEndAt !== null && expectedEndAt > expiresAt,
            }
          : {
              name: t.ended,
              value: format.ago(endedAt),
              exact: format.time(endedAt),
              detail: startedAt === null ? undefined : t.after(format.ms(Date.parse(endedAt) - Date.parse(startedAt))),
            },
        {
          name: isOver ? t.totalCost : t.costSoFar,
          value: money.rounded(cost, precisionOf(batch)),
          exact: money.exact(cost, precisionOf(batch)),
          detail: t.tokensOf(format.short(batch.inputTokens), format.short(batch.outputTokens)),
        },
      ]}
    />
  );
}

/** The faults that refused the input. */
function Faults({ of: { faults } }: { of: BatchRow }) {
  const t = useBatchTexts();
  return (
    <Section title={t.faults}>
      <Alert color="red" title={t.refused}>
        <Text>{t.refusedWhy}</Text>
      </Alert>
      <LineGroups groups={groupsOf(faults)} />
    </Section>
  );
}

/** The failed requests so far, if the person may read results. */
function Errors({ of: { id, account, isOver } }: { of: BatchRow }) {
  const t = useBatchTexts();
  const isAllowed = may(useMe(), "member", account);
  const errors = useRead(
    "listBatchErrors",
    { params: { batch: id } },
    { enabled: isAllowed, everyMs: isOver ? undefined : errorsEveryMs },
  );
  if (!isAllowed) return null;
  return (
    <Section title={t.errorLines}>
      <Loaded from={errors} rows={3}>
        {({ groups, isCut }) => (
          <Stack gap="sm">
            <LineGroups groups={groups} />
            {isCut && <Text c="dimmed">{t.errorsCut}</Text>}
          </Stack>
        )}
      </Loaded>
    </Section>
  );
}

function Details({ of: batch }: { of: BatchRow }) {
  const t = useBatchTexts();
  const format = useFormats();
  const { stopReason, startedAt, endedAt, model } = batch;
  return (
    <Section title={t.details}>
      <Facts
        facts={[
          [t.id, <CopyText key="id" value={batch.id} />],
          [t.stopReason, stopReason === null ? undefined : (t[stopReason as "budget_exhausted"] ?? stopReason)],
          [t.model, model === null ? batch.total > 0 && t.several : <ModelLink key="model" id={model} />],
          [t.endpoint, batch.endpoint],
          [t.api, batch.api],
          [t.account, <AccountLink key="account" id={batch.account} />],
          [t.key, <KeyLink key="key" id={batch.keyId} />],
          [t.created, format.time(batch.createdAt)],
          [t.checked, startedAt === null ? undefined : format.time(startedAt)],
          [t.ended, endedAt === null ? undefined : format.time(endedAt)],
          [t.deadlineFact, format.time(batch.expiresAt)],
        ]}
      />
    </Section>
  );
}
