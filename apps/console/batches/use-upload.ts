/**
 * The way of a file to a batch: it is sent to the gateway, then checked; the batch is created once
 * the person says so.
 */
import { useEffect, useRef, useState } from "react";
import { type Answer, call, type Input } from "../app/call.ts";
import { consoleKey, type KeyWish } from "../app/console-key.ts";
import { queryClient } from "../app/queries.ts";

export type Endpoint = NonNullable<Input<"checkBatch">["body"]>["endpoint"];

export type Upload =
  | { state: "sending"; name: string; share: number }
  | { state: "checking"; name: string; file: string }
  | { state: "checked"; name: string; file: string; result: Answer<"checkBatch"> }
  | { state: "failed"; name: string; fault: unknown };

export interface BatchPlan {
  key: string;
  endpoint: Endpoint;
}

/** Sends a file to `/v1/files`. Resolves to its id. `onShare` hears how much of it was sent. */
function send(
  { baseUrl, key }: { baseUrl: string; key: string },
  file: File,
  { signal, onShare }: { signal: AbortSignal; onShare(share: number): void },
): Promise<string> {
  // `fetch` does not tell how much of a body was sent.
  const request = new XMLHttpRequest();
  const form = new FormData();
  form.append("purpose", "batch");
  form.append("file", file);
  return new Promise((resolve, reject) => {
    signal.addEventListener("abort", () => request.abort());
    request.upload.onprogress = ({ loaded, total }) => onShare(total === 0 ? 0 : loaded / total);
    request.onabort = () => reject(signal.reason);
    request.onerror = () => reject(new Error("the connection to the gateway broke"));
    request.onload = () => {
      const body = jsonOf(request.responseText);
      if (request.status === 200 && body.id !== undefined) resolve(body.id);
      else reject(new Error(body.error?.message ?? `the gateway answered with status ${request.status}`));
    };
    request.open("POST", `${baseUrl}/v1/files`);
    request.setRequestHeader("authorization", `Bearer ${key}`);
    request.send(form);
  });
}

function jsonOf(text: string): { id?: string; error?: { message?: string } } {
  try {
    return JSON.parse(text) as ReturnType<typeof jsonOf>;
  } catch {
    return {};
  }
}

const firstLineBytesMax = 65_536;

/** The `url` of the first request of a file; undefined without one. */
export async function firstUrlOf(file: File): Promise<string | undefined> {
  const [line = ""] = (await file.slice(0, firstLineBytesMax).text()).trimStart().split("\n", 1);
  const [, url] = /"url"\s*:\s*"([^"]*)"/.exec(line) ?? [];
  return url;
}

export function useUpload() {
  const [upload, setUpload] = useState<Upload>();
  const stopping = useRef<AbortController>(undefined);
  useEffect(() => () => stopping.current?.abort(), []);

  const begin = (): AbortSignal => {
    stopping.current?.abort();
    stopping.current = new AbortController();
    return stopping.current.signal;
  };
  /** Runs one step; nothing is shown of a step that another one has replaced. */
  const step = async (name: string, signal: AbortSignal, work: (show: typeof setUpload) => Promise<void>) => {
    const show: typeof setUpload = (next) => {
      if (!signal.aborted) setUpload(next);
    };
    await work(show).catch((fault: unknown) => show({ state: "failed", name, fault }));
  };
  const check = async ({ name, file }: { name: string; file: string }, plan: BatchPlan, show: typeof setUpload) => {
    show({ state: "checking", name, file });
    const result = await call("checkBatch", { body: { ...plan, file } });
    show({ state: "checked", name, file, result });
  };
  const forget = async () => {
    if (upload === undefined || !("file" in upload)) return;
    await call("deleteFile", { params: { file: upload.file } }).catch(() => undefined);
    await queryClient.invalidateQueries({ queryKey: ["listFiles"] });
  };
  return {
    upload,
    /** In place of the file before. */
    start(file: File, wish: KeyWish, plan: BatchPlan) {
      void forget();
      const signal = begin();
      const { name } = file;
      void step(name, signal, async (show) => {
        show({ state: "sending", name, share: 0 });
        const { key } = await consoleKey(wish);
        const onShare = (share: number) => show({ state: "sending", name, share });
        const id = await send({ baseUrl: wish.baseUrl, key }, file, { signal, onShare });
        await check({ name, file: id }, plan, show);
      });
    },
    /** For another key or endpoint. */
    checkAgain(stored: { name: string; file: string }, plan: BatchPlan) {
      const signal = begin();
      void step(stored.name, signal, (show) => check(stored, plan, show));
    },
    /** Forgets the file, here and at the gateway. */
    discard() {
      begin();
      setUpload(undefined);
      void forget();
    },
  };
}
