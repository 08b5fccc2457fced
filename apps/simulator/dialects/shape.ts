/** Describes a fault in the shape of a body in one sentence, with the field's path. */
import type { TLocalizedValidationError } from "typebox/error";
import type { Refused } from "./dialect.ts";

/**
 * Describes the deepest fault, because that is in the alternative of a union which the caller meant. `at` is the path of the value in the body, if it is
 * nested.
 */
export function faultIn(errors: TLocalizedValidationError[], at = ""): Refused {
  const error = errors.reduce<TLocalizedValidationError | undefined>(
    (deepest, one) => (deepest && deepest.instancePath.length >= one.instancePath.length ? deepest : one),
    undefined,
  );
  const missing = error?.keyword === "required" ? `.${error.params.requiredProperties[0]}` : "";
  const param = (
    at +
    (error?.instancePath ?? "").replace(/\/(\d+)(?=\/|$)/g, "[$1]").replaceAll("/", ".") +
    missing
  ).replace(/^\./, "");
  return {
    kind: "refused",
    status: 400,
    message: `${param || "The body"}: ${error?.message ?? "is not understood"}.`,
    param,
  };
}
