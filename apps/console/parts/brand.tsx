/** The name of this installation beside its logo, and the title of the browser's tab. */
import { Group, Text } from "@mantine/core";
import { useEffect } from "react";
import { installation } from "../app/installation.ts";

export function Brand() {
  const { name, logo } = installation.use();
  return (
    <Group gap="xs" wrap="nowrap" miw={0}>
      {logo !== undefined && <img src={logo} alt="" height={24} style={{ maxWidth: 96, objectFit: "contain" }} />}
      <Text fw={700} size="lg" truncate title={name}>
        {name}
      </Text>
    </Group>
  );
}

/** Names the page in the browser's tab. */
export function useTabTitle(title: string): void {
  const { name } = installation.use();
  useEffect(() => {
    document.title = `${title} · ${name}`;
  }, [title, name]);
}
