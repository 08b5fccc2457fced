/**
 * The types of the events of a stream:
 * https://platform.openai.com/docs/api-reference/responses-streaming
 */
import { objectSpansOf, readSpan } from "#wire/json/spans.ts";
import type { SseEvent } from "#wire/sse.ts";

/**
 * The event's name, or the type in its data if it has none, as with servers that send data alone.
 */
export function eventTypeOf({ event, data }: SseEvent): string | undefined {
  if (event !== undefined) return event;
  const span = objectSpansOf(data, ["type"])?.members.type;
  const type = span === undefined ? undefined : readSpan(data, span);
  return typeof type === "string" ? type : undefined;
}
