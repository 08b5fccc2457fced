/**
 * The form of a key, which is loaded when it is first opened, and the dialog that shows a new key
 * once.
 */
import { Text } from "@mantine/core";
import { lazy, Suspense } from "react";
import type { Answer } from "../app/call.ts";
import { translated, useTexts } from "../app/language.tsx";
import { CopyText } from "./copy.tsx";
import { SecretDialog } from "./dialogs.tsx";

export type KeyRow = Answer<"listKeys">["items"][number];
export type NewKey = Answer<"createKey">;

const texts = translated({
  en: {
    created: "Copy the key now",
    createdHelp: "It is shown only here. The gateway stores a hash of it, so nobody can read it later.",
    done: "I have stored it",
  },
  zh: {
    created: "请立即复制密钥",
    createdHelp: "密钥仅在此显示一次。网关只保存其哈希值，之后无人能再读取。",
    done: "我已保存",
  },
});

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
  const t = useTexts(texts);
  return (
    <SecretDialog title={t.created} done={t.done} onClose={onClose}>
      <Text>{t.createdHelp}</Text>
      <CopyText value={created.key} />
    </SecretDialog>
  );
}
