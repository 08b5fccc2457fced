/** Sets a new password with the link that was sent by mail. */
import { Text } from "@mantine/core";
import { useState } from "react";
import { callAuth } from "../app/call.ts";
import { translated, useTexts } from "../app/language.tsx";
import { CardForm } from "../parts/card-form.tsx";
import { NewPasswordField } from "../parts/fields.tsx";
import { ButtonLink } from "../parts/link.tsx";
import { tokenInFragment } from "./invitation.tsx";

const texts = translated({
  en: {
    title: "New password",
    help: "At least 12 characters. All your sessions end.",
    set: "Set password",
    done: "The password is set.",
    signIn: "Sign in",
  },
  zh: {
    title: "新密码",
    help: "至少 12 个字符。您的全部会话将结束。",
    set: "设置密码",
    done: "密码已设置。",
    signIn: "登录",
  },
});

export function NewPassword() {
  const t = useTexts(texts);
  const [token] = useState(tokenInFragment);
  const [password, setPassword] = useState("");
  const [isDone, setIsDone] = useState(false);
  const set = async () => {
    await callAuth("/reset-password", { token, newPassword: password });
    setIsDone(true);
  };
  return (
    <CardForm title={t.title} submit={isDone ? undefined : t.set} onSubmit={set}>
      {isDone ? (
        <>
          <Text role="status">{t.done}</Text>
          <ButtonLink to="/sign-in">{t.signIn}</ButtonLink>
        </>
      ) : (
        <NewPasswordField name="newPassword" description={t.help} value={password} onChange={setPassword} />
      )}
    </CardForm>
  );
}
