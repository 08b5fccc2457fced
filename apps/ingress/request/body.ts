/**
 * Reads and checks a request's body: UTF-8, JSON or a form, bounds, and its endpoint's schema.
 * Pure, so that a thread can do it for large bodies.
 */

import { isUtf8 } from "node:buffer";
import { Refusal as FieldRefusal } from "#dialects/neutral/field-support.ts";
import type { StoredReferences } from "#dialects/openai-responses/stored-references.ts";
import type { Demand } from "#operations/demand.ts";
import { operations } from "#operations/operations.ts";
import { formFieldsMax } from "#wire/bounds.ts";
import { formOf, isJsonType } from "#wire/form.ts";
import { faultMessageOf, parseWithin, requestBounds } from "#wire/json/bounds.ts";
import { objectOf } from "#wire/json/parse.ts";
import { bodyFieldsMax, settingElementsMax, settingLengthMax, settingMembersMax } from "../common/bounds.ts";
import type { ServedEndpoint } from "../common/endpoints.ts";
import { unsupportedMediaType } from "../common/failures.ts";
import { Refusal, type Result, refusalOf } from "../common/refusal.ts";
import type { Opener } from "./session.ts";
import { faultIn } from "./validation.ts";

export type Body = Record<string, unknown>;

/** A body, or of a large one only its settings; and the demand of the whole body. */
export interface ReadBody {
  body: Body;
  demand: Demand;
  /** The beginning of the conversation in a body of which only the settings are here. */
  opener?: Opener | undefined;
  /** The stored objects that the body refers to. */
  references?: StoredReferences | undefined;
}

/**
 * Parses the bytes as JSON. Refuses members that an object has twice, since an upstream may read
 * another one of them than the gateway does. OpenAI refuses them as well.
 */
export function readJson(bytes: Buffer): Result<unknown> {
  if (bytes.length === 0) return refusalOf("The body is empty.");
  if (!isUtf8(bytes)) return refusalOf("The body is not valid UTF-8.");
  try {
    const read = parseWithin(bytes, requestBounds);
    return "value" in read ? read.value : refusalOf(faultMessageOf(read));
  } catch (error) {
    const place = /at position \d+/.exec((error as Error).message)?.[0];
    return refusalOf(`The body is not valid JSON${place === undefined ? "" : ` (${place})`}.`);
  }
}

/** Parses the bytes as JSON, and checks it against a schema. */
export function readObject(bytes: Buffer, schema: object): Result<Body> {
  const read = readJson(bytes);
  if (read instanceof Refusal) return read;
  const fault = faultIn(schema, read);
  return fault === undefined ? (read as Body) : new Refusal(fault);
}

export interface FormSource {
  contentType: string;
  /** The model that the path names; it replaces the form's. */
  model?: string | undefined;
}

/** Parses a form, or JSON in its place, to the values that the endpoint's schema describes. */
export async function readForm(
  { operation }: ServedEndpoint,
  bytes: Buffer,
  { contentType, model }: FormSource,
): Promise<Result<Body>> {
  try {
    const { formValuesOf, formOfJson } = operations[operation];
    const json = isJsonType(contentType) ? readJson(bytes) : undefined;
    if (json instanceof Refusal) return json;
    if (json !== undefined && formOfJson === undefined) return new Refusal(unsupportedMediaType);
    const form = json === undefined ? await formOf(bytes, contentType) : formOfJson?.(objectOf(json));
    const values = (form && (await formValuesOf?.(form))) ?? {};
    const names = [...(form?.keys() ?? [])];
    const repeated = names.find(
      (name, place) =>
        !(name.endsWith("[]") || Array.isArray(values[name])) &&
        (names.indexOf(name) < place || names.includes(`${name}[]`)),
    );
    if (repeated !== undefined) return refusalOf(faultMessageOf({ repeated }), repeated);
    return model === undefined ? values : { ...values, model };
  } catch (error) {
    if (error instanceof FieldRefusal) return refusalOf(error.message, error.param);
    return refusalOf(`The body is not a valid form (multipart/form-data), or has more than ${formFieldsMax} fields.`);
  }
}

/** Checks a parsed value against its endpoint's schema and rules. */
export function checkBody(
  { schema, operation, dialect, faultOf, referencesIn }: ServedEndpoint,
  value: unknown,
): Result<ReadBody> {
  const fault = faultIn(schema, value);
  if (fault !== undefined) return new Refusal(fault);
  const body = value as Body;
  if (Object.keys(body).length > bodyFieldsMax) return refusalOf(`The body has more than ${bodyFieldsMax} fields.`);
  const failure = faultOf?.(body);
  return failure === undefined
    ? { body, demand: operations[operation].demandOf(body, dialect), references: referencesIn?.(body) }
    : new Refusal(failure);
}

/**
 * The settings of a body: everything that an ingress reads of a body that was checked in the
 * thread, besides its demand. Content and long values are left out.
 */
export function settingsOf(body: Body, depth = 3, left = { members: settingMembersMax }): Body {
  return Object.fromEntries(
    Object.entries(body).flatMap(([name, value]): [string, unknown][] => {
      if (isSetting(value)) return [[name, value]];
      if (Array.isArray(value))
        return value.length <= settingElementsMax && value.every(isSetting) ? [[name, value]] : [];
      const inner = value as Body;
      left.members -= Object.keys(inner).length;
      return depth > 1 && left.members >= 0 ? [[name, settingsOf(inner, depth - 1, left)]] : [];
    }),
  );
}

const isSetting = (value: unknown): boolean =>
  typeof value === "string" ? value.length <= settingLengthMax : typeof value !== "object" || value === null;
