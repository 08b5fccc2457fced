/** A batch from a file: dropped, checked line by line, and run once the person says so. */

import { Alert, Button, Group, Progress, Select, Stack, Text } from "@mantine/core";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { batchEndpoints } from "#api/vocabulary.ts";
import { useAction } from "../app/action.ts";
import { useFormats } from "../app/language.tsx";
import { change, type Item, useRead } from "../app/queries.ts";
import { groupsOf, LineGroups } from "../batches/line-groups.tsx";
import { type BatchPlan, type Endpoint, firstUrlOf, type Upload, useUpload } from "../batches/use-upload.ts";
import { useAccess } from "../parts/access.tsx";
import { CodeBlock } from "../parts/copy.tsx";
import { DropZone } from "../parts/drop-zone.tsx";
import { ButtonLink } from "../parts/link.tsx";
import { Empty, FaultNotice, Loaded, Page, Section } from "../parts/page.tsx";
import { useNewBatchTexts } from "./new-batch.texts.ts";

type KeyRow = Item<"listKeys">;

const keysMax = 500;
const example = JSON.stringify({
  custom_id: "request-1",
  method: "POST",
  url: "/v1/chat/completions",
  body: { model: "…", messages: [{ role: "user", content: "Hello" }] },
});

export function NewBatch() {
  const t = useNewBatchTexts();
  const keys = useRead("listKeys", { query: { state: "live", limit: keysMax } });
  return (
    <Page title={t.title} about={t.about}>
      <Loaded from={keys}>
        {({ items }) => {
          const own = items.filter(({ tags }) => !tags.includes("console"));
          return own.length === 0 ? (
            <Empty title={t.noKeys} action={<ButtonLink to="/keys">{t.keys}</ButtonLink>} />
          ) : (
            <BatchForm keys={own} />
          );
        }}
      </Loaded>
    </Page>
  );
}

function BatchForm({ keys }: { keys: readonly KeyRow[] }) {
  const t = useNewBatchTexts();
  const [keyId, setKeyId] = useState(keys[0]?.id ?? "");
  const [endpoint, setEndpoint] = useState<Endpoint>("/v1/chat/completions");
  const key = keys.find(({ id }) => id === keyId);
  const { data: catalogue } = useRead("readCatalogue");
  const { wish, address } = useAccess(catalogue, { account: key?.account, group: key?.group });
  const { upload, start, checkAgain, discard } = useUpload();
  const isBusy = upload?.state === "sending" || upload?.state === "checking";
  const take = async (file: File) => {
    const url = await firstUrlOf(file);
    const named = batchEndpoints.find((each) => each === url || each === `/v1${url}`) ?? endpoint;
    setEndpoint(named);
    if (wish !== undefined) start(file, wish, { key: keyId, endpoint: named });
  };
  const choose = (plan: BatchPlan) => {
    setKeyId(plan.key);
    setEndpoint(plan.endpoint);
    // A file belongs to one account.
    const isSameAccount = keys.find(({ id }) => id === plan.key)?.account === key?.account;
    if (upload?.state === "checked" && isSameAccount) checkAgain(upload, plan);
    else discard();
  };
  return (
    <Stack gap="lg">
      <Group align="flex-start" gap="md">
        <Select
          label={t.key}
          description={t.keyHelp}
          data={keys.map(({ id, name, hint, account }) => ({ value: id, label: `${name} …${hint} (${account})` }))}
          value={keyId}
          onChange={(next) => next !== null && choose({ key: next, endpoint })}
          searchable
          allowDeselect={false}
          disabled={isBusy}
          w={{ base: "100%", sm: 420 }}
        />
        <Select
          label={t.endpoint}
          description={t.format}
          descriptionProps={{ style: { visibility: "hidden" }, "aria-hidden": true }}
          data={batchEndpoints}
          value={endpoint}
          onChange={(next) => next !== null && choose({ key: keyId, endpoint: next as Endpoint })}
          allowDeselect={false}
          disabled={isBusy}
          w={{ base: "100%", sm: 240 }}
        />
      </Group>
      {catalogue !== undefined && address === undefined && <Alert color="yellow">{t.noAddress}</Alert>}
      {upload?.state === "checked" && upload.result.faults.length === 0 ? (
        <Ready upload={upload} plan={{ key: keyId, endpoint }} onDiscard={discard} />
      ) : (
        <DropZone
          title={t.drop}
          help={t.dropHelp}
          button={t.choose}
          accept=".jsonl,.ndjson,.json,.txt"
          isDisabled={isBusy || wish === undefined}
          onFile={(file) => void take(file)}
        />
      )}
      {upload !== undefined && <UploadState upload={upload} />}
      {upload === undefined && (
        <Section title={t.format}>
          <CodeBlock code={example} label={t.format} />
        </Section>
      )}
    </Stack>
  );
}

function UploadState({ upload }: { upload: Upload }) {
  const t = useNewBatchTexts();
  const format = useFormats();
  const { state, name } = upload;
  if (state === "sending" || state === "checking")
    return (
      <Stack gap={4} role="status">
        <Text>{state === "sending" ? t.sending(name, format.percent(upload.share)) : t.checking(name)}</Text>
        <Progress value={state === "sending" ? 100 * upload.share : 100} animated aria-label={name} />
      </Stack>
    );
  if (state === "failed")
    return upload.fault instanceof Error && upload.fault.name === "Error" ? (
      <Alert color="red" role="alert" title={t.notSent(name)}>
        {upload.fault.message}
      </Alert>
    ) : (
      <FaultNotice error={upload.fault} />
    );
  const { faults } = upload.result;
  if (faults.length === 0) return null;
  return (
    <Stack gap="sm">
      <Alert color="red" role="alert" title={t.faulty(name)}>
        {t.faultyWhy}
      </Alert>
      <LineGroups groups={groupsOf(faults)} />
    </Stack>
  );
}

interface ReadyProps {
  upload: Upload & { state: "checked" };
  plan: BatchPlan;
  onDiscard(): void;
}

/** The check has found no fault. */
function Ready({ upload: { name, file, result }, plan, onDiscard }: ReadyProps) {
  const t = useNewBatchTexts();
  const format = useFormats();
  const navigate = useNavigate();
  const run = useAction(async () => {
    const { id } = await change("createBatch", { body: { ...plan, file } });
    await navigate({ to: "/batches/$batch", params: { batch: id } });
  });
  return (
    <Alert color="teal" role="status" title={t.valid(name)}>
      <Stack gap="sm">
        <Text>{t.validWhy(format.count(result.requests), format.short(result.inputTokens))}</Text>
        {run.fault !== undefined && <FaultNotice error={run.fault} />}
        <Group>
          <Button loading={run.isBusy} onClick={() => run.run()}>
            {t.run(format.count(result.requests))}
          </Button>
          <Button variant="default" onClick={onDiscard} disabled={run.isBusy}>
            {t.another}
          </Button>
        </Group>
      </Stack>
    </Alert>
  );
}
