/** The settings that a dialect lacks, and the refusal of fields. */
import type { SettingName } from "./neutral.ts";

/**
 * The request uses something that a dialect, the gateway's or the upstream's, does not support. The
 * message is for the caller.
 */
export class Refusal extends Error {
  readonly param: string;

  constructor(param: string, message: string) {
    super(message);
    this.param = param;
  }
}

/** Throws the Refusal of the field at `path`. */
export function refuse(path: string, why = "is not supported by the upstream of this model"): never {
  throw new Refusal(path, `${path} ${why}.`);
}

/** The settings that a dialect does not have. `adapted`: the gateway does it instead. */
export type FieldSupport = Partial<Record<SettingName, "adapted" | "ignored">>;
