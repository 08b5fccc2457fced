/**
 * The words for faults of forms: what the API and the browser find wrong, in the reader's language.
 */
import type { FaultTexts } from "./faults.texts.ts";

/** The faults that depend on nothing but a number. */
const bounds = [
  [/fewer than 1 characters/, "required"],
  [/fewer than (\d+) characters/, "tooShort"],
  [/more than (\d+) characters/, "tooLong"],
  [/must be >= (\S+?)\.?$/, "least"],
  [/must be <= (\S+?)\.?$/, "most"],
] as const;

/** The words for an error's detail; the detail itself if there are no better ones. */
export function faultWordsOf(detail: string, t: FaultTexts): string {
  for (const [pattern, name] of bounds) {
    const match = pattern.exec(detail);
    const text = t[name];
    if (match) return typeof text === "string" ? text : text(match[1] ?? "");
  }
  for (const [pattern, text] of t.rules) {
    const match = pattern.exec(detail);
    if (match) return text.replaceAll(/\{(\d)\}/g, (_, group: number) => match[group] ?? "");
  }
  return detail;
}

export interface InputBounds {
  min?: number | string;
  max?: number | string;
  value?: unknown;
}

/** The fault of an input; undefined for none. `min` and `max` are those of a number. */
export function inputFaultOf(
  input: HTMLInputElement,
  { min, max, value }: InputBounds,
  t: FaultTexts,
): string | undefined {
  const { validity } = input;
  if (validity.valueMissing) return t.required;
  if (validity.badInput) return t.badInput;
  if (validity.typeMismatch) return t.email;
  // Browsers look at the lengths only of what a person has typed.
  if (input.minLength > 0 && input.value !== "" && input.value.length < input.minLength)
    return t.tooShort(String(input.minLength));
  if (value === "" || value === undefined) return undefined;
  if (min !== undefined && Number(value) < Number(min)) return t.least(String(min));
  if (max !== undefined && Number(value) > Number(max)) return t.most(String(max));
  return undefined;
}
