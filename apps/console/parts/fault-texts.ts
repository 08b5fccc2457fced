/**
 * The words for faults of forms: what the API and the browser find wrong, in the reader's language.
 */
import { translated } from "../app/language.tsx";

/** The text that follows from what the pattern found. */
type Rule = readonly [pattern: RegExp, text: (...found: string[]) => string];

export const faultTexts = translated({
  en: {
    required: "Fill this in.",
    email: "This is not an e-mail address, such as ada@example.com.",
    badInput: "This is not complete.",
    tooShort: (length: string) => `At least ${length} characters.`,
    tooLong: (length: string) => `At most ${length} characters.`,
    least: (value: string) => `At least ${value}.`,
    most: (value: string) => `At most ${value}.`,
    rules: [
      [/must be integer/, () => "A whole number."],
      [/more than (\d+) items/, (count) => `At most ${count} entries.`],
      [/fewer than 1 items/, () => "At least one entry."],
      [/duplicate items/, () => "An entry is there twice."],
      [
        /must have a visible character/,
        () => "It needs a visible character, and no control characters or ones that change the direction of text.",
      ],
      [/^Invalid password/, () => "The password is not right."],
      [/^Invalid code/, () => "The code is not right."],
      [/contains NUL/, () => "It has characters that cannot be stored."],
      [/^id must match/, () => "Only letters, digits and . _ @ -, at most 100."],
      [/^origins.* must match/, () => "A web origin is like https://app.example.com, without a path."],
      [/^scopes.* must match/, () => "A scope is the name of an operation, or the beginning of one followed by *."],
      [/^email must match/, () => "This is not an e-mail address, such as ada@example.com."],
      [/from 1970 to 9999/, () => "A time from 1970 to 9999."],
      [/`expiresAt` must be in the future/, () => "The time is in the past. To end a key now, revoke it."],
    ] as readonly Rule[],
  },
  zh: {
    required: "请填写此项。",
    email: "这不是电子邮件地址，例如 ada@example.com。",
    badInput: "此项不完整。",
    tooShort: (length: string) => `至少 ${length} 个字符。`,
    tooLong: (length: string) => `最多 ${length} 个字符。`,
    least: (value: string) => `不能小于 ${value}。`,
    most: (value: string) => `不能大于 ${value}。`,
    rules: [
      [/must be integer/, () => "必须是整数。"],
      [/more than (\d+) items/, (count) => `最多 ${count} 项。`],
      [/fewer than 1 items/, () => "至少一项。"],
      [/duplicate items/, () => "有重复的项。"],
      [/must have a visible character/, () => "必须包含可见字符，且不能含有控制字符或改变文字方向的字符。"],
      [/contains NUL/, () => "包含无法保存的字符。"],
      [/^id must match/, () => "只能使用字母、数字和 . _ @ -，最多 100 个字符。"],
      [/^origins.* must match/, () => "网页来源应类似 https://app.example.com，不含路径。"],
      [/^scopes.* must match/, () => "权限范围是操作的名称，或以 * 结尾的名称开头。"],
      [/^email must match/, () => "这不是电子邮件地址，例如 ada@example.com。"],
      [/from 1970 to 9999/, () => "时间必须在 1970 年到 9999 年之间。"],
      [/`expiresAt` must be in the future/, () => "时间已过。如需立即停用密钥，请吊销。"],
      [/^(".*") is neither an IP address/, (address) => `${address} 既不是 IP 地址，也不是网段（例如 10.0.0.0/8）。`],
      [/^The catalogue has no (?:model|group) (".*?")/, (name) => `目录中没有 ${name}。`],
      [
        /^Keys of this account may not have the group (".*?")\. .*: (.*)\.$/,
        (name, may) => `此账户的密钥不能使用分组 ${name}。可用：${may}。`,
      ],
      [
        /^`limits\.\w+` may be at most (\S+), /,
        (bound) => `不能大于 ${bound}，即该分组的限额；只有运营者可以设置更高的值。`,
      ],
      [/^An account (".*") exists already/, (id) => `账户 ${id} 已存在，请使用其他 ID。`],
      [/(?:Another|A) user has this address/, () => "该地址已被其他用户使用。"],
      [/current password is required/, () => "请填写当前密码。"],
      [/current password is not right/, () => "当前密码不正确。"],
      [/^There is no operation (".*?")/, (name) => `没有名为 ${name} 的操作。`],
      [/Somebody else has changed it/, () => "其他人刚刚修改过。请重新打开后再修改。"],
      [/^Invalid password/, () => "密码不正确。"],
      [/^Invalid email or password/, () => "地址或密码不正确。"],
      [/^Invalid .*code/i, () => "验证码不正确。"],
      [/Too many attempts/, () => "尝试次数过多，请稍后再试。"],
    ] as readonly Rule[],
  },
});

/** Those that depend on nothing but a number. */
const bounds = [
  [/fewer than 1 characters/, "required"],
  [/fewer than (\d+) characters/, "tooShort"],
  [/more than (\d+) characters/, "tooLong"],
  [/must be >= (\S+?)\.?$/, "least"],
  [/must be <= (\S+?)\.?$/, "most"],
] as const;

/** The words for an error's detail; the detail itself if there are no better ones. */
export function faultWordsOf(detail: string, t: typeof faultTexts.en): string {
  for (const [pattern, name] of bounds) {
    const found = pattern.exec(detail);
    const text = t[name];
    if (found) return typeof text === "string" ? text : text(found[1] ?? "");
  }
  for (const [pattern, text] of t.rules) {
    const found = pattern.exec(detail);
    if (found) return text(...found.slice(1));
  }
  return detail;
}

/** What is wrong with an input; undefined for nothing. `min` and `max` are those of a number. */
export function inputFaultOf(
  input: HTMLInputElement,
  { min, max, value }: { min?: number | string; max?: number | string; value?: unknown },
  t: typeof faultTexts.en,
): string | undefined {
  const { validity } = input;
  if (validity.valueMissing) return t.required;
  if (validity.badInput) return t.badInput;
  if (validity.typeMismatch) return t.email;
  // Browsers look at the lengths only of what a person has typed.
  if (input.minLength > 0 && input.value !== "" && input.value.length < input.minLength)
    return t.tooShort(String(input.minLength));
  if (value === "" || value === undefined) return undefined;
  if (min !== undefined && Number(value) < Number(min)) return t.least(String(min));
  if (max !== undefined && Number(value) > Number(max)) return t.most(String(max));
  return undefined;
}
