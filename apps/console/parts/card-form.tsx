/** A form alone on the page, for people who are not signed in. */
import { Button, Center, Group, Paper, Stack, Title } from "@mantine/core";
import type { ReactNode } from "react";
import { Preferences } from "../app/shell.tsx";
import { Brand, useTabTitle } from "./brand.tsx";
import { Form } from "./form.tsx";

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
  useTabTitle(title);
  return (
    <Center component="main" mih="100vh" p="md">
      <Paper withBorder p="lg" w={380} maw="100%">
        <Form onSubmit={async () => onSubmit?.()}>
          {({ isBusy, notice }) => (
            <Stack gap="sm">
              <Group justify="space-between" wrap="nowrap">
                <Brand />
                <Preferences />
              </Group>
              <Title order={1}>{title}</Title>
              {children}
              {notice}
              {submit !== undefined && (
                <Button type="submit" loading={isBusy} fullWidth>
                  {submit}
                </Button>
              )}
              {below}
            </Stack>
          )}
        </Form>
      </Paper>
    </Center>
  );
}
