/** Dialogs: a form, and the question before a change that cannot be undone. */
import { Button, Group, Modal, Stack, Text } from "@mantine/core";
import { useRouterState } from "@tanstack/react-router";
import { createContext, type ReactNode, useContext, useEffect } from "react";
import { storeOf } from "../app/store.ts";
import { useTexts } from "../app/texts.ts";
import { Form, type FormProps } from "./form.tsx";

const current = storeOf<{ dialog: ReactNode; id: number }>({ dialog: null, id: 0 });
const CloseContext = createContext<() => void>(() => undefined);

/** Closes the dialog that `openDialog` has shown. */
export const useCloseDialog = (): (() => void) => useContext(CloseContext);

/** Shows a dialog in place of the former one, until it closes or the person leaves the page. */
export function openDialog(dialog: ReactNode): void {
  current.set({ dialog, id: current.get().id + 1 });
}

/** The place of the open dialog, once in the document. */
export function Dialogs() {
  const { dialog, id } = current.use();
  const path = useRouterState({ select: ({ location }) => location.pathname });
  // biome-ignore lint/correctness/useExhaustiveDependencies: another page closes it.
  useEffect(() => () => openDialog(null), [path]);
  const close = () => {
    if (current.get().id === id) openDialog(null);
  };
  return (
    <CloseContext key={id} value={close}>
      {dialog}
    </CloseContext>
  );
}

export interface FormDialogProps<Values extends object>
  extends Omit<FormProps<Values>, "children" | "initialValues" | "onDone"> {
  title: string;
  submit: string;
  /** Absent for a form without fields. */
  initialValues?: Values;
  /** For a dialog that was not opened by `openDialog`. */
  onClose?(): void;
  color?: string;
  size?: string;
  children: ReactNode | ((values: Values) => ReactNode);
}

/** Closes when the submission resolves. */
export function FormDialog<Values extends object>({
  title,
  submit,
  initialValues = {} as Values,
  onClose,
  color,
  size = "md",
  children,
  ...form
}: FormDialogProps<Values>) {
  const t = useTexts();
  const closeOpened = useContext(CloseContext);
  const close = onClose ?? closeOpened;
  return (
    <Modal opened onClose={close} title={title} size={size} closeButtonProps={{ "aria-label": t.cancel }}>
      <Form {...form} initialValues={initialValues} onDone={close}>
        {({ isBusy, notice, values }) => (
          <Stack gap="sm">
            {typeof children === "function" ? children(values) : children}
            {notice}
            <Group justify="flex-end">
              <Button variant="default" onClick={close}>
                {t.cancel}
              </Button>
              <Button type="submit" loading={isBusy} color={color}>
                {submit}
              </Button>
            </Group>
          </Stack>
        )}
      </Form>
    </Modal>
  );
}

interface SecretDialogProps {
  title: string;
  /** The button, such as "I have stored it". */
  done: string;
  children: ReactNode;
}

/** Shows something once: it stays until the person confirms. */
export function SecretDialog({ title, done, children }: SecretDialogProps) {
  const close = useContext(CloseContext);
  return (
    <Modal
      opened
      onClose={close}
      title={title}
      size="lg"
      withCloseButton={false}
      closeOnClickOutside={false}
      closeOnEscape={false}
    >
      <Stack gap="sm">
        {children}
        <Group gap="md" justify="flex-end">
          <Button onClick={close}>{done}</Button>
        </Group>
      </Stack>
    </Modal>
  );
}

export interface ConfirmDialogProps extends Pick<FormDialogProps<object>, "title" | "submit" | "onClose" | "changes"> {
  /** Says what will happen. */
  consequence: ReactNode;
  onSubmit(): Promise<unknown>;
}

/** Says what will happen, and asks. */
export const ConfirmDialog = ({ consequence, ...form }: ConfirmDialogProps) => (
  <FormDialog {...form} color="red.9">
    <Text>{consequence}</Text>
  </FormDialog>
);

/** Whether the person says yes. */
export const confirmed = (question: Omit<ConfirmDialogProps, "onSubmit" | "onClose">): Promise<boolean> =>
  new Promise((resolve) => openDialog(<Question {...question} answer={resolve} />));

function Question({ answer, ...question }: Omit<ConfirmDialogProps, "onSubmit"> & { answer(isYes: boolean): void }) {
  const close = useContext(CloseContext);
  return (
    <ConfirmDialog
      {...question}
      onSubmit={async () => answer(true)}
      onClose={() => {
        answer(false);
        close();
      }}
    />
  );
}
