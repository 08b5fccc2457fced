/** Downloads of usage as CSV. */
import { Button, Menu } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { addressOf, type Input } from "../app/call.ts";
import { useUsageTexts } from "./usage.texts.ts";

type CsvQuery = NonNullable<Input<"exportUsage">["query"]>;
type RecordsQuery = NonNullable<Input<"exportRecords">["query"]>;

/** Fetched first, so that an error has words. The answer names the file. */
async function save(address: string): Promise<void> {
  const response = await fetch(address);
  if (!response.ok) throw new Error(((await response.json()) as { detail?: string }).detail);
  const [, name = ""] = /filename\*=UTF-8''(\S+)/.exec(response.headers.get("content-disposition") ?? "") ?? [];
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await response.blob());
  link.download = decodeURIComponent(name);
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

function useSave(): typeof save {
  const t = useUsageTexts();
  return (address) =>
    save(address).catch((error: Error) =>
      notifications.show({ color: "red", title: t.csvFailed, message: error.message }),
    ) as Promise<void>;
}

/** The sums that are filtered, as in the table or as in the plot. */
export function CsvButton({ query, interval, isGrouped }: { query: CsvQuery; interval: string; isGrouped: boolean }) {
  const t = useUsageTexts();
  const saved = useSave();
  const saveSums = (of: string) =>
    void saved(addressOf("exportUsage", { query: { ...query, interval: of as "none" } }));
  return (
    <Menu position="bottom-end">
      <Menu.Target>
        <Button variant="default">{t.csv}</Button>
      </Menu.Target>
      <Menu.Dropdown>
        {isGrouped && <Menu.Item onClick={() => saveSums("none")}>{t.csvGroups}</Menu.Item>}
        <Menu.Item onClick={() => saveSums(interval)}>{t.csvSteps}</Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}

/** The records that are filtered. */
export function RecordsCsvButton({ query }: { query: RecordsQuery }) {
  const t = useUsageTexts();
  const saved = useSave();
  return (
    <Button variant="default" onClick={() => void saved(addressOf("exportRecords", { query }))}>
      {t.csv}
    </Button>
  );
}
