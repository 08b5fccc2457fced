/**
 * Rules for a request beyond its shape: the order of calls and responses, unchanged thought
 * signatures, and Gemini's own form of schemas.
 */
import { isObject } from "../../answer/schema.ts";
import { claimIn, sealOf } from "../../answer/seal.ts";
import { refuse } from "../dialect.ts";
import { type Content, camelNameOf, type GenerateRequest, type Part } from "./schema.ts";

/** Consecutive contents of one role are a turn. */
export interface Turn {
  role: "user" | "model";
  parts: { part: Part; at: string }[];
  at: string;
}

export function turnsOf(contents: Content[]): Turn[] {
  const turns: Turn[] = [];
  for (const [index, { role: sender, parts }] of contents.entries()) {
    const role = sender === "model" ? "model" : "user";
    const ownParts = parts.map((part, place) => ({ part, at: `contents[${index}].parts[${place}]` }));
    const last = turns.at(-1);
    if (last?.role === role) last.parts.push(...ownParts);
    else turns.push({ role, parts: ownParts, at: `contents[${index}]` });
  }
  return turns;
}

/** The index of the last turn with content of the user; -1 if there is none. */
export const lastSpokenIn = (turns: Turn[]) =>
  turns.findLastIndex(
    ({ role, parts }) => role === "user" && parts.some(({ part }) => part.functionResponse === undefined),
  );

/** Refuses turns that contradict each other. */
export function checkTurns(turns: Turn[], isThinking: boolean): void {
  for (const [index, { role, parts, at }] of turns.entries()) {
    const calls = parts.filter(({ part }) => part.functionCall !== undefined).length;
    const responses = parts.filter(({ part }) => part.functionResponse !== undefined).length;
    const isAnswered =
      (turns[index + 1]?.parts ?? []).filter(({ part }) => part.functionResponse !== undefined).length === calls;
    if (role === "user" && calls > 0) refuse("Please ensure that function call turn is of the role model.", at);
    if (role === "model" && responses > 0) refuse("Please ensure that function response turn is of the role user.", at);
    if (calls > 0 && index === 0)
      refuse(
        "Please ensure that function call turn comes immediately after a user turn or after a function response turn.",
        at,
      );
    if (calls > 0 && !isAnswered)
      refuse(
        "Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.",
        at,
      );
    if (responses > 0 && !turns[index - 1]?.parts.some(({ part }) => part.functionCall !== undefined))
      refuse("Please ensure that function response turn comes immediately after a function call turn.", at);
    for (const { part, at: place } of parts) checkPart(part, place);
  }
  if (isThinking) checkSignaturesKept(turns);
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

function checkPart(part: Part, at: string): void {
  const kinds = data.filter((kind) => kind in part);
  if (kinds.length === 0) refuse("The part must have one initialized field.", at);
  if (kinds.length > 1) refuse(`The part has more than one of its fields: ${kinds.join(", ")}.`, at);
  const type = part.inlineData?.mimeType ?? "";
  if (type.startsWith("image/") && !imageTypes.includes(type)) refuse(`Unsupported MIME type: ${type}`, at);
  if (part.functionResponse !== undefined)
    checkReferences(part.functionResponse.response, part.functionResponse, at, 0);
  const { thoughtSignature: signature, functionCall: call } = part;
  if (signature === undefined || signature === null || bypasses.includes(signature)) return;
  const claim = claimIn(signature);
  if (claim === undefined || !(call === undefined || claim.startsWith(`call ${call.name} `)))
    refuse("Corrupted thought signature.", at);
}

/**
 * A response refers to its own media by `$ref`, at any level, so a reference of a JSON Schema is
 * refused: https://github.com/vercel/ai/issues/14369
 */
function checkReferences(value: unknown, of: NonNullable<Part["functionResponse"]>, at: string, depth: number): void {
  if (typeof value !== "object" || value === null || depth > depthMax) return;
  for (const [name, member] of Object.entries(value)) {
    const isMedia = of.parts?.some(({ inlineData }) => inlineData?.displayName === member) === true;
    if (name === "$ref" && typeof member === "string" && !isMedia)
      refuse(
        `The referenced name \`${member.slice(0, 80)}\` in function_response.response does not match to a display_name in the function_response.parts.`,
        at,
      );
    checkReferences(member, of, at, depth + 1);
  }
}

/**
 * The value that Google documents for calls that no Gemini model made, and its base64, since the
 * field has bytes: https://ai.google.dev/gemini-api/docs/thought-signatures#faqs
 */
const bypass = "skip_thought_signature_validator";
const bypasses = [bypass, Buffer.from(bypass).toString("base64"), Buffer.from(bypass).toString("base64url")];

/** `answerId` distinguishes this answer's signatures from others. */
export const callSignatureOf = (name: string, answerId: string) => sealOf(`call ${name} ${answerId}`);
export const textSignatureOf = (answerId: string) => sealOf(`text ${answerId}`);

/** The first call of each step of the current turn must have its signature. */
function checkSignaturesKept(turns: Turn[]): void {
  for (const { parts } of turns.slice(lastSpokenIn(turns) + 1)) {
    const first = parts.find(({ part }) => part.functionCall !== undefined);
    if (first === undefined || (first.part.thoughtSignature ?? "") !== "") continue;
    refuse(
      `Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly, and missing thought_signature may lead to degraded model performance. Additional data, function call \`default_api:${first.part.functionCall?.name}\`.`,
      first.at,
    );
  }
}

/** The complete keywords of `Schema`; JSON Schema has its own field. */
const keywords =
  "type format title description nullable enum default example items minItems maxItems minLength maxLength minProperties maxProperties minimum maximum pattern properties propertyOrdering required anyOf".split(
    " ",
  );
const types = ["STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL"];
const depthMax = 64;

/** Refuses a JSON Schema in a field that accepts only Gemini's own form. */
export function checkSchemas({ tools, generationConfig }: GenerateRequest): void {
  for (const [index, { functionDeclarations }] of (tools ?? []).entries())
    for (const [place, { parameters }] of (functionDeclarations ?? []).entries())
      if (parameters) checkSchema(parameters, `tools[${index}].function_declarations[${place}].parameters`, 0);
  const schema = generationConfig?.responseSchema;
  if (schema) checkSchema(schema, "generation_config.response_schema", 0);
}

function checkSchema(schema: unknown, param: string, depth: number): void {
  const invalid: (fault: string) => never = (fault) => refuse(`Invalid JSON payload received. ${fault}`, param);
  if (!isObject(schema) || depth > depthMax) invalid(`Invalid value at '${param}'.`);
  for (const [name, value] of Object.entries(schema)) {
    const keyword = camelNameOf(name);
    if (!keywords.includes(keyword)) invalid(`Unknown name "${name.slice(0, 40)}" at '${param}': Cannot find field.`);
    const isType = typeof value === "number" ? types[value - 1] : types.includes(String(value).toUpperCase());
    if (keyword === "type" && !isType)
      invalid(`Invalid value at '${param}.type' (type.googleapis.com/google.ai.generativelanguage.v1beta.Type).`);
    if (keyword === "items") checkSchema(value, `${param}.items`, depth + 1);
    else if (keyword === "anyOf" && Array.isArray(value))
      for (const [index, branch] of value.entries()) checkSchema(branch, `${param}.any_of[${index}]`, depth + 1);
    else if (keyword === "properties" && isObject(value))
      for (const [property, of] of Object.entries(value))
        checkSchema(of, `${param}.properties[${property.slice(0, 40)}]`, depth + 1);
  }
}
