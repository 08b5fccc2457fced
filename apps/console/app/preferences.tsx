import { ActionIcon, Menu, useMantineColorScheme } from "@mantine/core";
import { SunIcon } from "../parts/icons.tsx";
import { useShellTexts } from "./shell.texts.ts";
import { type Language, languages, useLanguage } from "./texts.ts";

/** Language and colours, also before the sign-in. */
export function Preferences() {
  const t = useShellTexts();
  const { language, setLanguage } = useLanguage();
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  return (
    <Menu position="top-end" width={180}>
      <Menu.Target>
        <ActionIcon variant="subtle" color="gray" size="lg" aria-label={`${t.language}, ${t.scheme}`}>
          <SunIcon />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Label>{t.language}</Menu.Label>
        {(Object.keys(languages) as Language[]).map((each) => (
          <Menu.Item key={each} lang={each} onClick={() => setLanguage(each)} fw={each === language ? 700 : 400}>
            {languages[each]}
          </Menu.Item>
        ))}
        <Menu.Label>{t.scheme}</Menu.Label>
        {(["auto", "light", "dark"] as const).map((each) => (
          <Menu.Item key={each} onClick={() => setColorScheme(each)} fw={each === colorScheme ? 700 : 400}>
            {t[each]}
          </Menu.Item>
        ))}
      </Menu.Dropdown>
    </Menu>
  );
}
