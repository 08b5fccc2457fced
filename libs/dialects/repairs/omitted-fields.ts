/** Removes fields that an upstream refuses from the bytes of a request; every other byte stays. */
import { openBrace, openBracket } from "#wire/json/bytes.ts";
import { jsonBytesOf, listOf, objectOf, parsedObject, textOf } from "#wire/json/parse.ts";
import {
  type Change,
  isEmptyArray,
  isEmptyObject,
  isNull,
  objectSpansOf,
  readSpan,
  withElements,
  withMembers,
  withValues,
} from "#wire/json/spans.ts";
import { callIdRules, fitsText } from "../neutral/value-bounds.ts";
import { shallowSchema } from "../schema/shallow.ts";

/** Where a request may have cache marks; those that matter least come first. */
const markedPlaces = [
  "messages.content.content.",
  "messages.content.",
  "messages.",
  "",
  "system.",
  "tools.",
  "tools.function.",
];
const markPaths = markedPlaces.map((place) => `${place}cache_control`.split("."));
/** https://platform.claude.com/docs/en/build-with-claude/prompt-caching#what-can-be-cached */
const cacheMarksMax = 4;

/**
 * The bytes without the fields at these paths: the names of members, separated by dots, through
 * lists; `tools.type=custom` is removed only with that value and `tools=[]` only without elements,
 * `max_tokens<=8192` lowers a greater number, `max_tokens=>max_completion_tokens` renames a member
 * of the body, and `reasoning_effort:="none"` sets one to a JSON value. `cache_control.…` and
 * `prompt_cache_breakpoint` mean every place that has one; the names of `namedChanges` stand for
 * those. An object that becomes empty is removed too. Time is linear in
 * the bytes, for each path whose last name occurs in them. Bytes that are not a JSON object stay.
 */
export const withoutFields = (bytes: Buffer, paths: readonly string[]) =>
  paths.flatMap(placesOf).reduce((kept, path) => {
    const named = namedChanges.get(path);
    if (named !== undefined) return named(kept);
    const assigned = path.indexOf(":=");
    if (assigned > 0) return withValues(kept, { [path.slice(0, assigned)]: Buffer.from(path.slice(assigned + 2)) });
    const [old = "", renamed] = path.split("=>");
    if (renamed !== undefined) return withRenamed(kept, old, renamed);
    const [names = "", value] = path.split("=");
    const steps = names.replace("<", "").split(".");
    if (!kept.includes(`"${steps.at(-1)}"`)) return kept;
    return withMembersAt(kept, steps, (member) => {
      if (names.endsWith("<")) return Number(String(member)) > Number(value) ? Buffer.from(String(value)) : member;
      if (value === "[]") return isEmptyArray(member) ? undefined : member;
      return value === undefined || jsonBytesOf(value).equals(member) ? undefined : member;
    });
  }, bytes);

/** The member under its new name. One that has the new name already counts. */
function withRenamed(bytes: Buffer, old: string, renamed: string): Buffer {
  const members = objectSpansOf(bytes, [old, renamed])?.members;
  const span = members?.[old];
  if (members === undefined || span === undefined) return bytes;
  const rest = withMembers(bytes, old, () => undefined);
  return members[renamed] === undefined ? withValues(rest, { [renamed]: bytes.subarray(span.start, span.end) }) : rest;
}

const placesOf = (path: string) =>
  path.startsWith("cache_control.")
    ? markedPlaces.map((place) => `${place}${path}`)
    : path === "prompt_cache_breakpoint"
      ? ["messages.content", "input.content", "input.output"].map((place) => `${place}.${path}`)
      : [path];

const isObjectText = (bytes: Buffer) => bytes[0] === openBrace;

/** The bytes with the members at a path changed, through lists. */
export function withMembersAt(bytes: Buffer, [name, ...others]: readonly string[], change: Change): Buffer {
  if (name === undefined) return bytes;
  if (bytes[0] === openBracket)
    return withElements(bytes, (element) => withMembersAt(element, [name, ...others], change));
  return withMembers(bytes, name, (member) => {
    if (others.length === 0) return change(member);
    const kept = withMembersAt(member, others, change);
    return kept !== member && isEmptyObject(kept) ? undefined : kept;
  });
}

/** Stands for cache marks in every place. The path `cache_control` is that of the body alone. */
export const cacheMarks = "cache marks";

const withoutCacheMarks = (bytes: Buffer): Buffer =>
  bytes.includes('"cache_control"')
    ? markPaths.reduce((kept, path) => withMembersAt(kept, path, () => undefined), bytes)
    : bytes;

/** Stands for the cache marks of thinking, which Anthropic refuses there. */
export const thinkingCacheMarks = "cache marks of thinking";

const withoutThinkingCacheMarks = (bytes: Buffer): Buffer =>
  withMembersAt(bytes, ["messages", "content"], (content) =>
    withElements(content, (block) => {
      const type = objectSpansOf(block, ["type"])?.members.type;
      const isThinking = type !== undefined && /^(?:redacted_)?thinking$/.test(String(readSpan(block, type)));
      return isThinking ? withMembers(block, "cache_control", () => undefined) : block;
    }),
  );

/** Stands for cache marks beyond the most that Anthropic takes: the earliest of the messages. */
export const spareCacheMarks = "spare cache marks";

function withoutSpareCacheMarks(bytes: Buffer): Buffer {
  if (!bytes.includes('"cache_control"')) return bytes;
  let spare = -cacheMarksMax;
  const count: Change = (mark) => {
    if (isObjectText(mark)) spare++;
    return mark;
  };
  for (const path of markPaths) withMembersAt(bytes, path, count);
  return markPaths.reduce(
    (kept, path) => withMembersAt(kept, path, (mark) => (isObjectText(mark) && spare-- > 0 ? undefined : mark)),
    bytes,
  );
}

/**
 * Stands for halves of characters, which agents that cut texts leave as escapes. Strict parsers
 * refuse the whole body.
 */
export const loneSurrogates = "lone surrogates";

const escapes = /\\(?:ud[89ab][\da-f]{2}\\ud[c-f][\da-f]{2}|ud[\da-f]{3}|.)/gis;

function withoutLoneSurrogates(bytes: Buffer): Buffer {
  if (!bytes.includes("\\ud") && !bytes.includes("\\uD")) return bytes;
  const text = bytes.toString("latin1");
  const kept = text.replace(escapes, (one) => (/^\\ud[89a-f]..$/i.test(one) ? "\\ufffd" : one));
  return kept === text ? bytes : Buffer.from(kept, "latin1");
}

/**
 * Stands for messages whose content is a list of texts. Servers for text alone take a string:
 * https://github.com/QwenLM/qwen-code/pull/2320
 */
export const textLists = "lists of texts";

/** The texts of a list as one; any other content as it is. */
function oneTextOf(content: Buffer): Buffer {
  if (content[0] !== openBracket) return content;
  const parts = listOf(readSpan(content, { start: 0, end: content.length })).map(objectOf);
  const isText = parts.every(({ type, text }) => type === "text" && typeof text === "string");
  return isText ? jsonBytesOf(parts.map(({ text }) => text).join("\n\n")) : content;
}

/**
 * Stands for messages of the assistant and of tools without a text, such as calls alone: they get
 * an empty one.
 */
export const nullContents = "contents of null";

function withText(message: Buffer): Buffer {
  const { role, content } = objectSpansOf(message, ["role", "content"])?.members ?? {};
  if (role === undefined || !(content === undefined || isNull(message, content))) return message;
  const isOptional = /^(?:assistant|tool)$/.test(String(readSpan(message, role)));
  return isOptional ? withValues(message, { content: Buffer.from('""') }) : message;
}

/**
 * Stands for the reasoning beside the content of messages (`reasoning_content`), where an upstream
 * takes it as a part of the content: https://github.com/BerriAI/litellm/issues/30835,
 * https://docs.mistral.ai/capabilities/reasoning
 */
export const reasoningBeside = "reasoning beside the content";

function withReasoningInside(message: Buffer): Buffer {
  if (!message.includes('"reasoning_content"')) return message;
  const { reasoning_content: reasoning, content } = parsedObject(message) ?? {};
  const rest = withMembers(message, "reasoning_content", () => undefined);
  if (textOf(reasoning) === undefined || Array.isArray(content)) return rest;
  const thinking = { type: "thinking", thinking: [{ type: "text", text: reasoning }], closed: true };
  const textParts = textOf(content) === undefined ? [] : [{ type: "text", text: content }];
  return withValues(rest, { content: jsonBytesOf([thinking, ...textParts]) });
}

const inMessages = (change: (message: Buffer) => Buffer) => (bytes: Buffer) =>
  withMembersAt(bytes, ["messages"], (list) => withElements(list, change));

/** Stand for ids of calls and of their results, where an upstream takes others (`callIdRules`). */
export const callIds = {
  nine: "call ids not of nine letters and digits",
  upTo40: "call ids over 40 characters",
  upTo64: "call ids over 64 characters",
  plain: "call ids with special characters",
} as const satisfies Record<keyof typeof callIdRules, string>;
const callIdPaths = [
  "messages.tool_calls.id",
  "messages.tool_call_id",
  "messages.content.id",
  "messages.content.tool_use_id",
  "input.call_id",
].map((path) => path.split("."));

function withCallIds(bytes: Buffer, rule: (typeof callIdRules)[keyof typeof callIdRules]): Buffer {
  const fitted: Change = (value) => {
    const id = readSpan(value, { start: 0, end: value.length });
    return typeof id !== "string" || fitsText(id, rule) ? value : jsonBytesOf(rule.hashed(id));
  };
  return callIdPaths.reduce(
    (kept, path) => (kept.includes(`"${path.at(-1)}"`) ? withMembersAt(kept, path, fitted) : kept),
    bytes,
  );
}

/** Stands for schemas of tools and of the answer that are too deep or too complex. */
export const complexSchemas = "complex schemas";
const schemaPaths = [
  "tools.input_schema",
  "tools.parameters",
  "tools.function.parameters",
  "tools.functionDeclarations.parametersJsonSchema",
  "generationConfig.responseJsonSchema",
].map((path) => path.split("."));

function withShallowSchemas(bytes: Buffer): Buffer {
  const shallow: Change = (member) => {
    const schema = parsedObject(member) ?? {};
    const changed = jsonBytesOf(shallowSchema(schema));
    return changed.equals(jsonBytesOf(schema)) ? member : changed;
  };
  return schemaPaths.reduce((kept, path) => withMembersAt(kept, path, shallow), bytes);
}

/** The changes that are more than those of one member. */
const namedChanges: ReadonlyMap<string, (bytes: Buffer) => Buffer> = new Map([
  [loneSurrogates, withoutLoneSurrogates],
  [cacheMarks, withoutCacheMarks],
  [thinkingCacheMarks, withoutThinkingCacheMarks],
  [spareCacheMarks, withoutSpareCacheMarks],
  [textLists, (bytes: Buffer) => withMembersAt(bytes, ["messages", "content"], oneTextOf)],
  [nullContents, inMessages(withText)],
  [complexSchemas, withShallowSchemas],
  [reasoningBeside, inMessages(withReasoningInside)],
  ...(["nine", "upTo40", "upTo64", "plain"] as const).map(
    (name) => [callIds[name], (bytes: Buffer) => withCallIds(bytes, callIdRules[name])] as const,
  ),
]);

/** Begins the path of a beta in the `anthropic-beta` header; alone, it means all betas. */
export const betaPath = "anthropic-beta:";
