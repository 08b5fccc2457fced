/** Whether an account stores the content of its requests, and the dialogs that change it. */
import { Button, Group, List, NumberInput, Stack, Text, Title } from "@mantine/core";
import { useState } from "react";
import { type Answer, call } from "../app/call.ts";
import { translated, useTexts } from "../app/language.tsx";
import { queryClient } from "../app/queries.ts";
import { ConfirmDialog, FormDialog } from "../parts/dialogs.tsx";
import { Field } from "../parts/form.tsx";

const texts = translated({
  en: {
    title: "Content of requests",
    off: "Not stored. The gateway keeps who asked which model, when and at what cost, but not what was said.",
    on: (days: number) => (days === 1 ? "Stored for one day." : `Stored for ${days} days.`),
    onWhy:
      "Members of this account and operators can read it on the page of a request; the audit log names each reading.",
    store: "Store content",
    change: "Change",
    end: "Stop storing",
    save: "Save",
    what: "Prompts, messages, tools and answers of all keys of this account: up to 1 MiB of text of a request, and as much of its answer. Images, sound and files only as their sizes.",
    where: "Encrypted in control's database with a key of this account. Exports of the database do not contain it.",
    who: "Members and owners of this account and operators can read it. Readers cannot.",
    when: "From the next request on. Tell the people who use the keys.",
    days: "Days",
    daysHelp: "From 1 to 90. Older content is deleted.",
    endTitle: "Stop storing content?",
    endWhy: "All stored content of this account is deleted now and cannot be restored. Usage and costs stay.",
  },
  zh: {
    title: "请求内容",
    off: "未保存。网关记录谁在何时使用了哪个模型以及费用，但不记录对话内容。",
    on: (days: number) => `保存 ${days} 天。`,
    onWhy: "此账户的成员和运营者可以在请求页面查看；审计日志会记录每次查看。",
    store: "保存内容",
    change: "修改",
    end: "停止保存",
    save: "保存",
    what: "此账户所有密钥的提示、消息、工具和回答：每个请求及其回答各最多 1 MiB 文本。图片、声音和文件只保存大小。",
    where: "使用此账户的密钥加密后存入控制服务的数据库。数据库导出不包含这些内容。",
    who: "此账户的成员和所有者以及运营者可以查看。只读成员不能查看。",
    when: "从下一个请求开始。请告知使用密钥的人员。",
    days: "天数",
    daysHelp: "1 到 90 天。更早的内容会被删除。",
    endTitle: "停止保存内容？",
    endWhy: "此账户已保存的全部内容将立即删除，无法恢复。用量和费用保留。",
  },
});

const defaultDays = 7;

export function ContentStorage({
  account: { id, contentDays: days },
  etag,
  canManage,
}: {
  account: Answer<"getAccount">;
  etag: string | undefined;
  canManage: boolean;
}) {
  const t = useTexts(texts);
  const [dialog, setDialog] = useState<"store" | "end">();
  const [chosen, setChosen] = useState<string | number>(defaultDays);
  const close = () => setDialog(undefined);
  const update = async (next: number | null) => {
    await call("updateContentStorage", { params: { account: id }, body: { days: next } }, { ifMatch: etag });
    await queryClient.invalidateQueries();
  };
  return (
    <Stack gap="xs">
      <Group justify="space-between">
        <Title order={2}>{t.title}</Title>
        {canManage && (
          <Group gap="xs">
            {days !== null && (
              <Button size="xs" variant="light" color="red" onClick={() => setDialog("end")}>
                {t.end}
              </Button>
            )}
            <Button
              size="xs"
              variant="default"
              onClick={() => {
                setChosen(days ?? defaultDays);
                setDialog("store");
              }}
            >
              {days === null ? t.store : t.change}
            </Button>
          </Group>
        )}
      </Group>
      <Text>{days === null ? t.off : `${t.on(days)} ${t.onWhy}`}</Text>
      {dialog === "store" && (
        <FormDialog
          title={t.title}
          submit={days === null ? t.store : t.save}
          onClose={close}
          onSubmit={() => update(Number(chosen))}
        >
          <List size="sm" spacing={4}>
            {[t.what, t.where, t.who, t.when].map((text) => (
              <List.Item key={text}>{text}</List.Item>
            ))}
          </List>
          <Field name="days">
            <NumberInput
              label={t.days}
              description={t.daysHelp}
              required
              allowDecimal={false}
              min={1}
              max={90}
              data-autofocus
              value={chosen}
              onChange={setChosen}
            />
          </Field>
        </FormDialog>
      )}
      {dialog === "end" && (
        <ConfirmDialog
          title={t.endTitle}
          submit={t.end}
          consequence={t.endWhy}
          onClose={close}
          onSubmit={() => update(null)}
        />
      )}
    </Stack>
  );
}
