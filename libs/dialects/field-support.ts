/** What a dialect does with each setting of a request: carry it, drop it as a mere hint, or refuse it by the caller's name for it. */
import type { NeutralRequest, SettingName } from "./neutral.ts";

/** The request asks for what the dialect, ours or the upstream's, has no place for. The message is for the caller. */
export class Refusal extends Error {
  readonly param: string;

  constructor(param: string, message: string) {
    super(message);
    this.param = param;
  }
}

/** Throws the refusal of a field that the model's upstream can't be given. */
export function refuse(path: string, why = "can't be carried to the upstream that serves this model"): never {
  throw new Refusal(path, `${path} ${why}.`);
}

export type FieldSupport = Record<SettingName, "supported" | "ignored" | "rejected">;

/** Throws Refusal for the first setting that is given and not to be carried. */
export function checkFieldSupport({ settings }: NeutralRequest, fieldSupport: FieldSupport): void {
  for (const [name, setting] of Object.entries(settings) as [SettingName, { path: string } | undefined][])
    if (setting !== undefined && fieldSupport[name] === "rejected") refuse(setting.path);
}
