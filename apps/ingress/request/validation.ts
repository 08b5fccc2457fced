/**
 * Checks bodies against their endpoints' schemas with Fastify's own validator, in the main thread
 * and in the body thread.
 */
import Fastify, { type FastifyServerOptions } from "fastify";
import type { Failure } from "#dialects/errors.ts";
import type { ValidationFault } from "#dialects/request-schema/invalid-field.ts";
import { invalidBodyOf } from "../common/failures.ts";

type AjvPlugin = Exclude<NonNullable<NonNullable<FastifyServerOptions["ajv"]>["plugins"]>[number], unknown[]>;

/**
 * The schemas use `minLength` only as 1, and Ajv's own keyword would count all the millions of
 * characters of an image for it.
 */
const quickMinLength: AjvPlugin = (ajv) =>
  ajv.removeKeyword("minLength").addKeyword({
    keyword: "minLength",
    type: "string",
    schemaType: "number",
    validate: (least: number, text: string) => text.length >= least,
    error: { message: "must NOT be empty" },
  });

const server = Fastify({
  ajv: {
    customOptions: {
      coerceTypes: false,
      useDefaults: false,
      removeAdditional: false,
      allErrors: false,
      strict: false,
      verbose: true,
      // Halves the time of compiling; V8 optimizes the code that runs often.
      code: { optimize: false },
    },
    plugins: [quickMinLength],
  },
});
// A server has a validator only if one of its routes needs one.
server.post("/", { schema: { body: {} } }, () => undefined);
await server.ready();

interface Validator {
  (value: unknown): unknown;
  errors?: ValidationFault[] | null;
}

const validators = new WeakMap<object, Validator>();

/** Compiles a schema at its first use, which takes up to 50 ms. */
export function validatorOf(schema: object): Validator {
  const compiled = validators.get(schema);
  if (compiled !== undefined) return compiled;
  const validator = server.validatorCompiler?.({ schema, method: "POST", url: "/", httpPart: "body" }) as Validator;
  validators.set(schema, validator);
  return validator;
}

/** The failure of a body that does not match the schema; undefined if it matches. */
export function faultIn(schema: object, body: unknown): Failure | undefined {
  const validate = validatorOf(schema);
  return validate(body) === true ? undefined : invalidBodyOf(validate.errors?.[0] as ValidationFault);
}
