/**
 * The stored content of one request: hidden until somebody asks for it, because each reading is
 * recorded.
 */
import { Alert, Badge, Button, Paper, SegmentedControl, Spoiler, Stack, Text } from "@mantine/core";
import { useState } from "react";
import { useAction } from "../app/action.ts";
import { type Answer, call } from "../app/call.ts";
import { useFormats } from "../app/language.tsx";
import { may, useMe } from "../app/session.ts";
import { CodeBlock } from "../parts/copy.tsx";
import { AccountLink } from "../parts/link.tsx";
import { FaultNotice, Section } from "../parts/page.tsx";
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
import { useRequestContentTexts } from "./request-content.texts.ts";

type Content = Answer<"openContent">;
type Body = Content["request"];

interface ReadContent {
  content: Content;
  request: StoredRequest | undefined;
  answer: ContentMessage;
}

async function readContent(id: string): Promise<ReadContent> {
  const content = await call("openContent", { params: { id } });
  const answer = await storedAnswerOf(content.answer.type, content.answer.text, content.dialect);
  return { content, request: storedRequestOf(content.request.text), answer };
}

export function RequestContent({ record }: { record: UsageRecord }) {
  const t = useRequestContentTexts();
  const me = useMe();
  const { isBusy, result, fault, run, clear } = useAction(() => readContent(record.id));
  const mayShow = record.hasContent && may(me, "member", record.account);
  const state = !record.hasContent ? t.notStored : mayShow ? t.masked : t.forMembers;
  return (
    <section aria-label={t.title}>
      <Section
        title={t.title}
        aside={
          mayShow && (
            <Button size="xs" variant="default" loading={isBusy} onClick={() => (result ? clear() : run())}>
              {result ? t.hide : t.show}
            </Button>
          )
        }
      >
        {result ? (
          <ContentViews {...result} />
        ) : (
          <Text size="sm" c="dimmed">
            {state}{" "}
            {!record.hasContent && may(me, "owner", record.account) && record.account !== "" && (
              <AccountLink id={record.account}>{t.setting}</AccountLink>
            )}
          </Text>
        )}
        {fault !== undefined && <FaultNotice error={fault} />}
      </Section>
    </section>
  );
}

const views = ["conversation", "request", "answer"] as const;

function ContentViews({ content, request, answer }: ReadContent) {
  const t = useRequestContentTexts();
  const [view, setView] = useState<(typeof views)[number]>(request === undefined ? "request" : "conversation");
  return (
    <Stack>
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

function Conversation({ request, answer, content }: ReadContent & { request: StoredRequest }) {
  const t = useRequestContentTexts();
  return (
    <Stack>
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
  const t = useRequestContentTexts();
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
        <Stack>
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
  const t = useRequestContentTexts();
  if (kind === "reasoning") return <Reasoning text={text} />;
  const label =
    kind === "call" ? t.call(name) : kind === "result" ? t.result(name) : kind === "data" ? name : undefined;
  const isCode = kind !== "text";
  return (
    <div>
      {label !== undefined && (
        <Badge variant="default" mb={4}>
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
  const t = useRequestContentTexts();
  const format = useFormats();
  return (
    <Stack>
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
  const t = useRequestContentTexts();
  const format = useFormats();
  return isCut ? (
    <Text size="sm" c="dimmed" role="note">
      {t.cut(format.bytes(bytes))}
    </Text>
  ) : null;
}
