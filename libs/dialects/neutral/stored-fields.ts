/** Finds references in a request to objects that a vendor would have stored. */

import { type JsonObject, listOf, objectOf, textOf } from "#wire/json/parse.ts";

export interface StoredField {
  /** The field at fault, such as `messages[3].content[0].source.file_id`. */
  param: string;
  message: string;
  /** The vendor's own error code, by which its clients know to continue without the feature. */
  upstreamCode?: string;
}

/** A path to a text that names a stored object, and the reason for which it is refused. */
export interface StoredFieldRule {
  steps: readonly { name: string; type: string | undefined; isNested: boolean }[];
  reason: string;
}

/**
 * In a path, `[]` after a name stands for every element of a list, `[type]` for those of a type,
 * and `[type]*` for those in one another, to any depth, and for none.
 */
export const storedFieldRule = (path: string, reason: string): StoredFieldRule => ({
  steps: path.split(".").map((step) => {
    const [name = "", type, nesting] = step.split(/[[\]]/);
    return { name, type, isNested: nesting === "*" };
  }),
  reason,
});

export const notKept = "which this gateway does not keep: send the content itself with every request";

export const storedField = (param: string, reason: string): StoredField => ({ param, message: `${param} ${reason}.` });

/**
 * The first field that a rule names; undefined if there is none. An upstream would share stored
 * objects between all callers of this gateway, so this applies to translated and verbatim requests.
 */
export function storedFieldIn(body: JsonObject, rules: readonly StoredFieldRule[]): StoredField | undefined {
  for (const { steps, reason } of rules) {
    const path = firstTextAt(body, steps, 0);
    if (path !== undefined) return storedField(path.slice(1), reason);
  }
  return undefined;
}

function firstTextAt(value: unknown, steps: StoredFieldRule["steps"], level: number): string | undefined {
  const step = steps[level];
  if (step === undefined) return textOf(value) && "";
  const { name, type, isNested } = step;
  const member = objectOf(value)[name];
  if (type === undefined) {
    const path = firstTextAt(member, steps, level + 1);
    return path === undefined ? undefined : `.${name}${path}`;
  }
  const outer = isNested ? firstTextAt(value, steps, level + 1) : undefined;
  if (outer !== undefined) return outer;
  for (const [place, element] of listOf(member).entries()) {
    const isMeant = type === "" || objectOf(element).type === type;
    const path = isMeant ? firstTextAt(element, steps, isNested ? level : level + 1) : undefined;
    if (path !== undefined) return `.${name}[${place}]${path}`;
  }
  return undefined;
}
