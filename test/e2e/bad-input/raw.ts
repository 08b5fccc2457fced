/**
 * Requests as text, for what JSON.stringify would not write: each dialect's words for the same
 * question.
 */
import type { ConversationDialect } from "#dialects/dialect.ts";

/** Words that every dialect has; all values are JSON text, or stand within quotes. */
export interface Words {
  path(model: string): string;
  /** The field of the first part, as a refusal names it. */
  firstPart: string;
  text(text: string): string;
  image(mimeType: string, data: string): string;
  document(mimeType: string, data: string): string;
  /** One turn of the user, with further fields of the body. */
  ask(model: string, parts: string, more?: string): string;
  turns(model: string, turns: readonly [role: "user" | "assistant", text: string][]): string;
  /** A call and what came of it, each with an id, between two turns of the user. */
  calls(model: string, calls: readonly string[], results: readonly string[]): string;
  tools(names: readonly string[], schema: string): string;
  format(schema: string): string;
}

const list = (values: readonly string[]) => `[${values.join(",")}]`;
const quoted = (text: string) => JSON.stringify(text);

const openaiChat: Words = {
  path: () => "/v1/chat/completions",
  firstPart: "messages[0].content[0]",
  text: (text) => `{"type":"text","text":"${text}"}`,
  image: (mimeType, data) => `{"type":"image_url","image_url":{"url":"data:${mimeType};base64,${data}"}}`,
  document: (mimeType, data) => `{"type":"file","file":{"filename":"a","file_data":"data:${mimeType};base64,${data}"}}`,
  ask: (model, parts, more = "") => `{"model":"${model}","messages":[{"role":"user","content":[${parts}]}]${more}}`,
  turns: (model, turns) =>
    `{"model":"${model}","messages":${list(turns.map(([role, text]) => `{"role":"${role}","content":"${text}"}`))}}`,
  calls: (model, calls, results) =>
    `{"model":"${model}","messages":${list([
      '{"role":"user","content":"x"}',
      `{"role":"assistant","tool_calls":${list(calls.map((id) => `{"id":"${id}","type":"function","function":{"name":"f","arguments":"{}"}}`))}}`,
      ...results.map((id) => `{"role":"tool","tool_call_id":"${id}","content":"done"}`),
      '{"role":"user","content":"y"}',
    ])}}`,
  tools: (names, schema) =>
    `,"tools":${list(names.map((name) => `{"type":"function","function":{"name":${quoted(name)},"parameters":${schema}}}`))}`,
  format: (schema) =>
    `,"response_format":{"type":"json_schema","json_schema":{"name":"a","schema":${schema},"strict":true}}`,
};

const openaiResponses: Words = {
  path: () => "/v1/responses",
  firstPart: "input[0].content[0]",
  text: (text) => `{"type":"input_text","text":"${text}"}`,
  image: (mimeType, data) => `{"type":"input_image","image_url":"data:${mimeType};base64,${data}"}`,
  document: (mimeType, data) => `{"type":"input_file","filename":"a","file_data":"data:${mimeType};base64,${data}"}`,
  ask: (model, parts, more = "") => `{"model":"${model}","input":[{"role":"user","content":[${parts}]}]${more}}`,
  turns: (model, turns) =>
    `{"model":"${model}","input":${list(turns.map(([role, text]) => `{"role":"${role}","content":"${text}"}`))}}`,
  calls: (model, calls, results) =>
    `{"model":"${model}","input":${list([
      '{"role":"user","content":"x"}',
      ...calls.map((id) => `{"type":"function_call","call_id":"${id}","name":"f","arguments":"{}"}`),
      ...results.map((id) => `{"type":"function_call_output","call_id":"${id}","output":"done"}`),
      '{"role":"user","content":"y"}',
    ])}}`,
  tools: (names, schema) =>
    `,"tools":${list(names.map((name) => `{"type":"function","name":${quoted(name)},"parameters":${schema}}`))}`,
  format: (schema) => `,"text":{"format":{"type":"json_schema","name":"a","schema":${schema},"strict":true}}`,
};

const anthropicMessages: Words = {
  path: () => "/v1/messages",
  firstPart: "messages[0].content[0]",
  text: (text) => `{"type":"text","text":"${text}"}`,
  image: (mimeType, data) => `{"type":"image","source":{"type":"base64","media_type":"${mimeType}","data":"${data}"}}`,
  document: (mimeType, data) =>
    `{"type":"document","source":{"type":"base64","media_type":"${mimeType}","data":"${data}"}}`,
  ask: (model, parts, more = "") =>
    `{"model":"${model}","max_tokens":100,"messages":[{"role":"user","content":[${parts}]}]${more}}`,
  turns: (model, turns) =>
    `{"model":"${model}","max_tokens":100,"messages":${list(turns.map(([role, text]) => `{"role":"${role}","content":"${text}"}`))}}`,
  calls: (model, calls, results) =>
    `{"model":"${model}","max_tokens":100,"messages":${list([
      '{"role":"user","content":"x"}',
      `{"role":"assistant","content":${list(calls.map((id) => `{"type":"tool_use","id":"${id}","name":"f","input":{}}`))}}`,
      `{"role":"user","content":${list([...results.map((id) => `{"type":"tool_result","tool_use_id":"${id}","content":"done"}`), '{"type":"text","text":"y"}'])}}`,
    ])}}`,
  tools: (names, schema) =>
    `,"tools":${list(names.map((name) => `{"name":${quoted(name)},"input_schema":${schema}}`))}`,
  format: (schema) => `,"output_config":{"format":{"type":"json_schema","schema":${schema}}}`,
};

const gemini: Words = {
  path: (model) => `/v1beta/models/${model}:generateContent`,
  firstPart: "contents[0].parts[0]",
  text: (text) => `{"text":"${text}"}`,
  image: (mimeType, data) => `{"inlineData":{"mimeType":"${mimeType}","data":"${data}"}}`,
  document: (mimeType, data) => `{"inlineData":{"mimeType":"${mimeType}","data":"${data}"}}`,
  ask: (_model, parts, more = "") => `{"contents":[{"role":"user","parts":[${parts}]}]${more}}`,
  turns: (_model, turns) =>
    `{"contents":${list(turns.map(([role, text]) => `{"role":"${role === "assistant" ? "model" : role}","parts":[{"text":"${text}"}]}`))}}`,
  calls: (_model, calls, results) =>
    `{"contents":${list([
      '{"role":"user","parts":[{"text":"x"}]}',
      `{"role":"model","parts":${list(calls.map((id) => `{"functionCall":{"id":"${id}","name":"f","args":{}}}`))}}`,
      `{"role":"user","parts":${list([...results.map((id) => `{"functionResponse":{"id":"${id}","name":"f","response":{}}}`), '{"text":"y"}'])}}`,
    ])}}`,
  tools: (names, schema) =>
    `,"tools":[{"functionDeclarations":${list(names.map((name) => `{"name":${quoted(name)},"parametersJsonSchema":${schema}}`))}}]`,
  format: (schema) => `,"generationConfig":{"responseMimeType":"application/json","responseJsonSchema":${schema}}`,
};

export const words: Record<ConversationDialect, Words> = {
  "openai-chat": openaiChat,
  "openai-responses": openaiResponses,
  "anthropic-messages": anthropicMessages,
  gemini,
};
