/** https://ai.google.dev/api/generate-content */
import {
  type DialectModule,
  dataUrlParts,
  type Effort,
  inputOf,
  nativeOf,
  type Settings,
  type Turn,
} from "./conversation.ts";

interface Part {
  text?: string;
  thought?: boolean;
  thoughtSignature?: string;
  functionCall?: { id?: string; name?: string; args?: unknown };
}

interface Chunk {
  candidates?: { content?: { parts?: Part[] }; finishReason?: string }[];
  promptFeedback?: { blockReason?: string };
  usageMetadata?: {
    promptTokenCount?: number;
    cachedContentTokenCount?: number;
    candidatesTokenCount?: number;
    thoughtsTokenCount?: number;
  };
  error?: { message?: string };
}

const budgets = { none: 0, minimal: 512, low: 1_024, medium: 8_192, high: 24_576 } as const;
/** Models whose thinking has a budget of tokens; later ones take a level. */
const hasBudget = /gemini-2/;

function contentOf(turn: Turn): unknown {
  switch (turn.role) {
    case "user":
      return {
        role: "user",
        parts: [
          ...turn.images.map((url) => {
            const { type, data } = dataUrlParts(url);
            return { inlineData: { mimeType: type, data } };
          }),
          ...(turn.text === "" && turn.images.length > 0 ? [] : [{ text: turn.text }]),
        ],
      };
    case "assistant":
      return {
        role: "model",
        parts: nativeOf(turn, "gemini") ?? [
          ...(turn.text === "" ? [] : [{ text: turn.text }]),
          ...turn.calls.map((call) => ({ functionCall: { id: call.id, name: call.name, args: inputOf(call) } })),
        ],
      };
    case "tool":
      return {
        role: "user",
        parts: turn.results.map(({ call, text }) => ({
          functionResponse: { id: call.id, name: call.name, response: { output: text } },
        })),
      };
  }
}

const thinkingOf = (model: string, effort: Effort) =>
  hasBudget.test(model) || effort === "none"
    ? { thinkingBudget: budgets[effort], ...(effort !== "none" && { includeThoughts: true }) }
    : { thinkingLevel: effort.toUpperCase(), includeThoughts: true };

const modes = { auto: "AUTO", none: "NONE", required: "ANY" };
const callingOf = (choice: NonNullable<Settings["toolChoice"]>) =>
  typeof choice === "object" ? { mode: "ANY", allowedFunctionNames: [choice.tool] } : { mode: modes[choice] };

function bodyOf(turns: readonly Turn[], settings: Settings) {
  const generation = {
    maxOutputTokens: settings.maxTokens,
    temperature: settings.temperature,
    ...(settings.effort !== undefined && { thinkingConfig: thinkingOf(settings.model, settings.effort) }),
    ...(settings.schema !== undefined && {
      responseMimeType: "application/json",
      responseJsonSchema: settings.schema,
    }),
  };
  return {
    contents: turns.map((turn) => contentOf(turn)),
    ...(settings.system && { systemInstruction: { parts: [{ text: settings.system }] } }),
    ...(settings.tools?.length && {
      tools: [
        {
          functionDeclarations: settings.tools.map(({ name, description, parameters }) => ({
            name,
            description,
            parametersJsonSchema: parameters,
          })),
        },
      ],
      ...(settings.toolChoice !== undefined && {
        toolConfig: { functionCallingConfig: callingOf(settings.toolChoice) },
      }),
    }),
    ...(Object.keys(generation).length > 0 && { generationConfig: generation }),
  };
}

export const gemini: DialectModule = {
  requestOf: (turns, settings) => ({
    path: `/v1beta/models/${encodeURIComponent(settings.model)}:streamGenerateContent?alt=sse`,
    body: bodyOf(turns, settings),
    model: settings.model,
  }),
  reader: (answer) => {
    const { turn } = answer;
    const parts: Part[] = [];
    return (event) => {
      const { candidates, promptFeedback, usageMetadata: usage, error } = event as Chunk;
      if (error) answer.error = error.message ?? "error";
      const [candidate] = candidates ?? [];
      for (const part of candidate?.content?.parts ?? []) {
        if (part.thought) turn.reasoning += part.text ?? "";
        else turn.text += part.text ?? "";
        if (part.functionCall) {
          const { id, name = "", args = {} } = part.functionCall;
          turn.calls.push({ id: id ?? `call_${turn.calls.length}`, name, input: JSON.stringify(args) });
        }
        keep(parts, part);
        turn.native = { dialect: "gemini", content: parts };
      }
      answer.finish = candidate?.finishReason ?? promptFeedback?.blockReason ?? answer.finish;
      if (usage)
        answer.usage = {
          input: usage.promptTokenCount ?? 0,
          cached: usage.cachedContentTokenCount ?? 0,
          output: (usage.candidatesTokenCount ?? 0) + (usage.thoughtsTokenCount ?? 0),
          reasoning: usage.thoughtsTokenCount ?? 0,
        };
    };
  },
};

/** Joins texts that follow each other; a part with a signature stays as it is. */
function keep(parts: Part[], part: Part): void {
  const last = parts.at(-1);
  const isPlain = ({ text, thoughtSignature }: Part) => text !== undefined && thoughtSignature === undefined;
  if (part.text === "" && part.thoughtSignature === undefined) return;
  if (last && isPlain(last) && isPlain(part) && last.thought === part.thought) last.text += part.text ?? "";
  else parts.push({ ...part });
}
