/** Apart from the other filters, because the first page needs none of several values. */
import { MultiSelect, type MultiSelectProps } from "@mantine/core";
import { useFilters } from "../app/address.ts";
import type { FilterProps } from "./filters.tsx";

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
