/**
 * The stored content of one request: hidden until somebody asks for it, because each reading is
 * recorded.
 */
import { Alert, Badge, Button, Group, Paper, SegmentedControl, Spoiler, Stack, Text, Title } from "@mantine/core";
import { useState } from "react";
import { type Answer, call } from "../app/call.ts";
import { translated, useFormats, useTexts } from "../app/language.tsx";
import { may, useMe } from "../app/session.ts";
import { CodeBlock } from "../parts/copy.tsx";
import { PageLink } from "../parts/link.tsx";
import { FaultNotice } from "../parts/states.tsx";
import {
  type ContentMessage,
  type ContentPart,
  readableOf,
  type StoredRequest,
  storedAnswerOf,
  storedRequestOf,
} from "../parts/stored-content.ts";
import type { UsageRecord } from "../parts/usage-types.ts";
import { Reasoning } from "../playground/run-view.tsx";

type Opened = Answer<"openContent">;
type Body = Opened["request"];

const texts = translated({
  en: {
    title: "Content",
    notStored: "The content of this request is not stored.",
    setting: "Storing content is a setting of the account.",
    forMembers: "It is stored, encrypted. Members of the account can read it.",
    masked: "It is stored, encrypted. Whoever shows it is named in the audit log.",
    show: "Show content",
    hide: "Hide",
    view: "View",
    conversation: "Conversation",
    request: "Request",
    answer: "Answer",
    system: "System prompt",
    tools: "Tools",
    call: (name: string) => `Calls ${name}`,
    result: (name: string) => `Result of ${name}`,
    more: "Show all",
    less: "Show less",
    cut: (size: string) => `The end is missing: the whole text has ${size}.`,
    noText: (type: string, size: string) => `${size} of ${type || "no media type"}, which is not stored.`,
    noConversation: "This body cannot be shown as a conversation. Request and Answer have what is stored of it.",
    nothing: "No text.",
    roles: {
      user: "User",
      assistant: "Assistant",
      model: "Assistant",
      system: "System",
      developer: "Developer",
      tool: "Tool",
      function: "Tool",
      error: "Error",
    } as Record<string, string>,
  },
  zh: {
    title: "内容",
    notStored: "没有保存此请求的内容。",
    setting: "是否保存内容由账户设置决定。",
    forMembers: "内容已加密保存。账户的成员可以查看。",
    masked: "内容已加密保存。查看者会记录在审计日志中。",
    show: "显示内容",
    hide: "隐藏",
    view: "视图",
    conversation: "对话",
    request: "请求",
    answer: "回答",
    system: "系统提示",
    tools: "工具",
    call: (name: string) => `调用 ${name}`,
    result: (name: string) => `${name} 的结果`,
    more: "全部显示",
    less: "收起",
    cut: (size: string) => `末尾缺失：完整文本为 ${size}。`,
    noText: (type: string, size: string) => `${type || "未知媒体类型"}，${size}，未保存。`,
    noConversation: "此内容无法显示为对话。请在“请求”和“回答”中查看已保存的部分。",
    nothing: "没有文本。",
    roles: {
      user: "用户",
      assistant: "助手",
      model: "助手",
      system: "系统",
      developer: "开发者",
      tool: "工具",
      function: "工具",
      error: "错误",
    } as Record<string, string>,
  },
});

interface Shown {
  content: Opened;
  request: StoredRequest | undefined;
  answer: ContentMessage;
}

export function RequestContent({ record }: { record: UsageRecord }) {
  const t = useTexts(texts);
  const me = useMe();
  const [shown, setShown] = useState<Shown>();
  const [isBusy, setIsBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const show = async () => {
    setIsBusy(true);
    setError(undefined);
    try {
      const content = await call("openContent", { params: { id: record.id } });
      const answer = await storedAnswerOf(content.answer.type, content.answer.text, content.dialect);
      setShown({ content, request: storedRequestOf(content.request.text), answer });
    } catch (fault) {
      setError(fault);
    } finally {
      setIsBusy(false);
    }
  };
  const mayShow = record.hasContent && may(me, "member", record.account);
  const state = !record.hasContent ? t.notStored : mayShow ? t.masked : t.forMembers;
  return (
    <Stack gap="xs" component="section" aria-label={t.title}>
      <Group justify="space-between">
        <Title order={2}>{t.title}</Title>
        {mayShow && (
          <Button
            size="xs"
            variant="default"
            loading={isBusy}
            onClick={() => (shown ? setShown(undefined) : void show())}
          >
            {shown ? t.hide : t.show}
          </Button>
        )}
      </Group>
      {shown ? (
        <ContentViews {...shown} />
      ) : (
        <Text size="sm" c="dimmed">
          {state}{" "}
          {!record.hasContent && may(me, "owner", record.account) && record.account !== "" && (
            <PageLink to="/accounts/$account" params={{ account: record.account }}>
              {t.setting}
            </PageLink>
          )}
        </Text>
      )}
      {error !== undefined && <FaultNotice error={error} />}
    </Stack>
  );
}

const views = ["conversation", "request", "answer"] as const;

function ContentViews({ content, request, answer }: Shown) {
  const t = useTexts(texts);
  const [view, setView] = useState<(typeof views)[number]>(request === undefined ? "request" : "conversation");
  return (
    <Stack gap="xs">
      <SegmentedControl
        aria-label={t.view}
        size="xs"
        style={{ alignSelf: "flex-start" }}
        data={views.map((value) => ({ value, label: t[value] }))}
        value={view}
        onChange={(value) => setView(value as (typeof views)[number])}
      />
      {view === "conversation" ? (
        request === undefined ? (
          <Alert color="gray">{t.noConversation}</Alert>
        ) : (
          <Conversation request={request} answer={answer} content={content} />
        )
      ) : (
        <Raw body={content[view]} label={t[view]} />
      )}
    </Stack>
  );
}

function Conversation({
  request,
  answer,
  content,
}: {
  request: StoredRequest;
  answer: ContentMessage;
  content: Opened;
}) {
  const t = useTexts(texts);
  return (
    <Stack gap="xs">
      {request.system.length > 0 && <Message title={t.system} parts={request.system} />}
      {request.tools.length > 0 && (
        <Message
          title={t.tools}
          parts={request.tools.map(({ name, description }) => ({
            kind: "text",
            name: "",
            text: description === "" ? name : `${name}: ${description}`,
          }))}
        />
      )}
      {request.messages.map((message, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: messages never move.
        <Message key={index} title={t.roles[message.role] ?? message.role} parts={message.parts} />
      ))}
      <CutNote body={content.request} />
      <Message title={t.roles[answer.role] ?? answer.role} parts={answer.parts} isAnswer />
      <CutNote body={content.answer} />
    </Stack>
  );
}

function Message({
  title,
  parts,
  isAnswer = false,
}: {
  title: string;
  parts: readonly ContentPart[];
  isAnswer?: boolean;
}) {
  const t = useTexts(texts);
  return (
    <Paper
      withBorder
      p="sm"
      {...(isAnswer && { bg: "light-dark(var(--mantine-color-gray-0), var(--mantine-color-dark-6))" })}
    >
      <Text size="xs" c="dimmed" fw={600} mb={4}>
        {title}
      </Text>
      <Spoiler maxHeight={320} showLabel={t.more} hideLabel={t.less}>
        <Stack gap="xs">
          {parts.length === 0 && <Text c="dimmed">{t.nothing}</Text>}
          {parts.map((part, index) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: parts never move.
            <Part key={index} part={part} />
          ))}
        </Stack>
      </Spoiler>
    </Paper>
  );
}

function Part({ part: { kind, name, text } }: { part: ContentPart }) {
  const t = useTexts(texts);
  if (kind === "reasoning") return <Reasoning text={text} />;
  const label =
    kind === "call" ? t.call(name) : kind === "result" ? t.result(name) : kind === "data" ? name : undefined;
  const isCode = kind !== "text";
  return (
    <div>
      {label !== undefined && (
        <Badge variant="default" radius="sm" tt="none" mb={4}>
          {label}
        </Badge>
      )}
      <Text
        size="sm"
        {...(isCode && { ff: "monospace" })}
        style={{ whiteSpace: "pre-wrap", overflowWrap: "anywhere", unicodeBidi: "plaintext" }}
      >
        {text}
      </Text>
    </div>
  );
}

function Raw({ body, label }: { body: Body; label: string }) {
  const t = useTexts(texts);
  const format = useFormats();
  return (
    <Stack gap="xs">
      {body.text === "" ? (
        <Text c="dimmed">{body.bytes === 0 ? t.nothing : t.noText(body.type, format.bytes(body.bytes))}</Text>
      ) : (
        <CodeBlock code={readableOf(body.text)} label={label} />
      )}
      <CutNote body={body} />
    </Stack>
  );
}

function CutNote({ body: { isCut, bytes } }: { body: Body }) {
  const t = useTexts(texts);
  const format = useFormats();
  return isCut ? (
    <Text size="sm" c="dimmed" role="note">
      {t.cut(format.bytes(bytes))}
    </Text>
  ) : null;
}
