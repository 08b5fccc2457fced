/** The options of `sluice keys create` and `update`, and what they set. */
import { Value } from "typebox/value";
import { addressesMax, limitWaitMsMax, tagLengthMax, tagsMax } from "#access/bounds.ts";
import { type LimitOption, limitExcesses, limitRows, limitSchemaOf } from "#access/limits.ts";
import { originForm, originsMax } from "#access/origins.ts";
import { priorityNames } from "#access/priority.ts";
import { accountForm, nameForm } from "#access/record.ts";
import { isNetwork } from "#service/networks.ts";
import { CommandFault } from "./command.ts";
import type { KeyFields } from "./key-store.ts";
import { durationOf, expiryOf } from "./keys-text.ts";

const text = { type: "string" } as const;

/** An option for each limit. */
const limitOptions = Object.fromEntries(limitRows.map(({ option }) => [option, text])) as {
  [Option in LimitOption]: typeof text;
};

export const keyOptions = {
  group: text,
  name: text,
  expires: text,
  models: text,
  origins: text,
  addresses: text,
  tags: text,
  account: text,
  priority: text,
  "on-limit": text,
  wait: text,
  ...limitOptions,
  json: { type: "boolean" },
} as const;

/** The limits' options with their help, a line each. */
export const limitHelp = limitRows
  .map(({ option, description }) => `  ${`--${option} <n>`.padEnd(28)}${description}\n`)
  .join("");

type Values = { readonly [Option in Exclude<keyof typeof keyOptions, "json">]?: string | undefined };

/** The value that removes what was set. */
const none = "none";

/** The fields that the options set. Throws a CommandFault for an invalid value. */
export function fieldsOf(values: Values, now: number): KeyFields {
  const { name, group, account } = values;
  if (name !== undefined && !(name.length <= 100 && nameForm.test(name)))
    throw new CommandFault("--name must be 1 to 100 visible characters without control characters");
  if (account !== undefined && !accountForm.test(account))
    throw new CommandFault("--account must be 1 to 100 of A-Z, a-z, 0-9 and ._@-");
  const limits = limitsOf(values);
  const lists = listsOf(values);
  return {
    ...(name !== undefined && { name }),
    ...(group !== undefined && { group }),
    ...(account !== undefined && { account }),
    ...lists,
    ...(Object.keys(limits).length > 0 && { limits }),
    ...(values.priority !== undefined && { priority: choiceOf(values, "priority", priorityNames) }),
    ...(values.expires !== undefined && { expiresAt: expiresAtOf(values.expires, now) }),
  };
}

/** One of these words. Throws a CommandFault for another. */
function choiceOf<Word extends string>(
  values: Values,
  option: "priority" | "on-limit",
  words: readonly Word[],
): Word | null {
  const value = values[option];
  if (value === none) return null;
  const word = words.find((other) => other === value);
  if (word === undefined) throw new CommandFault(`--${option} must be one of ${words.join(", ")}`);
  return word;
}

function expiresAtOf(text: string, now: number): number | null {
  if (text === none) return null;
  const expiresAt = expiryOf(text, now);
  if (expiresAt !== "faulty") return expiresAt;
  throw new CommandFault(
    "--expires must be in the future: a duration such as 12h, 90d or 4w, or a date such as 2030-12-31",
  );
}

const lists = {
  models: { form: /./, max: 500, rule: "name at least one model" },
  origins: {
    form: originForm,
    max: originsMax,
    rule: `be up to ${originsMax} origins such as https://app.example, or *`,
  },
  addresses: {
    form: { test: isNetwork },
    max: addressesMax,
    rule: `be up to ${addressesMax} addresses or networks such as 10.0.0.0/8`,
  },
  tags: {
    form: new RegExp(`^.{1,${tagLengthMax}}$`),
    max: tagsMax,
    rule: `be up to ${tagsMax} tags of up to ${tagLengthMax} characters`,
  },
} as const;

function listsOf(values: Values): Pick<KeyFields, keyof typeof lists> {
  const fields: Pick<KeyFields, keyof typeof lists> = {};
  for (const [option, { form, max, rule }] of Object.entries(lists) as [
    keyof typeof lists,
    (typeof lists)["models"],
  ][]) {
    const value = values[option];
    if (value === undefined) continue;
    const items = value
      .split(",")
      .map((item) => item.trim())
      .filter((item) => item !== "");
    fields[option] = value === none ? null : items;
    const isValid =
      items.length <= max && items.every((item) => form.test(item)) && (option !== "models" || items.length > 0);
    if (value !== none && !isValid) throw new CommandFault(`--${option} must ${rule}`);
  }
  return fields;
}

function limitsOf(values: Values): NonNullable<KeyFields["limits"]> {
  const limits: { -readonly [Name in keyof NonNullable<KeyFields["limits"]>]: NonNullable<KeyFields["limits"]>[Name] } =
    {};
  if (values["on-limit"] !== undefined) limits.onLimit = choiceOf(values, "on-limit", limitExcesses);
  if (values.wait !== undefined) limits.waitMs = values.wait === none ? null : waitMsOf(values.wait);
  for (const row of limitRows) {
    const { name, option, counter, minimum, maximum } = row;
    const value = values[option];
    if (value === undefined) continue;
    const isValid = /^\d{1,13}(\.\d{1,6})?$/.test(value) && Value.Check(limitSchemaOf(row), Number(value));
    if (value !== none && !isValid)
      throw new CommandFault(
        `--${option} must be ${counter === "money" ? "an amount such as 2.50," : "an integer"} from ${minimum} to ${maximum}`,
      );
    limits[name] = value === none ? null : Number(value);
  }
  return limits;
}

function waitMsOf(text: string): number {
  const [, seconds] = /^(\d{1,6})s$/.exec(text) ?? [];
  const ms = seconds === undefined ? durationOf(text) : Number(seconds) * 1_000;
  if (ms === undefined || ms < 1 || ms > limitWaitMsMax)
    throw new CommandFault(`--wait must be a duration such as 30s or 5m, up to ${limitWaitMsMax / 60_000}m`);
  return ms;
}
