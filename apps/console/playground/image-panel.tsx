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
import { useForm } from "@mantine/form";
import { useEffect, useRef, useState } from "react";
import { consoleKey, type KeyWish } from "../app/console-key.ts";
import { useFormats } from "../app/language.tsx";
import type { Model } from "../parts/access.tsx";
import { CodeBlock } from "../parts/copy.tsx";
import { FigureLine } from "../parts/facts.tsx";
import { ImagePrice, imagePricesOf, pricesFor } from "../parts/models.tsx";
import { FaultNotice } from "../parts/page.tsx";
import { useImagePanelTexts } from "./image-panel.texts.ts";
import { generateImages, type ImageRun, type ImageSettings, imageRequestOf, newImageRun } from "./images.ts";
import { Cost } from "./run-view.tsx";

const sizes = ["auto", "1024x1024", "1536x1024", "1024x1536", "1792x1024", "1024x1792", "512x512"];
const qualities = ["auto", "low", "medium", "high", "standard", "hd"];
const countMax = 10;

type Shown = ImageRun & { keyId?: string; fault?: unknown };

interface ImagePanelProps {
  model: Model;
  group: string | undefined;
  wish: KeyWish | undefined;
}

function useImageRun(wish: KeyWish | undefined) {
  const [run, setRun] = useState<Shown>();
  const stopping = useRef<AbortController>(undefined);
  useEffect(() => () => stopping.current?.abort(), []);
  const start = async (settings: ImageSettings) => {
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
  return { run, start, stop: () => stopping.current?.abort() };
}

export function ImagePanel({ model, group, wish }: ImagePanelProps) {
  const t = useImagePanelTexts();
  const format = useFormats();
  const form = useForm({ initialValues: { prompt: "", size: "", quality: "", count: 1 as string | number } });
  const { prompt, size, quality, count } = form.values;
  const { run, start, stop } = useImageRun(wish);
  const isBusy = run?.state === "waiting";
  const settings = {
    model: model.id,
    prompt,
    size: size || undefined,
    quality: quality || undefined,
    count: Number(count) || 1,
  };
  const amounts = imagePricesOf(pricesFor(model, group)?.images ?? [], { size, quality });
  const { path, body } = imageRequestOf(settings);
  const cost = <Cost requestId={run?.requestId} keyId={run?.keyId} isEnded={run !== undefined && !isBusy} />;
  const priceFigure = { name: t.price, value: <ImagePrice amounts={amounts} /> };
  return (
    <Stack gap="sm">
      <form onSubmit={form.onSubmit(() => void start(settings))}>
        <Stack>
          <Textarea label={t.prompt} required autosize minRows={2} maxRows={8} {...form.getInputProps("prompt")} />
          <Group align="flex-end">
            <Autocomplete
              label={t.size}
              placeholder={t.byDefault}
              data={sizes}
              w={170}
              {...form.getInputProps("size")}
            />
            <Autocomplete
              label={t.quality}
              placeholder={t.byDefault}
              data={qualities}
              w={170}
              {...form.getInputProps("quality")}
            />
            <NumberInput
              label={t.count}
              clampBehavior="blur"
              min={1}
              max={countMax}
              w={90}
              {...form.getInputProps("count")}
            />
            {isBusy ? (
              <Button variant="default" onClick={stop}>
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
          <ImageResult run={run} />
          <FigureLine
            figures={[
              { name: t.time, value: format.ms(run?.durationMs ?? null) },
              ...(amounts.length === 0 ? [] : [priceFigure]),
              { name: t.cost, value: cost },
            ]}
          />
        </Stack>
      </Paper>
      <details>
        <summary>{t.showRequest}</summary>
        <CodeBlock code={`POST ${path}\n\n${JSON.stringify(body, null, 2)}`} label={t.showRequest} />
      </details>
    </Stack>
  );
}

function ImageResult({ run }: { run: Shown | undefined }) {
  const t = useImagePanelTexts();
  const isBusy = run?.state === "waiting";
  return (
    <Group gap="sm" mih={300} align="flex-start" aria-live="polite" aria-busy={isBusy}>
      {run === undefined && <Text c="dimmed">{t.empty}</Text>}
      {isBusy && (
        <Group>
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
              <Image src={url} alt={t.image(index + 1)} mah={420} w="auto" maw="100%" radius="sm" />
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
  );
}
