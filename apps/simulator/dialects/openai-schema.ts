/**
 * Rules for the schema of a function's arguments, in the words of OpenAI's errors:
 * https://platform.openai.com/docs/guides/function-calling,
 * https://platform.openai.com/docs/guides/structured-outputs#supported-schemas
 */
import { isObject, listOf, type Schema } from "../answer/schema.ts";
import { refuse } from "./dialect.ts";

const barredAtTop = ["oneOf", "anyOf", "allOf", "enum", "not"];
const depthMax = 100;

export function checkFunctionSchema(name: string, parameters: unknown, isStrict: boolean, param: string): void {
  if (!isObject(parameters) || Object.keys(parameters).length === 0) return;
  const invalid: (fault: string) => never = (fault) =>
    refuse(`Invalid schema for function '${name.slice(0, 64)}': ${fault}`, param, {
      code: "invalid_function_parameters",
    });
  if (parameters.type !== "object")
    invalid(
      `schema must be a JSON Schema of 'type: "object"', got 'type: ${JSON.stringify(parameters.type ?? "None")}'.`,
    );
  if (barredAtTop.some((keyword) => keyword in parameters))
    invalid("schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level.");
  checkWithin(parameters, [], isStrict, invalid, 0);
}

function checkWithin(
  schema: unknown,
  context: string[],
  isStrict: boolean,
  invalid: (fault: string) => never,
  depth: number,
): void {
  if (!isObject(schema) || depth > depthMax) return;
  const at = `In context=(${context.map((step) => `'${step}'`).join(", ")}), `;
  const { type, properties, items, anyOf, $defs, required } = schema;
  if (type === "array" && items === undefined && schema.prefixItems === undefined)
    invalid(`${at}array schema missing items.`);
  if (isStrict && type === "object") checkClosed(schema, required, at, invalid);
  for (const [name, of] of Object.entries(isObject(properties) ? properties : {}))
    checkWithin(of, [...context, "properties", name], isStrict, invalid, depth + 1);
  for (const [name, of] of Object.entries(isObject($defs) ? $defs : {}))
    checkWithin(of, [...context, "$defs", name], isStrict, invalid, depth + 1);
  checkWithin(items, [...context, "items"], isStrict, invalid, depth + 1);
  for (const [index, branch] of listOf(anyOf).entries())
    checkWithin(branch, [...context, "anyOf", String(index)], isStrict, invalid, depth + 1);
}

function checkClosed(
  { properties, additionalProperties }: Schema,
  required: unknown,
  at: string,
  invalid: (fault: string) => never,
): void {
  if (additionalProperties !== false)
    invalid(`${at}'additionalProperties' is required to be supplied and to be false.`);
  const missing = Object.keys(isObject(properties) ? properties : {}).find((name) => !listOf(required).includes(name));
  if (missing !== undefined)
    invalid(
      `${at}'required' is required to be supplied and to be an array including every key in properties. Missing '${missing}'.`,
    );
}
