/**
 * The form of a key, which is loaded when it is first opened, and the dialog that shows a new key
 * once.
 */
import { Text } from "@mantine/core";
import { lazy, Suspense } from "react";
import type { Answer } from "../app/call.ts";
import { useTexts } from "../app/texts.ts";
import { CopyText } from "./copy.tsx";
import { SecretDialog } from "./dialogs.tsx";

export type KeyRow = Answer<"listKeys">["items"][number];
export type NewKey = Answer<"createKey">;

const LoadedForm = lazy(async () => ({ default: (await import("./key-form.tsx")).KeyForm }));

export interface KeyFormProps {
  /** The key to change; absent for a new one. */
  of?: KeyRow;
  etag?: string | undefined;
  onClose(): void;
  onCreated?(key: NewKey): void;
}

export const KeyForm = (props: KeyFormProps) => (
  <Suspense>
    <LoadedForm {...props} />
  </Suspense>
);

/** Shows a new key once. */
export function NewKeyDialog({ created, onClose }: { created: NewKey; onClose(): void }) {
  const t = useTexts();
  return (
    <SecretDialog title={t.copyKeyNow} done={t.stored} onClose={onClose}>
      <Text>{t.copyKeyHelp}</Text>
      <CopyText value={created.key} />
    </SecretDialog>
  );
}
