/** What a page shows instead of its content: waiting, nothing there, or an error. */
import { Alert, Button, Center, Group, Skeleton, Stack, Text, Title } from "@mantine/core";
import { type ReactNode, useSyncExternalStore } from "react";
import { ApiFault } from "../app/call.ts";
import { translated, useTexts } from "../app/language.tsx";
import { faultTexts, faultWordsOf } from "./fault-texts.ts";
import { ButtonLink } from "./link.tsx";

const texts = translated({
  en: {
    failed: "This could not be loaded",
    offline: "The connection is lost. What you see may be old; it is read again when the connection is back.",
    unreachable: "The server does not answer. Check your connection, then try again.",
    forbidden: "Your role does not allow this.",
    retry: "Try again",
    notFound: "Nothing is here",
    notFoundWhy: "It does not exist, or it belongs to an account that is not yours.",
    home: "To the start page",
    waiting: "Loading",
  },
  zh: {
    failed: "无法加载",
    offline: "连接已断开。当前内容可能已过期，恢复连接后会自动重新读取。",
    unreachable: "服务器没有响应。请检查网络连接后重试。",
    forbidden: "您的角色无权执行此操作。",
    retry: "重试",
    notFound: "这里没有内容",
    notFoundWhy: "它不存在，或属于其他账户。",
    home: "返回首页",
    waiting: "正在加载",
  },
});

/** Keeps the height of what comes, so that nothing jumps. */
export function Waiting({ rows = 8 }: { rows?: number }) {
  const t = useTexts(texts);
  return (
    <Stack gap="xs" role="status" aria-label={t.waiting} py="sm">
      {Array.from({ length: rows }, (_, row) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: all rows are alike.
        <Skeleton key={row} height={28} />
      ))}
    </Stack>
  );
}

export function Empty({ title, children, action }: { title: string; children?: ReactNode; action?: ReactNode }) {
  return (
    <Center py="xl" mih={200}>
      <Stack align="center" gap="xs" maw={440}>
        <Text fw={600}>{title}</Text>
        {children !== undefined && (
          <Text c="dimmed" ta="center">
            {children}
          </Text>
        )}
        {action}
      </Stack>
    </Center>
  );
}

/** The words for an error: those of the API where there are no better ones. */
export function useFault(error: unknown): string {
  const t = useTexts(texts);
  const words = useTexts(faultTexts);
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
  const t = useTexts(texts);
  const words = useFault(error);
  if (error instanceof ApiFault && error.status === 404) return <NotFound />;
  return (
    <Alert color="red" title={t.failed} my="md" role="alert">
      <Group justify="space-between">
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

export function NotFound() {
  const t = useTexts(texts);
  return (
    <Center mih={300}>
      <Stack align="center" gap="xs">
        <Title order={1}>{t.notFound}</Title>
        <Text c="dimmed">{t.notFoundWhy}</Text>
        <ButtonLink to="/" variant="default">
          {t.home}
        </ButtonLink>
      </Stack>
    </Center>
  );
}

interface Reading<Value> {
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
  if (data === undefined) return error ? <Failure error={error} retry={again} /> : <Waiting {...(rows && { rows })} />;
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
  const t = useTexts(texts);
  const isOnline = useSyncExternalStore(followOnline, () => navigator.onLine);
  return isOnline ? null : (
    <Alert color="yellow" role="status" mb="sm">
      {t.offline}
    </Alert>
  );
}
