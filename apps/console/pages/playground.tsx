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
import { getRouteApi } from "@tanstack/react-router";
import { type ClipboardEvent, type KeyboardEvent, useState } from "react";
import { translated, useTexts } from "../app/language.tsx";
import { useRead } from "../app/queries.ts";
import { may, useMe } from "../app/session.ts";
import { AccessFields, type Catalogue, useAccess } from "../parts/access.tsx";
import { Page } from "../parts/page.tsx";
import { Empty, Loaded } from "../parts/states.tsx";
import { type Dialect, dialectNames, dialects, efforts, type UserTurn } from "../playground/conversation.ts";
import { knownDialect, modules } from "../playground/dialects.ts";
import {
  emptyFields,
  exampleSchema,
  exampleTool,
  type FieldFault,
  type Fields,
  settingsOf,
} from "../playground/fields.ts";
import { ImagePanel } from "../playground/image-panel.tsx";
import { SideView } from "../playground/side.tsx";
import { useSide } from "../playground/use-side.ts";
import { kindOf } from "./snippets.ts";

const texts = translated({
  en: {
    title: "Playground",
    about:
      "Requests go from this browser to the gateway. The conversation stays in this page, unless the account stores the content of its requests.",
    model: "Model",
    second: "Second model",
    none: "None",
    dialect: "Dialect",
    mode: "Kind",
    chat: "Chat",
    image: "Image",
    readersOnly:
      "Your role may read, so it cannot create the key that this page needs. Ask an owner of your account for the role of a member.",
    noAddress: "The base URL is unknown. An operator sets addresses.baseUrl in the catalogue, or GATEWAY_URL.",
    noModels: "The catalogue has no models for conversations or images",
    settings: "Settings",
    system: "System prompt",
    effort: "Reasoning effort",
    byDefault: "Default of the model",
    temperature: "Temperature",
    maxTokens: "Maximum output tokens",
    tools: "Tools",
    toolsHelp: "JSON: a tool with name, description and parameters, or a list. You type the results.",
    schema: "Structured output",
    schemaHelp: "JSON schema of the answer.",
    example: "Insert an example",
    "no-json": "This is not JSON.",
    "no-tool": "Each tool needs a name and parameters, which are a JSON schema.",
    "no-object": "A schema is a JSON object.",
    message: "Message",
    messageHelp: "Enter sends, Shift+Enter begins a line.",
    attach: "Attach images",
    attached: "Attached image",
    remove: "Remove the image",
    send: "Send",
    stop: "Stop",
    clear: "New conversation",
  },
  zh: {
    title: "试验场",
    about: "请求从此浏览器直接发往网关。对话内容只保留在此页面中，除非账户保存请求内容。",
    model: "模型",
    second: "第二个模型",
    none: "无",
    dialect: "协议",
    mode: "类型",
    chat: "对话",
    image: "图像",
    readersOnly: "您的角色只能查看，不能创建此页面需要的密钥。请联系账户所有者授予成员角色。",
    noAddress: "Base URL 未知。运维人员可在目录中设置 addresses.baseUrl，或设置 GATEWAY_URL。",
    noModels: "目录中没有可用于对话或图像的模型",
    settings: "设置",
    system: "系统提示词",
    effort: "推理强度",
    byDefault: "模型默认值",
    temperature: "温度",
    maxTokens: "最大输出令牌",
    tools: "工具",
    toolsHelp: "JSON：包含 name、description 和 parameters 的工具或列表。结果由您输入。",
    schema: "结构化输出",
    schemaHelp: "回答的 JSON Schema。",
    example: "插入示例",
    "no-json": "这不是 JSON。",
    "no-tool": "每个工具都需要 name 和 parameters（JSON Schema）。",
    "no-object": "Schema 必须是 JSON 对象。",
    message: "消息",
    messageHelp: "Enter 发送，Shift+Enter 换行。",
    attach: "附加图像",
    attached: "附加的图像",
    remove: "移除图像",
    send: "发送",
    stop: "停止",
    clear: "新对话",
  },
});

const route = getRouteApi("/inside/playground");

export function Playground() {
  const t = useTexts(texts);
  const catalogue = useRead("readCatalogue");
  return (
    <Page title={t.title} about={t.about}>
      <Loaded from={catalogue}>{(value) => <Content catalogue={value} />}</Loaded>
    </Page>
  );
}

function Content({ catalogue }: { catalogue: Catalogue }) {
  const t = useTexts(texts);
  const me = useMe();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const choose = (change: Record<string, string | undefined>) =>
    void navigate({ search: (now) => ({ ...now, ...change }), replace: true, resetScroll: false });
  const usable = catalogue.models.filter(({ capabilities }) => ["chat", "image"].includes(kindOf(capabilities) ?? ""));
  const model = usable.find(({ id }) => id === search.model) ?? usable[0];
  const access = useAccess(catalogue, search, model?.id);
  if (model === undefined) return <Empty title={t.noModels} />;
  const kind = kindOf(model.capabilities);
  const isBoth = kind === "chat" && model.capabilities.includes("image");
  const isImage = kind === "image" || (isBoth && search.mode === "image");
  const chatModels = usable.filter(({ capabilities }) => kindOf(capabilities) === "chat");
  const second = isImage ? undefined : chatModels.find(({ id }) => id === search.second);
  const dialect = knownDialect(search.dialect ?? model.recommendedDialect);
  return (
    <>
      {!may(me, "member") && <Alert color="gray">{t.readersOnly}</Alert>}
      {access.address === undefined && <Alert color="yellow">{t.noAddress}</Alert>}
      <Group gap="xs" align="flex-end">
        <Select
          label={t.model}
          data={usable.map(({ id }) => id)}
          value={model.id}
          onChange={(value) => choose({ model: value ?? undefined })}
          searchable
          allowDeselect={false}
          w={220}
        />
        {isBoth && (
          <SegmentedControl
            aria-label={t.mode}
            data={[
              { value: "chat", label: t.chat },
              { value: "image", label: t.image },
            ]}
            value={isImage ? "image" : "chat"}
            onChange={(value) => choose({ mode: value === "image" ? value : undefined })}
          />
        )}
        {!isImage && (
          <>
            <Select
              label={t.second}
              placeholder={t.none}
              data={chatModels.map(({ id }) => id)}
              value={second?.id ?? null}
              onChange={(value) => choose({ second: value ?? undefined })}
              searchable
              clearable
              w={220}
            />
            <Select
              label={t.dialect}
              data={dialects.map((value) => ({ value, label: dialectNames[value] }))}
              value={dialect}
              onChange={(value) => choose({ dialect: value ?? undefined })}
              allowDeselect={false}
              w={220}
            />
          </>
        )}
        <AccessFields access={access} onChange={(change) => choose({ ...change })} />
      </Group>
      {isImage ? (
        <ImagePanel
          key={model.id}
          model={model}
          group={access.group}
          wish={access.wish}
          currency={catalogue.currency}
        />
      ) : (
        <Chat
          models={second === undefined ? [model.id] : [model.id, second.id]}
          dialect={dialect}
          access={access}
          currency={catalogue.currency}
          tab={search.tab}
          onTab={(tab) => choose({ tab: tab === "answer" ? undefined : tab })}
        />
      )}
    </>
  );
}

interface ChatProps {
  models: string[];
  dialect: Dialect;
  access: ReturnType<typeof useAccess>;
  currency: string;
  tab: string | undefined;
  onTab(tab: string): void;
}

function Chat({ models, dialect, access, currency, tab, onTab }: ChatProps) {
  const t = useTexts(texts);
  const [fields, setFields] = useState<Fields>(emptyFields);
  const [text, setText] = useState("");
  const [images, setImages] = useState<readonly string[]>([]);
  const [left, right] = [useSide(), useSide()];
  const shown = [left, right].slice(0, models.length).map((side, index) => ({ side, model: models[index] ?? "" }));
  const { settings, faults } = settingsOf(fields);
  const { wish } = access;
  const isBusy = shown.some(({ side }) => side.isBusy);
  const isWaitingForResults = shown.some(({ side }) => side.openCalls.length > 0);
  const draft: UserTurn = { role: "user", text, images: [...images] };
  const hasDraft = text.trim() !== "" || images.length > 0;
  const maySend = wish !== undefined && settings !== undefined && hasDraft && !isBusy && !isWaitingForResults;
  const sendingOf = (model: string) =>
    wish === undefined || settings === undefined ? undefined : { wish, dialect, settings: { ...settings, model } };

  const send = () => {
    if (!maySend) return;
    for (const { side, model } of shown) {
      const sending = sendingOf(model);
      if (sending) void side.say(draft, sending);
    }
    setText("");
    setImages([]);
    onTab("answer");
  };
  const onKeyDown = (event: KeyboardEvent) => {
    // Enter also chooses a word of an input method, such as for Chinese.
    if (event.key !== "Enter" || event.shiftKey || event.nativeEvent.isComposing) return;
    event.preventDefault();
    send();
  };
  const onPaste = ({ clipboardData }: ClipboardEvent) => {
    const files = [...clipboardData.files].filter(({ type }) => type.startsWith("image/"));
    if (files.length > 0) void attach(files);
  };
  const attach = async (files: File[]) => {
    const urls = await Promise.all(files.map((file) => dataUrlOf(file)));
    setImages((now) => [...new Set([...now, ...urls])]);
  };
  return (
    <Group align="flex-start" gap="md" wrap="wrap">
      <SettingsFields fields={fields} faults={faults} onChange={setFields} />
      <Stack gap="sm" style={{ flex: "3 1 340px", minWidth: 0 }}>
        <Group align="stretch" gap="sm" wrap="wrap">
          {shown.map(({ side, model }, index) => (
            <SideView
              // biome-ignore lint/suspicious/noArrayIndexKey: a side keeps its conversation when its model changes.
              key={index}
              side={side}
              title={model}
              currency={currency}
              dialect={dialect}
              baseUrl={access.address?.url ?? ""}
              preview={
                settings &&
                modules[dialect].requestOf(hasDraft ? [...side.turns, draft] : side.turns, { ...settings, model })
              }
              tab={tab}
              onTab={onTab}
              onResults={(results) => {
                const sending = sendingOf(model);
                if (sending) void side.say({ role: "tool", results }, sending);
              }}
              onAgain={() => {
                const sending = sendingOf(model);
                if (sending) void side.again(sending);
              }}
            />
          ))}
        </Group>
        <Paper withBorder p="sm">
          <Stack gap="xs">
            <Textarea
              label={t.message}
              description={t.messageHelp}
              autosize
              minRows={2}
              maxRows={12}
              value={text}
              onChange={({ currentTarget }) => setText(currentTarget.value)}
              onKeyDown={onKeyDown}
              onPaste={onPaste}
            />
            {images.length > 0 && (
              <Group gap="xs">
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
            <Group gap="xs" justify="space-between">
              <Group gap="xs">
                <FileButton multiple accept="image/*" onChange={(files) => void attach(files)}>
                  {(props) => (
                    <Button {...props} variant="default">
                      {t.attach}
                    </Button>
                  )}
                </FileButton>
                <Button
                  variant="default"
                  onClick={() => {
                    left.clear();
                    right.clear();
                  }}
                >
                  {t.clear}
                </Button>
              </Group>
              {isBusy ? (
                <Button
                  variant="default"
                  onClick={() => {
                    left.stop();
                    right.stop();
                  }}
                >
                  {t.stop}
                </Button>
              ) : (
                <Button onClick={send} disabled={!maySend}>
                  {t.send}
                </Button>
              )}
            </Group>
          </Stack>
        </Paper>
      </Stack>
    </Group>
  );
}

interface SettingsFieldsProps {
  fields: Fields;
  faults: { tools: FieldFault; schema: FieldFault };
  onChange(fields: Fields): void;
}

function SettingsFields({ fields, faults, onChange }: SettingsFieldsProps) {
  const t = useTexts(texts);
  const theme = useMantineTheme();
  // Beside the conversation there is room for the settings; above it they begin folded.
  const [isWide] = useState(() => matchMedia(`(min-width: ${theme.breakpoints.sm})`).matches);
  const change = (more: Partial<Fields>) => onChange({ ...fields, ...more });
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
      style={{ flex: "1 1 240px", minWidth: 240, maxWidth: isWide ? 300 : "none" }}
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
            <Group grow align="flex-end">
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
            {json("schema", t.schemaHelp, exampleSchema)}
          </Stack>
        </Accordion.Panel>
      </Accordion.Item>
    </Accordion>
  );
}

const dataUrlOf = (file: File): Promise<string> =>
  new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result as string);
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
