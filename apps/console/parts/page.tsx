/** The frame of a page: its title, its actions, and the title of the browser's tab; and its sections. */
import { Group, Stack, Text, Title } from "@mantine/core";
import { type ReactNode, useDeferredValue } from "react";
import { useTabTitle } from "./brand.tsx";
import { Waiting } from "./states.tsx";

export interface PageProps {
  title: string;
  /** One sentence below the title. */
  about?: ReactNode;
  /** Buttons beside the title. */
  actions?: ReactNode;
  /** Its content takes a while to draw: the title comes first. */
  isHeavy?: boolean;
  children: ReactNode;
}

export function Page({ title, about, actions, isHeavy = false, children }: PageProps) {
  useTabTitle(title);
  return (
    <Stack gap="md">
      <Group justify="space-between" align="flex-start" mih={36}>
        <Stack gap={2}>
          <Title order={1}>{title}</Title>
          {about !== undefined && <Text c="dimmed">{about}</Text>}
        </Stack>
        {actions !== undefined && <Group gap="xs">{actions}</Group>}
      </Group>
      {isHeavy ? <Deferred>{children}</Deferred> : children}
    </Stack>
  );
}

function Deferred({ children }: { children: ReactNode }) {
  return useDeferredValue(true, false) ? children : <Waiting rows={16} />;
}

export interface SectionProps {
  title: ReactNode;
  /** Beside the title, such as buttons. */
  aside?: ReactNode;
  children: ReactNode;
}

export const Section = ({ title, aside, children }: SectionProps) => (
  <Stack gap="xs" style={{ minWidth: 0 }}>
    <Group justify="space-between" gap="xs">
      <Title order={2}>{title}</Title>
      {aside}
    </Group>
    {children}
  </Stack>
);
