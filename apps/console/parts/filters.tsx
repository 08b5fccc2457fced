/** Inputs whose values live in the address. */
import { MultiSelect, type MultiSelectProps, Select, type SelectProps } from "@mantine/core";
import { useFilters } from "../app/address.ts";
import { useTexts } from "../app/texts.ts";

interface FilterProps {
  /** The name of the field in the address. */
  name: string;
  /** A name that is not drawn beside the input: it stands in the empty input. */
  title?: string;
}

/** One of several values; "All" without one. */
export function FilterSelect({ name, title, ...props }: FilterProps & SelectProps) {
  const t = useTexts();
  const { search, filter } = useFilters();
  return (
    <Select
      {...(title !== undefined && { "aria-label": title, placeholder: `${title}: ${t.all}` })}
      value={search[name] ?? null}
      onChange={(value) => filter({ [name]: value ?? undefined })}
      clearable={props.allowDeselect !== false}
      {...props}
    />
  );
}

/** Any of several values, separated by commas. */
export function FilterMultiSelect({ name, title, ...props }: FilterProps & MultiSelectProps) {
  const { search, filter } = useFilters();
  const values = valuesOf(search[name]);
  return (
    <MultiSelect
      {...(title !== undefined && { "aria-label": title, placeholder: values.length === 0 ? title : "" })}
      value={values}
      onChange={(next) => filter({ [name]: next.join(",") || undefined })}
      clearable
      clearButtonProps={{ "aria-label": `${title ?? props.label} ×` }}
      {...props}
    />
  );
}

export const valuesOf = (text: string | undefined): string[] => (text ?? "").split(",").filter((value) => value !== "");
