/** The frame of all pages but those of sign-in: navigation, language, colour scheme, the person. */
import { AppShell, Badge, Box, Burger, Group, Menu, NavLink, ScrollArea, Text, UnstyledButton } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { Link, Outlet, useRouterState } from "@tanstack/react-router";
import { type ComponentType, useEffect } from "react";
import { useRecentAlerts } from "../parts/alerts.ts";
import {
  AuditIcon,
  BatchIcon,
  ChatIcon,
  FileIcon,
  FilesIcon,
  GaugeIcon,
  KeyIcon,
  ListIcon,
  ModelIcon,
  PeopleIcon,
  SettingsIcon,
  StartIcon,
  UsageIcon,
  WebhookIcon,
} from "../parts/icons.tsx";
import { ButtonLink } from "../parts/link.tsx";
import { Brand, Forbidden, OfflineNotice } from "../parts/page.tsx";
import { RedirectError } from "../parts/redirect-errors.tsx";
import { Preferences } from "./preferences.tsx";
import { type Me, may, signOut, useMaybeMe } from "./session.ts";
import { useShellTexts } from "./shell.texts.ts";

type Texts = ReturnType<typeof useShellTexts>;

interface Entry {
  to: string;
  text: { [Name in keyof Texts]: Texts[Name] extends string ? Name : never }[keyof Texts];
  icon: ComponentType;
  isFor?: (me: Me) => boolean;
  /** Open without sign-in if the catalogue has a public group. */
  isPublic?: boolean;
}

const isOperator = (me: Me) => me.isOperator;
const entries: Entry[] = [
  { to: "/", text: "start", icon: StartIcon },
  { to: "/keys", text: "keys", icon: KeyIcon },
  { to: "/models", text: "models", icon: ModelIcon, isPublic: true },
  { to: "/playground", text: "playground", icon: ChatIcon },
  { to: "/usage", text: "usage", icon: UsageIcon },
  { to: "/requests", text: "requests", icon: ListIcon },
  { to: "/batches", text: "batches", icon: BatchIcon },
  { to: "/files", text: "files", icon: FilesIcon },
  { to: "/webhooks", text: "webhooks", icon: WebhookIcon, isFor: (me) => may(me, "member") },
  { to: "/operations", text: "operations", icon: GaugeIcon, isFor: isOperator },
  { to: "/catalogue", text: "catalogue", icon: FileIcon, isFor: isOperator },
  { to: "/accounts", text: "accounts", icon: PeopleIcon },
  { to: "/people", text: "people", icon: PeopleIcon, isFor: isOperator },
  { to: "/audit", text: "audit", icon: AuditIcon, isFor: (me) => may(me, "owner") },
  { to: "/settings", text: "settings", icon: SettingsIcon, isFor: isOperator },
];

export function Shell() {
  const t = useShellTexts();
  const me = useMaybeMe();
  const [isOpen, { toggle, close }] = useDisclosure();
  const path = useRouterState({ select: ({ location }) => location.pathname });
  const redirectError = useRouterState({
    select: ({ location }) => (location.pathname === "/" ? location.search.error : undefined),
  });
  // biome-ignore lint/correctness/useExhaustiveDependencies: a new page closes the menu of a phone.
  useEffect(close, [path]);
  const isHere = (to: string) => (to === "/" ? path === "/" : path === to || path.startsWith(`${to}/`));
  const isForbidden = me !== null && entries.some(({ to, isFor }) => isHere(to) && isFor?.(me) === false);
  return (
    <AppShell
      header={{ height: { base: 48, sm: 0 } }}
      navbar={{ width: 208, breakpoint: "sm", collapsed: { mobile: !isOpen } }}
      padding="md"
    >
      <a className="skip-link" href="#content">
        {t.skip}
      </a>
      <AppShell.Header hiddenFrom="sm">
        <Group gap="md" h="100%" px="sm">
          <Burger opened={isOpen} onClick={toggle} size="sm" aria-label={t.menu} aria-expanded={isOpen} />
          <Brand />
        </Group>
      </AppShell.Header>
      <AppShell.Navbar p="xs" aria-label={t.navigation}>
        <AppShell.Section visibleFrom="sm" px="sm" py="xs">
          <Brand />
        </AppShell.Section>
        <AppShell.Section grow component={ScrollArea}>
          {entries
            .filter(({ isFor, isPublic = false }) => (me === null ? isPublic : isFor === undefined || isFor(me)))
            .map(({ to, text, icon: Icon }) => (
              <NavLink
                key={to}
                component={Link}
                to={to}
                label={t[text]}
                leftSection={<Icon />}
                rightSection={to === "/" && me !== null && <AlertBadge />}
                active={isHere(to)}
                variant="subtle"
                color="var(--mantine-color-text)"
                className="nav-link"
                aria-current={isHere(to) ? "page" : undefined}
              />
            ))}
        </AppShell.Section>
        <AppShell.Section>
          <Group gap={4} wrap="nowrap" justify="space-between">
            {me === null ? (
              <ButtonLink to="/sign-in" search={{ to: path }} variant="default" size="xs">
                {t.signIn}
              </ButtonLink>
            ) : (
              <PersonMenu me={me} />
            )}
            <Preferences />
          </Group>
        </AppShell.Section>
      </AppShell.Navbar>
      <AppShell.Main id="content" tabIndex={-1}>
        <Box maw={1680} mx="auto">
          <OfflineNotice />
          {redirectError !== undefined && <RedirectError code={redirectError} />}
          {isForbidden ? <Forbidden /> : <Outlet />}
        </Box>
      </AppShell.Main>
    </AppShell>
  );
}

/** How many alerts the start page has. */
function AlertBadge() {
  const t = useShellTexts();
  const { length } = useRecentAlerts();
  return (
    length > 0 && (
      <Badge color="red" size="sm" role="img" aria-label={t.alerts(length)}>
        {length}
      </Badge>
    )
  );
}

function PersonMenu({ me }: { me: Me }) {
  const t = useShellTexts();
  return (
    <Menu position="top-start" width={220}>
      <Menu.Target>
        <UnstyledButton px="sm" py={6} style={{ minWidth: 0, flex: 1 }}>
          <Text truncate fw={500}>
            {me.name}
          </Text>
          <Text truncate size="xs" c="dimmed">
            {me.email}
          </Text>
        </UnstyledButton>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Item component={Link} to="/me">
          {t.profile}
        </Menu.Item>
        <Menu.Item component="a" href="/api/v1/docs" target="_blank" rel="noreferrer">
          {t.reference}
        </Menu.Item>
        <Menu.Divider />
        <Menu.Item onClick={() => void signOut()}>{t.signOut}</Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}
