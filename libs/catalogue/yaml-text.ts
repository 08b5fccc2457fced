/** Entries of the catalogue as YAML, in the form of a file. */
import { stringify } from "yaml";
import { plainValueOf, type StoredDocument } from "./stored.ts";

/** Sections without entries are absent. `before` are settings that come first. */
export function yamlOf(document: StoredDocument, { before = {} }: { before?: object } = {}): string {
  const { queues, groups, upstreams, models } = plainValueOf(document);
  const sections = Object.entries({ queues, groups, upstreams, models }).filter(
    ([, entries]) => Object.keys(Object(entries)).length > 0,
  );
  const value = { ...before, ...Object.fromEntries(sections) };
  return Object.keys(value).length === 0 ? "" : stringify(value, { lineWidth: 0, aliasDuplicateObjects: false });
}
