/** Rules for a request beyond its shape: the order of calls and responses, unchanged thought signatures, and Gemini's own form of schemas. */

import { isObject } from "../../answer/schema.ts";
import { claimIn, sealOf } from "../../answer/seal.ts";
import { type Content, camelNameOf, type GenerateRequest, type Part } from "./schema.ts";

/** Consecutive contents of one role are a turn. */
export interface Turn {
  role: "user" | "model";
  parts: { part: Part; at: string }[];
  at: string;
}

export function turnsOf(contents: Content[]): Turn[] {
  const turns: Turn[] = [];
  for (const [index, { role: given, parts }] of contents.entries()) {
    const role = given === "model" ? "model" : "user";
    const placed = parts.map((part, place) => ({ part, at: `contents[${index}].parts[${place}]` }));
    const last = turns.at(-1);
    if (last?.role === role) last.parts.push(...placed);
    else turns.push({ role, parts: placed, at: `contents[${index}]` });
  }
  return turns;
}

/** The index of the last turn with content of the user; -1 if there is none. */
export const lastSpokenIn = (turns: Turn[]): number =>
  turns.findLastIndex(
    ({ role, parts }) => role === "user" && parts.some(({ part }) => part.functionResponse === undefined),
  );

export interface RuleFault {
  message: string;
  /** The path of the field. */
  param: string;
}

/** The first fault among the turns; undefined if there is none. */
export function faultAmong(turns: Turn[], isThinking: boolean): RuleFault | undefined {
  for (const [index, { role, parts, at }] of turns.entries()) {
    const calls = parts.filter(({ part }) => part.functionCall !== undefined).length;
    const responses = parts.filter(({ part }) => part.functionResponse !== undefined).length;
    const isAnswered =
      (turns[index + 1]?.parts ?? []).filter(({ part }) => part.functionResponse !== undefined).length === calls;
    if (role === "user" && calls > 0)
      return { message: "Please ensure that function call turn is of the role model.", param: at };
    if (role === "model" && responses > 0)
      return { message: "Please ensure that function response turn is of the role user.", param: at };
    if (calls > 0 && index === 0)
      return {
        message:
          "Please ensure that function call turn comes immediately after a user turn or after a function response turn.",
        param: at,
      };
    if (calls > 0 && !isAnswered)
      return {
        message:
          "Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.",
        param: at,
      };
    if (responses > 0 && !turns[index - 1]?.parts.some(({ part }) => part.functionCall !== undefined))
      return {
        message: "Please ensure that function response turn comes immediately after a function call turn.",
        param: at,
      };
    for (const { part, at: place } of parts) {
      const fault = faultOfPart(part);
      if (fault !== undefined) return { message: fault, param: place };
    }
  }
  return isThinking ? faultOfLostSignature(turns) : undefined;
}

const data = [
  "text",
  "inlineData",
  "fileData",
  "functionCall",
  "functionResponse",
  "executableCode",
  "codeExecutionResult",
  "toolCall",
  "toolResponse",
];
const imageTypes = ["image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"];

function faultOfPart(part: Part): string | undefined {
  const kinds = data.filter((kind) => kind in part);
  if (kinds.length !== 1)
    return kinds.length === 0
      ? "The part must have one initialized field."
      : `The part has more than one of its fields: ${kinds.join(", ")}.`;
  const type = part.inlineData?.mimeType ?? "";
  if (type.startsWith("image/") && !imageTypes.includes(type)) return `Unsupported MIME type: ${type}`;
  const { thoughtSignature: signature, functionCall: call } = part;
  if (signature === undefined || signature === null || signature === bypass) return undefined;
  const claim = claimIn(signature);
  const isRight = claim !== undefined && (call === undefined || claim.startsWith(`call ${call.name} `));
  return isRight ? undefined : "Corrupted thought signature.";
}

/** The value that Google documents for calls that no Gemini model made. */
const bypass = "skip_thought_signature_validator";

/** `answerId` distinguishes this answer's signatures from others. */
export const callSignatureOf = (name: string, answerId: string): string => sealOf(`call ${name} ${answerId}`);
export const textSignatureOf = (answerId: string): string => sealOf(`text ${answerId}`);

/** The first call of each step of the current turn must have its signature. */
function faultOfLostSignature(turns: Turn[]): RuleFault | undefined {
  for (const { parts } of turns.slice(lastSpokenIn(turns) + 1)) {
    const first = parts.find(({ part }) => part.functionCall !== undefined);
    if (first === undefined || (first.part.thoughtSignature ?? "") !== "") continue;
    const message = `Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly, and missing thought_signature may lead to degraded model performance. Additional data, function call \`default_api:${first.part.functionCall?.name}\`.`;
    return { message, param: first.at };
  }
  return undefined;
}

/** The complete keywords of `Schema`; JSON Schema has its own field. */
const keywords =
  "type format title description nullable enum default example items minItems maxItems minLength maxLength minProperties maxProperties minimum maximum pattern properties propertyOrdering required anyOf".split(
    " ",
  );
const types = ["STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL"];
const depthMax = 64;

/** A JSON Schema in a field that accepts only Gemini's own form. */
export function faultInSchemas({ tools, generationConfig }: GenerateRequest): RuleFault | undefined {
  for (const [index, { functionDeclarations }] of (tools ?? []).entries())
    for (const [place, { parameters }] of (functionDeclarations ?? []).entries()) {
      const fault = parameters
        ? faultInSchema(parameters, `tools[${index}].function_declarations[${place}].parameters`, 0)
        : undefined;
      if (fault !== undefined) return fault;
    }
  const schema = generationConfig?.responseSchema;
  return schema ? faultInSchema(schema, "generation_config.response_schema", 0) : undefined;
}

function faultInSchema(schema: unknown, param: string, depth: number): RuleFault | undefined {
  const invalid = (fault: string): RuleFault => ({ message: `Invalid JSON payload received. ${fault}`, param });
  if (!isObject(schema) || depth > depthMax) return invalid(`Invalid value at '${param}'.`);
  for (const [name, value] of Object.entries(schema)) {
    const keyword = camelNameOf(name);
    if (!keywords.includes(keyword))
      return invalid(`Unknown name "${name.slice(0, 40)}" at '${param}': Cannot find field.`);
    if (keyword === "type" && !(typeof value === "string" && types.includes(value.toUpperCase())))
      return invalid(
        `Invalid value at '${param}.type' (type.googleapis.com/google.ai.generativelanguage.v1beta.Type).`,
      );
    const inner: [string, unknown][] =
      keyword === "items"
        ? [[`${param}.items`, value]]
        : keyword === "anyOf" && Array.isArray(value)
          ? value.map((branch, index) => [`${param}.any_of[${index}]`, branch])
          : keyword === "properties" && isObject(value)
            ? Object.entries(value).map(([property, of]) => [`${param}.properties[${property.slice(0, 40)}]`, of])
            : [];
    for (const [at, innerSchema] of inner) {
      const fault = faultInSchema(innerSchema, at, depth + 1);
      if (fault !== undefined) return fault;
    }
  }
  return undefined;
}
