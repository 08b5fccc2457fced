/** The further actions of a row. */
import { ActionIcon, Menu } from "@mantine/core";
import { useState } from "react";
import { MoreIcon } from "./icons.tsx";

interface RowMenuProps {
  /** Names the row, too. */
  label: string;
  items: readonly { text: string; isDestructive?: boolean; onClick(): void }[];
}

/** The menu is made when it is first opened: one for each row would cost more than the table. */
export function RowMenu({ label, items }: RowMenuProps) {
  const [isMade, setIsMade] = useState(false);
  const button = (
    <ActionIcon
      variant="subtle"
      color="gray"
      size="sm"
      aria-label={label}
      aria-haspopup="menu"
      onClick={() => setIsMade(true)}
    >
      <MoreIcon />
    </ActionIcon>
  );
  if (!isMade) return button;
  return (
    <Menu position="bottom-end" opened onClose={() => setIsMade(false)}>
      <Menu.Target>{button}</Menu.Target>
      <Menu.Dropdown>
        {items.map(({ text, isDestructive = false, onClick }) => (
          <Menu.Item key={text} c={isDestructive ? "red" : undefined} onClick={onClick}>
            {text}
          </Menu.Item>
        ))}
      </Menu.Dropdown>
    </Menu>
  );
}
