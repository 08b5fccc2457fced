/** The first step of reading a server-sent event, common to all dialects. */

import { openBrace } from "#wire/json/bytes.ts";
import { type JsonObject, parsedObject } from "#wire/json/parse.ts";
import type { SseEvent } from "#wire/sse.ts";
import { markLengthMax } from "../bounds.ts";

export type EventContent =
  | { kind: "value"; value: JsonObject }
  /** An event named `error`. Its body is JSON or text. */
  | { kind: "error"; body: unknown }
  /** `[DONE]` */
  | { kind: "done" }
  /** Keeps the connection open, and never has content. */
  | { kind: "keep-alive" }
  /** Not a JSON object: content of the answer may be lost. */
  | { kind: "unreadable" };

const doneMark = /^"?\[DONE\]"?$/i;
/** `null`: https://github.com/Kilo-Org/kilocode/pull/3083 */
const keepAliveMark = /^[:[(<]?\s?(?:|null|ping|pong|keep[-_ ]?alive|heartbeat|(?:openrouter )?processing)[\])>]?$/i;
const keepAliveName = /^(?:ping|pong|keep[-_]?alive|heartbeat)$/i;

export function contentOf({ event, data }: SseEvent): EventContent {
  if (data[0] !== openBrace && data.length <= markLengthMax) {
    const text = data.toString("latin1").trim();
    if (doneMark.test(text)) return { kind: "done" };
    if (keepAliveMark.test(text)) return { kind: "keep-alive" };
  }
  const value = parsedObject(data);
  if (event === "error") return { kind: "error", body: value ?? data.toString("utf8") };
  if (value !== undefined) return { kind: "value", value };
  return keepAliveName.test(event ?? "") ? { kind: "keep-alive" } : { kind: "unreadable" };
}
