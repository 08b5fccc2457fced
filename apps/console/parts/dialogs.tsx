/** Dialogs: a form, and the question before a change that cannot be undone. */
import { Alert, Button, Group, Modal, Stack, Text } from "@mantine/core";
import { type FormEvent, type ReactNode, useState } from "react";
import { translated, useTexts } from "../app/language.tsx";
import { useFault } from "./states.tsx";

const texts = translated({ en: { cancel: "Cancel" }, zh: { cancel: "取消" } });

export interface FormDialogProps {
  title: string;
  submit: string;
  /** Rejects with the error to show. The dialog closes when it resolves. */
  onSubmit(): Promise<unknown>;
  onClose(): void;
  color?: string;
  size?: string;
  children: ReactNode;
}

/** Mount it to open it: its fields begin anew each time. */
export function FormDialog({ title, submit, onSubmit, onClose, color, size = "md", children }: FormDialogProps) {
  const t = useTexts(texts);
  const [isBusy, setIsBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const send = async (event: FormEvent) => {
    event.preventDefault();
    setIsBusy(true);
    setError(undefined);
    try {
      await onSubmit();
      onClose();
    } catch (fault) {
      setError(fault);
    } finally {
      setIsBusy(false);
    }
  };
  return (
    <Modal opened onClose={onClose} title={title} size={size} closeButtonProps={{ "aria-label": t.cancel }}>
      <form onSubmit={(event) => void send(event)}>
        <Stack gap="sm">
          {children}
          {error !== undefined && <FaultNotice error={error} />}
          <Group justify="flex-end" gap="xs">
            <Button variant="default" onClick={onClose}>
              {t.cancel}
            </Button>
            <Button type="submit" loading={isBusy} {...(color !== undefined && { color })}>
              {submit}
            </Button>
          </Group>
        </Stack>
      </form>
    </Modal>
  );
}

export function FaultNotice({ error }: { error: unknown }) {
  return (
    <Alert color="red" role="alert" p="xs">
      {useFault(error)}
    </Alert>
  );
}

/** Shows something once: it stays until the person confirms. */
export function SecretDialog({
  title,
  done,
  onClose,
  children,
}: {
  title: string;
  /** The button, such as "I have stored it". */
  done: string;
  onClose(): void;
  children: ReactNode;
}) {
  return (
    <Modal
      opened
      onClose={onClose}
      title={title}
      size="lg"
      withCloseButton={false}
      closeOnClickOutside={false}
      closeOnEscape={false}
    >
      <Stack gap="sm">
        {children}
        <Group justify="flex-end">
          <Button onClick={onClose}>{done}</Button>
        </Group>
      </Stack>
    </Modal>
  );
}

/** Says what will happen, and asks. */
export function ConfirmDialog({
  consequence,
  ...form
}: Omit<FormDialogProps, "children" | "color"> & { consequence: ReactNode }) {
  return (
    <FormDialog {...form} color="red">
      <Text>{consequence}</Text>
    </FormDialog>
  );
}
