/** One key: its settings, what it has spent, and what can be done with it. */
import { Button, Group, Text } from "@mantine/core";
import { getRouteApi } from "@tanstack/react-router";
import { call } from "../app/call.ts";
import { useFormats } from "../app/language.tsx";
import { type Item, useVersioned } from "../app/queries.ts";
import { may, useMe } from "../app/session.ts";
import { precisionOf } from "../parts/amounts.ts";
import { CopyText } from "../parts/copy.tsx";
import { ConfirmDialog, FormDialog, openDialog } from "../parts/dialogs.tsx";
import { Facts, Figures, Tags, useMoney } from "../parts/facts.tsx";
import { NumberField } from "../parts/form.tsx";
import { KeyForm, showNewKey } from "../parts/key-dialogs.tsx";
import { KeyLimits } from "../parts/key-limits.tsx";
import { useLimitsTexts } from "../parts/limits.texts.ts";
import { isBudget, limitNames } from "../parts/limits.ts";
import { AccountLink, KeyLink, PageLink } from "../parts/link.tsx";
import { Loaded, Page, Section } from "../parts/page.tsx";
import { useKeyTexts } from "./key.texts.ts";
import { KeyState } from "./keys.tsx";

type KeyRow = Item<"listKeys">;
const route = getRouteApi("/inside/keys/$key");
const overlapHours = 24;
const everyMs = 15_000;

export function Key() {
  const t = useKeyTexts();
  const me = useMe();
  const params = route.useParams();
  return (
    <Loaded from={useVersioned("getKey", { params }, everyMs)}>
      {({ value: key, etag }) => (
        <Page
          title={key.name}
          about={<KeyState {...key} />}
          actions={may(me, "member", key.account) && key.state !== "revoked" && <Actions of={key} etag={etag} />}
        >
          <Spend spend={key.spend} />
          <Group gap="md">
            <PageLink to="/usage" search={params}>
              {t.seeUsage}
            </PageLink>
            <PageLink to="/requests" search={params}>
              {t.seeRequests}
            </PageLink>
          </Group>
          {key.state !== "revoked" && <KeyLimits id={key.id} account={key.account} />}
          <Settings of={key} />
        </Page>
      )}
    </Loaded>
  );
}

function Actions({ of, etag }: { of: KeyRow; etag: string | undefined }) {
  const t = useKeyTexts();
  const params = { key: of.id };
  const rotate = () =>
    openDialog(
      <FormDialog
        title={t.rotateTitle}
        submit={t.rotate}
        initialValues={{ overlapSeconds: overlapHours as string | number }}
        onSubmit={async ({ overlapSeconds: hours }) => {
          const body = { overlapSeconds: Math.round(Number(hours) * 3_600) };
          showNewKey(await call("rotateKey", { params, body }));
        }}
      >
        <Text>{t.rotateWhy}</Text>
        <NumberField name="overlapSeconds" label={t.overlap} required min={0} max={720} data-autofocus />
      </FormDialog>,
    );
  const revoke = () =>
    openDialog(
      <ConfirmDialog
        title={t.revokeTitle(of.name)}
        submit={t.revoke}
        consequence={t.revokeWhy}
        onSubmit={() => call("revokeKey", { params })}
      />,
    );
  return (
    <>
      <Button variant="default" onClick={() => openDialog(<KeyForm of={of} etag={etag} />)}>
        {t.edit}
      </Button>
      <Button variant="default" onClick={rotate}>
        {t.rotate}
      </Button>
      <Button variant="light" color="red" onClick={revoke}>
        {t.revoke}
      </Button>
    </>
  );
}

function Spend({ spend }: Pick<KeyRow, "spend">) {
  const t = useKeyTexts();
  const money = useMoney();
  const precision = precisionOf({ isCostPartial: spend.isPartial });
  return (
    <Figures
      cols={{ base: 1, xs: 3 }}
      figures={(["today", "month", "total"] as const).map((period) => ({
        name: t[period],
        value: money.rounded(spend[period], precision),
        exact: money.exact(spend[period], precision),
      }))}
    />
  );
}

function Settings({ of: key }: { of: KeyRow }) {
  const t = useKeyTexts();
  const names = useLimitsTexts();
  const format = useFormats();
  const money = useMoney();
  const { lastUsedAt, expiresAt, revokedAt, replacedBy, limits } = key;
  return (
    <Section title={t.settings}>
      <Facts
        facts={[
          [t.id, <CopyText key="id" value={key.id} />],
          [t.ends, `…${key.hint}`],
          [t.account, <AccountLink key="account" id={key.account} />],
          [t.group, key.group],
          [t.created, format.time(key.createdAt)],
          [t.lastUsed, lastUsedAt === null ? t.never : `${format.time(lastUsedAt)} (${format.ago(lastUsedAt)})`],
          [t.expires, expiresAt === null ? t.never : format.time(expiresAt)],
          [t.revokedAt, revokedAt === null ? undefined : format.time(revokedAt)],
          [t.replacedBy, replacedBy === null ? undefined : <KeyLink key="replaced" id={replacedBy} />],
          [t.models, key.models?.join(", ") ?? t.allModels],
          [t.addresses, key.addresses?.join(", ") ?? t.any],
          [t.origins, key.origins?.join(", ") ?? t.ofGroup],
          [names.priority, key.priority === null ? t.ofGroup : names[key.priority]],
          [names.onLimit, limits?.onLimit === undefined ? undefined : names[limits.onLimit]],
          [t.tags, key.tags.length === 0 ? t.none : <Tags key="tags" tags={key.tags} />],
          ...limitNames.map((name) => {
            const value = limits?.[name];
            if (value === undefined) return [names[name], undefined] as const;
            return [names[name], isBudget(name) ? money.rounded(value) : format.count(value)] as const;
          }),
        ]}
      />
    </Section>
  );
}
