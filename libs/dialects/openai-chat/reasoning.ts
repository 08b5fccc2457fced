/**
 * Reasoning in messages of chat completions. The format has none of its own; servers add fields,
 * and many require them back: `reasoning_content`
 * (https://api-docs.deepseek.com/guides/thinking_mode), `reasoning` and `reasoning_details`
 * (https://openrouter.ai/docs/use-cases/reasoning-tokens), content parts of the type `thinking`
 * (https://docs.mistral.ai/capabilities/reasoning) or `reasoning`
 * (https://docs.databricks.com/aws/en/machine-learning/model-serving/query-reason-models), and
 * `extra_content` of a call
 * (https://ai.google.dev/gemini-api/docs/thought-signatures).
 */
import {
  defined,
  isObject,
  type JsonObject,
  jsonBytesOf,
  listOf,
  objectOf,
  parsedObject,
  someOf,
  textOf,
} from "#wire/json/parse.ts";
import { withElements, withMembers, withValues } from "#wire/json/spans.ts";
import type { ModelTraits } from "../neutral/model-traits.ts";
import type { Block, Part, Signature } from "../neutral/neutral.ts";
import { originOf } from "../neutral/wrapped-signature.ts";

const dialect = "openai-chat";

/** The fields of a message with readable reasoning. */
const textFields = ["reasoning_content", "reasoning", "reasoning_text"];
/** The fields of a message with what belongs to the reasoning: signatures, encrypted reasoning. */
const otherFields = ["reasoning_details", "reasoning_opaque", "reasoning_signature", "thinking_blocks"];
const fieldKinds = new Map([
  ...textFields.map((name) => [name, "text"] as const),
  ...otherFields.map((name) => [name, "other"] as const),
  ["content", "content"] as const,
]);

/** Stands for reasoning that was lost. Servers that require reasoning refuse an empty text. */
const placeholder = " ";

/**
 * How a server sent the reasoning of a block: the `data` of its signature, as JSON. It is enough to
 * send the same fields back.
 */
interface Companions {
  /** The fields that had the readable text, or the form of the parts of the content that had it. */
  in?: string[];
  fields?: JsonObject;
  /** The signature of a part of the content. */
  signature?: string;
  /** `extra_content` of the call that follows. */
  call?: JsonObject;
}

const signatureOf = (companions: Companions): Signature => ({ dialect, data: JSON.stringify(companions) });

/** The signature of a call that a server signed; undefined for any other call. */
export const callSignatureOf = ({ extra_content: extra }: JsonObject) =>
  isObject(extra) && Object.keys(extra).length > 0 ? signatureOf({ call: extra }) : undefined;

/** Collects the reasoning of a message, or of the deltas of one. */
export class ReasoningReader {
  readonly #names = new Set<string>();
  #fields: JsonObject = {};
  #signature: string | undefined;
  /** Readable text arrived outside of `reasoning_details`, which repeats it. */
  #hasText = false;
  /** Something besides text arrived since the last signature. */
  hasMore = false;

  /** The readable text in these fields; undefined for none. */
  read(fields: JsonObject): string | undefined {
    let text: string | undefined;
    for (const name in fields) {
      const value = fields[name];
      if (name === "content" && typeof value === "string") continue;
      const kind = fieldKinds.get(name);
      if (kind === undefined || value === null || value === undefined || value === "") continue;
      if (kind === "text" && typeof value === "string") {
        this.#names.add(name);
        text ??= value;
      } else if (kind === "content" && Array.isArray(value)) text = this.#thinkingIn(value) ?? text;
      else if (kind === "other" && !(Array.isArray(value) && value.length === 0)) {
        this.#fields[name] = joined(this.#fields[name], value);
        this.hasMore = true;
      }
    }
    if (text !== undefined) this.#hasText = true;
    return text ?? (this.#hasText ? undefined : detailsTextOf(fields.reasoning_details));
  }

  /** The signature of what was read since the last one; undefined for none. */
  take(): Signature | undefined {
    if (this.#names.size === 0 && !this.hasMore) return undefined;
    const companions = defined({
      in: someOf([...this.#names]),
      fields: Object.keys(this.#fields).length > 0 ? this.#fields : undefined,
      signature: this.#signature,
    });
    this.#names.clear();
    this.#fields = {};
    this.#signature = undefined;
    this.hasMore = false;
    return signatureOf(companions);
  }

  #thinkingIn(content: readonly unknown[]): string | undefined {
    const texts = content.map(objectOf).flatMap(({ type, thinking, summary, signature }) => {
      const isSummary = type === "reasoning" && Array.isArray(summary);
      if (!isSummary && !(type === "thinking" && Array.isArray(thinking))) return [];
      this.#names.add(isSummary ? "summary" : "content");
      const parts = listOf(isSummary ? summary : thinking).map(objectOf);
      for (const one of [signature, ...parts.map((part) => part.signature)])
        this.#signature = textOf(one) ?? this.#signature;
      return parts.map(partTextOf);
    });
    return texts.length === 0 ? undefined : texts.join("");
  }
}

const partTextOf = (part: unknown) => textOf(objectOf(part).text) ?? "";

/** Some servers send the readable reasoning only in `reasoning_details`. */
const detailsTextOf = (details: unknown) =>
  Array.isArray(details)
    ? textOf(details.map((detail) => textOf(objectOf(detail).text) ?? textOf(objectOf(detail).summary) ?? "").join(""))
    : undefined;

/**
 * A field and its continuation: texts and lists are joined. Entries of a list with the same index
 * are one, and so are blocks of LiteLLM up to the one with the signature, which may repeat their
 * text (https://github.com/BerriAI/litellm/issues/29428,
 * https://github.com/open-webui/open-webui/pull/29860).
 */
function joined(before: unknown, more: unknown): unknown {
  if (typeof before === "string" && typeof more === "string") return before + more;
  if (!Array.isArray(before) || !Array.isArray(more)) return more;
  const list = [...before];
  for (const entry of more) {
    const { index, type } = objectOf(entry);
    const place =
      typeof index === "number"
        ? list.findLastIndex((one) => objectOf(one).index === index && objectOf(one).type === type)
        : type === "thinking" && isUnsigned(list.at(-1))
          ? list.length - 1
          : -1;
    if (place < 0) list.push(entry);
    else list[place] = joinedEntry(objectOf(list[place]), objectOf(entry));
  }
  return list;
}

const isUnsigned = (entry: unknown) => {
  const { type, signature } = objectOf(entry);
  return type === "thinking" && textOf(signature) === undefined;
};

/** Members of an entry whose values arrive in chunks. All others arrive whole. */
const chunkedMembers = ["text", "summary", "data", "thinking"];

function joinedEntry(before: JsonObject, more: JsonObject): JsonObject {
  const entry = { ...before };
  for (const [name, value] of Object.entries(more)) {
    if (value === null || value === undefined) continue;
    const own = Object.hasOwn(entry, name) ? entry[name] : undefined;
    const isChunk =
      chunkedMembers.includes(name) &&
      typeof own === "string" &&
      typeof value === "string" &&
      !(name === "thinking" && textOf(more.signature) !== undefined && value.startsWith(own));
    Object.defineProperty(entry, name, {
      value: isChunk ? own + value : value,
      enumerable: true,
      writable: true,
      configurable: true,
    });
  }
  return entry;
}

const asSent = { requiresReasoning: false, signsCalls: false, isAmongCalls: false };

/** The reasoning of an assistant's message as its fields. */
export interface ReasoningFields {
  fields: JsonObject;
  /** Parts with reasoning that begin the content. */
  thinking: object[];
  /** `extra_content` of the calls, in their order; undefined for a call without. */
  ofCalls: (object | undefined)[];
}

/**
 * Reasoning as the model that made it sent it. `model` is the upstream's name of the model that
 * gets it; that of other models is left out. A model that requires reasoning gets all that is
 * readable, and a blank where there is none, if the conversation has calls (`isAmongCalls`):
 * DeepSeek refuses a turn with calls for a text of it without reasoning, and takes a blank anywhere
 * (https://github.com/experientiallabs/experiential/pull/890).
 */
export function reasoningFieldsOf(
  parts: readonly (Part | Block)[],
  model: string | undefined,
  {
    requiresReasoning: required,
    signsCalls,
    isAmongCalls,
  }: Pick<ModelTraits, "requiresReasoning" | "signsCalls"> & { isAmongCalls: boolean } = asSent,
): ReasoningFields {
  const texts = new Map<string, string>();
  const own: ReasoningFields = { fields: {}, thinking: [], ofCalls: [] };
  const add = (name: string, text: string) => texts.set(name, (texts.get(name) ?? "") + text);
  let call: object | undefined;
  const origin = model === undefined ? undefined : originOf(model);
  for (const part of parts) {
    if (part.kind === "call") {
      own.ofCalls.push(call);
      call = undefined;
    }
    if (part.kind !== "reasoning") continue;
    const { text, signature } = part;
    const isOwn =
      signature?.dialect === dialect &&
      (origin === undefined || signature.origin === undefined || signature.origin === origin);
    const companions = isOwn ? companionsIn(signature) : undefined;
    if (companions === undefined) {
      const isReadable = signature === undefined || signature.dialect === dialect;
      if (required && isReadable && text !== "") add("reasoning_content", text);
      continue;
    }
    call = companions.call ?? call;
    for (const name of companions.in ?? [])
      if (name === "content")
        own.thinking.push({
          type: "thinking",
          thinking: [{ type: "text", text }],
          signature: companions.signature,
        });
      else if (name === "summary")
        own.thinking.push({
          type: "reasoning",
          summary: [{ type: "summary_text", text, signature: companions.signature }],
        });
      else add(name, text);
    for (const [name, value] of Object.entries(companions.fields ?? {}))
      own.fields[name] = joined(own.fields[name], value);
  }
  for (const [name, text] of texts) if (text !== "") own.fields[name] = text;
  const hasReasoning =
    textFields.some((name) => texts.get(name)) || own.thinking.length > 0 || "reasoning_details" in own.fields;
  if (required && isAmongCalls && !hasReasoning) own.fields.reasoning_content = placeholder;
  if (signsCalls && own.ofCalls.length > 0) own.ofCalls[0] ??= bypass;
  return own;
}

/**
 * The wrapped signature is the caller's to change, so only known fields of the right type count.
 */
function companionsIn({ data }: Signature): Companions | undefined {
  const value = parsedObject(Buffer.from(data));
  if (value === undefined) return undefined;
  const { in: names, fields, signature, call } = value;
  return {
    in: listOf(names)
      .map(String)
      .filter((name) => name === "content" || name === "summary" || textFields.includes(name)),
    fields: Object.fromEntries(Object.entries(objectOf(fields)).filter(([name]) => otherFields.includes(name))),
    ...defined({ signature: textOf(signature) }),
    ...(isObject(call) && { call }),
  };
}

/** The message without any reasoning; every other byte stays. */
export function withoutReasoning(message: Buffer): Buffer {
  let kept = message;
  for (const name of [...textFields, ...otherFields]) kept = withMembers(kept, name, () => undefined);
  kept = withMembers(kept, "content", (content) =>
    withElements(content, (part) =>
      /^(?:(?:redacted_)?thinking|reasoning)$/.test(String(parsedObject(part)?.type)) ? undefined : part,
    ),
  );
  return withMembers(kept, "tool_calls", (calls) =>
    withElements(calls, (call) => withMembers(call, "extra_content", () => unsignedCall)),
  );
}

/** https://ai.google.dev/gemini-api/docs/thought-signatures#faqs */
const bypass = { google: { thought_signature: "skip_thought_signature_validator" } };
const unsignedCall = jsonBytesOf(bypass);

/** An assistant's message with a placeholder if it has no reasoning; every other byte stays. */
export function withPlaceholder(message: Buffer): Buffer {
  const { role, ...fields } = parsedObject(message) ?? {};
  const lacks = role === "assistant" && textFields.every((name) => textOf(fields[name]) === undefined);
  return lacks ? withValues(message, { reasoning_content: jsonBytesOf(placeholder) }) : message;
}

/**
 * The message whose first call has the documented signature if it has none; every other byte stays.
 */
export const withSignedCall = (message: Buffer): Buffer => {
  let isFirst = true;
  return withMembers(message, "tool_calls", (calls) =>
    withElements(calls, (call) => {
      const isSigned = !isFirst || isObject(parsedObject(call)?.extra_content);
      isFirst = false;
      return isSigned ? call : withValues(call, { extra_content: unsignedCall });
    }),
  );
};
