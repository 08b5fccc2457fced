/** Downloads of usage as CSV. */
import { Button, Menu } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { addressOf, type Input } from "../app/call.ts";
import { useUsageTexts } from "./usage.texts.ts";

type CsvQuery = NonNullable<Input<"exportUsage">["query"]>;
type RecordsQuery = NonNullable<Input<"exportRecords">["query"]>;

/** Fetched first, so that an error has words. The file's name has the first and the last day. */
async function save(
  address: string,
  name: string,
  { from, to, timeZone }: Pick<CsvQuery, "from" | "to" | "timeZone">,
): Promise<void> {
  const response = await fetch(address);
  if (!response.ok) throw new Error(((await response.json()) as { detail?: string }).detail);
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await response.blob());
  // Swedish writes days as ISO 8601 does. The period ends before `to`.
  const format = new Intl.DateTimeFormat("sv", { dateStyle: "short", timeZone });
  const times = [from && Date.parse(from), to && Date.parse(to) - 1];
  const days = times.flatMap((time) => (typeof time === "number" ? [format.format(time)] : []));
  link.download = `${[name, ...new Set(days)].join("-")}.csv`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

function useSave(): typeof save {
  const t = useUsageTexts();
  return (...args) =>
    save(...args).catch((error: Error) =>
      notifications.show({ color: "red", title: t.csvFailed, message: error.message }),
    ) as Promise<void>;
}

/** The sums that are filtered, as in the table or as in the plot. */
export function CsvButton({ query, interval, isGrouped }: { query: CsvQuery; interval: string; isGrouped: boolean }) {
  const t = useUsageTexts();
  const saved = useSave();
  const saveSums = (of: string) =>
    void saved(addressOf("exportUsage", { query: { ...query, interval: of as "none" } }), "usage", query);
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
    <Button variant="default" onClick={() => void saved(addressOf("exportRecords", { query }), "requests", query)}>
      {t.csv}
    </Button>
  );
}
