/** The stream of a response: its whole life cycle, with consecutive numbers in its events. */
import { type Chunks, joined } from "../../answer/chunks.ts";
import type { Script } from "../dialect.ts";
import { begunItemOf, doneItemOf, type Item, summaryPartOf, textPartOf } from "./items.ts";
import { type Envelope, failureOf, type Outcome, responseOf } from "./response.ts";

/** An event without its number. */
type Event = (sequence: number) => string;

/**
 * A section of the stream: events without a token, or tokens of which each has an event, or none
 * has.
 */
type Stretch =
  | { kind: "events"; events: Event[] }
  | { kind: "tokens"; length: number; eventAt: ((token: number) => Event) | undefined };

/** The first token and the first number of a section. */
type Positioned = Stretch & { token: number; sequence: number };

/** The members are made with the event, because those of finished items can be large. */
const eventOf =
  (type: string, members: () => object): Event =>
  (sequence) =>
    `event: ${type}\ndata: {"type":"${type}","sequence_number":${sequence},${JSON.stringify(members()).slice(1)}\n\n`;

export function responsesScriptOf(envelope: Envelope, items: Item[], outcome: Outcome): Script {
  const opening = ["response.created", "response.in_progress"].map((type) =>
    eventOf(type, () => ({ response: responseOf(envelope, { status: "in_progress" }) })),
  );
  const { stretches, length, sequence } = positioned(items.flatMap(stretchesOf), opening.length);
  const lead = numbered(opening, 0);

  const stretchAt = (token: number) =>
    stretches.findIndex((one) => one.kind === "tokens" && token >= one.token && token < one.token + one.length);

  return {
    kind: "events",
    opening: lead,
    length,
    eventAt(token) {
      const place = stretchAt(token);
      const stretch = stretches[place];
      if (stretch?.kind !== "tokens") throw new RangeError(`there is no token ${token}`);
      const within = token - stretch.token;
      const before = within === 0 ? waitingBefore(stretches, place) : "";
      return stretch.eventAt === undefined ? before : before + stretch.eventAt(within)(stretch.sequence + within);
    },
    get closing() {
      return waitingBefore(stretches, stretches.length);
    },
    get terminator() {
      return eventOf(`response.${outcome.status}`, () => ({
        response: responseOf(envelope, { ...outcome, output: items.map(doneItemOf) }),
      }))(sequence);
    },
    errorEvent(message, { sent, opened }) {
      const last = stretches[stretchAt(sent - 1)];
      const next =
        last === undefined
          ? opening.length
          : last.sequence + (last.kind === "tokens" && last.eventAt ? sent - last.token : 0);
      const failure = failureOf(message);
      const failed = () => ({ response: responseOf(envelope, { status: "failed", error: failure }) });
      return (
        (opened ? "" : lead) +
        numbered([eventOf("error", () => ({ ...failure, param: null })), eventOf("response.failed", failed)], next)
      );
    },
  };
}

const numbered = (events: Event[], first: number) => events.map((one, index) => one(first + index)).join("");

function positioned(
  stretches: Stretch[],
  first: number,
): { stretches: Positioned[]; length: number; sequence: number } {
  let sequence = first;
  let length = 0;
  const sections: Positioned[] = [];
  for (const stretch of stretches) {
    sections.push({ ...stretch, token: length, sequence });
    if (stretch.kind === "events") sequence += stretch.events.length;
    else {
      length += stretch.length;
      if (stretch.eventAt !== undefined) sequence += stretch.length;
    }
  }
  return { stretches: sections, length, sequence };
}

/** The events between the previous token and this one. */
function waitingBefore(stretches: Positioned[], place: number): string {
  const before = stretches.slice(0, place);
  const from = before.findLastIndex((one) => one.kind === "tokens" && one.length > 0) + 1;
  return before
    .slice(from)
    .map((one) => (one.kind === "events" ? numbered(one.events, one.sequence) : ""))
    .join("");
}

/**
 * The tokens of a text: the members of its events before and after the delta are the same in each.
 */
function growing(type: string, members: object, chunks: Chunks, after = ""): Extract<Stretch, { kind: "tokens" }> {
  const start = `event: ${type}\ndata: {"type":"${type}","sequence_number":`;
  const middle = `,${JSON.stringify(members).slice(1, -1)},"delta":`;
  const eventAt = (token: number) => (sequence: number) =>
    `${start}${sequence}${middle}${JSON.stringify(chunks.at(token))}${after}}\n\n`;
  return { kind: "tokens", length: chunks.length, eventAt };
}

const withoutTokens = (events: Event[]): Stretch => ({ kind: "events", events });

function stretchesOf(item: Item, index: number): Stretch[] {
  const begun = eventOf("response.output_item.added", () => ({ output_index: index, item: begunItemOf(item) }));
  const done = eventOf("response.output_item.done", () => ({ output_index: index, item: doneItemOf(item) }));
  const place = { item_id: item.id, output_index: index };
  switch (item.kind) {
    case "compaction":
      return [{ kind: "tokens", length: 1, eventAt: () => begun }, withoutTokens([done])];
    case "message": {
      const at = { ...place, content_index: 0 };
      const text = () => joined(item.text);
      return [
        withoutTokens([begun, eventOf("response.content_part.added", () => ({ ...at, part: textPartOf("") }))]),
        growing("response.output_text.delta", at, item.text, `,"logprobs":[]`),
        withoutTokens([
          eventOf("response.output_text.done", () => ({ ...at, text: text(), logprobs: [] })),
          eventOf("response.content_part.done", () => ({ ...at, part: textPartOf(text()) })),
          done,
        ]),
      ];
    }
    case "reasoning": {
      if (!item.isShown)
        return [
          withoutTokens([begun]),
          { kind: "tokens", length: item.thought.length, eventAt: undefined },
          withoutTokens([done]),
        ];
      const at = { ...place, summary_index: 0 };
      const text = () => joined(item.thought);
      return [
        withoutTokens([
          begun,
          eventOf("response.reasoning_summary_part.added", () => ({ ...at, part: summaryPartOf("") })),
        ]),
        growing("response.reasoning_summary_text.delta", at, item.thought),
        withoutTokens([
          eventOf("response.reasoning_summary_text.done", () => ({ ...at, text: text() })),
          eventOf("response.reasoning_summary_part.done", () => ({ ...at, part: summaryPartOf(text()) })),
          done,
        ]),
      ];
    }
    case "call": {
      const [type, field] =
        item.call.tool.takes === "json"
          ? ["response.function_call_arguments", "arguments"]
          : ["response.custom_tool_call_input", "input"];
      return [
        { kind: "tokens", length: 1, eventAt: () => begun },
        growing(`${type}.delta`, place, item.call.input),
        withoutTokens([eventOf(`${type}.done`, () => ({ ...place, [field]: joined(item.call.input) })), done]),
      ];
    }
  }
}
