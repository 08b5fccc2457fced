/** References in a request to objects that a vendor would have stored, and continuing the previous answer of the caller's own connection without storing it. */
import { refuse } from "../field-support.ts";
import { isObject, listOf, objectOf, textOf } from "../json.ts";

export interface StatefulField {
  /** The field at fault, such as `input[3]`. */
  param: string;
  message: string;
}

/**
 * The first field that requires stored answers, conversations or files; undefined if there is none. Applies to translated and verbatim requests: an upstream
 * would share stored objects between all callers of this gateway.
 */
export function statefulFieldIn(body: Record<string, unknown>): StatefulField | undefined {
  if (textOf(body.previous_response_id) !== undefined)
    return refusalOf("previous_response_id", "names an earlier answer");
  if (isNamed(body.conversation)) return refusalOf("conversation", "names a stored conversation");
  if (isNamed(body.prompt)) return refusalOf("prompt", "names a stored prompt");
  if (body.background === true) return refusalOf("background", "asks for an answer to be fetched later");
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
  const { type, role, id } = item;
  if (type === "item_reference" || (typeof type !== "string" && role === undefined && textOf(id) !== undefined))
    return refusalOf(path, "refers to a stored item", aiSdkHint);
  for (const member of ["content", "output"])
    for (const [place, part] of listOf(item[member]).entries())
      if (textOf(objectOf(part).file_id) !== undefined)
        return refusalOf(`${path}.${member}[${place}].file_id`, "names a stored file");
  return textOf(objectOf(item.output).file_id) === undefined
    ? undefined
    : refusalOf(`${path}.output.file_id`, "names a stored file");
}

const storeHint = "Clients that rely on storage do so with store: false.";
/** https://ai-sdk.dev/providers/ai-sdk-providers/openai#responses-models */
const aiSdkHint =
  'With the AI SDK, set providerOptions: { openai: { store: false } }, or use openai.chat("<model>") instead of openai("<model>").';

const refusalOf = (param: string, what: string, hint = storeHint): StatefulField => ({
  param,
  message: `${param} ${what}, but this gateway stores nothing: send the whole input with every request. ${hint}`,
});

/**
 * Throws Refusal for the first field that asks for compaction, or contains its result. Compaction stores nothing, but only upstreams of this dialect understand
 * it, and its result is valid only for the account that made it.
 */
export function refuseCompaction(body: Record<string, unknown>): void {
  const why =
    "asks for compaction by the vendor, which only a model whose upstream speaks openai-responses offers; the upstream of this model does not";
  if (listOf(body.context_management).length > 0) refuse("context_management", why);
  for (const [place, value] of listOf(body.input).entries()) {
    const { type } = objectOf(value);
    if (type === "compaction_trigger") refuse(`input[${place}]`, why);
    if (type === "compaction")
      refuse(
        `input[${place}]`,
        "is a compaction item, which only an upstream that speaks openai-responses can read; the upstream of this model does not",
      );
  }
}

/** An input as a list of items. */
export const itemsOf = (input: unknown): unknown[] =>
  typeof input === "string" ? [{ type: "message", role: "user", content: input }] : listOf(input);
