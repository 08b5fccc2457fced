/** Whether an account stores the content of its requests, and the dialogs that change it. */
import { Button, Group, List, NumberInput, Stack, Text, Title } from "@mantine/core";
import { useState } from "react";
import { type Answer, call } from "../app/call.ts";
import { queryClient } from "../app/queries.ts";
import { ConfirmDialog, FormDialog } from "../parts/dialogs.tsx";
import { Field } from "../parts/form.tsx";
import { useContentStorageTexts } from "./content-storage.texts.ts";

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
  const t = useContentStorageTexts();
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
