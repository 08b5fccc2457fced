/**
 * An invitation: accepted by the person who is signed in, or by a new one. The token is in the
 * fragment, which no server sees.
 */
import { Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { ApiFault, call, callAuth } from "../app/call.ts";
import { useFormats } from "../app/language.tsx";
import { queryClient } from "../app/queries.ts";
import { meQuery } from "../app/session.ts";
import { CardForm } from "../parts/card-form.tsx";
import { EmailField, NameField, NewPasswordField } from "../parts/form.tsx";
import { PageLink } from "../parts/link.tsx";
import { FaultNotice, Loaded } from "../parts/page.tsx";
import { useInvitationTexts } from "./invitation.texts.ts";

/** From the address that was opened, since the router drops fragments when it redirects. */
export const tokenInFragment = () => new URLSearchParams(location.hash.slice(1)).get("token") ?? "";

export function Invitation() {
  const t = useInvitationTexts();
  const format = useFormats();
  const navigate = useNavigate();
  const [token] = useState(tokenInFragment);
  const me = useQuery(meQuery).data;
  const invitation = useQuery({
    queryKey: ["showInvitation", token],
    queryFn: () => call("showInvitation", { body: { token } }),
    retry: false,
  });
  const accept = async (person: { name: string; email: string; password: string }) => {
    const email = invitation.data?.email ?? person.email;
    await call("acceptInvitation", { body: { token, ...(!me && { ...person, email }) } });
    if (!me) await callAuth("/sign-in/email", { email, password: person.password });
    queryClient.clear();
    await navigate({ to: "/" });
  };
  return (
    <CardForm
      title={t.title}
      submit={invitation.data && t.accept}
      initialValues={{ name: "", email: "", password: "" }}
      onSubmit={accept}
      below={
        invitation.data &&
        !me && (
          <PageLink to="/sign-in" search={{ to: `/invitation#token=${token}` }}>
            {t.signInFirst}
          </PageLink>
        )
      }
    >
      {invitation.error instanceof ApiFault ? (
        <FaultNotice error={invitation.error} />
      ) : (
        <Loaded from={invitation} rows={2}>
          {({ accountName, role, email, expiresAt }) => (
            <>
              <Text>{t.to(accountName, t.roles[role])}</Text>
              <Text c="dimmed">{t.expires(format.time(expiresAt))}</Text>
              {me ? (
                <Text>{t.as(me.name)}</Text>
              ) : (
                <>
                  <NameField label={t.name} />
                  <EmailField
                    label={t.email}
                    autoComplete="username"
                    required
                    {...(email !== null && { value: email, disabled: true })}
                  />
                  <NewPasswordField label={t.password} description={t.passwordHelp} />
                </>
              )}
            </>
          )}
        </Loaded>
      )}
    </CardForm>
  );
}
