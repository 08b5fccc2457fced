/** Reads a request for a message and checks it. */
import type { IncomingHttpHeaders } from "node:http";
import { describedAddress, describedData } from "../../answer/attachments.ts";
import { promptTokensOf } from "../../answer/chunks.ts";
import {
  effortOfBudget,
  imageTokens,
  messageTokens,
  promptOf,
  type Question,
  reasoningModel,
  type Tool,
} from "../../answer/question.ts";
import type { CacheBlock } from "../../prompt-cache.ts";
import { refuse } from "../dialect.ts";
import { faultIn, type Shape } from "../shape.ts";
import { blocksOf, checkMessages, type Turn, turnsOf } from "./rules.ts";
import {
  type Block,
  type CountRequest,
  checkedCount,
  checkedMessage,
  type InnerBlock,
  type Message,
  type MessageRequest,
} from "./schema.ts";

export interface MessageQuestion {
  model: string;
  stream: boolean;
  question: Question;
  /** How thinking is shown. */
  display: "summarized" | "omitted";
  /** The blocks of the prompt, with the marks of its cached parts. */
  cacheBlocks: readonly CacheBlock[];
}

const versions = ["2023-06-01", "2026-10-21"];
/** From this version on, sampling fields are rejected. */
const versionWithoutSampling = "2026-10-21";

/** `digest` is the hex SHA-256 of the body. */
export function messageQuestionOf(raw: unknown, headers: IncomingHttpHeaders, digest: string): MessageQuestion {
  checkVersion(headers);
  const body = shaped(checkedMessage, raw);
  // Nothing is stored here. By this code the client's helpers know to send the whole conversation
  // each time.
  if (body.thread)
    refuse("thread: message threads are not supported here; send all messages.", undefined, {
      code: "thread_unsupported_request",
    });
  const turns = turnsOf(body.messages);
  checkThinking(body);
  checkSampling(body, headers);
  checkLimits(body, headers);
  checkTools(body);
  checkMessages(body, turns);
  return {
    model: body.model,
    stream: body.stream ?? false,
    display: displayOf(body),
    cacheBlocks: cacheBlocksOf(body),
    question: {
      digest,
      ...spokenIn(turns),
      ...callableOf(body),
      format: body.output_config?.format
        ? { kind: "schema", schema: body.output_config.format.schema }
        : { kind: "text" },
      effort: effortOf(body),
      outputTokensMax: body.max_tokens,
      stops: body.stop_sequences ?? [],
      choices: 1,
      ...tokensIn(body),
    },
  };
}

/** The tokens of the prompt, for a request that only counts them. */
export function countOf(raw: unknown, headers: IncomingHttpHeaders): number {
  checkVersion(headers);
  const body = shaped(checkedCount, raw);
  checkThinking(body);
  checkTools(body);
  checkMessages(body, turnsOf(body.messages));
  return tokensIn(body).promptTokens;
}

/** With the path of the field in dots, as this dialect writes it. */
function shaped<Value>(shape: Shape<Value>, value: unknown): Value {
  if (shape.Check(value)) return value;
  const { param, message } = faultIn(shape.Errors(value));
  const path = param.replace(/\[(\d+)\]/g, ".$1").replace(/^\./, "");
  if (message.includes("must have required")) refuse(`${path}: Field required`);
  return refuse(param === "" ? message : path + message.slice(param.length));
}

function checkVersion({ "anthropic-version": version }: IncomingHttpHeaders): void {
  if (version === undefined) refuse("anthropic-version: header is required");
  if (!versions.includes(String(version)))
    refuse(`anthropic-version: ${JSON.stringify(version)} is not a valid version`);
}

/** The words are of https://github.com/themaximalist/llm.js/issues/30 */
function checkThinking({ thinking }: CountRequest): void {
  if (thinking?.type !== "enabled") return;
  const { budget_tokens: budget } = thinking;
  if (budget === undefined) refuse("thinking.enabled.budget_tokens: Field required");
  if (budget < 1_024) refuse("thinking.enabled.budget_tokens: Input should be greater than or equal to 1024");
}

function checkSampling(body: MessageRequest, headers: IncomingHttpHeaders): void {
  const set = (["temperature", "top_p", "top_k"] as const).filter((name) => (body[name] ?? undefined) !== undefined);
  if (set.length > 0 && headers["anthropic-version"] === versionWithoutSampling)
    refuse(`${set[0]}: is not supported in this API version`);
  const isThinking = body.thinking !== undefined && body.thinking.type !== "disabled";
  if (isThinking && (body.temperature ?? 1) !== 1)
    refuse("`temperature` may only be set to 1 when thinking is enabled.");
}

/** https://platform.claude.com/docs/en/api/messages/create#body-metadata-user-id */
const contact = /^\s*(?:[^\s@"{]+@[^\s@"}]+\.[^\s@"}]+|\+?[\d\s().-]{7,20})\s*$/;

/**
 * A budget for thinking between calls is for the whole turn, so it may exceed the bound of one
 * answer: https://platform.claude.com/docs/en/build-with-claude/thinking#interleaved-thinking
 */
const interleaved = "interleaved-thinking-2025-05-14";

function checkLimits(
  { metadata, thinking, max_tokens: tokensMax, stop_sequences: stops, tools = [] }: MessageRequest,
  { "anthropic-beta": betas }: IncomingHttpHeaders,
): void {
  const isInterleaved = tools.length > 0 && String(betas ?? "").includes(interleaved);
  if (thinking?.type === "enabled" && (thinking.budget_tokens ?? 0) >= tokensMax && !isInterleaved)
    refuse("`max_tokens` must be greater than `thinking.budget_tokens`.");
  if (contact.test(metadata?.user_id ?? ""))
    refuse("metadata.user_id: user_id appears to contain an email address or a phone number");
  if (stops?.some((stop) => stop.trim() === ""))
    refuse("stop_sequences: each stop sequence must contain non-whitespace");
}

function checkTools({ tools = [], tool_choice: choice, thinking }: CountRequest): void {
  for (const [index, tool] of tools.entries())
    if (isCustom(tool)) checkInputSchema(tool.input_schema, `tools.${index}.custom.input_schema`);
  if (new Set(tools.map(({ name }) => name)).size < tools.length) refuse("tools: Tool names must be unique.");
  if (choice?.type !== "any" && choice?.type !== "tool") return;
  if (tools.length === 0) refuse("tool_choice: may only be specified while providing tools");
  if (thinking !== undefined && thinking.type !== "disabled")
    refuse("Thinking may not be enabled when tool_choice forces tool use.");
  if (choice.type === "tool" && !tools.some(({ name }) => name === choice.name))
    refuse(`tool_choice: Tool '${choice.name}' not found in provided tools`);
}

/** In the words of the vendor's errors. */
function checkInputSchema(schema: OfferedTool["input_schema"], at: string): void {
  if (schema === undefined) refuse(`${at}: Field required`);
  if (["oneOf", "allOf", "anyOf"].some((keyword) => keyword in schema))
    refuse(`${at}: input_schema does not support oneOf, allOf, or anyOf at the top level`);
  const { properties } = schema;
  const names = typeof properties === "object" && properties !== null ? Object.keys(properties) : [];
  if (names.some((name) => !/^[a-zA-Z0-9_.-]{1,64}$/.test(name)))
    refuse(`${at}.properties: Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'`);
}

type OfferedTool = NonNullable<CountRequest["tools"]>[number];

/** Tools of other types belong to the vendor and are never called. */
const isCustom = ({ type }: OfferedTool) => (type ?? "custom") === "custom";

function callableOf({
  tools = [],
  tool_choice: choice,
}: CountRequest): Pick<Question, "tools" | "calling" | "parallelCalls"> {
  const callable = tools.filter((tool) => isCustom(tool) && tool.defer_loading !== true);
  const chosen = choice?.type === "tool" ? callable.filter(({ name }) => name === choice.name) : callable;
  return {
    tools: chosen.map(({ name, input_schema: schema }): Tool => ({ name, schema, takes: "json" })),
    calling: choice?.type === "none" ? "none" : choice?.type === "any" || choice?.type === "tool" ? "required" : "auto",
    parallelCalls: choice === undefined || choice.type === "none" || choice.disable_parallel_tool_use !== true,
  };
}

function effortOf({ thinking, output_config: config, model }: CountRequest): string | undefined {
  if (thinking?.type === "disabled") return "none";
  if (thinking?.type === "enabled") return effortOfBudget(thinking.budget_tokens ?? 0);
  return config?.effort ?? (thinking !== undefined || model.startsWith(reasoningModel) ? "medium" : undefined);
}

const displayOf = ({ thinking }: CountRequest) =>
  thinking !== undefined && "display" in thinking ? (thinking.display ?? "summarized") : "summarized";

/** Reads the last turn with content of the user, and the results in it and after it. */
function spokenIn(turns: Turn[]): Pick<Question, "userText" | "images" | "documents" | "toolResults"> {
  const names = new Map<string | undefined, string>();
  for (const { blocks } of turns)
    for (const { block } of blocks) if (block.type === "tool_use") names.set(block.id, block.name ?? "");
  const last = turns.findLastIndex(
    ({ role, blocks }) => role === "user" && blocks.some(({ block }) => block.type !== "tool_result"),
  );
  const spoken = turns[last]?.blocks.map(({ block }) => block) ?? [];
  const results = turns
    .slice(Math.max(0, last))
    .flatMap(({ blocks }) => blocks.flatMap(({ block }) => (block.type === "tool_result" ? [block] : [])));
  const shown: InnerBlock[] = [...spoken, ...results.flatMap(innerOf)];
  return {
    userText: textOf(spoken),
    images: describedIn(shown, "image"),
    documents: describedIn(shown, "document"),
    toolResults: results.map((result) => ({
      name: names.get(result.tool_use_id) ?? "",
      text: textOf(innerOf(result)),
      failed: result.is_error === true,
    })),
  };
}

function innerOf({ content }: Block): InnerBlock[] {
  return typeof content === "string" ? [{ type: "text", text: content }] : (content ?? []);
}

const textOf = (blocks: InnerBlock[]) => blocks.map(({ type, text }) => (type === "text" ? (text ?? "") : "")).join("");

function describedIn(blocks: InnerBlock[], type: "image" | "document"): string[] {
  return blocks.flatMap(({ type: blockType, source }) => {
    if (blockType !== type || source === undefined) return [];
    if (source.type === "base64") return [describedData(source.media_type ?? "", source.data ?? "")];
    if (source.type === "text") return [`text/plain, ${Buffer.byteLength(source.data ?? "")} bytes`];
    return [describedAddress(source.url ?? source.file_id ?? "hand")];
  });
}

function tokensIn({ messages, system = "", tools }: CountRequest): ReturnType<typeof promptOf> {
  const instructions = typeof system === "string" ? system : system.map(({ text }) => text).join("");
  const toolTokens = tools === undefined || tools.length === 0 ? 0 : promptTokensOf(JSON.stringify(tools));
  const start = (instructions === "" ? 0 : messageTokens + promptTokensOf(instructions)) + toolTokens;
  return promptOf(messages.map(tokensOf), start);
}

const tokensOf = (message: Message) =>
  blocksOf(message).reduce((sum, block) => sum + blockTokensOf(block), messageTokens);

function blockTokensOf(block: Block): number {
  const inner = [block, ...innerOf(block)];
  const images = describedIn(inner, "image").length;
  const documents = inner.reduce(
    (sum, { type, source }) => sum + (type === "document" ? promptTokensOf(source?.data ?? source?.url ?? "") : 0),
    0,
  );
  const call = block.type === "tool_use" ? promptTokensOf(JSON.stringify([block.id, block.name, block.input])) : 0;
  return promptTokensOf(textOf(inner)) + promptTokensOf(block.thinking ?? "") + imageTokens * images + documents + call;
}

/**
 * In the order in which the vendor caches: tools, system, messages. A mark of the whole request is
 * that of its last block.
 */
function cacheBlocksOf({ tools = [], system = "", messages, cache_control: automatic }: CountRequest): CacheBlock[] {
  const systems = typeof system === "string" ? (system === "" ? [] : [{ type: "text", text: system }]) : system;
  const blocks = [
    ...tools.map((tool) => cacheBlockOf(tool, promptTokensOf(JSON.stringify(tool)))),
    ...systems.map((block) => cacheBlockOf(block, promptTokensOf(block.text))),
    ...messages.flatMap((message) =>
      blocksOf(message).map((block, place) =>
        cacheBlockOf(
          { role: message.role, ...block },
          blockTokensOf(block) + (place === 0 ? messageTokens : 0),
          innerOf(block).findLast(({ cache_control: mark }) => mark)?.cache_control,
        ),
      ),
    ),
  ];
  const last = blocks.at(-1);
  if (last !== undefined && automatic) last.ttl ??= automatic.ttl ?? "5m";
  const marks = blocks.flatMap(({ ttl }) => ttl ?? []);
  if (marks.lastIndexOf("1h") > marks.indexOf("5m") && marks.includes("5m"))
    refuse(
      "cache_control.ttl: a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block. Note that blocks are processed in the following order: `tools`, `system`, `messages`.",
    );
  return blocks;
}

type Mark = Block["cache_control"];

/** Marks are no part of what is compared. */
function cacheBlockOf(
  block: { cache_control?: Mark; type?: string | null | undefined; role?: string },
  tokens: number,
  inner?: Mark,
): CacheBlock {
  const mark = block.cache_control ?? inner;
  const text = JSON.stringify(block, (name, value) => (name === "cache_control" ? undefined : value));
  return { text, tokens, ttl: mark ? (mark.ttl ?? "5m") : undefined };
}
