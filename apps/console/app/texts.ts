/** The texts of pages are data beside them, in every language; the reader's language chooses. */
import { createContext, useContext } from "react";
import { commonTexts } from "./common.texts.ts";

export const languages = { en: "English", zh: "中文" } as const;
export type Language = keyof typeof languages;

export const LanguageContext = createContext<{ language: Language; setLanguage(language: Language): void }>({
  language: "en",
  setLanguage() {},
});
export const useLanguage = () => useContext(LanguageContext);

type Values<Text extends string> = Text extends `${string}{${string}}${infer Rest}`
  ? [value: string | number, ...Values<Rest>]
  : [];
/**
 * A text with places such as `{name}` is a function of their values, in the order of the English
 * text.
 */
type Words<Texts> = Texts extends string
  ? Values<Texts> extends []
    ? string
    : (...values: Values<Texts>) => string
  : Texts extends ((...values: never[]) => unknown) | readonly unknown[]
    ? Texts
    : { readonly [Name in keyof Texts]: Words<Texts[Name]> };
/** The English texts decide which there are. */
type Translation<Texts> = Texts extends string
  ? string
  : Texts extends ((...values: never[]) => unknown) | readonly unknown[]
    ? Texts
    : { readonly [Name in keyof Texts]: Translation<Texts[Name]> };
type WithCommon<Texts> = Words<Omit<(typeof commonTexts)["en"], keyof Texts> & Texts>;

const places = /\{(\w+)\}/g;

function wordsOf(english: unknown, own: unknown): unknown {
  if (typeof own === "string") {
    const names = [...String(english).matchAll(places)].map(([, name]) => name);
    if (names.length === 0) return own;
    return (...values: unknown[]) => own.replaceAll(places, (_, name: string) => String(values[names.indexOf(name)]));
  }
  if (typeof own !== "object" || own === null || Array.isArray(own)) return own;
  return Object.fromEntries(
    Object.entries(own).map(([name, text]) => [name, wordsOf((english as Record<string, unknown>)[name], text)]),
  );
}

/** A hook that gives a page's texts and the common ones in the reader's language. */
export function translated<const Texts extends object>(texts: {
  en: Texts;
  zh: NoInfer<Translation<Texts>>;
}): () => WithCommon<Texts> {
  const words = new Map<Language, WithCommon<Texts>>();
  return () => {
    const { language } = useLanguage();
    const all = (of: Language) => ({ ...commonTexts[of], ...texts[of] });
    const own = words.get(language) ?? (wordsOf(all("en"), all(language)) as WithCommon<Texts>);
    words.set(language, own);
    return own;
  };
}

/** The common texts. */
export const useTexts = translated({ en: {}, zh: {} });
