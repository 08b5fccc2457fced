/** Inputs whose values live in the address. */
import { Select, type SelectProps } from "@mantine/core";
import { useFilters } from "../app/address.ts";

export interface FilterProps {
  /** The name of the field in the address. */
  name: string;
  /** A name that is not drawn beside the input: it stands in the empty input. */
  title?: string;
}

/** One of several values; all without one. */
export function FilterSelect({ name, title, ...props }: FilterProps & SelectProps) {
  const { search, filter } = useFilters();
  return (
    <Select
      {...(title !== undefined && { "aria-label": title, placeholder: title })}
      value={search[name] ?? null}
      onChange={(value) => filter({ [name]: value ?? undefined })}
      clearable={props.allowDeselect !== false}
      {...props}
    />
  );
}
