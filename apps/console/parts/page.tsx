/**
 * The frame of a page, its sections, and what stands in the place of content: waiting, nothing
 * there, an error.
 */
import { Alert, Button, Center, Group, Skeleton, Stack, Text, Title } from "@mantine/core";
import { type ReactNode, useDeferredValue, useEffect, useSyncExternalStore } from "react";
import { ApiFault } from "../app/call.ts";
import { installation } from "../app/installation.ts";
import { useFaultTexts } from "./faults.texts.ts";
import { faultWordsOf } from "./faults.ts";
import { ButtonLink } from "./link.tsx";
import { useStatesTexts } from "./states.texts.ts";

export function Brand() {
  const { name, logo } = installation.use();
  return (
    <Group wrap="nowrap" miw={0}>
      <img src={logo ?? "/icon.svg"} alt="" height={24} style={{ maxWidth: 96, objectFit: "contain" }} />
      <Text fw={650} size="lg" lts="-0.01em" truncate title={name}>
        {name}
      </Text>
    </Group>
  );
}

/** Names the page in the browser's tab. */
export function useTabTitle(title: string): void {
  const { name } = installation.use();
  useEffect(() => {
    document.title = `${title} · ${name}`;
  }, [title, name]);
}

/** Keeps the height of what comes, so that nothing jumps. */
export function Waiting({ rows = 8 }: { rows?: number }) {
  const t = useStatesTexts();
  return (
    <Stack role="status" aria-label={t.waiting} py="sm">
      {Array.from({ length: rows }, (_, row) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: all rows are alike.
        <Skeleton key={row} height={28} />
      ))}
    </Stack>
  );
}

export function Empty({ title, children, action }: { title: string; children?: ReactNode; action?: ReactNode }) {
  return (
    <Group className="empty" justify="space-between" gap="md">
      <Stack gap={2} maw={640}>
        <Text fw={600}>{title}</Text>
        {children !== undefined && <Text c="dimmed">{children}</Text>}
      </Stack>
      {action}
    </Group>
  );
}

/** The words for an error: those of the API where there are no better ones. */
export function useFault(error: unknown): string {
  const t = useStatesTexts();
  const words = useFaultTexts();
  if (!(error instanceof ApiFault)) return t.unreachable;
  return error.status === 403 ? `${t.forbidden} ${error.message}` : faultWordsOf(error.message, words);
}

export function FaultNotice({ error }: { error: unknown }) {
  return (
    <Alert color="red" role="alert" p="xs">
      {useFault(error)}
    </Alert>
  );
}

export function Failure({ error, retry }: { error: unknown; retry?: (() => void) | undefined }) {
  const t = useStatesTexts();
  const words = useFault(error);
  if (error instanceof ApiFault && error.status === 404) return <NotFound />;
  return (
    <Alert color="red" title={t.failed} my="md" role="alert">
      <Group gap="md" justify="space-between">
        <Text>{words}</Text>
        {retry && (
          <Button size="xs" variant="default" onClick={retry}>
            {t.retry}
          </Button>
        )}
      </Group>
    </Alert>
  );
}

/** In place of a page that the person's role does not open. */
export function Forbidden() {
  const t = useStatesTexts();
  return <Elsewhere title={t.forbidden} why={t.forbiddenWhy} />;
}

export function NotFound() {
  const t = useStatesTexts();
  return <Elsewhere title={t.notFound} why={t.notFoundWhy} />;
}

function Elsewhere({ title, why }: { title: string; why: string }) {
  const t = useStatesTexts();
  return (
    <Center mih={300}>
      <Stack align="center">
        <Title order={1}>{title}</Title>
        <Text c="dimmed">{why}</Text>
        <ButtonLink to="/" variant="default">
          {t.home}
        </ButtonLink>
      </Stack>
    </Center>
  );
}

export interface Reading<Value> {
  data: Value | undefined;
  error: unknown;
  refetch(): unknown;
}

/**
 * The content of a read: waiting first, an error with a button, then the content. A failed later
 * read leaves the old content, and says so.
 */
export function Loaded<Value>({
  from,
  rows,
  children,
}: {
  from: Reading<Value>;
  rows?: number;
  children: (value: Value) => ReactNode;
}) {
  const { data, error, refetch } = from;
  const again = () => void refetch();
  if (data === undefined) return error ? <Failure error={error} retry={again} /> : <Waiting rows={rows} />;
  return (
    <>
      {error ? <Failure error={error} retry={again} /> : null}
      {children(data)}
    </>
  );
}

const followOnline = (changed: () => void) => {
  for (const name of ["online", "offline"]) addEventListener(name, changed);
  return () => {
    for (const name of ["online", "offline"]) removeEventListener(name, changed);
  };
};

export function OfflineNotice() {
  const t = useStatesTexts();
  const isOnline = useSyncExternalStore(followOnline, () => navigator.onLine);
  return isOnline ? null : (
    <Alert color="yellow" role="status" mb="sm">
      {t.offline}
    </Alert>
  );
}

export interface PageProps {
  title: string;
  /** One sentence below the title. */
  about?: ReactNode;
  /** Buttons beside the title. */
  actions?: ReactNode;
  /** Its content takes a while to draw: the title comes first. */
  isHeavy?: boolean;
  children: ReactNode;
}

export function Page({ title, about, actions, isHeavy = false, children }: PageProps) {
  useTabTitle(title);
  return (
    <Stack gap="md">
      <Group gap="md" justify="space-between" align="flex-start" mih={36}>
        <Stack gap={2} miw={0}>
          <Title order={1} style={{ overflowWrap: "anywhere" }}>
            {title}
          </Title>
          {about !== undefined && <Text c="dimmed">{about}</Text>}
        </Stack>
        {actions !== undefined && <Group>{actions}</Group>}
      </Group>
      {isHeavy ? <Deferred>{children}</Deferred> : children}
    </Stack>
  );
}

function Deferred({ children }: { children: ReactNode }) {
  return useDeferredValue(true, false) ? children : <Waiting rows={16} />;
}

export interface SectionProps {
  /** The anchor of links to it. */
  id?: string;
  title: ReactNode;
  /** Beside the title, such as buttons. */
  aside?: ReactNode;
  children: ReactNode;
}

export const Section = ({ id, title, aside, children }: SectionProps) => (
  <Stack id={id} style={{ minWidth: 0 }}>
    <Group justify="space-between">
      <Title order={2}>{title}</Title>
      {aside}
    </Group>
    {children}
  </Stack>
);
