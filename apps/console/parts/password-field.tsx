/**
 * Mantine's password input, with what it leaves out: its error and its description for screen
 * readers, and its button's name in the reader's language.
 */
import { PasswordInput, type PasswordInputProps } from "@mantine/core";
import { useId } from "react";
import { useTexts } from "../app/texts.ts";

export function PasswordField(props: PasswordInputProps) {
  const t = useTexts();
  const id = useId();
  const { description, error } = props;
  const described = [...(description ? [`${id}-description`] : []), ...(error ? [`${id}-error`] : [])].join(" ");
  return (
    <PasswordInput
      id={id}
      visibilityToggleButtonProps={{ "aria-label": t.showPassword }}
      {...(error ? { "aria-invalid": true } : {})}
      {...(described !== "" && { "aria-describedby": described })}
      {...props}
    />
  );
}
