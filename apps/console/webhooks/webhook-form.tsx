/** The form of a webhook, and the dialog that shows its secret once. */
import { Checkbox, SimpleGrid, Text } from "@mantine/core";
import { webhookEvents } from "#api/vocabulary.ts";
import { call } from "../app/call.ts";
import type { Item } from "../app/queries.ts";
import { CopyText } from "../parts/copy.tsx";
import { FormDialog, openDialog, SecretDialog } from "../parts/dialogs.tsx";
import { CheckboxGroupField, NameField, SelectField, TextField } from "../parts/form.tsx";
import { useWebhooksTexts } from "./webhooks.texts.ts";

type Webhook = Item<"listWebhooks">;

interface WebhookFormProps {
  /** The webhook to change; absent for a new one. */
  of?: Webhook;
  /** The accounts that may have a new one. */
  accounts?: { value: string; label: string }[];
  /** The account that is chosen at first. */
  account?: string | undefined;
}

export function WebhookForm({ of, accounts = [], account }: WebhookFormProps) {
  const t = useWebhooksTexts();
  return (
    <FormDialog
      title={of === undefined ? t.create : of.name}
      submit={of === undefined ? t.create : t.save}
      size="lg"
      initialValues={{
        account: of?.account ?? account ?? accounts[0]?.value ?? "",
        name: of?.name ?? "",
        url: of?.url ?? "",
        events: of?.events ?? [...webhookEvents],
      }}
      onSubmit={async ({ account, ...settings }) => {
        if (of === undefined) showSecret(await call("createWebhook", { body: { account, ...settings } }));
        else await call("updateWebhook", { params: { webhook: of.id }, body: settings });
      }}
    >
      {accounts.length > 1 && (
        <SelectField name="account" label={t.account} data={accounts} searchable allowDeselect={false} />
      )}
      <NameField data-autofocus />
      <TextField name="url" label={t.url} description={t.urlHelp} required type="url" placeholder="https://" />
      <CheckboxGroupField name="events" label={t.events} required>
        <SimpleGrid cols={{ base: 1, sm: 2 }} spacing={8} mt={6}>
          {webhookEvents.map((name) => (
            <Checkbox key={name} value={name} label={t.eventNames[name]} description={name} />
          ))}
        </SimpleGrid>
      </CheckboxGroupField>
    </FormDialog>
  );
}

export const showSecret = ({ secret }: { secret: string }): void => openDialog(<SecretShown secret={secret} />);

function SecretShown({ secret }: { secret: string }) {
  const t = useWebhooksTexts();
  return (
    <SecretDialog title={t.secretTitle} done={t.stored}>
      <Text>{t.secretWhy}</Text>
      <CopyText value={secret} />
    </SecretDialog>
  );
}
