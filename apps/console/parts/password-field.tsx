/**
 * Mantine's password input, with what it leaves out: its error and its description for screen
 * readers, and its button's name in the reader's language.
 */
import { PasswordInput, type PasswordInputProps } from "@mantine/core";
import { useId } from "react";
import { translated, useTexts } from "../app/language.tsx";

const texts = translated({ en: { show: "Show the password" }, zh: { show: "显示密码" } });

export function PasswordField(props: PasswordInputProps) {
  const t = useTexts(texts);
  const id = useId();
  const { description, error } = props;
  const described = [...(description ? [`${id}-description`] : []), ...(error ? [`${id}-error`] : [])].join(" ");
  return (
    <PasswordInput
      id={id}
      visibilityToggleButtonProps={{ "aria-label": t.show }}
      {...(error ? { "aria-invalid": true } : {})}
      {...(described !== "" && { "aria-describedby": described })}
      {...props}
    />
  );
}
