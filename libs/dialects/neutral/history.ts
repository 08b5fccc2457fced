/**
 * Calls and their results in the order that vendors require: each call of a turn has one result at
 * the beginning of the next turn. Agents leave histories without that order when they are
 * interrupted. https://platform.claude.com/docs/en/agents-and-tools/tool-use/implement-tool-use,
 * https://platform.openai.com/docs/guides/function-calling
 */
import { markedIn } from "./cache-marks.ts";
import type { CallPart, Message, Part, ResultPart, TextPart } from "./neutral.ts";

/** A call, and the result that it has so far. */
interface Entry {
  call: CallPart;
  turn: Turn;
  result: ResultPart | undefined;
}

/**
 * Consecutive messages of the assistant. Instructions between them end a turn with calls, because
 * nothing may come between calls and results.
 */
interface Turn {
  /** The index of its last message. */
  last: number;
  entries: Entry[];
  unanswered: number;
}

/**
 * The messages with each call's result directly after its turn. A call without a result gets one
 * that says so; of several results of one call the last one counts; a result without a call becomes
 * a text of the user. The same messages if nothing changes. Time is linear.
 */
export function withMatchedCalls(messages: Message[]): Message[] {
  const { turns, orphans, isOrdered } = read(messages);
  if (isOrdered) return messages;
  const byLast = new Map(turns.map((turn) => [turn.last, turn]));
  const ordered: Message[] = [];
  for (const [index, message] of messages.entries()) {
    const parts =
      message.role === "assistant"
        ? message.parts
        : message.parts.flatMap((part) =>
            part.kind !== "result" ? [part] : orphans.has(part) ? orphanText(part) : [],
          );
    if (parts.length > 0) ordered.push(parts === message.parts ? message : { ...message, parts });
    const entries = byLast.get(index)?.entries ?? [];
    if (entries.length > 0)
      ordered.push({ role: "user", parts: entries.map(resultOf), path: entries[0]?.call.path ?? message.path });
  }
  return ordered;
}

const resultOf = ({ call, result }: Entry): ResultPart =>
  result === undefined
    ? {
        kind: "result",
        callId: call.id,
        name: call.name,
        content: [{ kind: "text", text: "No result: the call was interrupted.", path: call.path }],
        isError: true,
        path: call.path,
      }
    : { ...result, callId: call.id, name: call.name };

/** A result whose call is not in the conversation. */
const orphanText = ({ name, content, path, ...more }: ResultPart): Part[] => {
  const text = `Result of an earlier call${name === "" ? "" : ` of ${name}`}, which is not in this conversation:`;
  const first: TextPart = { kind: "text", text, path, ...(more.cache && { cache: more.cache }) };
  return [first, ...content];
};

/** A list that is taken from its beginning. */
interface Waiting<Item> {
  list: Item[];
  taken: number;
}

const nextOf = <Item>(waiting: Waiting<Item> | undefined) => waiting?.list[waiting.taken++];

/** An instruction in the middle of a conversation, for models that read none there. */
export const markedInstruction = (text: string) => `<instructions>\n${text}\n</instructions>`;

/** A turn of the user for models that accept no conversation that begins with the assistant. */
export const openingTurn = (path: string): Message => ({
  role: "user",
  parts: [{ kind: "text", text: "(The conversation begins with the assistant.)", path }],
  path,
});

/**
 * In the words that the vendor recommends:
 * https://platform.claude.com/docs/en/build-with-claude/prompt-engineering/claude-prompting-best-practices
 */
export const continueText =
  "Your last message was interrupted. Continue it from exactly where it ends: write only what follows, and repeat nothing of it.";

/**
 * The messages with an instruction to continue, if they end with a turn of the assistant that
 * models without prefill refuse. The assistant's words stay in its own turn.
 */
export function withUserLast(messages: Message[]): Message[] {
  const last = messages.findLast(({ parts }) => parts.some((part) => part.kind !== "text" || part.text.trim() !== ""));
  const isEnd = last?.role === "assistant" && last.parts.every(({ kind }) => kind !== "call");
  if (!isEnd || last.parts.every(({ kind }) => kind === "reasoning")) return messages;
  const { path } = last;
  return [...messages, { role: "user", parts: [{ kind: "text", text: continueText, path }], path }];
}

function read(messages: readonly Message[]): { turns: Turn[]; orphans: Set<ResultPart>; isOrdered: boolean } {
  const turns: Turn[] = [];
  const orphans = new Set<ResultPart>();
  /**
   * The calls of the last turn that has this id, in order: servers without ids of their own repeat
   * them.
   */
  const calls = new Map<string, Waiting<Entry>>();
  /** Results before their calls. */
  const early = new Map<string, Waiting<ResultPart>>();
  let turn: Turn | undefined;
  let isOrdered = true;
  for (const [index, { role, parts }] of messages.entries()) {
    if (parts.length === 0) continue;
    if (role === "system") {
      if ((turns.at(-1)?.unanswered ?? 0) > 0) isOrdered = false;
      if ((turn?.entries.length ?? 0) > 0) turn = undefined;
      continue;
    }
    if (role === "assistant") {
      if (turn === undefined) {
        turn = { last: index, entries: [], unanswered: 0 };
        turns.push(turn);
      }
      turn.last = index;
    } else turn = undefined;
    for (const part of parts)
      if (part.kind === "call" && turn !== undefined) {
        const entry: Entry = { call: part, turn, result: nextOf(early.get(part.id)) };
        if (entry.result === undefined) turn.unanswered++;
        else orphans.delete(entry.result);
        turn.entries.push(entry);
        const same = calls.get(part.id);
        if (same !== undefined && same.list[0]?.turn === turn) same.list.push(entry);
        else calls.set(part.id, { list: [entry], taken: 0 });
      } else if (part.kind === "result") {
        const same = calls.get(part.callId);
        const entry = nextOf(same) ?? same?.list.at(-1);
        const isNext = entry !== undefined && entry.turn === turns.at(-1) && entry.result === undefined;
        if (!isNext) isOrdered = false;
        if (entry !== undefined) {
          if (entry.result === undefined) entry.turn.unanswered--;
          entry.result = part;
        } else {
          orphans.add(part);
          const others = early.get(part.callId);
          if (others === undefined) early.set(part.callId, { list: [part], taken: 0 });
          else others.list.push(part);
        }
      }
  }
  return { turns, orphans, isOrdered: isOrdered && turns.every(({ unanswered }) => unanswered === 0) };
}

/**
 * The parts of a user's turn for an upstream that takes only text as the result of a call: images
 * and documents of results follow them.
 */
export function withTextResults(parts: readonly Part[]): Part[] {
  const results = parts.filter((part) => part.kind === "result");
  return [
    ...results.map((result) => ({ ...result, ...markOf(result), content: textsOf(result) })),
    ...results.flatMap(attachmentsOf),
    ...parts.filter(({ kind }) => kind !== "result"),
  ];
}

function markOf(result: ResultPart): Pick<ResultPart, "cache"> {
  const { cache } = markedIn(result);
  return cache === undefined ? {} : { cache };
}

function textsOf({ content, path }: ResultPart): TextPart[] {
  const texts = content.filter((part) => part.kind === "text");
  const isElsewhere = texts.length < content.length && texts.every(({ text }) => text === "");
  return isElsewhere ? [{ kind: "text", text: "The result is in the next message.", path }] : texts;
}

function attachmentsOf({ callId, content, path }: ResultPart): Part[] {
  const attached = content.filter((part) => part.kind !== "text");
  return attached.length === 0
    ? []
    : [{ kind: "text", text: `The result of call ${callId} includes:`, path }, ...attached];
}
