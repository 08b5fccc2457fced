/**
 * Conversations with any model in any dialect, one or two side by side, and images. Nothing of them
 * is stored anywhere but in the page.
 */
import {
  Accordion,
  Alert,
  Anchor,
  Button,
  CloseButton,
  FileButton,
  Group,
  Image,
  NumberInput,
  Paper,
  SegmentedControl,
  Select,
  Stack,
  Textarea,
  useMantineTheme,
} from "@mantine/core";
import { type ClipboardEvent, type KeyboardEvent, useState } from "react";
import { useFilters } from "../app/address.ts";
import { useRead } from "../app/queries.ts";
import { may, useMe } from "../app/session.ts";
import { type Access, AccessFields, type Catalogue, useAccess } from "../parts/access.tsx";
import { kindOf } from "../parts/client-code.ts";
import { dataUrlOf } from "../parts/files.ts";
import { FilterSelect } from "../parts/filters.tsx";
import { Empty, Loaded, Page } from "../parts/page.tsx";
import {
  type Dialect,
  dialectNames,
  dialects,
  efforts,
  toolChoices,
  type UserTurn,
} from "../playground/conversation.ts";
import { knownDialect, modules } from "../playground/dialects.ts";
import {
  emptyFields,
  exampleSchema,
  exampleTool,
  type FieldFault,
  type Fields,
  settingsOf,
  toolNamesOf,
} from "../playground/fields.ts";
import { ImagePanel } from "../playground/image-panel.tsx";
import { SideView } from "../playground/side.tsx";
import { type Sending, useSide } from "../playground/use-side.ts";
import { usePlaygroundTexts } from "./playground.texts.ts";

export function Playground() {
  const t = usePlaygroundTexts();
  const catalogue = useRead("readCatalogue");
  return (
    <Page title={t.playground} about={t.about}>
      <Loaded from={catalogue}>{(value) => <Content catalogue={value} />}</Loaded>
    </Page>
  );
}

function Content({ catalogue }: { catalogue: Catalogue }) {
  const t = usePlaygroundTexts();
  const me = useMe();
  const { search, filter } = useFilters();
  const usable = catalogue.models.filter(({ capabilities }) => ["chat", "image"].includes(kindOf(capabilities) ?? ""));
  const model = usable.find(({ id }) => id === search.model) ?? usable[0];
  const access = useAccess(catalogue, search, model?.id);
  if (model === undefined) return <Empty title={t.noModels} />;
  const kind = kindOf(model.capabilities);
  const isBoth = kind === "chat" && model.capabilities.includes("image");
  const isImage = kind === "image" || (isBoth && search.mode === "image");
  const chatModels = usable.filter(({ capabilities }) => kindOf(capabilities) === "chat").map(({ id }) => id);
  const second = isImage ? undefined : chatModels.find((id) => id === search.second);
  const dialect = knownDialect(search.dialect ?? model.recommendedDialect);
  const select = { searchable: true, w: 200 };
  return (
    <>
      {!may(me, "member") && <Alert color="gray">{t.readersOnly}</Alert>}
      {access.address === undefined && <Alert color="yellow">{t.noAddress}</Alert>}
      <Group align="flex-end">
        <FilterSelect
          name="model"
          label={t.model}
          data={usable.map(({ id }) => id)}
          value={model.id}
          allowDeselect={false}
          {...select}
        />
        {isBoth && (
          <SegmentedControl
            aria-label={t.mode}
            data={(["chat", "image"] as const).map((value) => ({ value, label: t[value] }))}
            value={isImage ? "image" : "chat"}
            onChange={(value) => filter({ mode: value === "image" ? value : undefined })}
          />
        )}
        {!isImage && (
          <>
            <FilterSelect
              name="second"
              label={t.second}
              placeholder={t.none}
              data={chatModels}
              value={second ?? null}
              {...select}
            />
            <FilterSelect
              name="dialect"
              label={t.dialect}
              data={dialects.map((value) => ({ value, label: dialectNames[value] }))}
              value={dialect}
              allowDeselect={false}
              w={210}
            />
          </>
        )}
        <AccessFields access={access} />
      </Group>
      {isImage ? (
        <ImagePanel key={model.id} model={model} group={access.group} wish={access.wish} />
      ) : (
        <Chat models={second === undefined ? [model.id] : [model.id, second]} dialect={dialect} access={access} />
      )}
    </>
  );
}

interface ChatProps {
  models: string[];
  dialect: Dialect;
  access: Access;
}

/** The conversations side by side, and the message that is written to all of them. */
function useChat({ models, dialect, access: { wish } }: ChatProps) {
  const { filter } = useFilters();
  const [fields, setFields] = useState<Fields>(emptyFields);
  const [text, setText] = useState("");
  const [images, setImages] = useState<readonly string[]>([]);
  const both = [useSide(), useSide()];
  const sides = models.flatMap((model, index) => {
    const side = both[index];
    return side ? [{ side, model }] : [];
  });
  const { settings, faults } = settingsOf(fields);
  const isBusy = sides.some(({ side }) => side.isBusy);
  const isWaitingForResults = sides.some(({ side }) => side.openCalls.length > 0);
  const draft: UserTurn = { role: "user", text, images: [...images] };
  const hasDraft = text.trim() !== "" || images.length > 0;
  const maySend = wish !== undefined && settings !== undefined && hasDraft && !isBusy && !isWaitingForResults;
  const sendingOf = (model: string): Sending | undefined =>
    wish && settings && { wish, dialect, settings: { ...settings, model } };
  const onTab = (tab: string) => filter({ tab: tab === "answer" ? undefined : tab });
  return {
    fields,
    setFields,
    faults,
    text,
    setText,
    images,
    setImages,
    sides,
    isBusy,
    maySend,
    sendingOf,
    onTab,
    previewOf: ({ side, model }: (typeof sides)[number]) =>
      settings && modules[dialect].requestOf(hasDraft ? [...side.turns, draft] : side.turns, { ...settings, model }),
    send() {
      if (!maySend) return;
      for (const { side, model } of sides) {
        const sending = sendingOf(model);
        if (sending) void side.say(draft, sending);
      }
      setText("");
      setImages([]);
      onTab("answer");
    },
    stop: () => {
      for (const side of both) side.stop();
    },
    clear: () => {
      for (const side of both) side.clear();
    },
  };
}

function Chat(props: ChatProps) {
  const { search } = useFilters();
  const chat = useChat(props);
  const { dialect, access } = props;
  return (
    <Group align="flex-start" gap="md" wrap="wrap">
      <SettingsFields fields={chat.fields} faults={chat.faults} onChange={chat.setFields} />
      <Stack gap="sm" style={{ flex: "3 1 340px", minWidth: 0 }}>
        <Group align="stretch" gap="sm" wrap="wrap">
          {chat.sides.map(({ side, model }, index) => (
            <SideView
              // biome-ignore lint/suspicious/noArrayIndexKey: a side keeps its conversation when its model changes.
              key={index}
              side={side}
              title={model}
              dialect={dialect}
              baseUrl={access.address?.url ?? ""}
              preview={chat.previewOf({ side, model })}
              tab={search.tab}
              onTab={chat.onTab}
              sending={chat.sendingOf(model)}
            />
          ))}
        </Group>
        <Composer chat={chat} />
      </Stack>
    </Group>
  );
}

/** The message that is being written. */
function Composer({ chat }: { chat: ReturnType<typeof useChat> }) {
  const t = usePlaygroundTexts();
  const { text, images, setImages, send } = chat;
  const onKeyDown = (event: KeyboardEvent) => {
    // Enter also chooses a word of an input method, such as for Chinese.
    if (event.key !== "Enter" || event.shiftKey || event.nativeEvent.isComposing) return;
    event.preventDefault();
    send();
  };
  const attach = async (files: File[]) => {
    const urls = await Promise.all(files.map(dataUrlOf));
    setImages((now) => [...new Set([...now, ...urls])]);
  };
  const onPaste = ({ clipboardData }: ClipboardEvent) =>
    void attach([...clipboardData.files].filter(({ type }) => type.startsWith("image/")));
  return (
    <Paper withBorder p="sm" pos="sticky" bottom={0} style={{ zIndex: 2 }}>
      <Stack>
        <Textarea
          aria-label={t.message}
          placeholder={`${t.message}. ${t.messageHelp}`}
          autosize
          minRows={2}
          maxRows={12}
          value={text}
          onChange={({ currentTarget }) => chat.setText(currentTarget.value)}
          onKeyDown={onKeyDown}
          onPaste={onPaste}
        />
        {images.length > 0 && (
          <Group>
            {images.map((url) => (
              <Group key={url} gap={2} align="flex-start">
                <Image src={url} alt={t.attached} h={56} w="auto" radius="sm" />
                <CloseButton
                  size="sm"
                  aria-label={t.remove}
                  onClick={() => setImages((now) => now.filter((each) => each !== url))}
                />
              </Group>
            ))}
          </Group>
        )}
        <Group justify="space-between" wrap="nowrap">
          <Group wrap="nowrap">
            <FileButton multiple accept="image/*" onChange={(files) => void attach(files)}>
              {(props) => (
                <Button {...props} variant="default" size="xs" px="xs">
                  {t.attach}
                </Button>
              )}
            </FileButton>
            <Button variant="default" size="xs" px="xs" onClick={chat.clear}>
              {t.clear}
            </Button>
          </Group>
          {chat.isBusy ? (
            <Button variant="default" size="xs" onClick={chat.stop}>
              {t.stop}
            </Button>
          ) : (
            <Button size="xs" px="xs" style={{ flex: "none" }} onClick={send} disabled={!chat.maySend}>
              {t.send}
            </Button>
          )}
        </Group>
      </Stack>
    </Paper>
  );
}

interface SettingsFieldsProps {
  fields: Fields;
  faults: { tools: FieldFault; schema: FieldFault };
  onChange(fields: Fields): void;
}

function SettingsFields({ fields, faults, onChange }: SettingsFieldsProps) {
  const t = usePlaygroundTexts();
  const theme = useMantineTheme();
  // Beside the conversation there is room for the settings; above it they begin folded.
  const [isWide] = useState(() => matchMedia(`(min-width: ${theme.breakpoints.sm})`).matches);
  const change = (more: Partial<Fields>) => onChange({ ...fields, ...more });
  const toolNames = toolNamesOf(fields);
  const json = (name: "tools" | "schema", help: string, example: string) => (
    <Stack gap={4}>
      <Textarea
        label={t[name]}
        description={help}
        autosize
        minRows={2}
        maxRows={14}
        styles={{ input: { fontFamily: "var(--mantine-font-family-monospace)" } }}
        spellCheck={false}
        value={fields[name]}
        onChange={({ currentTarget }) => change({ [name]: currentTarget.value })}
        error={faults[name] && t[faults[name]]}
      />
      {fields[name] === "" && (
        <Anchor component="button" type="button" size="sm" ta="left" onClick={() => change({ [name]: example })}>
          {t.example}
        </Anchor>
      )}
    </Stack>
  );
  return (
    <Accordion
      variant="contained"
      multiple
      defaultValue={isWide ? ["settings"] : []}
      style={{ flex: "1 1 240px", minWidth: 240, maxWidth: isWide ? 260 : "none" }}
      order={2}
    >
      <Accordion.Item value="settings">
        <Accordion.Control>{t.settings}</Accordion.Control>
        <Accordion.Panel>
          <Stack gap="sm">
            <Textarea
              label={t.system}
              autosize
              minRows={2}
              maxRows={10}
              value={fields.system}
              onChange={({ currentTarget }) => change({ system: currentTarget.value })}
            />
            <Select
              label={t.effort}
              placeholder={t.byDefault}
              data={[...efforts]}
              value={fields.effort}
              onChange={(effort) => change({ effort })}
              clearable
            />
            <Group gap="md" grow align="flex-end">
              <NumberInput
                label={t.temperature}
                clampBehavior="blur"
                min={0}
                max={2}
                step={0.1}
                value={fields.temperature}
                onChange={(temperature) => change({ temperature })}
              />
              <NumberInput
                label={t.maxTokens}
                clampBehavior="blur"
                min={1}
                allowDecimal={false}
                value={fields.maxTokens}
                onChange={(maxTokens) => change({ maxTokens })}
              />
            </Group>
            {json("tools", t.toolsHelp, exampleTool)}
            {toolNames.length > 0 && (
              <Select
                label={t.toolChoice}
                data={[
                  ...toolChoices.map((value) => ({ value, label: t.toolChoices[value] })),
                  ...toolNames.map((name) => ({ value: `tool:${name}`, label: name })),
                ]}
                value={fields.toolChoice ?? "auto"}
                onChange={(toolChoice) => change({ toolChoice })}
                allowDeselect={false}
              />
            )}
            {json("schema", t.schemaHelp, exampleSchema)}
          </Stack>
        </Accordion.Panel>
      </Accordion.Item>
    </Accordion>
  );
}
