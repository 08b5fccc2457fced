/** Reads the items of an input as strictly as the vendor does. */
import type { Static } from "typebox";
import { describedUrl } from "../../answer/attachments.ts";
import { promptTokensOf } from "../../answer/chunks.ts";
import { imageTokens, messageTokens } from "../../answer/question.ts";
import { anyOf, exactly, list, nullableText, object, oneOf, string, text as textShape } from "../shape.ts";
import { isEncryptedContent } from "./items.ts";
import { missing, type Reader, readerAmong, readerOf, refused, toolName, unsupported } from "./reading.ts";

/** Reads the content of an item: a text, or parts with images and files. */

interface Content {
  text: string;
  /** By media type and size, or by address. */
  images: string[];
  /** By media type and size, or by address. */
  documents: string[];
  tokens: number;
}

/** The tokens of a file: rough but constant. */
const fileTokens = 258;

/** `contentOf` checks the parts. */
const content = anyOf([textShape, list(object({ type: textShape }))]);

const imageUrl = /^(?:https?:\/\/|data:image\/(?:png|jpeg|webp|gif);base64,[A-Za-z0-9+/]+={0,2}$)/;

const textContentOf = (text: string): Content => ({
  text,
  images: [],
  documents: [],
  tokens: promptTokensOf(text),
});

const textPart = readerOf(object({ text: textShape }), ({ text }) => textContentOf(text));

const imagePart = readerOf(object({ image_url: nullableText, file_id: nullableText }), (image, at): Content => {
  const { image_url: url, file_id: id } = image;
  if (url && !imageUrl.test(url))
    refused(
      `${at}.image_url`,
      `Invalid '${at}.image_url'. Expected an address or a base64-encoded data URL with an image MIME type.`,
      "invalid_value",
    );
  if (!url && !id) missing(`${at}.image_url`);
  return {
    text: "",
    images: [url ? describedUrl(url) : `file ${id}`],
    documents: [],
    tokens: imageTokens,
  };
});

const fileMembers = {
  file_data: nullableText,
  file_url: nullableText,
  file_id: nullableText,
};

const filePart = readerOf(object(fileMembers), ({ file_data: data, file_url: url, file_id: id }, at): Content => {
  const address = data || url;
  if (!address && !id) missing(`${at}.file_data`);
  return {
    text: "",
    images: [],
    documents: [address ? describedUrl(address) : `file ${id}`],
    tokens: fileTokens,
  };
});

const ofCaller: Record<string, Reader<Content>> = {
  input_text: textPart,
  input_image: imagePart,
  input_file: filePart,
};
const ofModel: Record<string, Reader<Content>> = {
  output_text: textPart,
  refusal: readerOf(object({ refusal: textShape }), ({ refusal }) => textContentOf(refusal)),
};

/** The content of the caller, or of an answer that it sends back. */
function contentOf(parts: Static<typeof content>, at: string, { byModel }: { byModel: boolean }): Content {
  if (typeof parts === "string") return textContentOf(parts);
  const readers = byModel ? ofModel : ofCaller;
  const whole: Content = { text: "", images: [], documents: [], tokens: 0 };
  for (const [index, part] of parts.entries()) {
    const place = `${at}[${index}]`;
    const read = readerAmong(readers, part.type);
    if (read === undefined) return unsupported(`${place}.type`, part.type, Object.keys(readers));
    const one = read(part, place);
    whole.text += one.text;
    whole.images.push(...one.images);
    whole.documents.push(...one.documents);
    whole.tokens += one.tokens;
  }
  return whole;
}

/** An item, as far as the answer depends on it. */
export type ReadItem = { tokens: number } & (
  | { kind: "message"; role: string; text: string; images: string[]; documents: string[] }
  | ({ kind: "call"; name: string } & CallPlace)
  | ({ kind: "result"; text: string } & CallPlace)
  | { kind: "other" }
);

/** The members that a call and its result share. */
interface CallPlace {
  callId: string;
  isCustom: boolean;
}

const idPrefixes: Record<string, string> = {
  message: "msg",
  function_call: "fc",
  custom_tool_call: "ctc",
  reasoning: "rs",
  compaction: "cmp",
};

/** Items that are accepted and ignored. */
const otherTypes =
  "additional_tools apply_patch_call apply_patch_call_output code_interpreter_call compaction_trigger computer_call computer_call_output configuration_update file_search_call image_generation_call local_shell_call local_shell_call_output mcp_approval_request mcp_approval_response mcp_call mcp_list_tools program program_output shell_call shell_call_output tool_search_call tool_search_output web_search_call".split(
    " ",
  );

/** The tokens of a compacted conversation: rough but constant. */
const compactedTokens = 16;

const unverified = (itemId: string | null | undefined): never =>
  refused(
    "input",
    `The encrypted content ${itemId ? `for item ${itemId} ` : ""}could not be verified.`,
    "invalid_encrypted_content",
  );

const id = nullableText;
const callId = string({ minLength: 1, maxLength: 64 });

const resultReader = (isCustom: boolean) =>
  readerOf(object({ call_id: callId, output: content }), ({ call_id, output }, at): ReadItem => {
    const result = contentOf(output, `${at}.output`, { byModel: false });
    const { text, images, documents, tokens } = result;
    return {
      kind: "result",
      callId: call_id,
      isCustom,
      text: [text, ...images, ...documents].filter((part) => part !== "").join(" "),
      tokens,
    };
  });

const callOf = (id: string, name: string, input: string, isCustom: boolean): ReadItem => ({
  kind: "call",
  callId: id,
  isCustom,
  name,
  tokens: promptTokensOf(name + input),
});

const readers: Record<string, Reader<ReadItem>> = {
  message: readerOf(
    object({ id, role: oneOf(["user", "assistant", "system", "developer"]), content }),
    ({ role, content: parts }, at): ReadItem => {
      const content = contentOf(parts, `${at}.content`, { byModel: role === "assistant" });
      return { ...content, kind: "message", role };
    },
  ),
  function_call: readerOf(
    object({ id, call_id: callId, name: toolName, arguments: textShape }),
    ({ call_id, name, arguments: input }) => callOf(call_id, name, input, false),
  ),
  custom_tool_call: readerOf(
    object({ id, call_id: callId, name: toolName, input: textShape }),
    ({ call_id, name, input }) => callOf(call_id, name, input, true),
  ),
  function_call_output: resultReader(false),
  custom_tool_call_output: resultReader(true),
  reasoning: readerOf(
    object({
      id,
      summary: list(object({ type: exactly("summary_text"), text: textShape })),
      encrypted_content: id,
    }),
    ({ id: itemId, summary, encrypted_content: encrypted }): ReadItem => {
      if (typeof encrypted === "string" && !isEncryptedContent(encrypted, "reasoning", itemId ?? undefined))
        unverified(itemId);
      return { kind: "other", tokens: promptTokensOf(summary.map(({ text }) => text).join("")) };
    },
  ),
  compaction: readerOf(
    object({ id, encrypted_content: textShape }),
    ({ id: itemId, encrypted_content: encrypted }): ReadItem =>
      isEncryptedContent(encrypted, "compaction", itemId ?? undefined)
        ? { kind: "other", tokens: compactedTokens }
        : unverified(itemId),
  ),
};

/**
 * `isStored`: the request allows responses to be stored. If not, reasoning without its content
 * cannot be found.
 */
export function itemsIn(input: string | unknown[], { isStored }: { isStored: boolean }): ReadItem[] {
  const items: ReadItem[] = [];
  if (typeof input === "string") items.push({ ...textContentOf(input), kind: "message", role: "user" });
  else for (const [index, item] of input.entries()) items.push(itemOf(item, `input[${index}]`, isStored));
  for (const item of items) item.tokens += messageTokens;
  checkPairs(items);
  return items;
}

function itemOf(item: unknown, at: string, isStored: boolean): ReadItem {
  const { type: named, id: itemId, encrypted_content: encrypted } = Object(item) as Record<string, unknown>;
  const type = typeof named === "string" ? named : "message";
  const prefix = idPrefixes[type];
  if (typeof itemId === "string" && prefix !== undefined && !itemId.startsWith(prefix))
    refused(
      `${at}.id`,
      `Invalid '${at}.id': '${itemId.slice(0, 80)}'. Expected an ID that begins with '${prefix}'.`,
      "invalid_value",
    );
  if (
    type === "item_reference" ||
    (type === "reasoning" && typeof encrypted !== "string" && typeof itemId === "string" && !isStored)
  )
    refused("input", notFoundOf(String(itemId)), null, 404);
  const read = readerAmong(readers, type);
  if (read !== undefined) return read(item, at);
  return otherTypes.includes(type)
    ? { kind: "other", tokens: 0 }
    : unsupported(`${at}.type`, type, [...Object.keys(readers), ...otherTypes]);
}

/** OpenAI's wording: https://github.com/openai/openai-agents-python/issues/919 */
const notFoundOf = (id: string) =>
  `Item with id '${id.slice(0, 80)}' not found. Items are not persisted when \`store\` is set to false. Try again with \`store\` set to true, or remove this item from your input.`;

/**
 * A result needs an earlier call, and a call needs its result before the conversation continues.
 */
function checkPairs(items: ReadItem[]): void {
  const keyOf = ({ callId, isCustom }: CallPlace) => `${isCustom} ${callId}`;
  const nameOf = ({ isCustom }: CallPlace) => (isCustom ? "custom tool call" : "function call");
  const called = new Set<string>();
  const answered = new Set<string>();
  for (const item of items) {
    if (item.kind === "call") called.add(keyOf(item));
    if (item.kind !== "result") continue;
    if (!called.has(keyOf(item)))
      refused("input", `No tool call found for ${nameOf(item)} output with call_id ${item.callId}.`);
    answered.add(keyOf(item));
  }
  const last = items.findLastIndex(({ kind }) => kind === "message" || kind === "result");
  for (const item of items.slice(0, Math.max(0, last)))
    if (item.kind === "call" && !answered.has(keyOf(item)))
      refused("input", `No tool output found for ${nameOf(item)} ${item.callId}.`);
}
