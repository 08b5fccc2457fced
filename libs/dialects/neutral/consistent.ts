/**
 * Rules across the fields of a request, in every dialect: calls match results (history.ts), a tool
 * choice names offered tools, and attachments have the kind and type of their bytes.
 */
import { classifyAttachments } from "./attachments.ts";
import { refuse } from "./field-support.ts";
import { withMatchedCalls } from "./history.ts";
import type { CallPart, Message, NeutralRequest, Part, ResultPart } from "./neutral.ts";

/**
 * The same request with one result for each call, and unique call ids, which some upstreams
 * require. Throws Refusal, naming the caller's field, for: a choice of tools that are not offered,
 * bytes that are not an image or document, and a conversation without content. Time is linear.
 */
export function consistent(request: NeutralRequest): NeutralRequest {
  checkContent(request);
  checkChoice(request);
  classifyAttachments(request);
  const messages = withMatchedCalls(request.messages);
  const ids = idsOf(messages);
  if (ids.size === 0) return messages === request.messages ? request : { ...request, messages };
  return {
    ...request,
    messages: messages.map((message) => ({
      ...message,
      parts: message.parts.map((part) => renamed(part, ids)),
    })),
  };
}

/** Empty texts do not count as content, nor does thinking that no model can read. */
function checkContent({ system, messages }: NeutralRequest): void {
  const says = (part: Part) => (part.kind === "text" ? part.text !== "" : part.kind !== "reasoning");
  if (!system.some(says) && !messages.some(({ parts }) => parts.some(says)))
    refuse((messages[0] ?? system[0])?.path ?? "input", "must have content");
}

function checkChoice({ tools, toolChoice }: NeutralRequest): void {
  if (toolChoice === undefined) return;
  const { mode, only, path } = toolChoice;
  if (mode === "required" && tools.length === 0) refuse(path, "requires a call, but there are no tools");
  const names = new Set(tools.map(({ name }) => name));
  const missing = only?.find((name) => !names.has(name));
  if (missing !== undefined) refuse(path, `names a tool that is not offered: ${JSON.stringify(missing)}`);
}

type Named = CallPart | ResultPart;

interface Identity {
  id: string;
  name: string;
}

/**
 * New ids for calls that repeat the id of an earlier call, and for their results, which follow
 * directly. A result has the name of its call.
 */
function idsOf(messages: readonly Message[]): Map<Named, Identity> {
  const changed = new Map<Named, Identity>();
  const free = freeIds();
  /** The last turn's calls by the caller's id, in order. */
  let open = new Map<string, { calls: Identity[]; answered: number }>();
  let before: Message["role"] = "user";
  for (const { role, parts } of messages) {
    if (role === "system" || parts.length === 0) continue;
    if (role === "assistant" && before === "user") open = new Map();
    before = role;
    for (const part of parts)
      if (part.kind === "result") {
        const same = open.get(part.callId);
        const call = same?.calls[same.answered++];
        if (call !== undefined && (call.id !== part.callId || call.name !== part.name)) changed.set(part, call);
      } else if (part.kind === "call") {
        const call = { id: free(part.id), name: part.name };
        if (call.id !== part.id) changed.set(part, call);
        const same = open.get(part.id);
        if (same === undefined) open.set(part.id, { calls: [call], answered: 0 });
        else same.calls.push(call);
      }
  }
  return changed;
}

/** The id itself if it is unused; otherwise with a number. */
function freeIds(): (id: string) => string {
  const numbers = new Map<string, number>();
  return (id) => {
    let number = numbers.get(id);
    if (number === undefined) {
      numbers.set(id, 1);
      return id;
    }
    let free: string;
    do free = `${id}_${++number}`;
    while (numbers.has(free));
    numbers.set(id, number).set(free, 1);
    return free;
  };
}

function renamed(part: Part, ids: ReadonlyMap<Named, Identity>): Part {
  if (part.kind !== "call" && part.kind !== "result") return part;
  const identity = ids.get(part);
  if (identity === undefined) return part;
  const { id, name } = identity;
  return part.kind === "call" ? { ...part, id } : { ...part, callId: id, name };
}
