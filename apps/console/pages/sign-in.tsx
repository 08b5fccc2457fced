/** Sign-in: with a password and a second factor, or with the OpenID Connect provider. */
import { Anchor, Button, Divider, Text, TextInput } from "@mantine/core";
import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { callAuth } from "../app/call.ts";
import { translated, useTexts } from "../app/language.tsx";
import { queryClient, useRead } from "../app/queries.ts";
import { CardForm } from "../parts/card-form.tsx";
import { EmailField } from "../parts/fields.tsx";
import { Field } from "../parts/form.tsx";
import { PasswordField } from "../parts/password-field.tsx";
import { RedirectError } from "../parts/redirect-errors.tsx";
import { FaultNotice } from "../parts/states.tsx";

const texts = translated({
  en: {
    title: "Sign in",
    password: "Password",
    signIn: "Sign in",
    code: "Code of your authenticator app",
    backupCode: "Backup code",
    useBackupCode: "Use a backup code",
    verify: "Continue",
    forgotten: "Forgotten?",
    sent: "If this address is known, a mail with a link is on its way. It is valid for an hour.",
    with: (name: string) => `Sign in with ${name}`,
    or: "or",
  },
  zh: {
    title: "登录",
    password: "密码",
    signIn: "登录",
    code: "验证器应用中的验证码",
    backupCode: "备用代码",
    useBackupCode: "使用备用代码",
    verify: "继续",
    forgotten: "忘记密码？",
    sent: "如果该地址已注册，包含链接的邮件已发出，一小时内有效。",
    with: (name: string) => `使用 ${name} 登录`,
    or: "或",
  },
});

const route = getRouteApi("/sign-in");

export function SignIn() {
  const t = useTexts(texts);
  const { to, error: redirectError } = route.useSearch();
  const navigate = useNavigate();
  const methods = useRead("getSignInMethods");
  const [email, setEmail] = useState("");
  const [password, setPassword] = useState("");
  const [code, setCode] = useState("");
  const [step, setStep] = useState<"password" | "code" | "backupCode">("password");
  const [isSent, setIsSent] = useState(false);
  const [fault, setFault] = useState<unknown>();
  const enter = async () => {
    queryClient.clear();
    await navigate({ href: to?.startsWith("/") && !to.startsWith("//") ? to : "/", replace: true });
  };
  const submit = async () => {
    if (step === "password") {
      const answer = await callAuth<{ twoFactorRedirect?: boolean }>("/sign-in/email", { email, password });
      if (answer.twoFactorRedirect) setStep("code");
      else await enter();
      return;
    }
    await callAuth(step === "code" ? "/two-factor/verify-totp" : "/two-factor/verify-backup-code", { code });
    await enter();
  };
  const withProvider = async () => {
    const { url } = await callAuth<{ url: string }>("/sign-in/social", { provider: "oidc", callbackURL: to ?? "/" });
    location.assign(url);
  };
  const resetPassword = async () => {
    await callAuth("/request-password-reset", { email });
    setIsSent(true);
  };

  const below = (
    <>
      {fault !== undefined && <FaultNotice error={fault} />}
      {isSent && <Text role="status">{t.sent}</Text>}
      {step === "code" && (
        <Anchor component="button" type="button" onClick={() => setStep("backupCode")}>
          {t.useBackupCode}
        </Anchor>
      )}
      {step === "password" && methods.data?.passwordReset && (
        <Anchor component="button" type="button" onClick={() => void resetPassword().catch(setFault)}>
          {t.forgotten}
        </Anchor>
      )}
      {step === "password" && methods.data?.oidc && (
        <>
          <Divider label={t.or} />
          <Button variant="default" fullWidth onClick={() => void withProvider().catch(setFault)}>
            {t.with(methods.data.oidc)}
          </Button>
        </>
      )}
    </>
  );
  return (
    <CardForm title={t.title} submit={step === "password" ? t.signIn : t.verify} onSubmit={submit} below={below}>
      {redirectError !== undefined && step === "password" && <RedirectError code={redirectError} />}
      {step === "password" ? (
        <>
          <EmailField autoComplete="username" required autoFocus value={email} onChange={setEmail} />
          <Field name="password">
            <PasswordField
              label={t.password}
              autoComplete="current-password"
              required
              value={password}
              onChange={({ currentTarget }) => setPassword(currentTarget.value)}
            />
          </Field>
        </>
      ) : (
        <Field name="code">
          <TextInput
            label={step === "code" ? t.code : t.backupCode}
            autoComplete="one-time-code"
            inputMode={step === "code" ? "numeric" : "text"}
            required
            autoFocus
            value={code}
            onChange={({ currentTarget }) => setCode(currentTarget.value)}
          />
        </Field>
      )}
    </CardForm>
  );
}
