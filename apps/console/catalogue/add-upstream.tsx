/** Adds an upstream: a vendor is chosen, its credential pasted and tested, its models ticked. */
import {
  Alert,
  Anchor,
  Badge,
  Button,
  Checkbox,
  Group,
  Modal,
  PasswordInput,
  ScrollArea,
  SimpleGrid,
  Stack,
  Text,
  TextInput,
} from "@mantine/core";
import { useState } from "react";
import { useFormats } from "../app/language.tsx";
import { useRead } from "../app/queries.ts";
import { useCloseDialog } from "../parts/dialogs.tsx";
import { useMoney } from "../parts/facts.tsx";
import { ButtonLink } from "../parts/link.tsx";
import { TokenCount } from "../parts/models.tsx";
import { FaultNotice, Loaded } from "../parts/page.tsx";
import { useAddUpstreamTexts } from "./add-upstream.texts.ts";
import { type Entries, plainPricesOf } from "./entries.ts";
import { type NewUpstream, type OfferedModel, useNewUpstream, type Vendor } from "./use-new-upstream.ts";

export function AddUpstream({ entries }: { entries: Entries }) {
  const t = useAddUpstreamTexts();
  const close = useCloseDialog();
  const vendors = useRead("listVendors");
  const [vendor, setVendor] = useState<Vendor>();
  // Entries that come in later are the upstream's own.
  const [first] = useState(entries);
  return (
    <Modal
      opened
      onClose={close}
      size="xl"
      title={vendor === undefined ? t.title : t.titleOf(vendor.name)}
      closeButtonProps={{ "aria-label": t.close }}
    >
      {vendor === undefined ? (
        <Loaded from={vendors}>{({ items }) => <Vendors vendors={items} onChoose={setVendor} />}</Loaded>
      ) : (
        <UpstreamForm
          key={vendor.id}
          entries={first}
          vendor={vendor}
          onBack={() => setVendor(undefined)}
          onClose={close}
        />
      )}
    </Modal>
  );
}

function Vendors({ vendors, onChoose }: { vendors: readonly Vendor[]; onChoose(vendor: Vendor): void }) {
  const t = useAddUpstreamTexts();
  const [search, setSearch] = useState("");
  const matching = vendors.filter(({ id, name }) =>
    `${id} ${name}`.toLowerCase().includes(search.trim().toLowerCase()),
  );
  return (
    <Stack>
      <TextInput
        aria-label={t.searchVendor}
        placeholder={t.searchVendor}
        value={search}
        onChange={({ currentTarget }) => setSearch(currentTarget.value)}
        data-autofocus
      />
      {matching.length === 0 && <Text c="dimmed">{t.noVendor}</Text>}
      {(["hosted", "self-hosted", "other"] as const).map((kind) => {
        const shown = matching.filter((vendor) => vendor.kind === kind);
        return (
          shown.length > 0 && (
            <Stack key={kind} gap={6}>
              <Text fw={600}>{t.kinds[kind]}</Text>
              <SimpleGrid cols={{ base: 2, sm: 3, md: 4 }} spacing={6}>
                {shown.map((vendor) => (
                  <Button key={vendor.id} variant="default" fw={500} onClick={() => onChoose(vendor)}>
                    {vendor.name}
                  </Button>
                ))}
              </SimpleGrid>
            </Stack>
          )
        );
      })}
    </Stack>
  );
}

interface UpstreamFormProps {
  entries: Entries;
  vendor: Vendor;
  onBack(): void;
  onClose(): void;
}

function UpstreamForm({ entries, vendor, onBack, onClose }: UpstreamFormProps) {
  const t = useAddUpstreamTexts();
  const draft = useNewUpstream(entries, vendor);
  const { isComplete, isTaken, trial, ticked, save } = draft;
  if (save.result !== undefined) return <Saved name={draft.fields.name} models={save.result} onClose={onClose} />;
  const isReady = isComplete && !isTaken;
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        if (isReady) save.run();
      }}
    >
      <Stack gap="sm">
        {vendor.note !== null && <Text c="dimmed">{vendor.note}</Text>}
        <UpstreamFields draft={draft} vendor={vendor} />
        <Button
          variant="default"
          style={{ alignSelf: "flex-start" }}
          loading={trial.isBusy}
          disabled={!isComplete}
          onClick={() => trial.run()}
        >
          {t.test}
        </Button>
        {trial.fault !== undefined && <FaultNotice error={trial.fault} />}
        {trial.result !== undefined && (
          <>
            <TestResult {...trial.result} />
            <Offered draft={draft} items={trial.result.offered.items} />
          </>
        )}
        {save.fault !== undefined && <FaultNotice error={save.fault} />}
        <Group justify="space-between">
          <Button variant="subtle" onClick={onBack}>
            {t.back}
          </Button>
          <Button type="submit" loading={save.isBusy} disabled={!isReady || trial.isBusy}>
            {ticked.size > 0 ? t.saveWith(ticked.size) : t.saveWithout}
          </Button>
        </Group>
      </Stack>
    </form>
  );
}

/** An address that the person names whole. */
const onlyPlace = /^\{\w+\}$/;

function UpstreamFields({ draft, vendor }: { draft: NewUpstream; vendor: Vendor }) {
  const t = useAddUpstreamTexts();
  const { fields, baseUrl, change, isTaken } = draft;
  const { credential, keysUrl } = vendor;
  return (
    <>
      {vendor.placeholders.map(({ name, label: placeLabel, example }) => (
        <TextInput
          key={name}
          label={placeLabel}
          placeholder={example}
          required
          value={fields.places[name] ?? ""}
          onChange={({ currentTarget: { value } }) => change({ places: { ...fields.places, [name]: value } })}
        />
      ))}
      {credential !== "none" && (
        <PasswordInput
          label={t.credential}
          description={
            <>
              {t.credentialHelp}{" "}
              {keysUrl !== null && (
                <Anchor href={keysUrl} target="_blank" rel="noreferrer" inherit>
                  {t.keysPage(vendor.name)}
                </Anchor>
              )}
            </>
          }
          required={credential === "needed"}
          autoComplete="new-password"
          data-autofocus
          visibilityToggleButtonProps={{ "aria-label": t.showPassword }}
          value={fields.credential}
          onChange={({ currentTarget: { value } }) => change({ credential: value.trim() })}
        />
      )}
      <SimpleGrid cols={{ base: 1, sm: 2 }}>
        <TextInput
          label={t.name}
          description={t.upstreamNameHelp}
          required
          error={isTaken && t.checkedName}
          value={fields.name}
          onChange={({ currentTarget: { value } }) => change({ name: value })}
        />
        <TextInput
          label={t.testModel}
          description={t.testModelHelp}
          value={fields.testModel}
          onChange={({ currentTarget: { value } }) => change({ testModel: value })}
        />
      </SimpleGrid>
      {!onlyPlace.test(String(vendor.upstream.baseUrl)) && (
        <TextInput
          label={t.baseUrl}
          required
          value={baseUrl}
          onChange={({ currentTarget: { value } }) => change({ baseUrl: value })}
        />
      )}
    </>
  );
}

type Trial = NonNullable<NewUpstream["trial"]["result"]>;

/** The call of a model decides; without one, the list of models does. */
function TestResult({ offered, test, model }: Trial) {
  const t = useAddUpstreamTexts();
  const format = useFormats();
  const { problem, message, latencyMs } = test?.call ?? test?.list ?? offered;
  const answer = test?.call?.answer ?? null;
  return problem === null ? (
    <Alert color="teal" role="status" title={t.testOk(model ?? t.listOfModels, format.ms(latencyMs))}>
      {answer !== null && t.answerWas(answer)}
    </Alert>
  ) : (
    <Alert color="red" role="alert" title={problem}>
      {message}
    </Alert>
  );
}

function Offered({ draft: { ticked, setTicked }, items }: { draft: NewUpstream; items: readonly OfferedModel[] }) {
  const t = useAddUpstreamTexts();
  const [search, setSearch] = useState("");
  if (items.length === 0) return <Text c="dimmed">{t.noModelsOffered}</Text>;
  const shown = items.filter(({ name }) => name.toLowerCase().includes(search.trim().toLowerCase()));
  const tick = (names: readonly string[]) => setTicked(new Set(names));
  const isFree = items.some(({ name, prices }) => prices === null && ticked.has(name));
  return (
    <Stack gap={6}>
      <Group justify="space-between">
        <Text>{t.modelsOffered(items.length)}</Text>
        <Group gap={4}>
          <Button
            size="compact-xs"
            variant="subtle"
            onClick={() => tick(items.filter(({ state }) => state === "new").map(({ name }) => name))}
          >
            {t.tickNew}
          </Button>
          <Button size="compact-xs" variant="subtle" onClick={() => tick([])}>
            {t.tickNone}
          </Button>
        </Group>
      </Group>
      <TextInput
        aria-label={t.filterModels}
        placeholder={t.filterModels}
        value={search}
        onChange={({ currentTarget }) => setSearch(currentTarget.value)}
      />
      <ScrollArea.Autosize mah={280} viewportProps={{ tabIndex: 0, role: "region", "aria-label": t.modelsTitle }}>
        <Stack gap={2} pr="sm">
          {shown.map((model) => (
            <OfferedRow
              key={model.name}
              model={model}
              isTicked={ticked.has(model.name)}
              onTick={(isTicked) =>
                tick(isTicked ? [...ticked, model.name] : [...ticked].filter((name) => name !== model.name))
              }
            />
          ))}
        </Stack>
      </ScrollArea.Autosize>
      {isFree && (
        <Text c="dimmed" size="sm">
          {t.freeUntil}
        </Text>
      )}
    </Stack>
  );
}

interface OfferedRowProps {
  model: OfferedModel;
  isTicked: boolean;
  onTick(isTicked: boolean): void;
}

function OfferedRow({ model: { name, state, contextWindow, prices }, isTicked, onTick }: OfferedRowProps) {
  const t = useAddUpstreamTexts();
  const money = useMoney();
  const { inputPerMillion: input, outputPerMillion: output } = plainPricesOf(prices);
  return (
    <Group justify="space-between" wrap="nowrap">
      <Checkbox
        label={name}
        checked={isTicked}
        disabled={state === "gone"}
        onChange={({ currentTarget }) => onTick(currentTarget.checked)}
        styles={{ label: { overflowWrap: "anywhere" } }}
      />
      <Group gap="xs" wrap="nowrap">
        <Text c="dimmed" size="sm">
          {input === undefined || output === undefined
            ? t.unknownPrice
            : t.pricePair(money.rounded(input), money.rounded(output))}
        </Text>
        <Text c="dimmed" size="sm" w={50} ta="right">
          <TokenCount value={contextWindow} />
        </Text>
        <Badge variant={state === "new" ? "light" : "default"} w={110}>
          {state === "new" ? t.fresh : state === "gone" ? t.gone : t.inCatalogue}
        </Badge>
      </Group>
    </Group>
  );
}

function Saved({ name, models, onClose }: { name: string; models: readonly string[]; onClose(): void }) {
  const t = useAddUpstreamTexts();
  const [first] = models;
  return (
    <Stack gap="sm">
      <Alert color="teal" role="status" title={t.saved(name)}>
        {t.savedWhy}
      </Alert>
      <Group justify="flex-end">
        <Button variant="default" onClick={onClose}>
          {t.close}
        </Button>
        {first !== undefined && (
          <ButtonLink to="/playground" search={{ model: first }}>
            {t.tryIt(first)}
          </ButtonLink>
        )}
      </Group>
    </Stack>
  );
}
