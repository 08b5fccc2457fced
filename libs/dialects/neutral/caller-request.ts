/** The common steps of reading a caller's request into the neutral form. */
import { isPresent, type JsonObject, listOf, objectOf } from "#wire/json/parse.ts";
import { Refusal, refuse } from "./field-support.ts";
import type { NeutralRequest, Setting, Settings, ToolChoice } from "./neutral.ts";
import { leftOutWarnings, toolTypeOf } from "./vendor-tools.ts";

/** Fields that no other dialect supports, and the values that have no effect. */
export type RefusedFields = readonly [name: string, asksNothing: (value: unknown) => boolean][];

export function refuseFields(fields: JsonObject, refused: RefusedFields, prefix = ""): void {
  for (const [name, asksNothing] of refused)
    if (isPresent(fields[name]) && !asksNothing(fields[name])) refuse(prefix + name);
}

export function refuseFault(fault: { param: string; message: string } | undefined): void {
  if (fault !== undefined) throw new Refusal(fault.param, fault.message);
}

const wordNames = ["user", "cacheKey"] as const;
type PlainName =
  | "outputTokensMax"
  | "temperature"
  | "topP"
  | "topK"
  | "seed"
  | "presencePenalty"
  | "frequencyPenalty"
  | (typeof wordNames)[number];

/** The settings in these fields that are plain numbers and words. A penalty of 0 is none. */
export function plainSettingsIn(fields: JsonObject, names: Partial<Record<PlainName, string>>, prefix = ""): Settings {
  const present = Object.entries(names).filter(([setting, name]) => {
    const value = fields[name];
    if (wordNames.some((word) => word === setting)) return typeof value === "string" && value !== "";
    return typeof value === "number" && !(value === 0 && setting.endsWith("Penalty"));
  });
  return Object.fromEntries(present.map(([setting, name]) => [setting, { value: fields[name], path: prefix + name }]));
}

export const verbosities = ["low", "medium", "high"] as const;

/** `listed` are the values that the caller is told. */
export const oneOf = <Value extends string>(
  values: readonly Value[],
  value: unknown,
  path: string,
  listed = values,
): Setting<Value> => ({
  value: values.find((allowed) => allowed === value) ?? refuse(path, `must be one of ${listed.join(", ")}`),
  path,
});

/** Sentences about the offered tools that are left out. */
export const toolWarnings = (tools: unknown) =>
  leftOutWarnings(listOf(tools).map((tool, place) => [toolTypeOf(objectOf(tool)), `tools[${place}]`]));

/** The request without empty instructions, and without a choice or warnings if there are none. */
export const neutralRequest = ({
  toolChoice,
  warnings,
  ...request
}: Omit<NeutralRequest, "toolChoice"> & {
  toolChoice: ToolChoice | undefined;
  warnings: string[];
}): NeutralRequest => ({
  ...request,
  system: request.system.filter(({ text }) => text !== ""),
  ...(toolChoice !== undefined && { toolChoice }),
  ...(warnings.length > 0 && { warnings }),
});
