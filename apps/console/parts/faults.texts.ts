/**
 * The words for faults of forms: what the API and the browser find wrong, in the reader's language.
 */
import { translated } from "../app/texts.ts";

/** A text, with the number of the pattern's group in each of its places. */
type Rule = readonly [pattern: RegExp, text: string];

export const useFaultTexts = translated({
  en: {
    required: "Fill this in.",
    email: "This is not an e-mail address, such as ada@example.com.",
    badInput: "This is not complete.",
    tooShort: "At least {length} characters.",
    tooLong: "At most {length} characters.",
    least: "At least {value}.",
    most: "At most {value}.",
    rules: [
      [/must be integer/, "A whole number."],
      [/more than (\d+) items/, "At most {1} entries."],
      [/fewer than 1 items/, "At least one entry."],
      [/duplicate items/, "An entry is there twice."],
      [
        /Revision \d+ is no longer active: (.*) made (\d+)/,
        "{1} has changed this meanwhile (revision {2}). Discard your change, and repeat it.",
      ],
      [
        /must have a visible character/,
        "It needs a visible character, and no control characters or ones that change the direction of text.",
      ],
      [/^Invalid password/, "The password is not right."],
      [/^Invalid code/, "The code is not right."],
      [/contains NUL/, "It has characters that cannot be stored."],
      [/^id must match/, "Only letters, digits and . _ @ -, at most 100."],
      [/^origins.* must match/, "A web origin is like https://app.example.com, without a path."],
      [/^scopes.* must match/, "A scope is the name of an operation, or the beginning of one followed by *."],
      [/^email must match/, "This is not an e-mail address, such as ada@example.com."],
      [/from 1970 to 9999/, "A time from 1970 to 9999."],
      [/`expiresAt` must be in the future/, "The time is in the past. To end a key now, revoke it."],
    ] as readonly Rule[],
  },
  zh: {
    required: "请填写此项。",
    email: "这不是电子邮件地址，例如 ada@example.com。",
    badInput: "此项不完整。",
    tooShort: "至少 {length} 个字符。",
    tooLong: "最多 {length} 个字符。",
    least: "不能小于 {value}。",
    most: "不能大于 {value}。",
    rules: [
      [/must be integer/, "必须是整数。"],
      [/more than (\d+) items/, "最多 {1} 项。"],
      [/fewer than 1 items/, "至少一项。"],
      [/duplicate items/, "有重复的项。"],
      [/Revision \d+ is no longer active: (.*) made (\d+)/, "{1} 已更改此内容（修订 {2}）。请放弃您的更改后重做。"],
      [/must have a visible character/, "必须包含可见字符，且不能含有控制字符或改变文字方向的字符。"],
      [/contains NUL/, "包含无法保存的字符。"],
      [/^id must match/, "只能使用字母、数字和 . _ @ -，最多 100 个字符。"],
      [/^origins.* must match/, "网页来源应类似 https://app.example.com，不含路径。"],
      [/^scopes.* must match/, "权限范围是操作的名称，或以 * 结尾的名称开头。"],
      [/^email must match/, "这不是电子邮件地址，例如 ada@example.com。"],
      [/from 1970 to 9999/, "时间必须在 1970 年到 9999 年之间。"],
      [/`expiresAt` must be in the future/, "时间已过。如需立即停用密钥，请吊销。"],
      [/^(".*") is neither an IP address/, "{1} 既不是 IP 地址，也不是网段（例如 10.0.0.0/8）。"],
      [/^The catalogue has no (?:model|group) (".*?")/, "目录中没有 {1}。"],
      [
        /^Keys of this account may not have the group (".*?")\. .*: (.*)\.$/,
        "此账户的密钥不能使用分组 {1}。可用：{2}。",
      ],
      [/^`limits\.\w+` may be at most (\S+), /, "不能大于 {1}，即该分组的限额；只有运营者可以设置更高的值。"],
      [/^An account (".*") exists already/, "账户 {1} 已存在，请使用其他 ID。"],
      [/(?:Another|A) user has this address/, "该地址已被其他用户使用。"],
      [/current password is required/, "请填写当前密码。"],
      [/current password is not right/, "当前密码不正确。"],
      [/^There is no operation (".*?")/, "没有名为 {1} 的操作。"],
      [/Somebody else has changed it/, "其他人刚刚修改过。请重新打开后再修改。"],
      [/^Invalid password/, "密码不正确。"],
      [/^Invalid email or password/, "地址或密码不正确。"],
      [/^Invalid .*code/i, "验证码不正确。"],
      [/Too many attempts/, "尝试次数过多，请稍后再试。"],
    ] as readonly Rule[],
  },
});
export type FaultTexts = ReturnType<typeof useFaultTexts>;
