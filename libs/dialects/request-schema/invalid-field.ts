/** Describes the first invalid field of a request, by the path that its caller would write. */
import Schema from "typebox/schema";
import { isObject, type JsonObject } from "#wire/json/parse.ts";
import { pathLengthMax } from "../bounds.ts";

export interface ValidationFault {
  /** A JSON pointer (RFC 6901). */
  instancePath: string;
  keyword: string;
  params: JsonObject;
  message?: string;
}

export interface InvalidField {
  /** Such as `messages[0].content`; "" for the whole body. */
  param: string;
  message: string;
}

/** Plain words for the patterns of the schemas that a caller would not understand. */
const patternMessages: Record<string, string> = {
  "^image/": "must be a file whose part of the form has an image's content type, such as image/png",
};

export function invalidFieldOf({ instancePath, keyword, params, message }: ValidationFault): InvalidField {
  const steps = stepsOf(instancePath.slice(0, pathLengthMax));
  if (keyword === "required") steps.push(String(params.missingProperty ?? [params.requiredProperties].flat()[0]));
  const param = steps.reduce(
    (path, step) => (/^\d+$/.test(step) ? `${path}[${step}]` : path === "" ? step : `${path}.${step}`),
    "",
  );
  if (param === "") return { param, message: "The body must be a JSON object." };
  if (keyword === "const") return { message: `'${param}' must be ${JSON.stringify(params.allowedValue)}.`, param };
  const allowed =
    keyword === "enum"
      ? `: ${(params.allowedValues as unknown[]).map((value) => JSON.stringify(value)).join(", ")}`
      : "";
  const isEmpty = keyword === "minLength" && params.limit === 1;
  const types =
    keyword === "type" ? `must be ${[params.type].flat().join(" or ")}` : isEmpty ? "must NOT be empty" : undefined;
  const what =
    keyword === "required"
      ? "is missing"
      : keyword === "false schema"
        ? "is given in both of its spellings"
        : (types ?? patternMessages[String(params.pattern)] ?? `${message ?? "is not valid"}${allowed}`);
  return { message: `'${param}' ${what}.`, param };
}

const stepsOf = (pointer: string) =>
  pointer
    .split("/")
    .slice(1)
    .map((step) => step.replaceAll("~1", "/").replaceAll("~0", "~"));

const validators = new WeakMap<object, ReturnType<typeof Schema.Compile>>();

function isValid(schema: object, value: unknown): boolean {
  let validator = validators.get(schema);
  if (validator === undefined) {
    validator = Schema.Compile(schema);
    validators.set(schema, validator);
  }
  return validator.Check(value);
}

/** The first field of a value that does not match the schema. A schema is compiled on first use. */
export function invalidFieldIn(schema: object, value: unknown): InvalidField | undefined {
  if (isValid(schema, value)) return undefined;
  return invalidFieldOf(faultIn(schema as JsonObject, value, "") ?? { instancePath: "", keyword: "", params: {} });
}

/**
 * The validator takes about a hundred times longer to explain an error than to find one. So it
 * explains only the innermost invalid value, and for a condition only the branch that applies.
 */
function faultIn(schema: JsonObject, value: unknown, at: string): ValidationFault | undefined {
  for (const [step, inner, part] of partsOf(schema, value))
    if (!isValid(inner, part)) return faultIn(inner, part, `${at}/${step}`);
  const { items: _items, properties: _properties, additionalProperties: _others, ...own } = schema;
  const [, [fault]] = Schema.Errors(own, value);
  if (fault === undefined) return undefined;
  const instancePath = at + fault.instancePath;
  if (fault.keyword !== "if") return { ...fault, instancePath };
  const { then } = memberAt(own, fault.schemaPath) as { then?: JsonObject };
  return (then && faultIn(then, memberAt(value, fault.instancePath), instancePath)) ?? { ...fault, instancePath };
}

/** The parts of a value with a schema of their own, with their steps in a JSON pointer. */
function* partsOf(
  { items, properties, additionalProperties: others }: JsonObject,
  value: unknown,
): Generator<[step: string | number, schema: JsonObject, part: unknown]> {
  if (Array.isArray(value)) {
    if (items !== undefined) for (const [place, item] of value.entries()) yield [place, items as JsonObject, item];
  } else if (isObject(value)) {
    const named = (properties ?? {}) as Record<string, JsonObject>;
    for (const [name, inner] of Object.entries(named))
      if (Object.hasOwn(value, name)) yield [name, inner, (value as JsonObject)[name]];
    if (others !== undefined)
      for (const [name, part] of Object.entries(value))
        if (!Object.hasOwn(named, name)) yield [escaped(name), others as JsonObject, part];
  }
}

const escaped = (step: string) => step.replaceAll("~", "~0").replaceAll("/", "~1");

/** The value at a JSON pointer. */
const memberAt = (value: unknown, pointer: string) =>
  stepsOf(pointer).reduce<unknown>((inner, step) => (inner as JsonObject | undefined)?.[step], value);
