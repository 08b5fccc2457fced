/** A form alone on the page, for people who are not signed in. */
import { Button, Center, Group, Paper, Stack, Title } from "@mantine/core";
import { type FormEvent, type ReactNode, useState } from "react";
import { Preferences } from "../app/shell.tsx";
import { Brand, useTabTitle } from "./brand.tsx";
import { FaultNotice } from "./dialogs.tsx";

export interface CardFormProps {
  title: string;
  /** Absent: nothing can be sent. */
  submit?: string | undefined;
  onSubmit?(): Promise<unknown>;
  children: ReactNode;
  /** Below the button. */
  below?: ReactNode;
}

export function CardForm({ title, submit, onSubmit, children, below }: CardFormProps) {
  const [error, setError] = useState<unknown>();
  const [isBusy, setIsBusy] = useState(false);
  useTabTitle(title);
  const send = async (event: FormEvent) => {
    event.preventDefault();
    setIsBusy(true);
    setError(undefined);
    try {
      await onSubmit?.();
    } catch (fault) {
      setError(fault);
    } finally {
      setIsBusy(false);
    }
  };
  return (
    <Center component="main" mih="100vh" p="md">
      <Paper withBorder p="lg" w={380} maw="100%">
        <form onSubmit={(event) => void send(event)}>
          <Stack gap="sm">
            <Group justify="space-between" wrap="nowrap">
              <Brand />
              <Preferences />
            </Group>
            <Title order={1}>{title}</Title>
            {children}
            {error !== undefined && <FaultNotice error={error} />}
            {submit !== undefined && (
              <Button type="submit" loading={isBusy} fullWidth>
                {submit}
              </Button>
            )}
            {below}
          </Stack>
        </form>
      </Paper>
    </Center>
  );
}
