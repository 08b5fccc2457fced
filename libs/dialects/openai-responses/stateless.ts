/** References in a request to objects that a vendor keeps for its own customers. */

import { isObject, listOf, objectOf, textOf } from "#wire/json/parse.ts";
import { refuse } from "../neutral/field-support.ts";

export interface StatefulField {
  /** The field at fault, such as `input[3]`. */
  param: string;
  message: string;
}

/**
 * The first field that names an object at a vendor, such as a file; undefined if there is none.
 * Applies to translated and verbatim requests: an upstream would share stored objects between all
 * callers of this gateway. References to objects that the gateway stores itself are in
 * stored-references.ts.
 */
export function statefulFieldIn(body: Record<string, unknown>): StatefulField | undefined {
  if (isNamed(body.prompt)) return refusalOf("prompt", "names a stored prompt");
  for (const [place, value] of listOf(body.tools).entries()) {
    const { vector_store_ids: stores, container, input_image_mask: mask } = objectOf(value);
    if (listOf(stores).length > 0) return refusalOf(`tools[${place}].vector_store_ids`, "names stored files");
    if (textOf(container) !== undefined)
      return refusalOf(`tools[${place}].container`, "names a container kept by the vendor");
    if (textOf(objectOf(mask).file_id) !== undefined)
      return refusalOf(`tools[${place}].input_image_mask.file_id`, "names a stored file");
  }
  for (const [place, value] of listOf(body.input).entries()) {
    const field = statefulItem(objectOf(value), `input[${place}]`);
    if (field !== undefined) return field;
  }
  return undefined;
}

const isNamed = (value: unknown): boolean => textOf(value) !== undefined || isObject(value);

function statefulItem(item: Record<string, unknown>, path: string): StatefulField | undefined {
  for (const member of ["content", "output"])
    for (const [place, part] of listOf(item[member]).entries())
      if (textOf(objectOf(part).file_id) !== undefined)
        return refusalOf(`${path}.${member}[${place}].file_id`, "names a stored file");
  return textOf(objectOf(item.output).file_id) === undefined
    ? undefined
    : refusalOf(`${path}.output.file_id`, "names a stored file");
}

const refusalOf = (param: string, what: string): StatefulField => ({
  param,
  message: `${param} ${what}, which this gateway does not keep: send the content itself with every request.`,
});

/**
 * Throws Refusal for a request for compaction that is not the last item. The gateway answers such
 * requests itself (compaction.ts).
 */
export function refuseTrigger(body: Record<string, unknown>): void {
  for (const [place, value] of listOf(body.input).entries())
    if (objectOf(value).type === "compaction_trigger") refuse(`input[${place}]`, "must be the last item of the input");
}

/**
 * Stands for a vendor's compaction item, which only the account that made it can read. The
 * gateway's own items were replaced before (compaction.ts). `context_management` only saves tokens:
 * if the vendor does not compact, the conversation continues unchanged.
 */
export const unreadableCompaction =
  "Earlier parts of this conversation were compacted by another model and can't be read.";

/** Tells the caller of such an item. */
export const compactionWarning = (path: string): string =>
  `${path} is a compaction item of a vendor, which the upstream of this model can't read: the model continues without what it stands for.`;

/** An input as a list of items. */
export const itemsOf = (input: unknown): unknown[] =>
  typeof input === "string" ? [{ type: "message", role: "user", content: input }] : listOf(input);
