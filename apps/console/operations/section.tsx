/** A part of the page on operations, with its heading. */
import { Group, Stack, Title } from "@mantine/core";
import type { ReactNode } from "react";

export const Section = ({ title, aside, children }: { title: string; aside?: ReactNode; children: ReactNode }) => (
  <Stack gap="xs">
    <Group justify="space-between" gap="xs" mih={30}>
      <Title order={2}>{title}</Title>
      {aside}
    </Group>
    {children}
  </Stack>
);
