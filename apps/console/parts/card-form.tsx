/** A form alone on the page, for people who are not signed in. */
import { Button, Center, Group, Paper, Stack, Title } from "@mantine/core";
import type { ReactNode } from "react";
import { Preferences } from "../app/preferences.tsx";
import { Form, type FormProps } from "./form.tsx";
import { Brand, useTabTitle } from "./page.tsx";

interface CardFormProps<Values extends object> extends Omit<FormProps<Values>, "children"> {
  title: string;
  /** Absent: nothing can be sent. */
  submit?: string | undefined;
  children: ReactNode;
  /** Below the button. */
  below?: ReactNode | ((values: Values) => ReactNode);
}

export function CardForm<Values extends object>({ title, submit, children, below, ...form }: CardFormProps<Values>) {
  useTabTitle(title);
  return (
    <Center component="main" mih="100vh" p="md">
      <Paper withBorder p="lg" w={380} maw="100%">
        <Form {...form}>
          {({ isBusy, notice, values }) => (
            <Stack gap="sm">
              <Group gap="md" justify="space-between" wrap="nowrap">
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
              {typeof below === "function" ? below(values) : below}
            </Stack>
          )}
        </Form>
      </Paper>
    </Center>
  );
}
