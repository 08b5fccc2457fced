import { translated } from "../app/texts.ts";

export const useSignInTexts = translated({
  en: {
    code: "Code of your authenticator app",
    backupCode: "Backup code",
    useBackupCode: "Use a backup code",
    verify: "Continue",
    forgotten: "Forgotten?",
    sent: "If this address is known, a mail with a link is on its way. It is valid for an hour.",
    with: "Sign in with {name}",
    or: "or",
    firstTime: "The first visit",
    firstLink:
      "Nobody has a password yet. Open the sign-in link that the start of the gateway printed, or make a new one:",
  },
  zh: {
    code: "验证器应用中的验证码",
    backupCode: "备用代码",
    useBackupCode: "使用备用代码",
    verify: "继续",
    forgotten: "忘记密码？",
    sent: "如果该地址已注册，包含链接的邮件已发出，一小时内有效。",
    with: "使用 {name} 登录",
    or: "或",
    firstTime: "首次访问",
    firstLink: "目前还没有人设置密码。请打开网关启动时打印的登录链接，或生成一个新链接：",
  },
});
