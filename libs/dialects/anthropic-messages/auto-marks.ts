/**
 * Sets the marks of cached prompts in a request that has fewer than it may have:
 * https://platform.claude.com/docs/en/build-with-claude/prompt-caching
 */
import { isObject, type JsonObject, jsonBytesOf, listOf, objectOf, parsedObject } from "#wire/json/parse.ts";
import { type Edit, elementSpansOf, objectSpansOf, replaceSpans, type Span, withValues } from "#wire/json/spans.ts";
import { marksMax } from "../neutral/cache-marks.ts";
import { versionOf } from "../neutral/model-traits.ts";
import { bytesPerToken } from "../usage.ts";

type Ttl = "5m" | "1h";

interface Block {
  part: "tools" | "system" | "messages";
  /** The object, or the text in the place of a list of blocks. */
  span: Span;
  value: unknown;
  /** The index of its message. */
  message: number;
  /** The prompt's bytes up to its end. */
  end: number;
  /** The caller's marks, in it and on it. */
  marks: readonly Ttl[];
}

/**
 * The bytes with marks behind the tools, the system prompt and the last two turns of the user: at
 * most four with those of the caller, which stay as they are. A prompt of fewer tokens than the
 * model caches gets none.
 */
export function withCacheMarks(bytes: Buffer, { ttl, tokensMin }: { ttl: Ttl; tokensMin: number }): Buffer {
  const body = parsedObject(bytes);
  const blocks = body && blocksOf(bytes, body);
  if (blocks === undefined) return bytes;
  const isAutomatic = isObject(body?.cache_control);
  const callerMarks = blocks.flatMap(({ marks }) => marks).length;
  const turns = userTurnsOf(blocks);
  const wanted = [
    ...(isAutomatic ? [] : [turns.at(-1)]),
    blocks.findLast(({ part, value }) => part === "system" && isMarkable(value)),
    blocks.findLast(({ part, value }) => part === "tools" && objectOf(value).defer_loading !== true),
    turns.at(-2),
  ].filter(
    (block): block is Block =>
      block !== undefined && block.marks.length === 0 && block.end >= tokensMin * bytesPerToken,
  );
  const chosen = wanted.slice(0, Math.max(0, marksMax - callerMarks));
  if (chosen.length === 0) return bytes;
  const edits = chosen.map(
    (block): Edit => ({ ...block.span, by: markedBlock(bytes, block, ttlFor(block, blocks, ttl)) }),
  );
  return replaceSpans(
    bytes,
    edits.sort((one, other) => one.start - other.start),
  );
}

/** The blocks in the order of the prompt; undefined for a body that is none. */
function blocksOf(bytes: Buffer, body: JsonObject): Block[] | undefined {
  const spans = objectSpansOf(bytes, ["tools", "system", "messages"]);
  if (spans?.members.messages === undefined) return undefined;
  const blocks: Block[] = [];
  let end = 0;
  const add = (part: Block["part"], span: Span, value: unknown, message = 0) => {
    end += span.end - span.start;
    blocks.push({ part, span, value, message, end, marks: marksIn(value) });
  };
  const addAll = (part: Block["part"], list: Span | undefined, values: unknown, message = 0) => {
    if (list === undefined) return;
    if (typeof values === "string") add(part, list, values, message);
    for (const [index, span] of elementsOf(bytes, list).entries()) add(part, span, listOf(values)[index], message);
  };
  addAll("tools", spans.members.tools, body.tools);
  addAll("system", spans.members.system, body.system);
  for (const [index, span] of elementsOf(bytes, spans.members.messages).entries()) {
    const content = objectSpansOf(bytes.subarray(span.start, span.end), ["content"])?.members.content;
    const value = objectOf(listOf(body.messages)[index]);
    addAll("messages", content && within(content, span.start), value.content, value.role === "user" ? index : -1);
  }
  // The automatic mark stands on the last block.
  const last = blocks.at(-1);
  if (last !== undefined) last.marks = [...last.marks, ...ownMarkOf(body)];
  return blocks;
}

const within = ({ start, end }: Span, offset: number): Span => ({ start: start + offset, end: end + offset });

const elementsOf = (bytes: Buffer, { start, end }: Span): Span[] =>
  (elementSpansOf(bytes.subarray(start, end)) ?? []).map((span) => within(span, start));

const ownMarkOf = ({ cache_control: control }: JsonObject): Ttl[] =>
  isObject(control) ? [control.ttl === "1h" ? "1h" : "5m"] : [];

/** The marks of a block and of the blocks in its content. */
function marksIn(value: unknown): Ttl[] {
  const block = objectOf(value);
  const inner = [...listOf(block.content), ...listOf(objectOf(block.source).content)];
  return [...inner.flatMap(marksIn), ...ownMarkOf(block)];
}

/** The last block of each turn of the user that may have a mark. */
function userTurnsOf(blocks: readonly Block[]): Block[] {
  const turns = new Map<number, Block>();
  for (const block of blocks)
    if (block.part === "messages" && block.message >= 0 && isMarkable(block.value)) turns.set(block.message, block);
  return [...turns.values()];
}

/** Thinking, which is signed, never has a mark, nor has an empty text. */
function isMarkable(value: unknown): boolean {
  if (typeof value === "string") return value.trim() !== "";
  const { type, text } = objectOf(value);
  return type === "text"
    ? String(text).trim() !== ""
    : /^(?:image|document|tool_result|search_result)$/.test(String(type));
}

/** Marks for an hour stand before those for five minutes. */
function ttlFor(block: Block, blocks: readonly Block[], ttl: Ttl): Ttl {
  const at = blocks.indexOf(block);
  if (blocks.slice(at).some(({ marks }) => marks.includes("1h"))) return "1h";
  return blocks.slice(0, at).some(({ marks }) => marks.includes("5m")) ? "5m" : ttl;
}

function markedBlock(bytes: Buffer, { span, value }: Block, ttl: Ttl): Buffer {
  const control = jsonBytesOf({ type: "ephemeral", ...(ttl === "1h" && { ttl }) });
  const block = bytes.subarray(span.start, span.end);
  if (typeof value !== "string") return withValues(block, { cache_control: control });
  return Buffer.concat([
    Buffer.from('[{"type":"text","text":'),
    block,
    Buffer.from(',"cache_control":'),
    control,
    Buffer.from("}]"),
  ]);
}

/**
 * The shortest prompt that a model caches, in tokens. Where sources differ, the smaller one: a mark
 * below the minimum has no effect.
 */
export function cacheTokensMinOf(model: string): number {
  const name = model.toLowerCase();
  const version = versionOf(name);
  if (/fable|mythos/.test(name)) return 512;
  if (name.includes("haiku")) return version >= 405 ? 4_096 : 2_048;
  if (!name.includes("opus") || version < 405 || version === 408) return 1_024;
  return version >= 500 ? 512 : version === 407 ? 2_048 : 4_096;
}
