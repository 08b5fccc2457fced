import { translated } from "../app/texts.ts";

export const useInvitationTexts = translated({
  en: {
    title: "Invitation",
    to: "You are invited to the account {account} as {role}.",
    roles: { owner: "owner", member: "member", reader: "reader" },
    as: "You accept as {name}.",
    expires: "Valid until {time}.",
    name: "Your name",
    email: "Your e-mail address",
    password: "A new password",
    passwordHelp: "At least 12 characters.",
    accept: "Accept",
    signInFirst: "I have an account here: sign in first",
  },
  zh: {
    title: "邀请",
    to: "您受邀以{role}身份加入账户 {account}。",
    roles: { owner: "所有者", member: "成员", reader: "只读成员" },
    as: "您将以 {name} 的身份接受邀请。",
    expires: "有效期至 {time}。",
    name: "您的名称",
    email: "您的电子邮件地址",
    password: "新密码",
    passwordHelp: "至少 12 个字符。",
    accept: "接受",
    signInFirst: "我已有帐号：先登录",
  },
});
