import { translated } from "../app/texts.ts";

export const useRedirectErrorsTexts = translated({
  en: {
    reasons: {
      link: "This link was used already, or it is too old. The operator makes a new sign-in link with: npx sluice operator link",
      signInFirst: "Sign in here first. Then open the link of the mail again, in this browser.",
      taken: "Somebody else has this e-mail address meanwhile. Yours did not change.",
      otherUser: "This link is for another user. Sign in as that user, then open it again.",
      userGone: "The user of this link does not exist any more.",
      restart: "The sign-in took too long, or it began in another browser. Try again.",
      denied: "The provider did not let you in.",
      notLinked: "A user with this address signs in in another way. Use that way, or ask an operator.",
      noEmail: "The provider did not say what your e-mail address is. Ask an operator.",
    },
    other: "The sign-in failed ({code}). Try again, or ask an operator.",
  },
  zh: {
    reasons: {
      link: "此链接已被使用或已过期。运维人员可用 npx sluice operator link 生成新的登录链接",
      signInFirst: "请先在此登录，然后在此浏览器中再次打开邮件中的链接。",
      taken: "该电子邮件地址已被他人使用，您的地址没有更改。",
      otherUser: "此链接属于其他用户。请以该用户身份登录后再次打开。",
      userGone: "此链接的用户已不存在。",
      restart: "登录耗时过长，或在其他浏览器中开始。请重试。",
      denied: "登录提供方拒绝了您的登录。",
      notLinked: "使用该地址的用户以其他方式登录。请使用该方式，或联系运维人员。",
      noEmail: "登录提供方没有提供您的电子邮件地址。请联系运维人员。",
    },
    other: "登录失败（{code}）。请重试，或联系运维人员。",
  },
});
