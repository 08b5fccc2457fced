/** The files of the person's accounts, and how much of its quota an account uses. */
import { Anchor, Group, Paper, Stack, Text } from "@mantine/core";
import { useMemo } from "react";
import { useFilters } from "../app/address.ts";
import { addressOf, call } from "../app/call.ts";
import { useFormats } from "../app/language.tsx";
import { type Item, useList, useRead } from "../app/queries.ts";
import { may, useMe } from "../app/session.ts";
import { useAccounts } from "../parts/accounts.ts";
import { ConfirmDialog, openDialog } from "../parts/dialogs.tsx";
import { Cut } from "../parts/facts.tsx";
import { FilterSelect } from "../parts/filters.tsx";
import { Empty, Page } from "../parts/page.tsx";
import { SegmentBar } from "../parts/segment-bar.tsx";
import { ListTable, RowButton, useColumns } from "../parts/table.tsx";
import { useFilesTexts } from "./files.texts.ts";

type FileRow = Item<"listFiles">;

const purposes = ["assistants", "batch", "batch_output", "evals", "fine-tune", "user_data", "vision"];

export function Files() {
  const t = useFilesTexts();
  const { account, purpose } = useFilters().search;
  const accounts = useAccounts("reader");
  const [first] = accounts;
  const shownAccount = account ?? (accounts.length === 1 ? first?.value : undefined);
  return (
    <Page title={t.title} about={t.about}>
      <Group>
        {accounts.length > 1 && <FilterSelect name="account" title={t.account} data={accounts} searchable w={220} />}
        <FilterSelect name="purpose" title={t.purpose} data={purposes} w={180} />
      </Group>
      {shownAccount === undefined ? <Text c="dimmed">{t.chooseAccount}</Text> : <Space account={shownAccount} />}
      <ListTable
        from={useList("listFiles", { query: { account, purpose } })}
        label={t.title}
        columns={useFileColumns(accounts.length > 1)}
        minWidth={980}
        empty={<Empty title={t.none}>{t.noneWhy}</Empty>}
      />
    </Page>
  );
}

/** The part of the quota from which on the bar is red. */
const nearlyFull = 0.9;

function Space({ account }: { account: string }) {
  const t = useFilesTexts();
  const format = useFormats();
  const { data } = useRead("getFileSpace", { params: { account } });
  if (data === undefined) return null;
  const { bytes, bytesMax, files, filesMax } = data;
  const color = bytes > nearlyFull * bytesMax ? "red" : "teal";
  return (
    <Paper withBorder p="sm">
      <Stack gap={6}>
        <Group justify="space-between">
          <Text fw={600}>{t.space}</Text>
          <Text c="dimmed">
            {t.spaceUsed(format.bytes(bytes), format.bytes(bytesMax))} ·{" "}
            {t.filesUsed(format.count(files), format.count(filesMax))}
          </Text>
        </Group>
        <SegmentBar
          label={t.space}
          segments={[{ name: t.used, value: bytes, color: `var(--mantine-color-${color}-6)` }]}
          total={bytesMax}
          textOf={format.bytes}
        />
      </Stack>
    </Paper>
  );
}

function useFileColumns(hasAccounts: boolean) {
  const t = useFilesTexts();
  const me = useMe();
  const c = useColumns<FileRow>();
  return useMemo(() => {
    const remove = ({ id, name }: FileRow) =>
      openDialog(
        <ConfirmDialog
          title={t.removeTitle(name)}
          submit={t.remove}
          consequence={t.removeWhy}
          onSubmit={() => call("deleteFile", { params: { file: id } })}
        />,
      );
    return [
      c.cut("name", t.name, 260),
      c.text("purpose", t.purpose),
      c.bytes("bytes", t.size),
      ...(hasAccounts ? [c.account(t.account)] : []),
      c.ago("createdAt", t.created),
      c.cell("expiresAt", t.expires, ({ expiresAt }) => (expiresAt === null ? t.never : c.format.until(expiresAt)), {
        sortBy: ({ expiresAt }) => expiresAt ?? "9999",
      }),
      c.cell("id", t.id, ({ id }) => <Cut width={160}>{id}</Cut>),
      c.actions(
        (file) =>
          may(me, "member", file.account) && (
            <>
              <Anchor
                className="row-button"
                download
                href={addressOf("downloadFile", { params: { file: file.id } })}
                aria-label={`${t.download} ${file.name}`}
              >
                {t.download}
              </Anchor>
              <RowButton label={`${t.remove} ${file.name}`} isDestructive onClick={() => remove(file)}>
                {t.remove}
              </RowButton>
            </>
          ),
      ),
    ];
  }, [t, c, me, hasAccounts]);
}
