/**
 * An invitation: accepted by the person who is signed in, or by a new one. The token is in the
 * fragment, which no server sees.
 */
import { Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { ApiFault, call, callAuth } from "../app/call.ts";
import { translated, useFormats, useTexts } from "../app/language.tsx";
import { queryClient } from "../app/queries.ts";
import { meQuery } from "../app/session.ts";
import { CardForm } from "../parts/card-form.tsx";
import { EmailField, NameField, NewPasswordField } from "../parts/fields.tsx";
import { PageLink } from "../parts/link.tsx";
import { FaultNotice, Loaded } from "../parts/states.tsx";

const texts = translated({
  en: {
    title: "Invitation",
    to: (account: string, role: string) => `You are invited to the account ${account} as ${role}.`,
    roles: { owner: "owner", member: "member", reader: "reader" },
    as: (name: string) => `You accept as ${name}.`,
    expires: (time: string) => `Valid until ${time}.`,
    name: "Your name",
    email: "Your e-mail address",
    password: "A new password",
    passwordHelp: "At least 12 characters.",
    accept: "Accept",
    known: "I have an account here: sign in first",
  },
  zh: {
    title: "邀请",
    to: (account: string, role: string) => `您受邀以${role}身份加入账户 ${account}。`,
    roles: { owner: "所有者", member: "成员", reader: "只读成员" },
    as: (name: string) => `您将以 ${name} 的身份接受邀请。`,
    expires: (time: string) => `有效期至 ${time}。`,
    name: "您的名称",
    email: "您的电子邮件地址",
    password: "新密码",
    passwordHelp: "至少 12 个字符。",
    accept: "接受",
    known: "我已有帐号：先登录",
  },
});

/** Of the address that was opened, since the router drops fragments when it redirects. */
export const tokenInFragment = () => new URLSearchParams(location.hash.slice(1)).get("token") ?? "";

export function Invitation() {
  const t = useTexts(texts);
  const format = useFormats();
  const navigate = useNavigate();
  const [token] = useState(tokenInFragment);
  const me = useQuery(meQuery).data;
  const invitation = useQuery({
    queryKey: ["showInvitation", token],
    queryFn: () => call("showInvitation", { body: { token } }),
    retry: false,
  });
  const [name, setName] = useState("");
  const [email, setEmail] = useState("");
  const [password, setPassword] = useState("");
  const accept = async () => {
    const address = invitation.data?.email ?? email;
    await call("acceptInvitation", { body: { token, ...(!me && { name, email: address, password }) } });
    if (!me) await callAuth("/sign-in/email", { email: address, password });
    queryClient.clear();
    await navigate({ to: "/" });
  };
  return (
    <CardForm
      title={t.title}
      submit={invitation.data && t.accept}
      onSubmit={accept}
      below={
        invitation.data &&
        !me && (
          <PageLink to="/sign-in" search={{ to: `/invitation#token=${token}` }}>
            {t.known}
          </PageLink>
        )
      }
    >
      {invitation.error instanceof ApiFault ? (
        <FaultNotice error={invitation.error} />
      ) : (
        <Loaded from={invitation} rows={2}>
          {({ accountName, role, email: invited, expiresAt }) => (
            <>
              <Text>{t.to(accountName, t.roles[role])}</Text>
              <Text c="dimmed">{t.expires(format.time(expiresAt))}</Text>
              {me ? (
                <Text>{t.as(me.name)}</Text>
              ) : (
                <>
                  <NameField label={t.name} value={name} onChange={setName} />
                  <EmailField
                    label={t.email}
                    autoComplete="username"
                    required
                    value={invited ?? email}
                    disabled={invited !== null}
                    onChange={setEmail}
                  />
                  <NewPasswordField
                    label={t.password}
                    description={t.passwordHelp}
                    value={password}
                    onChange={setPassword}
                  />
                </>
              )}
            </>
          )}
        </Loaded>
      )}
    </CardForm>
  );
}
