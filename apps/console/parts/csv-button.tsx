/** Usage as CSV. */
import { Button, Menu } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { addressOf, type Input } from "../app/call.ts";
import { useUsageTexts } from "./usage.texts.ts";

type CsvQuery = NonNullable<Input<"exportUsage">["query"]>;

/** Downloads what is filtered. Fetched first, so that an error has words. */
export function CsvButton({ query, interval, isGrouped }: { query: CsvQuery; interval: string; isGrouped: boolean }) {
  const t = useUsageTexts();
  const save = async (of: "none" | typeof interval) => {
    try {
      const response = await fetch(
        addressOf("exportUsage", { query: { ...query, interval: of as "none" } as CsvQuery }),
      );
      if (!response.ok) throw new Error(((await response.json()) as { detail?: string }).detail);
      const link = document.createElement("a");
      link.href = URL.createObjectURL(await response.blob());
      link.download = `usage-${new Date().toISOString().slice(0, 10)}.csv`;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
    } catch (error) {
      notifications.show({ color: "red", title: t.csvFailed, message: (error as Error).message });
    }
  };
  return (
    <Menu position="bottom-end">
      <Menu.Target>
        <Button variant="default">{t.csv}</Button>
      </Menu.Target>
      <Menu.Dropdown>
        {isGrouped && <Menu.Item onClick={() => void save("none")}>{t.csvGroups}</Menu.Item>}
        <Menu.Item onClick={() => void save(interval)}>{t.csvSteps}</Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}
