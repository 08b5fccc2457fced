/** Requests with repairs, in the neutral form and as a caller's own bytes. */

import { jsonBytesOf, parsedObject } from "#wire/json/parse.ts";
import { isEmptyArray, withMembers, withValues } from "#wire/json/spans.ts";
import type { CallerRequest, Codec, Target } from "../codec.ts";
import type { ConversationDialect } from "../dialect.ts";
import { consistent } from "../neutral/consistent.ts";
import { Refusal } from "../neutral/field-support.ts";
import { continueText } from "../neutral/history.ts";
import type { ModelTraits } from "../neutral/model-traits.ts";
import type { NeutralRequest, Part } from "../neutral/neutral.ts";
import type { Repair } from "../repairs/repairs.ts";

/** The target for which a request of the neutral form is encoded, with these repairs. */
export const repairedTarget = (target: Target, repairs: readonly Repair[]): Target => ({
  ...target,
  textResults: repairs.some(({ kind }) => kind === "results"),
  traits: Object.assign({}, target.traits, ...repairs.map(({ kind }) => repairedTraits[kind])),
});

const repairedTraits: Partial<Record<Repair["kind"], Partial<ModelTraits>>> = {
  placeholders: { requiresReasoning: true },
  signatures: { signsCalls: true, signedCalls: true },
  ending: { prefill: false },
  tools: { functionsOnly: true },
  format: { jsonSchemas: false },
  turns: { systemTurns: false, turns: "alternating" },
};

/**
 * The request with these repairs, for an upstream of this dialect. Calls and results match in every
 * request of the neutral form.
 */
export function repairedRequest(
  request: NeutralRequest,
  repairs: readonly Repair[],
  spoken: ConversationDialect,
): NeutralRequest {
  const has = (kind: Repair["kind"]) => repairs.some((repair) => repair.kind === kind);
  // Blocks of thinking can't be empty, so a turn whose thinking was lost goes on without any.
  if (has("placeholders") && spoken === "anthropic-messages")
    return { ...request, settings: { ...request.settings, effort: { value: "none", path: "thinking" } } };
  if (!has("companions") && !has("item-ids")) return request;
  const change = has("companions") ? withoutReasoning : withoutItemId;
  return {
    ...request,
    messages: request.messages.map((message) => ({ ...message, parts: message.parts.flatMap(change) })),
  };
}

const withoutReasoning = (part: Part): Part[] => (part.kind === "reasoning" ? [] : [part]);

function withoutItemId(part: Part): Part[] {
  if (part.kind !== "reasoning" || part.signature === undefined) return [part];
  const { itemId: _, ...signature } = part.signature;
  return [{ ...part, signature }];
}

/**
 * The members of a request that are its conversation, in the spellings that the dialect accepts;
 * the first one is written.
 */
const conversationMembers: Record<ConversationDialect, readonly (readonly [string, ...string[]])[]> = {
  "openai-chat": [["messages"]],
  "openai-responses": [["instructions"], ["input"]],
  "anthropic-messages": [["system"], ["messages"]],
  gemini: [["systemInstruction", "system_instruction"], ["contents"]],
};

/** Repairs whose conversation comes from the neutral form, if a dialect has none of bytes. */
const conversationRepairs: Repair["kind"][] = ["history", "results", "turns"];

/**
 * A caller's bytes for an upstream of the same dialect, with these repairs. Where a repair of the
 * conversation is none of bytes, the conversation is replaced by one that went through the
 * neutral form, if that can express it; every other byte stays.
 */
export function repairedBytes(
  codec: Codec,
  dialect: ConversationDialect,
  { body: bytes, framing, headers }: Omit<CallerRequest, "body"> & { body: Buffer },
  target: Target,
  repairs: readonly Repair[],
): Buffer {
  let edited = bytes;
  let isReordered = true;
  for (const { kind } of repairs) {
    const changed =
      kind === "ending" ? withInstruction(edited, dialect) : (codec.verbatim.repairs[kind]?.(edited) ?? edited);
    if (changed === edited && conversationRepairs.includes(kind)) isReordered = false;
    edited = changed;
  }
  if (isReordered) return edited;
  const encoded = unlessRefused(() => {
    const request = { body: parsedObject(edited) ?? {}, framing, ...(headers && { headers }) };
    const { body } = codec.encodeRequest(
      consistent(codec.decodeRequest(request)),
      framing,
      repairedTarget(target, repairs),
    );
    return parsedObject(body);
  });
  if (encoded === undefined) return edited;
  let repaired = edited;
  for (const spellings of conversationMembers[dialect]) {
    for (const name of spellings) repaired = withMembers(repaired, name, () => undefined);
    const [name] = spellings;
    if (encoded[name] !== undefined) repaired = withValues(repaired, { [name]: jsonBytesOf(encoded[name]) });
  }
  return repaired;
}

/** The turns of a request, and an instruction to continue the last one. */
const endings: Record<ConversationDialect, [member: string, turn: object]> = {
  "openai-chat": ["messages", { role: "user", content: continueText }],
  "openai-responses": ["input", { role: "user", content: continueText }],
  "anthropic-messages": ["messages", { role: "user", content: continueText }],
  gemini: ["contents", { role: "user", parts: [{ text: continueText }] }],
};

/** The caller's bytes with the instruction behind the last turn. */
function withInstruction(bytes: Buffer, dialect: ConversationDialect): Buffer {
  const [member, turn] = endings[dialect];
  return withMembers(bytes, member, (turns) => {
    const end = turns.lastIndexOf("]");
    return end < 0 || isEmptyArray(turns)
      ? turns
      : Buffer.concat([turns.subarray(0, end), Buffer.from(","), jsonBytesOf(turn), turns.subarray(end)]);
  });
}

function unlessRefused<Result>(act: () => Result): Result | undefined {
  try {
    return act();
  } catch (error) {
    if (error instanceof Refusal) return undefined;
    throw error;
  }
}
