/**
 * Field support: each dialect supports, ignores or rejects each setting of a request. `adapted`:
 * the gateway does it in place of the upstream.
 */
import type { NeutralRequest, SettingName } from "./neutral.ts";

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

export type FieldSupport = Record<SettingName, "supported" | "adapted" | "ignored" | "rejected">;

/** Throws Refusal for the first setting that is given and rejected. */
export function checkFieldSupport({ settings }: NeutralRequest, fieldSupport: FieldSupport): void {
  for (const [name, setting] of Object.entries(settings) as [SettingName, { path: string } | undefined][])
    if (setting !== undefined && fieldSupport[name] === "rejected") refuse(setting.path);
}
