/** Reads a request for content and checks it. */
import { describedAddress, describedData } from "../../answer/attachments.ts";
import { promptTokensOf } from "../../answer/chunks.ts";
import {
  effortOfBudget,
  imageTokens,
  messageTokens,
  promptOf,
  type Question,
  reasoningModel,
  type Tool,
} from "../../answer/question.ts";
import { refuse } from "../dialect.ts";
import { shaped } from "../shape.ts";
import { checkSchemas, checkTurns, lastSpokenIn, type Turn, turnsOf } from "./rules.ts";
import { type Content, camelOf, checkedCount, checkedGenerate, type GenerateRequest, type Part } from "./schema.ts";

export interface ContentQuestion {
  question: Question;
  isThinking: boolean;
  showsThoughts: boolean;
  /** The answer has text. */
  hasText: boolean;
  /** The size of the requested image; undefined if none is requested. */
  image: { width: number; height: number } | undefined;
  /** The answer is spoken. */
  isSpoken: boolean;
}

/**
 * Models with this name prefix answer with an image and text, unless the request asks for one of
 * them.
 */
const imageModel = "sim-image";
const imageSidePixels = 1_024;

/** `model` comes from the path; `digest` is the hex SHA-256 of the body. */
export function contentQuestionOf(raw: unknown, model: string, digest: string): ContentQuestion {
  const body = shaped(checkedGenerate, camelOf(raw));
  const config = body.generationConfig ?? {};
  const effort = effortOf(config, model);
  const isThinking = effort !== undefined && effort !== "none";
  const turns = turnsOf(body.contents);
  checkConfig(config);
  checkTools(body);
  checkSchemas(body);
  checkTurns(turns, isThinking);
  const modalities = config.responseModalities ?? (model.startsWith(imageModel) ? ["TEXT", "IMAGE"] : []);
  return {
    isThinking,
    showsThoughts: config.thinkingConfig?.includeThoughts ?? false,
    hasText: modalities.length === 0 || modalities.includes("TEXT"),
    image: modalities.includes("IMAGE") ? sidesOf(config) : undefined,
    isSpoken: modalities.includes("AUDIO"),
    question: {
      digest,
      ...spokenIn(turns),
      ...callableOf(body),
      parallelCalls: true,
      format: formatOf(config),
      effort,
      outputTokensMax: config.maxOutputTokens ?? undefined,
      stops: config.stopSequences ?? [],
      choices: config.candidateCount ?? 1,
      ...tokensIn(body),
    },
  };
}

/** The tokens of the prompt, for a request that only counts them. */
export function countOf(raw: unknown): number {
  const body = shaped(checkedCount, camelOf(raw));
  return tokensIn("generateContentRequest" in body ? body.generateContentRequest : body).promptTokens;
}

type Config = NonNullable<GenerateRequest["generationConfig"]>;

function checkConfig({ thinkingConfig, responseMimeType: type, responseSchema, responseJsonSchema }: Config): void {
  const { thinkingBudget: budget = null, thinkingLevel: level = null } = thinkingConfig ?? {};
  if (budget !== null && level !== null)
    refuse("You can only set only one of thinking budget and thinking level.", "generation_config.thinking_config");
  const schemas = [responseSchema, responseJsonSchema].filter((schema) => (schema ?? undefined) !== undefined).length;
  if (schemas > 1) refuse("Only one of response_schema and response_json_schema may be set.", "generation_config");
  if (schemas === 1 && type !== "application/json" && type !== "text/x.enum")
    refuse(
      "A response schema needs the response mime type application/json or text/x.enum.",
      "generation_config.response_mime_type",
    );
}

const declarationsOf = ({ tools }: GenerateRequest) =>
  (tools ?? []).flatMap(({ functionDeclarations }) => functionDeclarations ?? []);

function checkTools(body: GenerateRequest): void {
  const declarations = declarationsOf(body);
  const names = declarations.map(({ name }) => name);
  const { mode, allowedFunctionNames: allowed } = body.toolConfig?.functionCallingConfig ?? {};
  const twice = declarations.find(
    ({ parameters, parametersJsonSchema }) => parameters && parametersJsonSchema !== undefined,
  );
  const param = "tool_config.function_calling_config";
  if (twice !== undefined) refuse(`Function ${twice.name} has both parameters and parameters_json_schema.`, "tools");
  if (new Set(names).size < names.length) refuse("Duplicate function declaration found.", "tools");
  if (mode === "ANY" && names.length === 0)
    refuse("Function calling config is set without function_declarations.", param);
  if (!allowed || allowed.length === 0) return;
  if (mode !== "ANY" && mode !== "VALIDATED")
    refuse("Allowed function names should only be set when function calling mode is ANY or VALIDATED.", param);
  const unknown = allowed.find((name) => !names.includes(name));
  if (unknown !== undefined) refuse(`Allowed function ${unknown} is not declared.`, param);
}

function callableOf(body: GenerateRequest): Pick<Question, "tools" | "calling"> {
  const { mode, allowedFunctionNames: allowed } = body.toolConfig?.functionCallingConfig ?? {};
  const declared = declarationsOf(body).filter(
    ({ name }) => !allowed || allowed.length === 0 || allowed.includes(name),
  );
  return {
    tools: declared.map(({ name, parameters, parametersJsonSchema }): Tool => {
      const schema = parametersJsonSchema ?? parameters ?? { type: "object", properties: {} };
      return { name, schema, takes: "json" };
    }),
    calling: mode === "NONE" ? "none" : mode === "ANY" ? "required" : "auto",
  };
}

function formatOf({ responseMimeType: type, responseSchema, responseJsonSchema }: Config): Question["format"] {
  const schema = responseJsonSchema ?? responseSchema ?? undefined;
  if (schema !== undefined) return { kind: "schema", schema, bare: type === "text/x.enum" };
  return type === "application/json" ? { kind: "json" } : { kind: "text" };
}

function effortOf({ thinkingConfig }: Config, model: string): string | undefined {
  const { thinkingBudget: budget = null, thinkingLevel: level = null } = thinkingConfig ?? {};
  if (budget === 0) return "none";
  if (level !== null && level !== "THINKING_LEVEL_UNSPECIFIED") return level.toLowerCase();
  if (budget !== null && budget > 0) return effortOfBudget(budget);
  return (thinkingConfig ?? undefined) !== undefined || model.startsWith(reasoningModel) ? "medium" : undefined;
}

/** An image of the requested aspect ratio, with about as many pixels as a square one. */
function sidesOf({ imageConfig }: Config): { width: number; height: number } {
  const [wide = 1, high = 1] = (imageConfig?.aspectRatio ?? "1:1").split(":").map(Number);
  const scale = Number.parseInt(imageConfig?.imageSize ?? "1K", 10) * imageSidePixels;
  const side = (proportion: number) => Math.round((scale * Math.sqrt(proportion)) / 16) * 16;
  return { width: side(wide / high), height: side(high / wide) };
}

/** Reads the last turn with content of the user, and the responses in it and after it. */
function spokenIn(turns: Turn[]): Pick<Question, "userText" | "images" | "documents" | "toolResults"> {
  const last = lastSpokenIn(turns);
  const spoken = turns[last]?.parts.map(({ part }) => part) ?? [];
  const responses = turns
    .slice(Math.max(0, last))
    .flatMap(({ parts }) => parts.flatMap(({ part }) => part.functionResponse ?? []));
  const shown: Media[] = [...spoken, ...responses.flatMap(({ parts }) => parts ?? [])];
  return {
    userText: textOf(spoken),
    images: shown.filter(isImage).map(describedOf),
    documents: shown.filter((media) => isMedia(media) && !isImage(media)).map(describedOf),
    toolResults: responses.map(({ name, response }) => {
      const failed = response.error !== undefined;
      const value = response.error ?? response.output ?? response.result ?? response;
      return { name, text: typeof value === "string" ? value : JSON.stringify(value), failed };
    }),
  };
}

type Media = Pick<Part, "inlineData" | "fileData">;

const isMedia = ({ inlineData, fileData }: Media) => inlineData !== undefined || fileData !== undefined;
const isImage = ({ inlineData, fileData }: Media) =>
  (inlineData?.mimeType ?? fileData?.mimeType ?? "").startsWith("image/");

const describedOf = ({ inlineData, fileData }: Media) =>
  inlineData === undefined
    ? describedAddress(fileData?.fileUri ?? "")
    : describedData(inlineData.mimeType, inlineData.data);

/** Thoughts are left out. */
export const textOf = (parts: Part[]) =>
  parts.map(({ text, thought }) => (thought === true ? "" : (text ?? ""))).join("");

function tokensIn({ contents, systemInstruction, tools }: GenerateRequest): ReturnType<typeof promptOf> {
  const toolTokens = tools && tools.length > 0 ? promptTokensOf(JSON.stringify(tools)) : 0;
  const start = (systemInstruction ? contentTokensOf(systemInstruction) : 0) + toolTokens;
  return promptOf(contents.map(contentTokensOf), start);
}

/** The tokens of a turn's parts. */
export function contentTokensOf({ parts }: Pick<Content, "parts">): number {
  const media = parts.flatMap((part): Media[] => [part, ...(part.functionResponse?.parts ?? [])]).filter(isMedia);
  const documents = media
    .filter((one) => !isImage(one))
    .reduce((sum, { inlineData }) => sum + promptTokensOf(inlineData?.data ?? ""), 0);
  const calls = parts
    .map(({ functionCall, functionResponse }) => JSON.stringify(functionCall ?? functionResponse?.response) ?? "")
    .join("");
  return (
    messageTokens +
    promptTokensOf(textOf(parts)) +
    promptTokensOf(calls) +
    imageTokens * media.filter(isImage).length +
    documents
  );
}
