/**
 * Names in Google's formats: of fields, which have two spellings
 * (https://protobuf.dev/programming-guides/json/), and of models in paths.
 */
import { isObject, type JsonObject, textOf } from "#wire/json/parse.ts";

/** Members whose value is the caller's own data, so its keys are not respelled. */
const opaque = new Set([
  "args",
  "response",
  "parameters",
  "parametersJsonSchema",
  "responseSchema",
  "responseJsonSchema",
  "_responseJsonSchema",
  "schema",
  "labels",
  "partMetadata",
]);
const underscored = /^[a-z][a-z0-9]*(?:_[a-z0-9]+)+$/;

export const snakeNameOf = (name: string) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
export const camelNameOf = (name: string) =>
  underscored.test(name) ? name.replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase()) : name;

/**
 * Google reads the names of values in any case: `{"mode": "none"}` in
 * https://github.com/google-gemini/generative-ai-python/blob/main/samples/rest/function_calling.sh
 */
export const enumNameOf = (value: unknown) => (textOf(value) ?? "").toUpperCase();

/**
 * The names of a field's values in the order of their numbers, which stand for them in requests of
 * Google's clients over REST (`enum-encoding=int`): https://protobuf.dev/programming-guides/json/,
 * https://github.com/googleapis/googleapis/tree/master/google/ai/generativelanguage/v1beta
 */
const valueNames = new Map([
  ["mode", ["MODE_UNSPECIFIED", "AUTO", "ANY", "NONE", "VALIDATED"]],
  ["type", ["TYPE_UNSPECIFIED", "STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL"]],
  ["responseModalities", ["MODALITY_UNSPECIFIED", "TEXT", "IMAGE", "AUDIO"]],
  ["mediaResolution", ["UNSPECIFIED", "LOW", "MEDIUM", "HIGH"].map((level) => `MEDIA_RESOLUTION_${level}`)],
]);
export const valueNameOf = (field: string, value: unknown) =>
  typeof value === "number" ? (valueNames.get(field)?.[value] ?? value) : value;

/**
 * The same JSON with every field name in camel case, which wins if both spellings are given, and
 * names in place of the numbers of values. The caller's own data stays unchanged.
 */
export function camelOf(value: unknown, field = ""): unknown {
  if (!isObject(value)) return valueNameOf(field, value);
  if (Array.isArray(value)) return value.map((item) => camelOf(item, field));
  const names = Object.keys(value);
  if (!names.some((name) => name.includes("_"))) {
    const same: JsonObject = {};
    for (const name of names) {
      const member = (value as JsonObject)[name];
      same[name] = opaque.has(name) ? member : camelOf(member, name);
    }
    return same;
  }
  const members = Object.entries(value).map(([written, member]) => {
    const name = camelNameOf(written);
    return { name, isRenamed: name !== written, member: opaque.has(name) ? member : camelOf(member, name) };
  });
  return Object.fromEntries(
    [...members.filter(({ isRenamed }) => isRenamed), ...members.filter(({ isRenamed }) => !isRenamed)].map(entryOf),
  );
}

const entryOf = ({ name, member }: { name: string; member: unknown }): [string, unknown] => [name, member];

/**
 * The items of a list with their paths; the format also allows a single item in place of a list.
 */
export function itemsOf(value: unknown, path: string): [item: unknown, path: string][] {
  if (Array.isArray(value)) return value.map((item, place) => [item, `${path}[${place}]`]);
  return isObject(value) ? [[value, path]] : [];
}

/** A tuned model's name, which has its own collection. */
const isTuned = (name: string) => name.startsWith("tunedModels/");
const bareNameOf = (model: string) => model.replace(/^models\//, "");

/** A model's resource name. */
export const resourceOf = (model: string) =>
  isTuned(bareNameOf(model)) ? bareNameOf(model) : `models/${bareNameOf(model)}`;

/** The path of one of a model's methods. Slashes in a name stay. */
export const pathOf = (model: string, method: string) =>
  `/${resourceOf(model)
    .toWellFormed()
    .split("/")
    .map((step) => encodeURIComponent(step))
    .join("/")}:${method}`;
