/** Generates images. */
import {
  Anchor,
  Autocomplete,
  Button,
  Group,
  Image,
  Loader,
  NumberInput,
  Paper,
  Stack,
  Text,
  Textarea,
} from "@mantine/core";
import { type FormEvent, useEffect, useRef, useState } from "react";
import { consoleKey, type KeyWish } from "../app/console-key.ts";
import { translated, useFormats, useTexts } from "../app/language.tsx";
import type { Model } from "../parts/access.tsx";
import { CodeBlock } from "../parts/copy.tsx";
import { PageLink } from "../parts/link.tsx";
import { pricesFor } from "../parts/models.tsx";
import { FaultNotice } from "../parts/states.tsx";
import { generateImages, type ImageRun, imageRequestOf, newImageRun } from "./images.ts";
import { useCost } from "./use-run.ts";

const texts = translated({
  en: {
    prompt: "Prompt",
    size: "Size",
    quality: "Quality",
    count: "Images",
    optional: "Default of the model",
    generate: "Generate",
    stop: "Stop",
    waiting: "The model draws …",
    empty: "Describe an image.",
    image: (number: string) => `Generated image ${number}`,
    time: "Time",
    price: "Price per image",
    cost: "Cost",
    request: "Request",
    requestId: (id: string) => `Request ${id}`,
    download: "Download",
    showRequest: "Request as JSON",
    elsewhere: "Open the image",
    stopped: "Stopped.",
  },
  zh: {
    prompt: "提示词",
    size: "尺寸",
    quality: "质量",
    count: "数量",
    optional: "模型默认值",
    generate: "生成",
    stop: "停止",
    waiting: "模型正在绘制 …",
    empty: "描述一幅图像。",
    image: (number: string) => `生成的图像 ${number}`,
    time: "用时",
    price: "每张价格",
    cost: "费用",
    request: "请求",
    requestId: (id: string) => `请求 ${id}`,
    download: "下载",
    showRequest: "请求的 JSON",
    elsewhere: "打开图像",
    stopped: "已停止。",
  },
});

const sizes = ["auto", "1024x1024", "1536x1024", "1024x1536", "1792x1024", "1024x1792", "512x512"];
const qualities = ["auto", "low", "medium", "high", "standard", "hd"];
const countMax = 10;

type Shown = ImageRun & { keyId?: string; fault?: unknown };

interface ImagePanelProps {
  model: Model;
  group: string | undefined;
  wish: KeyWish | undefined;
  currency: string;
}

export function ImagePanel({ model, group, wish, currency }: ImagePanelProps) {
  const t = useTexts(texts);
  const format = useFormats();
  const [prompt, setPrompt] = useState("");
  const [size, setSize] = useState("");
  const [quality, setQuality] = useState("");
  const [count, setCount] = useState<string | number>(1);
  const [run, setRun] = useState<Shown>();
  const stopping = useRef<AbortController>(undefined);
  useEffect(() => () => stopping.current?.abort(), []);
  const isBusy = run?.state === "waiting";
  const cost = useCost(run?.requestId, run?.keyId, run !== undefined && !isBusy);
  const settings = {
    model: model.id,
    prompt,
    size: size || undefined,
    quality: quality || undefined,
    count: Number(count) || 1,
  };
  const price = pricesFor(model, group)?.images.find(
    (image) => (image.size ?? size) === size && (image.quality ?? quality) === quality,
  )?.price;
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    if (wish === undefined) return;
    const controller = new AbortController();
    stopping.current = controller;
    setRun(newImageRun());
    try {
      const { id, key } = await consoleKey(wish);
      const ended = await generateImages({ baseUrl: wish.baseUrl, key }, settings, controller.signal);
      if (stopping.current === controller) setRun({ ...ended, keyId: id });
    } catch (fault) {
      setRun({ ...newImageRun(), state: "failed", fault });
    }
  };
  const figures: [string, string, string?][] = [
    [t.time, format.ms(run?.durationMs ?? null)],
    ...(price === undefined ? [] : [[t.price, format.exactMoney(price, currency)] as [string, string]]),
    [
      t.cost,
      cost === null ? "–" : format.money(cost, currency),
      ...(cost === null ? [] : [format.exactMoney(cost, currency)]),
    ] as [string, string, string?],
  ];
  return (
    <Stack gap="sm">
      <form onSubmit={(event) => void submit(event)}>
        <Stack gap="xs">
          <Textarea
            label={t.prompt}
            required
            autosize
            minRows={2}
            maxRows={8}
            value={prompt}
            onChange={({ currentTarget }) => setPrompt(currentTarget.value)}
          />
          <Group gap="xs" align="flex-end">
            <Autocomplete
              label={t.size}
              placeholder={t.optional}
              data={sizes}
              value={size}
              onChange={setSize}
              w={170}
            />
            <Autocomplete
              label={t.quality}
              placeholder={t.optional}
              data={qualities}
              value={quality}
              onChange={setQuality}
              w={170}
            />
            <NumberInput
              label={t.count}
              clampBehavior="blur"
              min={1}
              max={countMax}
              value={count}
              onChange={setCount}
              w={90}
            />
            {isBusy ? (
              <Button variant="default" onClick={() => stopping.current?.abort()}>
                {t.stop}
              </Button>
            ) : (
              <Button type="submit" disabled={wish === undefined}>
                {t.generate}
              </Button>
            )}
          </Group>
        </Stack>
      </form>
      <Paper withBorder p="sm">
        <Stack gap="sm">
          <Group gap="sm" mih={300} align="flex-start" aria-live="polite" aria-busy={isBusy}>
            {run === undefined && <Text c="dimmed">{t.empty}</Text>}
            {isBusy && (
              <Group gap="xs">
                <Loader size="sm" />
                <Text c="dimmed">{t.waiting}</Text>
              </Group>
            )}
            {run?.state === "stopped" && <Text c="dimmed">{t.stopped}</Text>}
            {run?.fault !== undefined && <FaultNotice error={run.fault} />}
            {run?.error !== undefined && (
              <Text c="red" role="alert">
                {run.error} {run.requestId !== undefined && t.requestId(run.requestId)}
              </Text>
            )}
            {run?.images.map((url, index) => (
              <Stack key={url.slice(-64)} gap={4}>
                {url.startsWith("data:") ? (
                  <>
                    <Image src={url} alt={t.image(String(index + 1))} mah={420} w="auto" maw="100%" radius="sm" />
                    <Anchor href={url} download={`image-${index + 1}.png`}>
                      {t.download}
                    </Anchor>
                  </>
                ) : (
                  <Anchor href={url} target="_blank" rel="noreferrer">
                    {t.elsewhere}
                  </Anchor>
                )}
              </Stack>
            ))}
          </Group>
          <Group gap="lg" component="dl" m={0} style={{ rowGap: 4 }}>
            {figures.map(([name, value, exact]) => (
              <div key={name}>
                <Text component="dt" size="xs" c="dimmed">
                  {name}
                </Text>
                <Text component="dd" m={0} title={exact}>
                  {value}
                </Text>
              </div>
            ))}
            {run?.requestId !== undefined && (
              <div>
                <Text component="dt" size="xs" c="dimmed">
                  {t.request}
                </Text>
                <Text component="dd" m={0} maw={180} truncate>
                  <PageLink to="/requests/$id" params={{ id: run.requestId }}>
                    {run.requestId}
                  </PageLink>
                </Text>
              </div>
            )}
          </Group>
        </Stack>
      </Paper>
      <details>
        <summary>{t.showRequest}</summary>
        <CodeBlock
          code={`POST ${imageRequestOf(settings).path}\n\n${JSON.stringify(imageRequestOf(settings).body, null, 2)}`}
          label={t.showRequest}
        />
      </details>
    </Stack>
  );
}
