/** The output items of an answer, as they begin and as they end. */
import type { Call } from "../../answer/calls.ts";
import { type Chunks, joined } from "../../answer/chunks.ts";
import type { Choice } from "../../answer/compose.ts";
import { claimIn, sealOf } from "../../answer/seal.ts";

type SealedKind = "reasoning" | "compaction";

const idPrefixes: Record<SealedKind, string> = { reasoning: "rs_", compaction: "cmp_" };
const claimOf = (kind: SealedKind, id: string) => `${kind} ${id}`;

/**
 * True for encrypted content that the simulator made for an item of this kind, and of this id if
 * one is given.
 */
export function isEncryptedContent(text: string, kind: SealedKind, id: string | undefined): boolean {
  const claim = claimIn(text);
  return (
    claim !== undefined &&
    (id === undefined ? claim.startsWith(claimOf(kind, idPrefixes[kind])) : claim === claimOf(kind, id))
  );
}

interface Finished {
  id: string;
  status: "completed" | "incomplete";
}

export type Item =
  | { kind: "compaction"; id: string }
  | ({ kind: "reasoning"; id: string; thought: Chunks } & ReasoningWanted)
  | ({ kind: "message"; text: Chunks } & Finished)
  | ({ kind: "call"; call: Call } & Finished);

/** The parts of the reasoning that the caller asked for. */
export interface ReasoningWanted {
  /** As a summary. */
  isShown: boolean;
  /** As encrypted content, for the next request. */
  isSealed: boolean;
}

/** The item that replaces the conversation so far. */
export const compactionOf = (digest: string): Item => ({
  kind: "compaction",
  id: `${idPrefixes.compaction}${digest.slice(0, 48)}`,
});

/**
 * `digest` is the hex SHA-256 of the request's body, from which the ids derive. An answer that ends
 * before its first word has no message.
 */
export function itemsOf({ reasoning, text, calls, finish }: Choice, digest: string, wanted: ReasoningWanted): Item[] {
  const items: Item[] = [];
  const idOf = (prefix: string) => `${prefix}_${digest.slice(0, 46)}${items.length.toString(16).padStart(2, "0")}`;
  if (reasoning.length > 0) items.push({ kind: "reasoning", id: idOf("rs"), thought: reasoning, ...wanted });
  const isCutShort = finish === "length" || finish === "filtered";
  if (text !== undefined && !(isCutShort && text.length === 0))
    items.push({ kind: "message", id: idOf("msg"), text, status: isCutShort ? "incomplete" : "completed" });
  for (const [index, call] of calls.entries()) {
    const status = isCutShort && index === calls.length - 1 ? "incomplete" : "completed";
    items.push({ kind: "call", id: idOf(call.tool.takes === "json" ? "fc" : "ctc"), call, status });
  }
  return items;
}

export const textPartOf = (text: string) => ({ type: "output_text", annotations: [], logprobs: [], text });
export const summaryPartOf = (text: string) => ({ type: "summary_text", text });

export function begunItemOf(item: Item): object {
  switch (item.kind) {
    case "compaction":
      return doneItemOf(item);
    case "reasoning":
      return { id: item.id, type: "reasoning", summary: [] };
    case "message":
      return { id: item.id, type: "message", status: "in_progress", content: [], role: "assistant" };
    case "call":
      return callItemOf(item, "in_progress", "");
  }
}

export function doneItemOf(item: Item): object {
  switch (item.kind) {
    case "compaction":
      return { id: item.id, type: "compaction", encrypted_content: sealOf(claimOf("compaction", item.id)) };
    case "reasoning": {
      const summary = item.isShown ? [summaryPartOf(joined(item.thought))] : [];
      return {
        id: item.id,
        type: "reasoning",
        summary,
        encrypted_content: item.isSealed ? sealOf(claimOf("reasoning", item.id)) : undefined,
      };
    }
    case "message":
      return {
        id: item.id,
        type: "message",
        status: item.status,
        content: [textPartOf(joined(item.text))],
        role: "assistant",
      };
    case "call":
      return callItemOf(item, item.status, joined(item.call.input));
  }
}

function callItemOf({ id, call }: { id: string; call: Call }, status: string, input: string): object {
  const named = { call_id: call.id, name: call.tool.name };
  return call.tool.takes === "json"
    ? { id, type: "function_call", status, arguments: input, ...named }
    : { id, type: "custom_tool_call", status, input, ...named };
}
