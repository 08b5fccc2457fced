/** Rich requests of Google's methods that generate and count. */
import { modelOf } from "../../clients/support.ts";
import { png } from "../../support/png.ts";
import { type Body, modelsFor, pdf, type RichRequest, schema } from "./rich-request.ts";

const googleSchema = { type: "OBJECT", properties: { city: { type: "STRING", maxLength: "40" } }, required: ["city"] };

const googleBody = (): Body => ({
  contents: [
    {
      role: "user",
      parts: [
        { text: "What is this?" },
        {
          inlineData: { mimeType: "image/png", data: png.toString("base64"), displayName: "a.png" },
          mediaResolution: { level: "MEDIA_RESOLUTION_LOW" },
        },
        { inlineData: { mimeType: "application/pdf", data: pdf } },
      ],
    },
    {
      role: "model",
      parts: [
        { text: "Look it up.", thought: true },
        {
          functionCall: { id: "call_1", name: "get_weather", args: { city: "Paris" } },
          thoughtSignature: "skip_thought_signature_validator",
        },
      ],
    },
    {
      role: "user",
      parts: [{ functionResponse: { id: "call_1", name: "get_weather", response: { result: "Sunny" } } }],
    },
    { role: "model", parts: [{ text: "Sunny." }] },
    { role: "user", parts: [{ text: "Thanks" }] },
  ],
  systemInstruction: { role: "user", parts: [{ text: "Be brief." }] },
  tools: [
    {
      functionDeclarations: [
        { name: "get_weather", description: "Says the weather.", parameters: googleSchema, behavior: "BLOCKING" },
        { name: "get_time", description: "Says the time.", parametersJsonSchema: schema, responseJsonSchema: schema },
      ],
    },
  ],
  toolConfig: { functionCallingConfig: { mode: "VALIDATED", allowedFunctionNames: ["get_weather"] } },
  safetySettings: [{ category: "HARM_CATEGORY_HARASSMENT", threshold: "BLOCK_NONE" }],
  serviceTier: "standard",
  store: false,
  labels: { team: "a" },
  generationConfig: {
    temperature: 0.5,
    topP: 0.9,
    topK: 40,
    candidateCount: 1,
    maxOutputTokens: 100,
    stopSequences: ["END"],
    seed: 7,
    presencePenalty: 0.5,
    frequencyPenalty: 0.5,
    responseLogprobs: false,
    logprobs: 0,
    responseMimeType: "application/json",
    responseSchema: googleSchema,
    responseModalities: ["TEXT"],
    mediaResolution: "MEDIA_RESOLUTION_LOW",
    thinkingConfig: { includeThoughts: true, thinkingLevel: "LOW" },
  },
});

const penalties = ["generationConfig.presencePenalty", "generationConfig.frequencyPenalty"];
const without = {
  [modelOf("openai-responses")]: ["generationConfig.stopSequences", ...penalties],
  [modelOf("anthropic-messages")]: penalties,
};

export const generateContent: RichRequest = {
  dialect: "gemini",
  pathOf: (model) => `/v1beta/models/${model}:generateContent`,
  models: modelsFor("gemini"),
  without,
  opaque: /(^|\.)(args|response|labels|parameters|parametersJsonSchema|responseJsonSchema|responseSchema)\b./,
  alsoGood:
    /(mediaResolution string|safetySettings object|systemInstruction\.parts object|parametersJsonSchema boolean|responseJsonSchema \w+)$/,
  bodyOf: googleBody,
  outOfRange: [
    ["contents", []],
    ["contents[0].role", "robot"],
    ["contents[0].parts[1].inlineData.mimeType", ""],
    ["contents[0].parts[1].inlineData.data", ""],
    ["tools[0].functionDeclarations[0].name", ""],
    ["tools[0].functionDeclarations[0].parametersJsonSchema", { type: "object" }],
    ["generationConfig.temperature", 2.1, -0.1],
    ["generationConfig.topP", 1.1, -0.1],
    ["generationConfig.topK", 0, 1.5],
    ["generationConfig.candidateCount", 0, 9, 1.5],
    ["generationConfig.maxOutputTokens", 0, 1.5, 1e12],
    ["generationConfig.stopSequences", ["1", "2", "3", "4", "5", "6"], [""]],
    ["generationConfig.seed", 1e12, 1.5],
    ["generationConfig.presencePenalty", 2.1, -2.1],
    ["generationConfig.frequencyPenalty", 2.1, -2.1],
    ["generationConfig.logprobs", 21, -1],
    ["generationConfig.responseJsonSchema", { type: "object" }],
    ["generationConfig.thinkingConfig", { thinkingBudget: -2 }, { thinkingBudget: 1, thinkingLevel: "LOW" }],
    ["cachedContent", "cachedContents/x"],
    ["continuationToken", "x"],
  ],
  unsuitable: [
    ["contents[0].parts[0]", { text: "x", inlineData: { mimeType: "image/png", data: "aaaa" } }],
    ["contents[0].parts[1].inlineData.data", "@@@"],
    ["contents[0].parts[1].inlineData.mimeType", "nonsense"],
    ["contents[0].parts[1]", { fileData: { fileUri: "ftp://x/y" } }, { fileData: { fileUri: "files/abc" } }],
    ["systemInstruction.parts[0]", { inlineData: { mimeType: "image/png", data: "aaaa" } }],
    ["tools[0].fileSearch", {}],
    ["toolConfig.functionCallingConfig.mode", "SOMETIMES", "AUTO"],
    ["toolConfig.functionCallingConfig.allowedFunctionNames", ["nobody"]],
    ["generationConfig.candidateCount", 2],
    ["generationConfig.responseMimeType", "text/html", "text/plain"],
    ["generationConfig.responseModalities", ["SMELL"]],
    ["generationConfig.thinkingConfig", { thinkingLevel: "ULTRA" }],
  ],
};

export const streamGenerateContent: RichRequest = {
  ...generateContent,
  pathOf: (model) => `/v1/models/${model}:streamGenerateContent?alt=sse`,
  models: generateContent.models.slice(0, 2),
};

const within = "generateContentRequest";
const inside = (values: NonNullable<RichRequest["unsuitable"]>) =>
  values.map(([path, ...others]) => [`${within}.${path}`, ...others] as const);

export const countContent: RichRequest = {
  ...generateContent,
  pathOf: (model) => `/v1beta/models/${model}:countTokens`,
  models: generateContent.models.slice(0, 2),
  bodyOf: () => ({ [within]: googleBody() }),
  without: Object.fromEntries(
    Object.entries(without).map(([model, paths]) => [model, paths.map((path) => `${within}.${path}`)]),
  ),
  outOfRange: inside(generateContent.outOfRange),
  unsuitable: inside(generateContent.unsuitable ?? []),
};
