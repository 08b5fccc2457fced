/**
 * Rules for the messages of a request beyond their shape, above all that the simulator's own output
 * comes back unchanged.
 */
import { refuse } from "../dialect.ts";
import type { Block, CountRequest, InnerBlock, Message } from "./schema.ts";
import { isRedacted, signatureOf } from "./signature.ts";

/** The members that a block of each type requires, and its sender; "all" means either. */
const blockTypes: Record<string, { needs: (keyof Block)[]; from: "user" | "assistant" | "all" }> = {
  text: { needs: ["text"], from: "all" },
  image: { needs: ["source"], from: "user" },
  document: { needs: ["source"], from: "user" },
  tool_result: { needs: ["tool_use_id"], from: "user" },
  tool_use: { needs: ["id", "name", "input"], from: "assistant" },
  thinking: { needs: ["thinking", "signature"], from: "assistant" },
  redacted_thinking: { needs: ["data"], from: "assistant" },
};

/** Blocks of tools and stores that the simulator does not have but accepts. */
const foreignType =
  /^(?:search_result|container_upload|compaction|fallback|mid_conv_system|(?:server|mcp)_tool_use|[a-z_]+_tool_result)$/;

const imageTypes = ["image/jpeg", "image/png", "image/gif", "image/webp"];
const documentTypes = ["application/pdf"];
const cacheMarksMax = 4;

/** Consecutive messages of one role are a turn; instructions between them belong to none. */
export interface Turn {
  role: "user" | "assistant";
  blocks: { block: Block; at: string }[];
  at: string;
}

export const blocksOf = ({ content }: Message) =>
  typeof content === "string" ? [{ type: "text", text: content }] : content;

export function turnsOf(messages: Message[]): Turn[] {
  const turns: Turn[] = [];
  for (const [index, message] of messages.entries()) {
    if (message.role === "system") continue;
    const blocks = blocksOf(message).map((block, place) => ({ block, at: `messages.${index}.content.${place}` }));
    const last = turns.at(-1);
    if (last?.role === message.role) last.blocks.push(...blocks);
    else turns.push({ role: message.role, blocks, at: `messages.${index}` });
  }
  return turns;
}

/** Refuses messages that contradict each other. */
export function checkMessages(request: CountRequest, turns: Turn[]): void {
  const { messages, system } = request;
  if (messages[0]?.role !== "user") refuse(`messages: first message must use the "user" role`);
  if (Array.isArray(system) && system.some(({ text }) => text === ""))
    refuse("system: text content blocks must be non-empty");
  if (cacheMarksIn(request) > cacheMarksMax)
    refuse(`A maximum of ${cacheMarksMax} blocks with cache_control may be provided. Found ${cacheMarksIn(request)}.`);
  for (const [index, message] of messages.entries()) {
    const isLast = index === messages.length - 1;
    if (message.content.length === 0 && !(isLast && message.role === "assistant"))
      refuse(
        `messages.${index}: all messages must have non-empty content except for the optional final assistant message`,
      );
    if (message.content.length === 0) continue;
    for (const [place, block] of blocksOf(message).entries())
      checkBlock(block, message.role, (fault) => refuse(`messages.${index}.content.${place}${fault}`));
  }
  const final = turns.at(-1);
  const finalText = final?.role === "assistant" ? final.blocks.at(-1)?.block.text : undefined;
  if (finalText !== undefined && finalText !== finalText.trimEnd())
    refuse("messages: final assistant content cannot end with trailing whitespace");
  checkCalls(turns);
  if (request.thinking?.type === "enabled") checkThinkingKept(turns);
}

/** Refuses a block; the fault begins with the separator after the path. */
type RefuseBlock = (fault: string) => never;

function checkBlock(block: Block, role: Message["role"], refuseBlock: RefuseBlock): void {
  const { type } = block;
  const rule = Object.hasOwn(blockTypes, type) ? blockTypes[type] : undefined;
  if (role === "system" && type !== "text")
    refuseBlock(`: \`${type}\` blocks are not permitted in \`system\` messages`);
  if (rule === undefined) {
    if (foreignType.test(type)) return;
    refuseBlock(`: Input tag '${type.slice(0, 40)}' found using 'type' does not match any of the expected tags`);
  }
  if (rule.from !== "all" && rule.from !== role)
    refuseBlock(`: \`${type}\` blocks can only be in \`${rule.from}\` messages`);
  const missing = rule.needs.find((name) => block[name] === undefined);
  if (missing !== undefined) refuseBlock(`.${type}.${missing}: Field required`);
  if (type === "thinking" && block.signature !== signatureOf(block.thinking ?? ""))
    refuseBlock(": Invalid `signature` in `thinking` block");
  if (type === "redacted_thinking" && !isRedacted(block.data ?? ""))
    refuseBlock(": Invalid `data` in `redacted_thinking` block");
  const inside = type === "tool_result" && Array.isArray(block.content) ? block.content : undefined;
  for (const content of inside ?? [block]) checkContent(content, refuseBlock);
  const marked = inside?.findIndex(({ cache_control: mark }) => mark !== undefined) ?? -1;
  if (marked >= 0)
    refuseBlock(
      `.tool_result.content.${marked}.cache_control: cache_control may not be specified within \`tool_result.content\`. Instead, place it directly on \`tool_result\``,
    );
}

function checkContent({ type, text, source }: InnerBlock, refuseBlock: RefuseBlock): void {
  if (type === "text" && text === "") refuseBlock(": text content blocks must be non-empty");
  if (type === "text" && text?.trim() === "") refuseBlock(": text content blocks must contain non-whitespace text");
  if (source === undefined) return;
  const needed = { base64: "data", text: "data", url: "url", file: "file_id", content: "content" } as const;
  const name = needed[source.type];
  if (source[name] === undefined) refuseBlock(`.${type}.source.${source.type}.${name}: Field required`);
  if (source.type !== "base64") return;
  const types = type === "image" ? imageTypes : documentTypes;
  if (!types.includes(source.media_type ?? ""))
    refuseBlock(`.${type}.source.base64.media_type: Input should be ${types.map((one) => `'${one}'`).join(" or ")}`);
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(source.data ?? "")) refuseBlock(`.${type}.source.base64: invalid base64 data`);
}

/** Every call is answered exactly once, at the beginning of the next turn. */
function checkCalls(turns: Turn[]): void {
  const seen = new Set<string>();
  for (const [index, { role, blocks, at }] of turns.entries()) {
    if (role === "user") {
      const called = new Set(
        turns[index - 1]?.blocks.map(({ block }) => (block.type === "tool_use" ? block.id : undefined)),
      );
      for (const { block, at: place } of blocks)
        if (block.type === "tool_result" && !called.delete(block.tool_use_id))
          refuse(
            `${place}: unexpected \`tool_use_id\` found in \`tool_result\` blocks: ${block.tool_use_id}. Each \`tool_result\` block must have a corresponding \`tool_use\` block in the previous message.`,
          );
      continue;
    }
    const ids = blocks.flatMap(({ block }) => (block.type === "tool_use" ? [block.id ?? ""] : []));
    for (const id of ids) {
      if (seen.has(id)) refuse("messages: `tool_use` ids must be unique");
      seen.add(id);
    }
    const next = turns[index + 1]?.blocks ?? [];
    const others = next.findIndex(({ block }) => block.type !== "tool_result");
    const answered = next.slice(0, others < 0 ? next.length : others).map(({ block }) => block.tool_use_id);
    const open = ids.filter((id) => !answered.includes(id));
    if (open.length > 0)
      refuse(
        `${at}: \`tool_use\` ids were found without \`tool_result\` blocks immediately after: ${open.join(", ")}. Each \`tool_use\` block must have a corresponding \`tool_result\` block in the next message.`,
      );
  }
}

/** A loop of calls that continues with thinking must have begun with it. */
function checkThinkingKept(turns: Turn[]): void {
  const question = turns.findLastIndex(
    ({ role, blocks }) => role === "user" && blocks.some(({ block }) => block.type !== "tool_result"),
  );
  const first = turns[question + 1]?.blocks ?? [];
  const [start] = first;
  if (
    start !== undefined &&
    first.some(({ block }) => block.type === "tool_use") &&
    !/thinking$/.test(start.block.type)
  )
    refuse(
      `${start.at}.type: Expected \`thinking\` or \`redacted_thinking\`, but found \`${start.block.type}\`. When \`thinking\` is enabled, a final \`assistant\` message must start with a thinking block (preceding the lastmost set of \`tool_use\` and \`tool_result\` blocks).`,
    );
}

function cacheMarksIn({ cache_control: automatic, messages, system, tools }: CountRequest): number {
  const marked = [
    ...messages.flatMap(blocksOf),
    ...(Array.isArray(system) ? system : []),
    ...(tools ?? []),
    { cache_control: automatic },
  ];
  return marked.filter(({ cache_control: mark }) => mark !== undefined && mark !== null).length;
}
