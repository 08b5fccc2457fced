/** Words for the errors with which sign-in sends a browser back to the console: `/?error=CODE`. */
import { Alert } from "@mantine/core";
import { useRedirectErrorsTexts } from "./redirect-errors.texts.ts";

/** By the code in lower case. */
const reasonsByCode: Record<string, keyof ReturnType<typeof useRedirectErrorsTexts>["reasons"]> = {
  invalid_token: "link",
  token_expired: "link",
  expired_token: "link",
  attempts_exceeded: "link",
  sign_in_first: "signInFirst",
  address_taken: "taken",
  invalid_user: "otherUser",
  user_not_found: "userGone",
  new_user_signup_disabled: "userGone",
  state_not_found: "restart",
  state_mismatch: "restart",
  state_invalid: "restart",
  please_restart_the_process: "restart",
  access_denied: "denied",
  account_not_linked: "notLinked",
  unable_to_link_account: "notLinked",
  email_not_found: "noEmail",
};

/** An address may contain any text: what is no code is not repeated. */
const codeForm = /^\w{1,60}$/;

export function RedirectError({ code }: { code: string }) {
  const t = useRedirectErrorsTexts();
  const name = reasonsByCode[code.toLowerCase()];
  return (
    <Alert color="yellow" role="alert" p="xs" mb="sm">
      {name === undefined ? t.other(codeForm.test(code) ? code : "?") : t.reasons[name]}
    </Alert>
  );
}
