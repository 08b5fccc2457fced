/** Dialogs: a form, and the question before a change that cannot be undone. */
import { Button, Group, Modal, Stack, Text } from "@mantine/core";
import type { ReactNode } from "react";
import { translated, useTexts } from "../app/language.tsx";
import { Form } from "./form.tsx";

const texts = translated({ en: { cancel: "Cancel" }, zh: { cancel: "取消" } });

export interface FormDialogProps {
  title: string;
  submit: string;
  /** Rejects with the error to show. The dialog closes when it resolves. */
  onSubmit(): Promise<unknown>;
  /** A field is wrong: it may have to be brought into sight. */
  onFault?(name: string): void;
  onClose(): void;
  color?: string;
  size?: string;
  children: ReactNode;
}

/** Mount it to open it: its fields begin anew each time. */
export function FormDialog({
  title,
  submit,
  onSubmit,
  onFault,
  onClose,
  color,
  size = "md",
  children,
}: FormDialogProps) {
  const t = useTexts(texts);
  return (
    <Modal opened onClose={onClose} title={title} size={size} closeButtonProps={{ "aria-label": t.cancel }}>
      <Form onSubmit={() => onSubmit().then(onClose)} {...(onFault && { onFault })}>
        {({ isBusy, notice }) => (
          <Stack gap="sm">
            {children}
            {notice}
            <Group justify="flex-end" gap="xs">
              <Button variant="default" onClick={onClose}>
                {t.cancel}
              </Button>
              <Button type="submit" loading={isBusy} {...(color !== undefined && { color })}>
                {submit}
              </Button>
            </Group>
          </Stack>
        )}
      </Form>
    </Modal>
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
    <FormDialog {...form} color="red.9">
      <Text>{consequence}</Text>
    </FormDialog>
  );
}
