/** Sets a new password with the link that was sent by mail. */
import { Text } from "@mantine/core";
import { useState } from "react";
import { callAuth } from "../app/call.ts";
import { CardForm } from "../parts/card-form.tsx";
import { NewPasswordField } from "../parts/form.tsx";
import { ButtonLink } from "../parts/link.tsx";
import { tokenInFragment } from "./invitation.tsx";
import { useNewPasswordTexts } from "./new-password.texts.ts";

export function NewPassword() {
  const t = useNewPasswordTexts();
  const [token] = useState(tokenInFragment);
  const [isDone, setIsDone] = useState(false);
  return (
    <CardForm
      title={t.newPassword}
      submit={isDone ? undefined : t.setPassword}
      initialValues={{ newPassword: "" }}
      onSubmit={async ({ newPassword }) => {
        await callAuth("/reset-password", { token, newPassword });
        setIsDone(true);
      }}
    >
      {isDone ? (
        <>
          <Text role="status">{t.done}</Text>
          <ButtonLink to="/sign-in">{t.signIn}</ButtonLink>
        </>
      ) : (
        <NewPasswordField name="newPassword" description={t.help} />
      )}
    </CardForm>
  );
}
