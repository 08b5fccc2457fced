/** One conversation with its tabs: answer, request, events. */
import { Button, Code, Group, Image, Paper, SegmentedControl, Stack, Tabs, Text, Textarea } from "@mantine/core";
import { type FormEvent, useState } from "react";
import { type Language, requestCode } from "../parts/client-code.ts";
import { CodeBlock } from "../parts/copy.tsx";
import { Snippets } from "../parts/snippets.tsx";
import type { Dialect, DialectRequest, ToolCall, ToolTurn, Turn } from "./conversation.ts";
import { AnswerText, Lines, Markdown, Reasoning, RunError, RunFigures, RunNote } from "./run-view.tsx";
import { useSideTexts } from "./side.texts.ts";
import type { Sending, Side } from "./use-side.ts";

export interface SideViewProps {
  side: Side;
  title: string;
  dialect: Dialect;
  baseUrl: string;
  /** The request that would be sent now; undefined while a field is wrong. */
  preview: DialectRequest | undefined;
  tab: string | undefined;
  onTab(tab: string): void;
  /** Everything that a request needs besides the conversation; undefined while none can be sent. */
  sending: Sending | undefined;
}

export function SideView({ side, title, sending, ...rest }: SideViewProps) {
  const t = useSideTexts();
  const { turns, run, openCalls, isBusy } = side;
  const { tab, onTab, dialect, baseUrl, preview } = rest;
  const isAnswered = turns.at(-1)?.role === "assistant";
  const chosen = ["request", "events"].find((each) => each === tab) ?? "answer";
  return (
    <Paper withBorder p="sm" style={{ flex: "1 1 320px", minWidth: 0 }}>
      <Tabs value={chosen} onChange={(value) => onTab(value ?? "answer")} keepMounted={false}>
        <Group justify="space-between" align="center" wrap="nowrap">
          <Text fw={600} miw={0} truncate title={title}>
            {title}
          </Text>
          <Tabs.List style={{ flex: "none" }}>
            <Tabs.Tab value="answer">{t.answer}</Tabs.Tab>
            <Tabs.Tab value="request">{t.request}</Tabs.Tab>
            <Tabs.Tab value="events">{t.events}</Tabs.Tab>
          </Tabs.List>
        </Group>
        <Stack gap="sm" mt="sm">
          <div style={{ minHeight: 260 }}>
            <Tabs.Panel value="answer">
              <Stack gap="sm">
                {turns.length === 0 && !isBusy && <Text c="dimmed">{t.empty}</Text>}
                {turns.map((turn, index) => (
                  // biome-ignore lint/suspicious/noArrayIndexKey: turns are only added at the end.
                  <TurnView key={index} turn={turn} />
                ))}
                {run && !isAnswered && <AnswerText run={run} />}
                {run && !isAnswered && <RunError run={run} />}
                {run && !isAnswered && !isBusy && (
                  <Group gap="md">
                    <Button size="xs" variant="default" onClick={() => sending && void side.again(sending)}>
                      {t.again}
                    </Button>
                  </Group>
                )}
                {run && isAnswered && <RunNote run={run} />}
                {openCalls.length > 0 && (
                  <ToolResults
                    key={turns.length}
                    calls={openCalls}
                    onResults={(results) => sending && void side.say({ role: "tool", results }, sending)}
                  />
                )}
              </Stack>
            </Tabs.Panel>
            <Tabs.Panel value="request">
              <RequestView request={side.sent ?? preview} dialect={dialect} baseUrl={baseUrl} />
            </Tabs.Panel>
            <Tabs.Panel value="events">
              {run && run.lines.length > 0 ? (
                <Lines lines={run.lines} label={t.events} />
              ) : (
                <Text c="dimmed">{t.noEvents}</Text>
              )}
            </Tabs.Panel>
          </div>
          <RunFigures run={run} />
        </Stack>
      </Tabs>
    </Paper>
  );
}

function TurnView({ turn }: { turn: Turn }) {
  const t = useSideTexts();
  switch (turn.role) {
    case "user":
      return (
        <Paper bg="var(--mantine-color-default-hover)" p="xs">
          <Text size="xs" c="dimmed">
            {t.you}
          </Text>
          <Text style={{ whiteSpace: "pre-wrap", overflowWrap: "anywhere" }}>{turn.text}</Text>
          <Group>
            {turn.images.map((url) => (
              <Image key={url} src={url} alt={t.attached} h={72} w="auto" radius="sm" />
            ))}
          </Group>
        </Paper>
      );
    case "tool":
      return (
        <Paper bg="var(--mantine-color-default-hover)" p="xs">
          {turn.results.map(({ call, text }) => (
            <div key={call.id}>
              <Text size="xs" c="dimmed">
                {t.result(call.name)}
              </Text>
              <Text style={{ whiteSpace: "pre-wrap", overflowWrap: "anywhere" }}>{text}</Text>
            </div>
          ))}
        </Paper>
      );
    case "assistant":
      return (
        <Stack gap={4}>
          {turn.reasoning !== "" && <Reasoning text={turn.reasoning} />}
          {turn.text !== "" && <Markdown text={turn.text} />}
          {turn.calls.map((call) => (
            <div key={call.id}>
              <Text size="sm" c="dimmed">
                {t.call(call.name)}
              </Text>
              <Code block>{call.input}</Code>
            </div>
          ))}
        </Stack>
      );
  }
}

function ToolResults({
  calls,
  onResults,
}: {
  calls: readonly ToolCall[];
  onResults(results: ToolTurn["results"]): void;
}) {
  const t = useSideTexts();
  const [typed, setTyped] = useState<readonly string[]>(calls.map(() => ""));
  const submit = (event: FormEvent) => {
    event.preventDefault();
    onResults(calls.map((call, index) => ({ call, text: typed[index] ?? "" })));
  };
  return (
    <form onSubmit={submit}>
      <Stack>
        {calls.map((call, index) => (
          <Textarea
            key={call.id}
            label={t.result(call.name)}
            description={t.resultHelp}
            required
            autosize
            minRows={1}
            maxRows={8}
            value={typed[index] ?? ""}
            onChange={({ currentTarget: { value } }) =>
              setTyped((now) => now.map((each, at) => (at === index ? value : each)))
            }
          />
        ))}
        <Group gap="md">
          <Button type="submit" size="xs">
            {t.sendResults}
          </Button>
        </Group>
      </Stack>
    </form>
  );
}

const forms = ["json", "curl", "python", "javascript"] as const;
const formNames = { json: "JSON", curl: "curl", python: "Python", javascript: "JavaScript" };

function RequestView({
  request,
  dialect,
  baseUrl,
}: {
  request: DialectRequest | undefined;
  dialect: Dialect;
  baseUrl: string;
}) {
  const t = useSideTexts();
  const [form, setForm] = useState<(typeof forms)[number]>("json");
  if (request === undefined) return null;
  return (
    <Stack align="stretch">
      <div>
        <SegmentedControl
          size="xs"
          aria-label={t.form}
          data={forms.map((value) => ({ value, label: formNames[value] }))}
          value={form}
          onChange={(value) => setForm(value as (typeof forms)[number])}
        />
      </div>
      {form === "json" ? (
        <CodeBlock code={`POST ${request.path}\n\n${JSON.stringify(request.body, null, 2)}`} label={t.request} />
      ) : (
        <Snippets snippets={requestCode(form satisfies Language, dialect, { baseUrl, key: "YOUR_KEY" }, request)} />
      )}
    </Stack>
  );
}
