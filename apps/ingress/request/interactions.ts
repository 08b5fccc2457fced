/**
 * Requests of Gemini's Interactions API as requests for OpenAI's Responses, whose items, storage
 * and references are nearly the same: https://ai.google.dev/api/interactions-api (types
 * `CreateModelInteraction` and `Step` of `@google/genai`).
 */
import Type from "typebox";
import { jsonSchemaOf } from "#dialects/gemini/google-schema.ts";
import { foreignThoughtId } from "#dialects/openai-responses/answer.ts";
import {
  name,
  nullable,
  optional,
  optionalFlag,
  optionalList,
  optionalObject,
  optionalTexts,
  text,
} from "#dialects/request-schema/schema-parts.ts";
import { isObject, isPresent, jsonBytesOf, listOf, objectOf, someOf, textOf } from "#wire/json/parse.ts";
import { Refusal, type Result, refusalOf } from "../common/refusal.ts";
import { readJson } from "./body.ts";
import { faultIn } from "./validation.ts";

export interface InteractionRequest {
  /** The body for POST /v1/responses. */
  bytes: Buffer;
  streams: boolean;
}

type Body = Record<string, unknown>;

const schema = Type.Object({
  model: name,
  input: Type.Unsafe<unknown>({ type: ["string", "array", "object"] }),
  ...optionalTexts("system_instruction", "previous_interaction_id", "response_mime_type", "service_tier"),
  tools: optionalList({ type: "object", required: ["type"] }),
  stream: optionalFlag,
  store: optionalFlag,
  background: optionalFlag,
  response_format: optional({ type: ["object", "array", "null"] }),
  response_modalities: optionalList(text),
  generation_config: optionalObject({
    temperature: nullable("number"),
    top_p: nullable("number"),
    max_output_tokens: nullable("integer"),
    stop_sequences: nullable("array", { items: text }),
    ...optionalTexts("thinking_level", "thinking_summaries"),
    tool_choice: { type: ["string", "object", "null"] },
  }),
});

/** Leaves the translation, however deep the fault is; `readInteraction` returns the refusal. */
const invalid = (param: string, why: string): never => {
  throw refusalOf(`${param} ${why}.`, param);
};

/**
 * The smallest limit of Responses:
 * https://platform.openai.com/docs/api-reference/responses/create#responses_create-max_output_tokens
 */
const outputTokensMin = 16;

/** Fields without which the answer would be another. */
const unsupported: readonly [name: string, why: string][] = [
  ["agent", "names an agent that runs at Google, which this gateway does not support: name a model instead"],
  ["cached_content", "names a stored prompt, which this gateway does not keep: send the whole prompt instead"],
  ["continuation_token", "is not supported: continue with previous_interaction_id"],
  ["environment", "names an environment at Google, which this gateway does not support: offer functions as tools"],
  ["webhook_config", "is not supported: poll the interaction with GET"],
];

/**
 * Pure. Reads and checks a body, and translates it. Settings that only tune how Google serves it
 * (`safety_settings`, `labels`, `seed`) are left out.
 */
export function readInteraction(sent: Buffer): Result<InteractionRequest> {
  const read = readJson(sent);
  if (read instanceof Refusal) return read;
  try {
    for (const [name, why] of unsupported) if (isPresent(objectOf(read)[name])) invalid(name, why);
    const fault = faultIn(schema, read);
    if (fault !== undefined) return new Refusal(fault);
    const body = read as Body;
    return { bytes: jsonBytesOf(responsesBodyOf(body)), streams: body.stream === true };
  } catch (error) {
    if (error instanceof Refusal) return error;
    throw error;
  }
}

function responsesBodyOf(body: Body): Body {
  const config = objectOf(body.generation_config);
  const effort = textOf(config.thinking_level);
  const isShown = config.thinking_summaries === "auto";
  const tools = listOf(body.tools).map(toolOf);
  const tier = textOf(body.service_tier);
  const modality = listOf(body.response_modalities).find((one) => one !== "text" && one !== "image");
  if (modality !== undefined)
    invalid("response_modalities", `has ${JSON.stringify(modality)}, which this gateway does not support here`);
  return {
    model: body.model,
    input: inputOf(body.input),
    instructions: textOf(body.system_instruction),
    ...(tools.length > 0 && { tools, tool_choice: toolChoiceOf(config.tool_choice) }),
    previous_response_id: textOf(body.previous_interaction_id),
    stream: body.stream === true ? true : undefined,
    store: body.store ?? undefined,
    background: body.background === true ? true : undefined,
    temperature: config.temperature ?? undefined,
    top_p: config.top_p ?? undefined,
    max_output_tokens: isPresent(config.max_output_tokens)
      ? Math.max(outputTokensMin, config.max_output_tokens as number)
      : undefined,
    stop: someOf(listOf(config.stop_sequences)),
    reasoning: effort !== undefined || isShown ? { effort, summary: isShown ? "auto" : undefined } : undefined,
    ...formatOf(body),
    service_tier: tier === "flex" || tier === "priority" ? tier : undefined,
  };
}

function toolOf(value: unknown, place: number): Body {
  const { type, name, description, parameters } = objectOf(value);
  if (type !== "function")
    invalid(
      `tools[${place}].type`,
      `is ${JSON.stringify(type)}, which this gateway does not support here: offer functions, or use generateContent`,
    );
  if (textOf(name) === undefined) invalid(`tools[${place}].name`, "is missing");
  return {
    type: "function",
    name,
    description: textOf(description),
    parameters: isObject(parameters) ? jsonSchemaOf(parameters) : null,
    strict: false,
  };
}

const choiceModes: Record<string, string> = { auto: "auto", any: "required", none: "none", validated: "auto" };

function toolChoiceOf(choice: unknown): unknown {
  const modeOf = (mode: unknown, path: string) =>
    (Object.hasOwn(choiceModes, String(mode)) ? choiceModes[String(mode)] : undefined) ??
    invalid(path, "must be auto, any, none or validated");
  const path = "generation_config.tool_choice";
  if (!isPresent(choice)) return undefined;
  if (typeof choice === "string") return modeOf(choice, path);
  const { mode = "auto", tools } = objectOf(objectOf(choice).allowed_tools);
  const own = modeOf(mode, `${path}.allowed_tools.mode`);
  const names = listOf(tools);
  if (own === "none" || names.length === 0) return own;
  return { type: "allowed_tools", mode: own, tools: names.map((name) => ({ type: "function", name: String(name) })) };
}

/** A list of formats has one for each modality. */
function formatOf({ response_format: requested, response_mime_type: mimeType }: Body): Body {
  const formats = [requested].flat().map(objectOf);
  const format = formats.find(({ type }) => type === "text") ?? {};
  // The API's first version had a bare schema here, beside the type of the content.
  const isBare =
    isObject(requested) &&
    !Array.isArray(requested) &&
    !["text", "image", "audio", "video"].includes(String(requested.type)) &&
    mimeType !== "text/plain";
  const own = isBare ? requested : format.schema;
  if (isObject(own)) return { text: { format: { type: "json_schema", name: "answer", schema: jsonSchemaOf(own) } } };
  return (format.mime_type ?? mimeType) === "application/json" ? { text: { format: { type: "json_object" } } } : {};
}

const contentTypes = ["text", "image", "audio", "document", "video"];

/** Content outside of a step is the user's. */
function inputOf(input: unknown): unknown {
  if (typeof input === "string") return input;
  const items: Body[] = [];
  let open: Body[] | undefined;
  for (const [place, value] of [input].flat().entries()) {
    const path = Array.isArray(input) ? `input[${place}]` : "input";
    const step = objectOf(value);
    if (contentTypes.includes(String(step.type))) {
      if (open === undefined) {
        open = [];
        items.push({ type: "message", role: "user", content: open });
      }
      open.push(partOf(step, path));
      continue;
    }
    open = undefined;
    items.push(...itemsOf(step, path));
  }
  return items;
}

/** The steps of Google's own tools: the answers that they led to remain. */
const ofVendor =
  /^(google_search|google_maps|code_execution|url_context|file_search|mcp_server_tool|retrieval|processing)_(call|result)$/;

function itemsOf(step: Body, path: string): Body[] {
  const type = textOf(step.type) ?? { user: "user_input", model: "model_output" }[String(step.role)];
  const content = `${path}.content`;
  switch (type) {
    case "user_input":
      return [{ type: "message", role: "user", content: partsOf(step.content, content) }];
    case "model_output":
      return [step.content].flat().flatMap((value, place) => outputItemOf(value, `${content}[${place}]`));
    case "thought":
      return [
        {
          type: "reasoning",
          id: `${foreignThoughtId}${path.replace(/\D/g, "")}`,
          summary: listOf(step.summary).flatMap((part) => {
            const text = textOf(objectOf(part).text);
            return text === undefined ? [] : [{ type: "summary_text", text }];
          }),
          encrypted_content: textOf(step.signature),
        },
      ];
    case "function_call": {
      const { id, name, arguments: callArguments } = step;
      if (textOf(name) === undefined) invalid(`${path}.name`, "is missing");
      const input = typeof callArguments === "string" ? callArguments : JSON.stringify(callArguments ?? {});
      return [{ type: "function_call", call_id: String(id ?? name), name, arguments: input }];
    }
    case "function_result": {
      const { call_id: id, name, result, is_error: failed } = step;
      const output = outputOf(result, `${path}.result`);
      return [
        {
          type: "function_call_output",
          call_id: String(id ?? name),
          output: failed !== true ? output : withError(output),
        },
      ];
    }
    default:
      if (type !== undefined && ofVendor.test(type)) return [];
      return invalid(`${path}.type`, "must be the type of a step or of content");
  }
}

const withError = (output: string | Body[]): string | Body[] =>
  typeof output === "string" ? `Error: ${output}` : [{ type: "input_text", text: "Error:" }, ...output];

/** Any JSON that is no list of content is the result itself. */
function outputOf(result: unknown, path: string): string | Body[] {
  if (typeof result === "string") return result;
  const list = Array.isArray(result) && result.length > 0 ? result : [result];
  const isContent = list.every((value) => contentTypes.includes(String(objectOf(value).type)));
  return isContent ? partsOf(list, path) : JSON.stringify(result ?? null);
}

const partsOf = (content: unknown, path: string): Body[] =>
  typeof content === "string"
    ? [{ type: "input_text", text: content }]
    : [content].flat().map((value, place) => partOf(objectOf(value), `${path}[${place}]`));

function outputItemOf(value: unknown, path: string): Body[] {
  const {
    type,
    text,
    data,
    mime_type: mimeType,
  } = typeof value === "string" ? { type: "text", text: value } : objectOf(value);
  if (value === undefined || value === null) return [];
  if (type === "text")
    return [{ type: "message", role: "assistant", content: [{ type: "output_text", text: String(text ?? "") }] }];
  if (type !== "image" || textOf(data) === undefined) return invalid(path, "must be text, or an image with its data");
  const format = String(mimeType ?? "image/png").replace(/^image\//, "");
  return [{ type: "image_generation_call", status: "completed", result: data, output_format: format }];
}

const audioFormats: Record<string, string> = { mpeg: "mp3", "x-wav": "wav", wave: "wav" };
/** Files of Google's own service. Other addresses are ordinary attachments. */
const storedFile = /^(?:gs:|(?:https?:\/\/[a-z0-9.-]*googleapis\.com\/[a-z0-9]+\/)?files\/[^/]+$)/i;

function partOf({ type, text, data, uri, mime_type: mimeType, resolution }: Body, path: string): Body {
  if (type === "text") return { type: "input_text", text: String(text ?? "") };
  const address = textOf(uri);
  if (address !== undefined && storedFile.test(address))
    invalid(`${path}.uri`, "names a stored file, which this gateway does not keep: send the file itself as 'data'");
  const kind = textOf(mimeType);
  const bytes = textOf(data);
  if (bytes === undefined && address === undefined) invalid(path, "has neither 'data' nor 'uri'");
  const urlOf = (fallback: string) => (bytes === undefined ? address : `data:${kind ?? fallback};base64,${bytes}`);
  switch (type) {
    case "image":
      return {
        type: "input_image",
        image_url: urlOf("image/png"),
        detail: resolution === "low" ? "low" : resolution === "high" || resolution === "ultra_high" ? "high" : "auto",
      };
    case "document":
      return bytes === undefined
        ? { type: "input_file", file_url: address }
        : { type: "input_file", filename: "document.pdf", file_data: urlOf("application/pdf") };
    case "audio": {
      if (bytes === undefined) invalid(`${path}.uri`, "is an address of audio: send the audio itself as 'data'");
      const format = String(kind ?? "audio/wav").replace(/^audio\//, "");
      return { type: "input_audio", input_audio: { data: bytes, format: audioFormats[format] ?? format } };
    }
    default:
      return invalid(`${path}.type`, `is ${JSON.stringify(type)}, which this gateway does not support`);
  }
}
