/** Where an entry of the catalogue was written. */
import { Alert, Badge } from "@mantine/core";
import type { Entries, Entry } from "./entries.ts";
import { useSourceTexts } from "./source-badge.texts.ts";

export function SourceBadge({ source }: Pick<Entry, "source">) {
  const t = useSourceTexts();
  return (
    <Badge variant={source === "file" ? "default" : "light"} title={source === "file" ? t.fileWhy : t.databaseWhy}>
      {t[source]}
    </Badge>
  );
}

/** Says why an entry cannot be changed here; nothing if it can. */
export function ReadOnlyNotice({ entries, source }: { entries: Entries } & Pick<Entry, "source">) {
  const t = useSourceTexts();
  if (entries.isReadOnly) return <Alert color="gray">{t.readOnly}</Alert>;
  return source === "file" ? <Alert color="gray">{t.inFile(entries.file)}</Alert> : null;
}

/** Whether an entry can be changed here. */
export const isEditable = (entries: Entries, { source }: Pick<Entry, "source">): boolean =>
  source === "database" && !entries.isReadOnly;
