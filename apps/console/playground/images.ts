/** Image generation: https://platform.openai.com/docs/api-reference/images/create */
import { type Gateway, messageIn } from "./run.ts";

export interface ImageSettings {
  model: string;
  prompt: string;
  size?: string | undefined;
  quality?: string | undefined;
  count: number;
}

export interface ImageRun {
  state: "waiting" | "complete" | "stopped" | "failed";
  status: number | undefined;
  requestId: string | undefined;
  /** Data URLs, or addresses where the model gives them. */
  images: string[];
  error: string | undefined;
  durationMs: number | undefined;
}

export const newImageRun = (): ImageRun => ({
  state: "waiting",
  status: undefined,
  requestId: undefined,
  images: [],
  error: undefined,
  durationMs: undefined,
});

export const imageRequestOf = ({ model, prompt, size, quality, count }: ImageSettings) => ({
  path: "/v1/images/generations",
  body: {
    model,
    prompt,
    size,
    quality,
    n: count === 1 ? undefined : count,
  },
});

interface Body {
  data?: { b64_json?: string | null; url?: string | null }[];
  output_format?: string;
}

/** Resolves at the end, whatever it is: `error` has the words of the gateway. */
export async function generateImages(
  { baseUrl, key }: Gateway,
  settings: ImageSettings,
  signal: AbortSignal,
): Promise<ImageRun> {
  const run = newImageRun();
  const begun = performance.now();
  const { path, body } = imageRequestOf(settings);
  try {
    const response = await fetch(`${baseUrl}${path}`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: JSON.stringify(body),
      signal,
    });
    run.status = response.status;
    run.requestId = response.headers.get("x-request-id") ?? undefined;
    const text = await response.text();
    if (response.ok) {
      const { data = [], output_format: format = "png" } = JSON.parse(text) as Body;
      run.images = data.flatMap(({ b64_json: base64, url }) =>
        base64 ? [`data:image/${format};base64,${base64}`] : url ? [url] : [],
      );
      run.state = "complete";
    } else {
      run.error = messageIn(text) ?? `Status ${response.status}`;
      run.state = "failed";
    }
  } catch (error) {
    run.state = signal.aborted ? "stopped" : "failed";
    if (!signal.aborted) run.error = (error as Error).message;
  }
  run.durationMs = performance.now() - begun;
  return run;
}
