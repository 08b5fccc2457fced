/** References in a request to objects that a vendor keeps for its own customers. */

import { isObject, type JsonObject, listOf, objectOf } from "#wire/json/parse.ts";
import { refuse } from "../neutral/field-support.ts";
import { notKept, type StoredField, storedField, storedFieldIn, storedFieldRule } from "../neutral/stored-fields.ts";

const rules = [
  storedFieldRule("prompt", `names a stored prompt, ${notKept}`),
  storedFieldRule("tools[].container", `names a container kept by the vendor, ${notKept}`),
  ...["tools[].input_image_mask", "input[].content[]", "input[].output[]", "input[].output"].map((place) =>
    storedFieldRule(`${place}.file_id`, `names a stored file, ${notKept}`),
  ),
];

/**
 * The first field that names an object at a vendor, such as a file; undefined if there is none.
 * References to objects that the gateway stores itself are in stored-references.ts.
 */
export function statefulFieldIn(body: JsonObject): StoredField | undefined {
  if (isObject(body.prompt)) return storedField("prompt", `names a stored prompt, ${notKept}`);
  const place = listOf(body.tools).findIndex((tool) => listOf(objectOf(tool).vector_store_ids).length > 0);
  return place < 0
    ? storedFieldIn(body, rules)
    : storedField(`tools[${place}].vector_store_ids`, `names stored files, ${notKept}`);
}

/**
 * Throws Refusal for a request for compaction that is not the last item. The gateway answers such
 * requests itself (compaction.ts).
 */
export function refuseTrigger(body: JsonObject): void {
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
export const compactionWarning = (path: string) =>
  `${path} is a compaction item of a vendor, which the upstream of this model can't read: the model continues without what it stands for.`;

/** An input as a list of items. */
export const itemsOf = (input: unknown) =>
  typeof input === "string" ? [{ type: "message", role: "user", content: input }] : listOf(input);
