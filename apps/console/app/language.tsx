/** The reader's language, and the formats of numbers and times that follow it. */
import { type ReactNode, useEffect, useMemo, useState } from "react";
import { type Language, LanguageContext, useLanguage } from "./texts.ts";

const stored = "sluice-language";
const initial = (): Language => ((localStorage.getItem(stored) ?? navigator.language).startsWith("zh") ? "zh" : "en");

export function LanguageProvider({ children }: { children: ReactNode }) {
  const [language, setLanguage] = useState(initial);
  useEffect(() => {
    document.documentElement.lang = language;
    localStorage.setItem(stored, language);
  }, [language]);
  const value = useMemo(() => ({ language, setLanguage }), [language]);
  return <LanguageContext value={value}>{children}</LanguageContext>;
}

/** Formats of the language. Amounts are decimal texts and are never computed with. */
export interface Formats {
  count(value: number): string;
  /** With a unit such as k or M beyond four digits. */
  short(value: number): string;
  /** Rounded for reading; `exactMoney` has every digit. */
  money(amount: string | number, currency: string): string;
  exactMoney(amount: string, currency: string): string;
  /** The digits that `money` shows behind the decimal point. */
  decimalsOf(amount: string, currency: string): number;
  percent(share: number): string;
  /** A duration in milliseconds. */
  ms(value: number | null): string;
  bytes(value: number): string;
  time(iso: string | number): string;
  day(iso: string | number): string;
  /** A day that is the same everywhere, such as that of a release. */
  date(iso: string | null): string;
  /** Such as "3 minutes ago". */
  ago(iso: string | null): string;
  /** Such as "in 3 minutes". */
  until(iso: string | null): string;
}

export function useFormats(): Formats {
  const { language } = useLanguage();
  return useMemo(() => formatsOf(language), [language]);
}

function formatsOf(language: Language): Formats {
  const numbers = new Intl.NumberFormat(language);
  const short = new Intl.NumberFormat(language, { notation: "compact", maximumFractionDigits: 1 });
  const percent = new Intl.NumberFormat(language, { style: "percent", maximumFractionDigits: 1 });
  const times = new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "medium", hourCycle: "h23" });
  const days = new Intl.DateTimeFormat(language, { dateStyle: "medium" });
  const dates = new Intl.DateTimeFormat(language, { dateStyle: "medium", timeZone: "UTC" });
  const relative = new Intl.RelativeTimeFormat(language, { numeric: "auto" });
  // To make one takes longer than to use it often.
  const moneyFormats = new Map<string, Intl.NumberFormat>();
  const moneyIn = (currency: string, digits: Intl.NumberFormatOptions) => {
    const name = `${currency} ${JSON.stringify(digits)}`;
    const options = { style: "currency", currency, currencyDisplay: "narrowSymbol", ...digits } as const;
    const format = moneyFormats.get(name) ?? new Intl.NumberFormat(language, options);
    moneyFormats.set(name, format);
    return format;
  };
  const roundedMoneyIn = (amount: string | number, currency: string) => {
    const size = Math.abs(Number(amount));
    const digits =
      size === 0 || size >= 1
        ? { minimumFractionDigits: 2, maximumFractionDigits: 2 }
        : size >= 0.1
          ? { minimumFractionDigits: 2, maximumFractionDigits: 3 }
          : { maximumSignificantDigits: 3 };
    return moneyIn(currency, digits);
  };
  return {
    count: (value) => numbers.format(value),
    short: (value) => {
      if (Math.abs(value) < 10_000) return numbers.format(value);
      // A narrow space before a letter such as B; 万 stands close.
      const parts = short.formatToParts(value);
      return parts
        .map(({ type, value: text }) => (type === "compact" ? text.replace(/^[A-Z]/, "\u202f$&") : text))
        .join("");
    },
    money: (amount, currency) => roundedMoneyIn(amount, currency).format(amount as Intl.StringNumericLiteral),
    decimalsOf: (amount, currency) =>
      roundedMoneyIn(amount, currency)
        .formatToParts(amount as Intl.StringNumericLiteral)
        .find(({ type }) => type === "fraction")?.value.length ?? 0,
    exactMoney: (amount, currency) =>
      moneyIn(currency, { minimumFractionDigits: 2, maximumFractionDigits: 20 }).format(
        amount as Intl.StringNumericLiteral,
      ),
    percent: (share) => percent.format(share),
    ms: (value) =>
      value === null
        ? "–"
        : value < 1_000
          ? `${numbers.format(Math.round(value))} ms`
          : `${numbers.format(Math.round(value / 10) / 100)} s`,
    bytes: (value) => {
      const power = Math.min(byteUnits.length - 1, Math.floor(Math.log2(Math.max(1, value)) / 10));
      return `${numbers.format(Math.round((value / 1_024 ** power) * 10) / 10)} ${byteUnits[power]}`;
    },
    time: (iso) => times.format(new Date(iso)),
    day: (iso) => days.format(new Date(iso)),
    date: (iso) => (iso === null ? "–" : dates.format(new Date(iso))),
    ago: (iso) => (iso === null ? "–" : spanText(relative, Math.min(0, Date.parse(iso) - Date.now()))),
    until: (iso) => (iso === null ? "–" : spanText(relative, Math.max(0, Date.parse(iso) - Date.now()))),
  };
}

const byteUnits = ["B", "KiB", "MiB", "GiB", "TiB"];

const spans = [
  ["day", 86_400_000],
  ["hour", 3_600_000],
  ["minute", 60_000],
] as const;

/** `ms` from now; before it if negative. */
function spanText(relative: Intl.RelativeTimeFormat, ms: number): string {
  for (const [unit, span] of spans) if (Math.abs(ms) >= span) return relative.format(Math.trunc(ms / span), unit);
  return relative.format(Math.trunc(ms / 1_000), "second");
}
