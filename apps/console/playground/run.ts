/** Sends one request to the gateway and reads its answer: in browsers and in Node. */
import { type Answer, type Dialect, type DialectRequest, emptyAnswer } from "./conversation.ts";
import { modules } from "./dialects.ts";
import { eventsOf } from "./sse.ts";

export interface Gateway {
  /** Without /v1. */
  baseUrl: string;
  key: string;
  /** Further headers of the request. */
  headers?: Record<string, string>;
}

export interface Run extends Answer {
  state: "waiting" | "streaming" | "complete" | "stopped" | "failed";
  status: number | undefined;
  requestId: string | undefined;
  /** Lines of the response. */
  lines: string[];
  /** Both count from the request, in milliseconds. */
  firstContentMs: number | undefined;
  durationMs: number | undefined;
}

export const newRun = (): Run => ({
  ...emptyAnswer(),
  state: "waiting",
  status: undefined,
  requestId: undefined,
  lines: [],
  firstContentMs: undefined,
  durationMs: undefined,
});

/** Output tokens a second after the first content; undefined while unknown. */
export function tokensPerSecond({ usage, firstContentMs, durationMs }: Run): number | undefined {
  if (usage === undefined || firstContentMs === undefined || durationMs === undefined) return undefined;
  const seconds = (durationMs - firstContentMs) / 1_000;
  return seconds < 0.001 ? undefined : usage.output / seconds;
}

const hasContent = ({ turn }: Answer): boolean => turn.text !== "" || turn.reasoning !== "" || turn.calls.length > 0;

/**
 * Resolves at the end, whatever it is: `error` has the words of the gateway. Calls `onChange` after
 * each change of the run, which is always the same object.
 */
export async function send(
  { baseUrl, key, headers }: Gateway,
  dialect: Dialect,
  { path, body }: DialectRequest,
  { signal, onChange }: { signal: AbortSignal; onChange(run: Run): void },
): Promise<Run> {
  const run = newRun();
  const begun = performance.now();
  const end = (state: Run["state"], error?: string) => {
    run.state = state;
    run.error ??= error;
    run.durationMs = performance.now() - begun;
    onChange(run);
    return run;
  };
  try {
    const response = await fetch(`${baseUrl}${path}`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json", ...headers },
      body: JSON.stringify(body),
      signal,
    });
    run.status = response.status;
    run.requestId = response.headers.get("x-request-id") ?? undefined;
    if (!response.ok || response.body === null) {
      const text = await response.text();
      run.lines.push(text);
      return end("failed", messageIn(text) ?? `Status ${response.status}`);
    }
    const read = modules[dialect].reader(run);
    for await (const event of eventsOf(response.body, (line) => run.lines.push(line))) {
      if (event === "[DONE]") continue;
      read(JSON.parse(event));
      if (hasContent(run)) {
        run.state = "streaming";
        run.firstContentMs ??= performance.now() - begun;
      }
      onChange(run);
    }
    if (run.error !== undefined) return end("failed");
    return run.finish === undefined ? end("failed", "The answer ended before its finish reason.") : end("complete");
  } catch (error) {
    return signal.aborted ? end("stopped") : end("failed", (error as Error).message);
  }
}

/** All dialects have the message of an error at the same place. */
export function messageIn(text: string): string | undefined {
  try {
    const { error } = JSON.parse(text) as { error?: { message?: unknown } };
    return typeof error?.message === "string" ? error.message : undefined;
  } catch {
    return undefined;
  }
}
