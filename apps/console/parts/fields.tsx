/** Inputs of several forms, with the bounds that the API has for them. */
import { type PasswordInputProps, TextInput, type TextInputProps } from "@mantine/core";
import { translated, useTexts } from "../app/language.tsx";
import { Field } from "./form.tsx";
import { PasswordField } from "./password-field.tsx";

const texts = translated({
  en: { name: "Name", email: "E-mail address", newPassword: "New password" },
  zh: { name: "名称", email: "电子邮件地址", newPassword: "新密码" },
});

/** An input's properties; it has a label of its own. */
type Input<Props> = Omit<Props, "value" | "onChange"> & { value: string; onChange(value: string): void };

export function NameField({ onChange, ...input }: Input<TextInputProps>) {
  const t = useTexts(texts);
  return (
    <Field name="name">
      <TextInput
        label={t.name}
        required
        maxLength={100}
        {...input}
        onChange={({ currentTarget }) => onChange(currentTarget.value)}
      />
    </Field>
  );
}

export function EmailField({ onChange, ...input }: Input<TextInputProps>) {
  const t = useTexts(texts);
  return (
    <Field name="email">
      <TextInput
        label={t.email}
        type="email"
        {...input}
        onChange={({ currentTarget }) => onChange(currentTarget.value)}
      />
    </Field>
  );
}

export function NewPasswordField({ name = "password", onChange, ...input }: Input<PasswordInputProps>) {
  const t = useTexts(texts);
  return (
    <Field name={name}>
      <PasswordField
        label={t.newPassword}
        autoComplete="new-password"
        required
        minLength={12}
        maxLength={128}
        {...input}
        onChange={({ currentTarget }) => onChange(currentTarget.value)}
      />
    </Field>
  );
}
