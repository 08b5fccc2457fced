/** Sign-in: by password, with a second factor where there is one, or at another provider. */
import { Alert, Anchor, Button, Code, Divider, Text } from "@mantine/core";
import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { callAuth } from "../app/call.ts";
import { queryClient, useRead } from "../app/queries.ts";
import { CardForm } from "../parts/card-form.tsx";
import { EmailField, PasswordField, TextField } from "../parts/form.tsx";
import { FaultNotice } from "../parts/page.tsx";
import { RedirectError } from "../parts/redirect-errors.tsx";
import { useSignInTexts } from "./sign-in.texts.ts";

const route = getRouteApi("/sign-in");
type Step = "password" | "code" | "backupCode";

export function SignIn() {
  const t = useSignInTexts();
  const { to, error: redirectError } = route.useSearch();
  const navigate = useNavigate();
  const [step, setStep] = useState<Step>("password");
  const isPassword = step === "password";
  const submit = async ({ code, ...credentials }: { email: string; password: string; code: string }) => {
    const { twoFactorRedirect = false } = isPassword
      ? await callAuth<{ twoFactorRedirect?: boolean }>("/sign-in/email", credentials)
      : await callAuth<{ twoFactorRedirect?: never }>(
          step === "code" ? "/two-factor/verify-totp" : "/two-factor/verify-backup-code",
          { code },
        );
    if (twoFactorRedirect) return setStep("code");
    queryClient.clear();
    await navigate({ href: to?.startsWith("/") && !to.startsWith("//") ? to : "/", replace: true });
  };
  return (
    <CardForm
      title={t.signIn}
      submit={isPassword ? t.signIn : t.verify}
      initialValues={{ email: "", password: "", code: "" }}
      onSubmit={submit}
      below={({ email }) =>
        isPassword ? (
          <OtherWays email={email} to={to} />
        ) : (
          step === "code" && (
            <Anchor component="button" type="button" onClick={() => setStep("backupCode")}>
              {t.useBackupCode}
            </Anchor>
          )
        )
      }
    >
      {isPassword ? (
        <>
          {redirectError !== undefined && <RedirectError code={redirectError} />}
          <EmailField autoComplete="username" required autoFocus />
          <PasswordField name="password" label={t.password} autoComplete="current-password" required />
        </>
      ) : (
        <TextField
          name="code"
          label={t[step]}
          autoComplete="one-time-code"
          inputMode={step === "code" ? "numeric" : "text"}
          required
          autoFocus
        />
      )}
    </CardForm>
  );
}

/** A forgotten password, and the sign-in at a provider. */
function OtherWays({ email, to = "/" }: { email: string; to: string | undefined }) {
  const t = useSignInTexts();
  const { passwordReset, oidc, needsLink } = useRead("getSignInMethods").data ?? {};
  const [isSent, setIsSent] = useState(false);
  const [fault, setFault] = useState<unknown>();
  const withProvider = async () => {
    const { url } = await callAuth<{ url: string }>("/sign-in/social", { provider: "oidc", callbackURL: to });
    location.assign(url);
  };
  const resetPassword = async () => {
    await callAuth("/request-password-reset", { email });
    setIsSent(true);
  };
  return (
    <>
      {needsLink && (
        <Alert title={t.firstTime} role="note" p="sm">
          {t.firstLink} <Code>npx sluice operator link</Code>
        </Alert>
      )}
      {fault !== undefined && <FaultNotice error={fault} />}
      {isSent && <Text role="status">{t.sent}</Text>}
      {passwordReset && (
        <Anchor component="button" type="button" onClick={() => void resetPassword().catch(setFault)}>
          {t.forgotten}
        </Anchor>
      )}
      {oidc && (
        <>
          <Divider label={t.or} />
          <Button variant="default" fullWidth onClick={() => void withProvider().catch(setFault)}>
            {t.with(oidc)}
          </Button>
        </>
      )}
    </>
  );
}
