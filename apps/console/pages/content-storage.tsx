/** Whether an account stores the content of its requests, and the dialogs that change it. */
import { Button, Group, List, Text } from "@mantine/core";
import { type Answer, call } from "../app/call.ts";
import { ConfirmDialog, FormDialog, openDialog } from "../parts/dialogs.tsx";
import { NumberField } from "../parts/form.tsx";
import { Section } from "../parts/page.tsx";
import { useContentStorageTexts } from "./content-storage.texts.ts";

const defaultDays = 7;

interface ContentStorageProps {
  account: Answer<"getAccount">;
  etag: string | undefined;
  canManage: boolean;
}

export function ContentStorage({ account: { id, contentDays }, etag, canManage }: ContentStorageProps) {
  const t = useContentStorageTexts();
  const update = (days: number | null) =>
    call("updateContentStorage", { params: { account: id }, body: { days } }, { ifMatch: etag });
  const store = () =>
    openDialog(
      <FormDialog
        title={t.title}
        submit={contentDays === null ? t.store : t.save}
        initialValues={{ days: contentDays ?? defaultDays }}
        onSubmit={({ days }) => update(Number(days))}
      >
        <List size="sm" spacing={4}>
          {[t.what, t.where, t.who, t.when].map((text) => (
            <List.Item key={text}>{text}</List.Item>
          ))}
        </List>
        <NumberField
          name="days"
          label={t.days}
          description={t.daysHelp}
          required
          allowDecimal={false}
          min={1}
          max={90}
          data-autofocus
        />
      </FormDialog>,
    );
  const end = () =>
    openDialog(
      <ConfirmDialog title={t.endTitle} submit={t.end} consequence={t.endWhy} onSubmit={() => update(null)} />,
    );
  return (
    <Section
      title={t.title}
      aside={
        canManage && (
          <Group>
            {contentDays !== null && (
              <Button size="xs" variant="light" color="red" onClick={end}>
                {t.end}
              </Button>
            )}
            <Button size="xs" variant="default" onClick={store}>
              {contentDays === null ? t.store : t.change}
            </Button>
          </Group>
        )
      }
    >
      <Text>{contentDays === null ? t.off : `${t.on(contentDays)} ${t.onWhy}`}</Text>
    </Section>
  );
}
