/** Says in one sentence, and with the field's path, what is wrong with the shape of a body. */
import type { TLocalizedValidationError } from "typebox/error";
import type { Refused } from "./dialect.ts";

/** Names the deepest fault, for that is the alternative of a union which the caller meant. `at` is the path of the value in the body, if it is a part of it. */
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
