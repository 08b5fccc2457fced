/** A caller of Gemini's native format. */
import { type Attachment, type Caller, eventsIn, nothing, type Observed, parsed } from "../ask.ts";

interface Part {
  text?: string;
  thought?: boolean;
  thoughtSignature?: string;
  functionCall?: { id?: string; name: string; args?: unknown };
}

interface Body {
  candidates?: { content?: { role?: string; parts?: Part[] }; finishReason?: string; index?: number }[];
  promptFeedback?: { blockReason?: string };
  usageMetadata?: {
    promptTokenCount: number;
    candidatesTokenCount?: number;
    thoughtsTokenCount?: number;
    cachedContentTokenCount?: number;
    totalTokenCount: number;
  };
  modelVersion?: string;
  error?: { code: number; message: string; status: string; details?: { fieldViolations?: { field: string }[] }[] };
}

const finishes: Record<string, Observed["finish"]> = {
  STOP: "stop",
  MAX_TOKENS: "length",
  SAFETY: "filtered",
  PROHIBITED_CONTENT: "filtered",
};

const partOf = ({ mimeType, data, url }: Attachment) =>
  url === undefined ? { inlineData: { mimeType, data } } : { fileData: { mimeType, fileUri: url } };

export const gemini: Caller = {
  requestOf(ask, model, streams) {
    const {
      system,
      turns,
      attachments = [],
      tools,
      toolChoice,
      outputTokensMax,
      stop,
      temperature,
      schema,
      effort,
    } = ask;
    const config = {
      ...(outputTokensMax && { maxOutputTokens: outputTokensMax }),
      ...(stop && { stopSequences: stop }),
      ...(temperature !== undefined && { temperature }),
      ...(schema && { responseMimeType: "application/json", responseJsonSchema: schema }),
      ...(effort && { thinkingConfig: { includeThoughts: true, thinkingLevel: effort.toUpperCase() } }),
    };
    const calling =
      toolChoice === undefined
        ? undefined
        : toolChoice === "none"
          ? { mode: "NONE" }
          : toolChoice === "required"
            ? { mode: "ANY" }
            : { mode: "ANY", allowedFunctionNames: [toolChoice.name] };
    return {
      path: `/v1beta/models/${model}:${streams ? "streamGenerateContent?alt=sse" : "generateContent"}`,
      body: {
        contents: turns.map(({ role, text }, place) => ({
          role: role === "assistant" ? "model" : "user",
          parts: [...(place === turns.length - 1 ? attachments.map(partOf) : []), { text }],
        })),
        ...(system !== undefined && { systemInstruction: { parts: [{ text: system }] } }),
        ...(Object.keys(config).length > 0 && { generationConfig: config }),
        ...(tools && {
          tools: [
            {
              functionDeclarations: tools.map(({ name, description, parameters }) => ({
                name,
                description,
                ...(parameters && { parametersJsonSchema: parameters }),
              })),
            },
          ],
        }),
        ...(calling && { toolConfig: { functionCallingConfig: calling } }),
      },
    };
  },
  readWhole(status, text) {
    const body = parsed<Body>(text);
    if (status !== 200) return { ...nothing(), error: errorOf(body, status) };
    return observed([body]);
  },
  readStream(text) {
    const faults: string[] = [];
    const events = eventsIn(text, faults);
    if (events.some(({ name }) => name !== undefined)) faults.push("an event with a name");
    // One command-line client breaks lines there.
    if (/[\u2028\u2029]/.test(text)) faults.push("a raw line separator");
    const bodies = events.map(({ data }) => parsed<Body>(data));
    const failed = bodies.find(({ error }) => error !== undefined);
    const answer = observed(bodies.filter(({ error }) => error === undefined));
    if (failed !== undefined)
      return {
        ...answer,
        faults: bodies.at(-1) === failed ? faults : [...faults, "events after an error"],
        error: errorOf(failed, undefined),
      };
    if (answer.finish === undefined) faults.push("no finish");
    return { ...answer, faults: [...faults, ...answer.faults] };
  },
  withResults(body, { replay, calls }, results) {
    const parts = calls.map(({ id, name }, place) => ({
      functionResponse: {
        ...(!id.startsWith("unnamed") && { id }),
        name,
        response: { [results[place]?.isError ? "error" : "result"]: results[place]?.text ?? "" },
      },
    }));
    return { ...body, contents: [...(body.contents as object[]), replay, { role: "user", parts }] };
  },
};

function observed(bodies: Body[]): Observed {
  const faults: string[] = [];
  const candidates = bodies.flatMap((body) => body.candidates ?? []);
  const parts = candidates.flatMap(({ content }) => content?.parts ?? []);
  // Only the last part may be empty: Google's own chats forget a turn with a chunk of which nothing
  // is left.
  if (parts.slice(0, -1).some(({ text, thoughtSignature }) => text === "" && thoughtSignature === undefined))
    faults.push("an empty text part");
  const calls = parts.flatMap(({ functionCall }, place) =>
    functionCall
      ? [{ id: functionCall.id ?? `unnamed${place}`, name: functionCall.name, input: functionCall.args ?? {} }]
      : [],
  );
  const reason = candidates.map(({ finishReason }) => finishReason).findLast((value) => value !== undefined);
  const blocked = bodies.some(({ promptFeedback }) => promptFeedback?.blockReason !== undefined);
  const finish = blocked ? "filtered" : reason === undefined ? undefined : finishes[reason];
  const usage = bodies.findLast(({ usageMetadata }) => usageMetadata !== undefined)?.usageMetadata;
  return {
    ...nothing(),
    text: parts.map(({ text, thought }) => (thought ? "" : (text ?? ""))).join(""),
    thinking: parts.map(({ text, thought }) => (thought ? (text ?? "") : "")).join(""),
    calls,
    finish: finish === "stop" && calls.length > 0 ? "calls" : finish,
    usage: usage && {
      input: usage.promptTokenCount,
      cached: usage.cachedContentTokenCount ?? 0,
      output: (usage.candidatesTokenCount ?? 0) + (usage.thoughtsTokenCount ?? 0),
      thinking: usage.thoughtsTokenCount ?? 0,
    },
    faults,
    replay: {
      role: "model",
      parts: parts.filter(
        ({ text, thought, thoughtSignature }) => !thought || (text === undefined && thoughtSignature !== undefined),
      ),
    },
  };
}

const errorOf = ({ error }: Body, status: number | undefined): Observed["error"] => ({
  status,
  message: error?.message ?? "",
  field: error?.details?.flatMap(({ fieldViolations = [] }) => fieldViolations)[0]?.field,
});
