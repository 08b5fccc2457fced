/** The form of a key, loaded when it is first opened, and the dialog that shows a new key once. */
import { Text } from "@mantine/core";
import { lazy, Suspense } from "react";
import { useTexts } from "../app/texts.ts";
import { CopyText } from "./copy.tsx";
import { openDialog, SecretDialog } from "./dialogs.tsx";
import type { KeyFormProps } from "./key-form.tsx";

const LoadedForm = lazy(async () => ({ default: (await import("./key-form.tsx")).KeyForm }));

export const KeyForm = (props: KeyFormProps) => (
  <Suspense>
    <LoadedForm {...props} />
  </Suspense>
);

/** Shows a new key once. */
function NewKeyDialog({ value }: { value: string }) {
  const t = useTexts();
  return (
    <SecretDialog title={t.copyKeyNow} done={t.stored}>
      <Text>{t.copyKeyHelp}</Text>
      <CopyText value={value} />
    </SecretDialog>
  );
}

export const showNewKey = ({ key }: { key: string }): void => openDialog(<NewKeyDialog value={key} />);
