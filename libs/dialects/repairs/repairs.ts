/**
 * Repairs: how a request is changed when its upstream refused it for a reason that has nothing to
 * do with what the caller wants. The worker then calls the same target once more. Requests that no
 * upstream refuses are never changed by these rules.
 */
import type { UpstreamError } from "../errors.ts";
import {
  affordableOutputOf,
  type RefusedFields,
  refusedFieldsOf,
  shorterOutputOf,
  wholeRefusalOf,
} from "./refused-fields.ts";

const plainRepairs = [
  "companions",
  "item-ids",
  "placeholders",
  "signatures",
  "history",
  "results",
  "ending",
  "turns",
  "schemas",
  "tools",
  "format",
  "stops",
] as const;
export const repairKinds = [...plainRepairs, "omit"] as const;

/**
 * - `companions`: the models' reasoning of earlier turns, with its signatures and encrypted
 *   contents, is left out.
 * - `item-ids`: items lose their ids, which name something that the upstream did not store, or come
 *   from another server (Responses).
 * - `placeholders`: messages of the assistant whose reasoning was lost get an empty one; where all
 *   have it, it moves into the content (openai-chat).
 * - `signatures`: calls without Google's signature get the one that Google documents for calls that
 *   none of its models made.
 * - `history`: calls and results are matched and get valid ids, empty texts are left out, and
 *   references to tools become text.
 * - `results`: images and documents in results of calls follow in a message of the user (OpenAI's
 *   dialects).
 * - `ending`: an instruction to continue follows a turn of the assistant at the end.
 * - `turns`: the conversation begins with the user, roles alternate, and all instructions come
 *   first.
 * - `schemas`: the schemas of tools are rewritten by the rules of their vendor, as in translated
 *   requests.
 * - `tools`: functions replace all other tools, and their items in the input (Responses).
 * - `format`: an instruction asks for the JSON schema of the answer.
 * - `stops`: the gateway ends the answer at stop sequences beyond the bounds of the dialect.
 * - `omit`: fields that only optimise, or that newer models dropped, are left out (see
 *   omitted-fields.ts).
 *
 * Later requests to the target have the lasting ones at once.
 */
export type Repair = { kind: (typeof plainRepairs)[number]; isLasting?: true } | ({ kind: "omit" } & RefusedFields);

/** The most repairs of one request for one target. */
export const repairsMax = 4;

interface Rule {
  repair: Exclude<Repair, { kind: "omit" }>;
  /** Matches codes and types. */
  names?: RegExp;
  /** Matches the message anywhere: a wrong match costs one call. */
  words: RegExp;
}

/**
 * The first match decides. test/libs/dialects/repairs/repairs.test.ts has the real messages, each
 * with its source.
 */
const rules: readonly Rule[] = [
  {
    repair: { kind: "item-ids" },
    words:
      /item with id '?(?:rs|msg|fc|ctc)_\S{1,200} not found|items are not persisted when `store`|input\[\d+\]\.id[`'"]?: (?:string too long|\S{1,200} expected an id)/i,
  },
  {
    repair: { kind: "placeholders" },
    words:
      /(?:reasoning_content|content\[\]\.thinking)`? in the thinking mode must be passed back|reasoning_content (?:field )?is missing|missing `?reasoning_content/i,
  },
  { repair: { kind: "signatures" }, words: /missing an? [`'"]?thought_?signature/i },
  {
    repair: { kind: "companions" },
    names: /^(?:invalid_encrypted_content|thinking_signature_invalid)$/,
    words:
      /(?:invalid|corrupted|missing|expected) (?:an? )?[`'"]?(?:thought[ _])?(?:signature|data[`'"]? in [`'"]?redacted_thinking)|thought.?signature (?:is )?(?:not valid|invalid)|unknown variant `redacted_thinking|thinking\.signature: field required|bound to a different (?:conversation|model)|blocks in the latest assistant message cannot be modified|(?:expected|first block must be) [`'"]?thinking[`'"]? or [`'"]?redacted_thinking|must start with a thinking block|must contain thinking|block in an assistant message cannot be [`'"]?thinking|encrypted content \S{0,200}[\s\S]{0,200}could not be (?:verified|decrypted)|required [`'"]?(?:reasoning|following)[`'"]? item|conflicting authenticated continuation|(?:reasoning(?:_content|_details|_text)?|thinking_blocks|extra_content)[`'"]?(?:\W{1,4}[\w.]{0,80})? ?(?:is (?:unsupported|not (?:supported|permitted|allowed))|: (?:extra inputs|unsupported|unknown))|additional properties are not allowed \('(?:reasoning|thinking|extra_content)|(?:(?:item|input) type:?|invalid value:|unknown variant) [`'"](?:context_)?compaction[`'"]|(?:unknown|unsupported|unrecognized|unexpected) (?:parameter|field|property|argument|name)s?\S{0,3} ['"`]?messages\S{1,40}(?:reasoning|thinking|extra_content)/i,
  },
  {
    repair: { kind: "history" },
    words:
      /tool_use[`'"]? ids? (?:were found without|must be unique)|unexpected [`'"]?tool_use_id|must have a (?:single result|corresponding [`'"]?tool_(?:use|result))|multiple [`'"]?tool_result[`'"]? blocks with id|tool_calls['"`]? must be followed by tool messages|tool_call_ids did not have response|role ['"`]?tool['"`]? must be a response to a prec?e?eding|no tool (?:output|call) found for|number of function (?:response parts|calls and responses)|function call turn comes immediately after|function response turn comes immediately after|not the same number of function calls|tool (?:call )?(?:result's tool )?id\(?s?\)?[^.]{0,60} not found|duplicate (?:item|tool|function)\S{0,20} (?:found )?(?:with|for) (?:id|call)|unexpected tool call id|content\S{0,40} type[^.]{0,40}(?:tool_use|tool_result)|unknown variant `(?:tool_use|tool_result|tool_call|thinking|reasoning)`|tool[ _]reference|tool_use\.input: input should|(?:text content blocks|messages) must (?:be non-empty|contain non-whitespace|have non-empty)|for empty text blocks|role '?\w+'? must not be empty|cannot end with trailing whitespace|invalid value: '(?:tool_use|tool_result|tool_call|thinking|reasoning|input_json_delta|(?:input|output)_(?:text|image|file))'|invalid value: '(?:text|image_url|image|video)'\. supported values are: '(?:input_)?text'|missing required parameter: 'messages\[\d+\]\.content'|content'[^.]{0,60}got null|tool_calls\b[^.]{0,40}empty array|empty tool_calls is not supported|either content or tool_calls, but not none|content or tool_calls must be set|must have non-empty content|invalid message content type: <nil>/i,
  },
  {
    repair: { kind: "results" },
    words:
      /image urls are only allowed for messages with role|output of tool call should be 'input text'|invalid 'messages' in payload/i,
  },
  {
    repair: { kind: "ending" },
    words:
      /support assistant message prefill|prefilling assistant messages|conversation must end with a user|expected last role[^.]{0,80}got assistant|last message (?:of \S{1,60} )?must (?:be a|have role) `?user|requests (?:ends? with a user role|ending with a model turn)/i,
  },
  {
    // Servers of Anthropic's format without its instructions among the messages.
    repair: { kind: "turns", isLasting: true },
    words:
      /role\S{0,3} unknown variant `system`, expected `user` or `assistant`|role\S{0,3} input should be 'user' or 'assistant'/i,
  },
  {
    repair: { kind: "turns" },
    words:
      /roles must alternate|system (?:message|prompt) must be (?:at the beginning|the first)|system role (?:is )?not supported|role\S{0,3} unknown variant [`'"]?(?:system|developer|tool)|system messages are not allowed|role ['"`]?system['"`]? is not supported|messages\S{1,12}role\S{0,3} (?:input should be|must be|should be|invalid value|value is not)[^.]{0,80}(?:user|assistant|system)|unexpected role ['"`]?(?:system|user|tool|assistant|developer)|invalid message role: system|invalid chat setting|first message must (?:use|be)|must (?:start|begin) with a user|expected (?:first|last) role|multiple ['"`]?(?:user|assistant)['"`]? roles in a row|only (?:one|a single) system message|no user query found|successive user or assistant messages|ensure that (?:multiturn requests|the conversation)[^.]{0,40}(?:alternate|start)/i,
  },
  {
    repair: { kind: "stops", isLasting: true },
    words:
      /[`'"]\$?\.?stop[`'"](?:: array too long| is invalid)|len\(stop\)|\bstop:最大|stop_?sequences (?:must not exceed|value of \d)|each stop sequence must/i,
  },
  {
    // Tools, and items of input that have tools or belong to them.
    // https://github.com/openai/codex/issues/32318
    repair: { kind: "tools", isLasting: true },
    words:
      /(?:unknown variant|input tag|invalid value:|tool[ _]types?:?) [`'"]?(?:namespace|custom|tool_search|local_shell|shell|apply_patch|web_search|image_generation)\b|tool_?[ _]type\S{0,3} [`'"]?(?:namespace|custom|tool_search)\b|type['"`]? of tool must be ['"`]?function|only `type:"function"` tools|(?:input|item) type:? [`'"]?(?:additional_tools|agent_message|custom_tool_call|tool_search_)|untagged enum modelinput/i,
  },
  {
    // Messages of the assistant in Responses, as Codex sends them.
    repair: { kind: "history", isLasting: true },
    words: /required property 'annotations' is missing|'loc': \('body', 'input', 'str'\)/i,
  },
  { repair: { kind: "format" }, words: /output_(?:config\.)?format: extra inputs/i },
  {
    repair: { kind: "schemas" },
    words: /input_schema(?: does not support|: json schema is invalid|\.type: )|invalid schema for function/i,
  },
];

/** The answer is the same without them. https://github.com/openai/openai-cookbook/issues/2271 */
const unverified = /must be verified to generate reasoning summaries/i;

/** llama.cpp reports the error of a chat template with the status 500. */
const statuses = [400, 404, 409, 422, 500];

/**
 * The repair that may make the upstream accept the request; undefined if the error has another
 * reason.
 */
export function repairOf(status: number, error: UpstreamError): Repair | undefined {
  const { message, code, type, means } = error;
  if (status === 402) return omission(affordableOutputOf(message));
  if (!statuses.includes(status)) return undefined;
  if (unverified.test(message)) return { kind: "omit", fields: ["reasoning.summary"], isLasting: true };
  const shorter = means === "context_too_long" ? shorterOutputOf(message) : undefined;
  if (shorter !== undefined) return omission(shorter);
  if (means !== undefined && means !== "invalid_request") return undefined;
  const rule = rules.find(
    ({ names, words }) => names?.test(code ?? "") || names?.test(type ?? "") || words.test(message),
  );
  if (rule !== undefined) return rule.repair;
  return omission(status === 400 || status === 422 ? refusedFieldsOf(error) : wholeRefusalOf(message));
}

const omission = (refused: RefusedFields | undefined): Repair | undefined => refused && { kind: "omit", ...refused };
