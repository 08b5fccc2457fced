import assert from "node:assert/strict";
import { after, test } from "node:test";
import fc from "fast-check";
import type { Framing } from "#dialects/codec.ts";
import { gemini } from "#dialects/gemini/codec.ts";
import { countRequestSchema, generateRequestSchema } from "#dialects/gemini/schema.ts";
import { statefulFieldIn } from "#dialects/gemini/stateless.ts";
import { Refusal } from "#dialects/neutral/field-support.ts";
import type { Message, NeutralRequest, Settings, Tool } from "#dialects/neutral/neutral.ts";
import { textToolParameters } from "#dialects/neutral/tools.ts";
import { wrappedSignatureOf } from "#dialects/neutral/wrapped-signature.ts";
import { profiles } from "#dialects/profiles.ts";
import { targetOf } from "../../../support/target.ts";
import { refusalOf, schemaServer, wireOf as wireBodyOf, withoutPaths } from "../support.ts";

const server = schemaServer({ "/generate": generateRequestSchema, "/count": countRequestSchema });
after(() => server.close());

async function faultOf(body: object, url = "/generate"): Promise<string> {
  const { statusCode, payload } = await server.inject({ method: "POST", url, payload: body });
  return statusCode === 200 ? "taken" : String(JSON.parse(payload).message);
}

type Json = Record<string, unknown>;
const hello = [{ role: "user", parts: [{ text: "hello" }] }];
const png = "iVBORw0KGgo=";
const decoded = (body: Json): NeutralRequest =>
  gemini.decodeRequest({ body: { contents: hello, ...body }, framing: "sse" });
const target = targetOf("gemini", "gemini-3-flash", { outputTokensMax: 1_000 });
const wireOf = (request: NeutralRequest, model = target.model, framing: Framing = "whole") =>
  gemini.encodeRequest(request, framing, targetOf("gemini", model, { outputTokensMax: 1_000 }));
const encoded = (request: Partial<NeutralRequest>, model?: string): Json =>
  JSON.parse(
    wireOf(
      { system: [], messages: [userMessage("hello")], tools: [], settings: {}, ...request },
      model,
    ).body.toString(),
  );
const userMessage = (text: string): Message => ({
  role: "user",
  parts: [{ kind: "text", text, path: "m" }],
  path: "m",
});
const foreign = { dialect: "anthropic-messages", data: "c2lnbmF0dXJl" } as const;

/** All that has a place in the neutral form, as Google's clients write it. */
const whole: Json = {
  systemInstruction: { role: "user", parts: [{ text: "Be brief." }, { text: "Speak Dutch." }] },
  contents: [
    {
      role: "user",
      parts: [
        { text: "Look:" },
        { inlineData: { mimeType: "image/png", data: png }, mediaResolution: { level: "MEDIA_RESOLUTION_LOW" } },
        { fileData: { fileUri: "https://pictures.example/a", mimeType: "image/jpeg" } },
        { fileData: { fileUri: "https://documents.example/b.pdf" } },
        { inlineData: { mimeType: "application/pdf", data: png, displayName: "b.pdf" } },
        { inlineData: { mimeType: "text/markdown; charset=utf-8", data: "aGk=" } },
        { inlineData: { mimeType: "audio/mp3", data: png } },
      ],
    },
    {
      role: "model",
      parts: [
        { text: "Hm.", thought: true },
        { text: "Let me see.", thoughtSignature: "T0s=" },
        { functionCall: { name: "weather.now", args: { city: "Ghent" } }, thoughtSignature: "Q2FsbA==" },
        { functionCall: { id: "c2", name: "clock" } },
      ],
    },
    {
      role: "user",
      parts: [
        { functionResponse: { id: "c2", name: "clock", response: { error: "stopped" } } },
        {
          functionResponse: {
            name: "weather.now",
            response: { output: "Rain" },
            parts: [{ inlineData: { mimeType: "image/png", data: png } }],
          },
        },
      ],
    },
  ],
  tools: [
    {
      functionDeclarations: [
        {
          name: "weather.now",
          description: "Tells the weather.",
          parameters: { type: "OBJECT", properties: { city: { type: "STRING" } } },
        },
        { name: "clock", parametersJsonSchema: { type: "object" } },
      ],
    },
  ],
  toolConfig: { functionCallingConfig: { mode: "ANY", allowedFunctionNames: ["clock"] } },
  generationConfig: {
    temperature: 0.5,
    topP: 0.9,
    topK: 40,
    maxOutputTokens: 500,
    stopSequences: ["END"],
    seed: 7,
    presencePenalty: 0.1,
    frequencyPenalty: 0.2,
    candidateCount: 1,
    responseModalities: ["TEXT"],
    responseMimeType: "application/json",
    responseJsonSchema: { type: "OBJECT", properties: { a: { type: "STRING" } } },
    thinkingConfig: { includeThoughts: true, thinkingLevel: "LOW" },
  },
  safetySettings: [{ category: "HARM_CATEGORY_HARASSMENT", threshold: "BLOCK_NONE" }],
  labels: { a: "b" },
};

test("a request with every field decodes to the neutral form", async () => {
  assert.equal(await faultOf(whole), "taken");
  const { system, messages, tools, toolChoice, settings } = decoded(whole);
  assert.deepEqual(withoutPaths(system), [
    { kind: "text", text: "Be brief." },
    { kind: "text", text: "Speak Dutch." },
  ]);
  const [question, answered, results] = messages;
  assert.deepEqual(withoutPaths(question?.parts), [
    { kind: "text", text: "Look:" },
    { kind: "image", source: { kind: "data", mimeType: "image/png", data: png }, detail: "low" },
    { kind: "image", source: { kind: "url", url: "https://pictures.example/a" } },
    { kind: "file", source: { kind: "url", url: "https://documents.example/b.pdf" } },
    { kind: "file", source: { kind: "data", mimeType: "application/pdf", data: png }, name: "b.pdf" },
    { kind: "file", source: { kind: "data", mimeType: "text/plain", data: "aGk=" } },
    { kind: "audio", source: { kind: "data", mimeType: "audio/mp3", data: png } },
  ]);
  assert.deepEqual(withoutPaths(answered?.parts), [
    { kind: "reasoning", text: "Hm." },
    { kind: "text", text: "Let me see." },
    { kind: "reasoning", text: "", signature: { dialect: "gemini", data: "T0s=" } },
    { kind: "reasoning", text: "", signature: { dialect: "gemini", data: "Q2FsbA==" } },
    { kind: "call", id: "call_1_2", name: "weather_now", input: '{"city":"Ghent"}' },
    { kind: "call", id: "c2", name: "clock", input: "{}" },
  ]);
  assert.deepEqual(withoutPaths(results?.parts), [
    { kind: "result", callId: "c2", name: "clock", content: [{ kind: "text", text: "stopped" }], isError: true },
    {
      kind: "result",
      callId: "call_1_2",
      name: "weather_now",
      content: [
        { kind: "text", text: "Rain" },
        { kind: "image", source: { kind: "data", mimeType: "image/png", data: png } },
      ],
      isError: false,
    },
  ]);
  assert.deepEqual(withoutPaths(tools), [
    {
      callerName: "weather.now",
      description: "Tells the weather.",
      parameters: { type: "object", properties: { city: { type: "string" } } },
      name: "weather_now",
    },
    { callerName: "clock", parameters: { type: "object" }, name: "clock" },
  ]);
  assert.equal(tools[1]?.path, "tools[0].functionDeclarations[1]");
  assert.deepEqual(withoutPaths(toolChoice), { mode: "required", only: ["clock"] });
  assert.deepEqual(settings.topK, { value: 40, path: "generationConfig.topK" });
  assert.deepEqual(settings.format?.value, {
    kind: "schema",
    schema: { type: "object", properties: { a: { type: "string" } } },
  });
  assert.deepEqual(Object.keys(settings).sort(), [
    "effort",
    "format",
    "frequencyPenalty",
    "outputTokensMax",
    "presencePenalty",
    "seed",
    "stop",
    "temperature",
    "thinkingShown",
    "topK",
    "topP",
  ]);
});

test("decoding and encoding keeps a request, in both spellings and with single items in place of lists", async () => {
  const snaked = (value: unknown): unknown =>
    Array.isArray(value)
      ? value.map(snaked)
      : typeof value === "object" && value !== null
        ? Object.fromEntries(
            Object.entries(value).map(([name, inner]) => [
              name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
              snaked(inner),
            ]),
          )
        : value;
  const other = snaked(whole) as Json;
  assert.equal(await faultOf(other), "taken");
  assert.deepEqual(withoutPaths(decoded(other)), withoutPaths(decoded(whole)));
  const again = JSON.parse(wireOf(decoded(whole)).body.toString());
  assert.equal(await faultOf(again), "taken");
  const repeated = JSON.parse(wireOf(decoded(again)).body.toString());
  assert.deepEqual(repeated, again);
  const single = {
    contents: { parts: { text: "hi" } },
    system_instruction: { parts: { text: "s" } },
    tools: { function_declarations: { name: "f" } },
  };
  assert.equal(await faultOf(single), "taken");
  assert.deepEqual(encoded(decoded(single)), {
    contents: [{ role: "user", parts: [{ text: "hi" }] }],
    systemInstruction: { parts: [{ text: "s" }] },
    tools: [{ functionDeclarations: [{ name: "f" }] }],
  });
});

test("calls and responses without ids are matched by name and order, and the order of calls is kept", () => {
  const call = (n: number) => ({ functionCall: { name: "f", args: { n } } });
  const response = (n: number) => ({ functionResponse: { name: "f", response: { result: `r${n}` } } });
  const { messages } = decoded({
    contents: [
      ...hello,
      { role: "model", parts: [call(0)] },
      { role: "function", parts: [response(0)] },
      { role: "model", parts: [call(1)] },
      { role: "model", parts: [call(2)] },
      { role: "tool", parts: [response(1), response(2), { functionResponse: { name: "g", response: { a: 1 } } }] },
    ],
  });
  const ids = messages.flatMap(({ parts }) =>
    parts.flatMap((part) => (part.kind === "call" ? [part.id] : part.kind === "result" ? [part.callId] : [])),
  );
  assert.deepEqual(ids, ["call_1_0", "call_1_0", "call_3_0", "call_4_0", "call_3_0", "call_4_0", "call_5_2"]);
  const turn = messages.at(-1) as Message;
  turn.parts = [turn.parts[1] as Message["parts"][number], turn.parts[0] as Message["parts"][number]];
  const last = (encoded({ messages }).contents as { parts: { functionResponse: { response: unknown } }[] }[]).at(-1);
  assert.deepEqual(
    last?.parts.map(({ functionResponse }) => functionResponse.response),
    [{ result: "r1" }, { result: "r2" }],
  );
});

test("another model's reasoning, sent back on a call or a text, moves before the text that followed it", () => {
  const env = (text: string) => wrappedSignatureOf(foreign, text);
  const thought = (text: string) => ({ kind: "reasoning", text, signature: foreign });
  const cases: [Json[], unknown[]][] = [
    [
      [{ text: "a" }, { functionCall: { id: "1", name: "f" }, thoughtSignature: env("t") }],
      [thought("t"), { kind: "text", text: "a" }, { kind: "call", id: "1", name: "f", input: "{}" }],
    ],
    [
      [{ text: "a" }, { text: "b", thoughtSignature: env("t") }],
      [thought("t"), { kind: "text", text: "a" }, { kind: "text", text: "b" }],
    ],
    [
      [
        { text: "a" },
        { text: "", thoughtSignature: env("t") },
        { functionCall: { id: "1", name: "f" }, thoughtSignature: env("u") },
      ],
      [thought("t"), { kind: "text", text: "a" }, thought("u"), { kind: "call", id: "1", name: "f", input: "{}" }],
    ],
    [
      [{ text: "t", thought: true }, { text: "a" }, { text: "", thoughtSignature: env("t") }],
      [thought("t"), { kind: "text", text: "a" }],
    ],
    [
      [{ text: "t", thought: true, thoughtSignature: env("t") }, { text: "a" }],
      [thought("t"), { kind: "text", text: "a" }],
    ],
  ];
  for (const [parts, expected] of cases) {
    const { messages } = decoded({ contents: [...hello, ...parts.map((part) => ({ role: "model", parts: [part] }))] });
    assert.deepEqual(withoutPaths(messages[1]?.parts), expected);
    assert.equal(messages.length, 2, "contents of the model in a row are one turn");
  }
});

test("an image that the model generated stays in its turn, before its signature", () => {
  const { messages } = decoded({
    contents: [
      ...hello,
      {
        role: "model",
        parts: [{ text: "Here." }, { inlineData: { mimeType: "image/png", data: png }, thoughtSignature: "U2ln" }],
      },
    ],
  });
  assert.deepEqual(
    messages.map(({ role, parts }) => [role, ...parts.map(({ kind }) => kind)]),
    [
      ["user", "text"],
      ["assistant", "text", "image", "reasoning"],
    ],
  );
});

test("a field that the neutral form cannot express is rejected by name", () => {
  const user = (part: Json) => ({ contents: [{ role: "user", parts: [{ text: "x" }, part] }] });
  const model = (part: Json) => ({ contents: [...hello, { role: "model", parts: [part] }] });
  const config = (fields: Json) => ({ generationConfig: fields });
  const cases: [Json, string][] = [
    [user({ inlineData: { mimeType: "application/zip", data: png } }), "contents[0].parts[1].inlineData.mimeType"],
    [user({ inlineData: { mimeType: "image/png", data: "no base64!" } }), "contents[0].parts[1].inlineData.data"],
    [
      user({ fileData: { fileUri: "https://generativelanguage.googleapis.com/v1beta/files/abc" } }),
      "contents[0].parts[1].fileData.fileUri",
    ],
    [
      user({ fileData: { fileUri: "gs://bucket/a.png", mimeType: "image/png" } }),
      "contents[0].parts[1].fileData.fileUri",
    ],
    [
      user({ file_data: { file_uri: "ftp://a/b.png", mime_type: "image/png" } }),
      "contents[0].parts[1].fileData.fileUri",
    ],
    [user({ functionCall: { name: "f" } }), "contents[0].parts[1].functionCall"],
    [user({ somethingNew: {} }), "contents[0].parts[1].somethingNew"],
    [model({ somethingNew: {} }), "contents[1].parts[0].somethingNew"],
    [model({ functionResponse: { name: "f" } }), "contents[1].parts[0].functionResponse"],
    [model({ inlineData: { mimeType: "audio/wav", data: png } }), "contents[1].parts[0].inlineData"],
    [
      { systemInstruction: { parts: [{ inlineData: { mimeType: "image/png", data: png } }] } },
      "systemInstruction.parts[0]",
    ],
    [{ tools: [{ functionDeclarations: [{ name: "f" }] }, { fileSearch: {} }] }, "tools[1].fileSearch"],
    [{ tools: [{ mcp_servers: [{}] }] }, "tools[0].mcpServers"],
    [
      { toolConfig: { functionCallingConfig: { mode: "ANY", allowedFunctionNames: ["no"] } } },
      "toolConfig.functionCallingConfig.allowedFunctionNames",
    ],
    [{ toolConfig: { functionCallingConfig: { mode: "SOMETIMES" } } }, "toolConfig.functionCallingConfig.mode"],
    [config({ candidateCount: 2 }), "generationConfig.candidateCount"],
    [config({ responseModalities: ["AUDIO"] }), "generationConfig.responseModalities"],
    [config({ responseLogprobs: true }), "generationConfig.responseLogprobs"],
    [config({ speechConfig: { languageCode: "nl" } }), "generationConfig.speechConfig"],
    [config({ responseMimeType: "text/x.enum" }), "generationConfig.responseMimeType"],
    [config({ thinkingConfig: { thinkingLevel: "SOMEWHAT" } }), "generationConfig.thinkingConfig.thinkingLevel"],
    [{ cachedContent: "cachedContents/1" }, "cachedContent"],
    [
      { tools: [{ mcpServers: [] }], generationConfig: { logprobs: 0, speechConfig: {}, seed: null }, store: true },
      "taken",
    ],
  ];
  for (const [body, param] of cases)
    assert.equal(
      refusalOf(() => decoded(body)),
      param,
      JSON.stringify(body),
    );
});

test("calls of Google's own tools in earlier turns are left out, and the answers that they led to stay", () => {
  const parts = [
    { executableCode: { language: "PYTHON", code: "print(1)" }, thoughtSignature: "Q2FsbA==" },
    { codeExecutionResult: { outcome: "OUTCOME_OK", output: "1" } },
    { tool_call: { toolType: "GOOGLE_SEARCH_WEB", id: "s" } },
    { tool_response: { toolType: "GOOGLE_SEARCH_WEB", id: "s" } },
    { text: "It is 1." },
  ];
  const request = decoded({ contents: [...hello, { role: "model", parts }, ...hello] });
  for (const dialect of ["openai-chat", "anthropic-messages", "openai-responses"] as const)
    assert.deepEqual(JSON.stringify(wireBodyOf(request, dialect)).match(/"[^"]*1[^"]*"/g), ['"It is 1."'], dialect);
});

test("names of values count in any case", () => {
  const tools = [{ functionDeclarations: [{ name: "f" }] }];
  for (const [mode, expected] of [
    ["auto", "auto"],
    ["any", "required"],
    ["None", "none"],
    ["validated", "auto"],
    ["mode_unspecified", undefined],
  ])
    assert.equal(decoded({ tools, tool_config: { function_calling_config: { mode } } }).toolChoice?.mode, expected);
  const { messages } = decoded({
    contents: [{ parts: [{ inlineData: { mimeType: "image/png", data: png } }] }],
    generationConfig: { mediaResolution: "media_resolution_low" },
  });
  assert.match(JSON.stringify(messages), /"detail":"low"/);
});

test("numbers stand for the names of values, as Google's clients send them over REST", async () => {
  const written = (names: boolean) => {
    const value = (name: string, number: number) => (names ? name : number);
    const schema = {
      type: value("OBJECT", 6),
      properties: {
        a: { type: value("ARRAY", 5), items: { type: value("STRING", 1) } },
        b: { type: value("NUMBER", 2), nullable: true },
        c: { anyOf: [{ type: value("INTEGER", 3) }, { type: value("BOOLEAN", 4) }, { type: value("NULL", 7) }] },
        d: { type: value("TYPE_UNSPECIFIED", 0) },
      },
    };
    return {
      contents: [{ parts: [{ inline_data: { mime_type: "image/png", data: png } }] }],
      tools: [{ function_declarations: [{ name: "f", behavior: value("BLOCKING", 1), parameters: schema }] }],
      tool_config: { function_calling_config: { mode: value("ANY", 2) } },
      safety_settings: [{ category: value("HARM_CATEGORY_HARASSMENT", 7), threshold: value("BLOCK_NONE", 4) }],
      generation_config: {
        response_mime_type: "application/json",
        response_schema: schema,
        response_modalities: [value("TEXT", 1), value("IMAGE", 2)],
        media_resolution: value("MEDIA_RESOLUTION_LOW", 1),
      },
    };
  };
  assert.equal(await faultOf(written(false)), "taken");
  assert.deepEqual(decoded(written(false)), decoded(written(true)));
  for (const [number, mode] of ["auto", "auto", "required", "none", "auto"].entries()) {
    const { toolChoice } = decoded({ toolConfig: { functionCallingConfig: { mode: number } } });
    assert.equal(toolChoice?.mode, number === 0 ? undefined : mode);
  }
  const lengthOf = (responseModalities: unknown[]) =>
    profiles.gemini.requestedLengthOf({ generationConfig: { responseModalities } }).wantsMedia;
  assert.deepEqual([lengthOf([1]), lengthOf([2]), lengthOf([1, 3])], [false, true, true]);
});

test("references to a vendor's storage are found in every request", () => {
  assert.equal(statefulFieldIn({ cached_content: "cachedContents/1" })?.param, "cached_content");
  assert.equal(statefulFieldIn({ continuationToken: "x" })?.param, "continuationToken");
  assert.equal(
    statefulFieldIn({ generateContentRequest: { cachedContent: "c" } })?.param,
    "generateContentRequest.cachedContent",
  );
  assert.equal(statefulFieldIn({ cachedContent: "", continuationToken: null }), undefined);
});

test("Google's schemas become JSON Schema, and JSON Schema for Google loses vendor keywords", () => {
  const parameters = {
    type: "OBJECT",
    property_ordering: ["a"],
    properties: {
      any_of: { type: "STRING", nullable: true, format: "enum", enum: ["x", "y"], example: "x" },
      list: { type: "ARRAY", minItems: "1", max_items: "3", items: { type: "INTEGER", format: "int64", minimum: 0 } },
      count: { type: "INTEGER", format: "enum", enum: ["1", "2"] },
      rate: { type: "NUMBER", nullable: true, enum: ["0.5", "-1"] },
      code: { type: "STRING", enum: ["1"] },
      either: { any_of: [{ type: "NUMBER" }, { type: "TYPE_UNSPECIFIED", format: "date-time" }], nullable: true },
    },
    required: ["list"],
  };
  const [tool] = decoded({ tools: [{ function_declarations: [{ name: "f", parameters }] }] }).tools;
  assert.deepEqual(tool?.parameters, {
    type: "object",
    properties: {
      any_of: { type: ["string", "null"], enum: ["x", "y", null] },
      list: { type: "array", minItems: 1, maxItems: 3, items: { type: "integer", minimum: 0 } },
      count: { type: "integer", enum: [1, 2] },
      rate: { type: ["number", "null"], enum: [0.5, -1, null] },
      code: { type: "string", enum: ["1"] },
      either: { anyOf: [{ type: "number" }, { format: "date-time" }, { type: "null" }] },
    },
    required: ["list"],
  });
  const schema = {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    type: "object",
    "x-order": 1,
    properties: {
      encrypted: { type: "string", encrypted: true, const: { encrypted: 1 } },
      $schema: { $ref: "#/$defs/a" },
    },
    $defs: { a: { type: "string", private: true } },
    additionalProperties: false,
  };
  const { generationConfig } = encoded({ settings: { format: { value: { kind: "schema", schema }, path: "f" } } });
  assert.deepEqual((generationConfig as Json).responseJsonSchema, {
    type: "object",
    properties: {
      encrypted: { type: "string", description: '{const: {"encrypted":1}}' },
      $schema: { type: "string" },
    },
    additionalProperties: false,
  });
});

const tool = (name: string, more: Partial<Tool> = {}): Tool => ({ name, callerName: name, path: "t", ...more });

test("tools, tool choice and results are written in Google's format", () => {
  const tools = [
    tool("a", { description: "d", parameters: { type: "object" }, strict: true }),
    tool("b", { takesText: true }),
    tool("c"),
  ];
  const choices: [NeutralRequest["toolChoice"], Json | undefined, string[]][] = [
    [undefined, undefined, ["a", "b", "c"]],
    [{ mode: "auto", path: "p" }, { mode: "AUTO" }, ["a", "b", "c"]],
    [{ mode: "auto", only: ["b"], path: "p" }, { mode: "AUTO" }, ["b"]],
    [{ mode: "auto", only: [], path: "p" }, { mode: "NONE" }, ["a", "b", "c"]],
    [{ mode: "required", only: ["b"], path: "p" }, { mode: "ANY", allowedFunctionNames: ["b"] }, ["a", "b", "c"]],
    [{ mode: "none", only: ["b"], path: "p" }, { mode: "NONE" }, ["a", "b", "c"]],
  ];
  for (const [toolChoice, expected, names] of choices) {
    const body = encoded({ tools, ...(toolChoice !== undefined && { toolChoice }) });
    assert.deepEqual(body.toolConfig, expected && { functionCallingConfig: expected });
    const [{ functionDeclarations }] = body.tools as [{ functionDeclarations: Json[] }];
    assert.deepEqual(
      functionDeclarations.map(({ name }) => name),
      names,
    );
  }
  const [{ functionDeclarations }] = encoded({ tools }).tools as [{ functionDeclarations: Json[] }];
  assert.deepEqual(functionDeclarations, [
    { name: "a", description: "d", parametersJsonSchema: { type: "object", properties: {} } },
    {
      name: "b",
      parametersJsonSchema: textToolParameters,
    },
    { name: "c" },
  ]);
});

test("tool results are objects; their media is inside them or, for earlier models, after them", () => {
  const image = { kind: "image", source: { kind: "data", mimeType: "image/png", data: png }, path: "r" } as const;
  const result = (text: string, isError = false) => ({
    role: "user" as const,
    parts: [
      {
        kind: "result" as const,
        callId: "1",
        name: "a",
        content: [{ kind: "text" as const, text, path: "r" }, image],
        isError,
        path: "r",
      },
    ],
    path: "r",
  });
  const responseIn = (message: Message, model: string) =>
    (encoded({ messages: [userMessage("x"), message] }, model).contents as { parts: Json[] }[]).map(
      ({ parts }) => parts,
    );
  const inlineData = { mimeType: "image/png", data: png };
  const responded = (response: Json, more: Json = {}) => ({
    functionResponse: { id: "1", name: "a", response, ...more },
  });
  assert.deepEqual(
    responseIn(result("rain"), "gemini-3-pro"),
    // Google refuses a content with results and anything else.
    [[responded({ output: "rain" }, { parts: [{ inlineData }] })], [{ text: "x" }]],
  );
  assert.deepEqual(responseIn(result('{"a":[1]}'), "gemini-2.5-pro"), [
    [responded({ output: '{"a":[1]}' })],
    [{ inlineData }, { text: "x" }],
  ]);
  assert.deepEqual(responseIn(result("[1]", true), "gemini-2.5-pro")[0], [responded({ error: "[1]" })]);
  const lost: Message = {
    role: "user",
    parts: [{ kind: "result", callId: "1", name: "", content: [], isError: false, path: "r" }],
    path: "r",
  };
  assert.equal(
    refusalOf(() => encoded({ messages: [lost] })),
    "r",
  );
});

test("Google's own signatures go back on their parts; unsigned calls of the current turn get the documented bypass value", () => {
  const own = (data: string) => ({
    kind: "reasoning" as const,
    text: "hidden",
    signature: { dialect: "gemini" as const, data },
    path: "s",
  });
  const other = { kind: "reasoning" as const, text: "t", signature: foreign, path: "s" };
  const text = (value: string) => ({ kind: "text" as const, text: value, path: "s" });
  const call = (id: string, input = "{}") => ({ kind: "call" as const, id, name: "f", input, path: "s" });
  const result = (callId: string) => ({
    kind: "result" as const,
    callId,
    name: "f",
    content: [],
    isError: false,
    path: "s",
  });
  const called = (id: string, thoughtSignature?: string, args: Json = {}) => ({
    functionCall: { id, name: "f", args },
    ...(thoughtSignature !== undefined && { thoughtSignature }),
  });
  const turn = (...parts: Message["parts"]): Message => ({ role: "assistant", parts, path: "s" });
  const modelPartsOf = (model: string, ...messages: Message[]) =>
    (encoded({ messages }, model).contents as { role: string; parts: Json[] }[])
      .filter(({ role }) => role === "model")
      .map(({ parts }) => parts);

  assert.deepEqual(
    modelPartsOf(
      "gemini-3-pro",
      userMessage("x"),
      turn(own("A"), text("a"), own("B"), other, text("b"), own("C"), call("1", "no json"), call("2")),
    ),
    [
      [
        { text: "", thoughtSignature: "A" },
        { text: "a", thoughtSignature: "B" },
        { text: "b" },
        called("1", "C", { _raw: "no json" }),
        called("2"),
      ],
    ],
  );
  const bypass = "skip_thought_signature_validator";
  const conversation: Message[] = [
    userMessage("x"),
    turn(call("1")),
    { role: "user", parts: [result("1"), text("more")], path: "s" },
    turn(other, call("2", ""), call("3")),
    { role: "user", parts: [result("2"), result("3")], path: "s" },
    turn(call("4")),
  ];
  assert.deepEqual(modelPartsOf("gemini-3-pro", ...conversation), [
    [called("1")],
    [called("2", bypass), called("3")],
    [called("4", bypass)],
  ]);
  assert.deepEqual(modelPartsOf("gemini-2.5-pro", ...conversation), [
    [called("1")],
    [called("2"), called("3")],
    [called("4")],
  ]);
});

test("instructions in the middle are marked user text; alone, they become the user's message", () => {
  const system = (text: string): Message => ({ role: "system", parts: [{ kind: "text", text, path: "s" }], path: "s" });
  assert.deepEqual(
    encoded({ messages: [userMessage("a"), system("b")], system: [{ kind: "text", text: "c", path: "s" }] }),
    {
      contents: [{ role: "user", parts: [{ text: "a" }, { text: "<system>\nb\n</system>" }] }],
      systemInstruction: { parts: [{ text: "c" }] },
    },
  );
  assert.deepEqual(encoded({ messages: [], system: [{ kind: "text", text: "c", path: "s" }] }), {
    contents: [{ role: "user", parts: [{ text: "c" }] }],
  });
});

test("thinking is set by budget or level, depending on the model, and shown if the caller asked for an effort", () => {
  const effort = (value: NonNullable<Settings["effort"]>["value"]) => ({ effort: { value, path: "e" } });
  const shown = { thinkingShown: { value: true, path: "s" } };
  const cases: [string, Settings, Json | undefined][] = [
    ["gemini-3-flash", {}, undefined],
    ["gemini-3-flash", shown, { includeThoughts: true }],
    ["gemini-3-flash", { ...effort("none"), ...shown }, { thinkingLevel: "MINIMAL" }],
    [
      "gemini-3-flash",
      { ...effort("medium"), thinkingShown: { value: false, path: "s" } },
      { thinkingLevel: "MEDIUM" },
    ],
    ["gemini-3-flash", effort("medium"), { thinkingLevel: "MEDIUM", includeThoughts: true }],
    ["gemini-3-pro-preview", effort("medium"), { thinkingLevel: "HIGH", includeThoughts: true }],
    ["gemini-3.1-pro", effort("minimal"), { thinkingLevel: "LOW", includeThoughts: true }],
    ["some-model", { thinkingTokensMax: { value: 9_000, path: "b" } }, { thinkingLevel: "HIGH" }],
    ["gemini-2.5-flash", effort("none"), { thinkingBudget: 0 }],
    ["gemini-2.5-pro", effort("none"), { thinkingBudget: 128 }],
    ["gemini-2.5-flash", effort("max"), { thinkingBudget: 24_576, includeThoughts: true }],
    ["gemini-2.5-pro", effort("max"), { thinkingBudget: 32_768, includeThoughts: true }],
    ["gemini-2.5-flash-lite", { thinkingTokensMax: { value: 10, path: "b" } }, { thinkingBudget: 512 }],
    [
      "gemini-2.5-pro",
      { ...effort("high"), outputTokensMax: { value: 900, path: "o" } },
      { thinkingBudget: 899, includeThoughts: true },
    ],
  ];
  for (const [model, settings, expected] of cases) {
    const { generationConfig } = encoded({ settings }, model) as { generationConfig?: Json };
    assert.deepEqual(generationConfig?.thinkingConfig, expected, model);
  }
  const settingsOf = (thinkingConfig: Json) => withoutPaths(decoded({ generationConfig: { thinkingConfig } }).settings);
  assert.deepEqual(settingsOf({ thinkingBudget: -1 }), {});
  assert.deepEqual(settingsOf({ thinkingBudget: 0, includeThoughts: false }), {
    effort: { value: "none" },
    thinkingShown: { value: false },
  });
  assert.deepEqual(settingsOf({ thinkingBudget: 2_000 }), { thinkingTokensMax: { value: 2_000 } });
});

test("settings are bounded to the model's range", () => {
  const of = (value: number) => ({ value, path: "x" });
  const { generationConfig } = encoded({
    settings: { outputTokensMax: of(5_000), seed: of(2 ** 40 + 5), parallelCalls: { value: false, path: "p" } },
  });
  assert.deepEqual(generationConfig, { maxOutputTokens: 1_000, seed: 5 });
});

test("the model is in the path, and a stream is requested as server-sent events", () => {
  const cases: [string, Framing, string][] = [
    ["gemini-x", "whole", "/models/gemini-x:generateContent"],
    ["models/vendor/a b:c", "sse", "/models/vendor/a%20b%3Ac:streamGenerateContent?alt=sse"],
    ["tunedModels/mine", "array", "/tunedModels/mine:streamGenerateContent?alt=sse"],
    ["\ud800", "whole", "/models/%EF%BF%BD:generateContent"],
  ];
  for (const [model, framing, path] of cases) {
    assert.equal(wireOf(decoded({}), model, framing).path, path);
    assert.equal(
      gemini.verbatim.request(Buffer.from("{}"), framing, targetOf("gemini", model, { outputTokensMax: 1_000 }))?.path,
      path,
    );
  }
});

test("contents alone are counted in the plain form, other requests in the complete form", async () => {
  const { tokenCount } = gemini;
  assert.ok(tokenCount);
  const inner = { contents: hello, tools: [] };
  assert.equal(await faultOf({ contents: hello }, "/count"), "taken");
  assert.equal(await faultOf({ generate_content_request: inner }, "/count"), "taken");
  assert.match(await faultOf({}, "/count"), /'contents'/);
  assert.match(
    await faultOf({ generateContentRequest: {} }, "/count"),
    /generateContentRequest must have required property 'contents'/,
  );
  assert.equal(tokenCount.conversationOf({ generate_content_request: inner }), inner);
  const request = tokenCount.requestOf({ contents: hello, model: "models/mine" }, target);
  assert.equal(request.path, "/models/gemini-3-flash:countTokens");
  assert.deepEqual(JSON.parse(request.body.toString()), { contents: hello });
  assert.deepEqual(JSON.parse(tokenCount.requestOf(inner, target).body.toString()), {
    generateContentRequest: { ...inner, model: "models/gemini-3-flash" },
  });
  assert.equal(tokenCount.countIn({ totalTokens: 7 }), 7);
  assert.equal(tokenCount.countIn({ totalTokens: "7" }), undefined);
  assert.equal(tokenCount.answerOf(7), '{"totalTokens":7}');
});

test("instructions have any role, as Google's older libraries write them, and turns only those of Google's", async () => {
  const contents = [{ role: "user", parts: [{ text: "q" }] }];
  const taken = async (url: string, body: object) =>
    (await server.inject({ method: "POST", url, payload: body })).body === "taken";
  for (const role of ["system", "user", "model", "developer", "", null, undefined])
    for (const name of ["systemInstruction", "system_instruction"]) {
      const body = { contents, [name]: { role, parts: [{ text: "Be brief." }] } };
      assert.ok(await taken("/generate", body), `${name}: ${role}`);
      assert.ok(await taken("/count", { generateContentRequest: body }), `${name}: ${role}, counted`);
      assert.deepEqual(
        decoded(body).system.map(({ text }) => text),
        ["Be brief."],
      );
    }
  for (const role of ["system", "assistant", "developer"])
    assert.equal(await taken("/generate", { contents: [{ role, parts: [{ text: "q" }] }] }), false, role);
  for (const instruction of ["Be brief.", [{ text: "Be brief." }], { role: 1, parts: [] }, { role: "system" }])
    assert.equal(await taken("/generate", { contents, systemInstruction: instruction }), false);
});

test("every field of the wrong type, out of range, missing or contradictory is named", async () => {
  const user = (part: unknown) => ({ contents: [{ role: "user", parts: [part] }] });
  const config = (generationConfig: unknown) => ({ contents: hello, generationConfig });
  const cases: [object, RegExp][] = [
    [{}, /'contents'/],
    [{ contents: "hi" }, /body\/contents must be array,object/],
    [{ contents: [] }, /contents must NOT have fewer than 1 items/],
    [{ contents: [7] }, /contents\/0 must be object/],
    [{ contents: [{}] }, /contents\/0 must have required property 'parts'/],
    [{ contents: [{ role: "assistant", parts: [] }] }, /contents\/0\/role/],
    [user("hi"), /contents\/0\/parts\/0 must be object/],
    [user({ text: 7 }), /parts\/0\/text must be string/],
    [user({ inlineData: { data: "aa" } }), /inlineData must have required property 'mimeType'/],
    [user({ inline_data: { mime_type: "image/png" } }), /inline_data must have required property 'data'/],
    [user({ functionCall: { args: {} } }), /functionCall must have required property 'name'/],
    [user({ functionCall: { name: "f", args: "{}" } }), /functionCall\/args must be object,null/],
    [user({ functionResponse: { name: "f", response: "x" } }), /functionResponse\/response must be object,null/],
    [{ contents: hello, system_instruction: "s" }, /system_instruction must be object,null/],
    [
      { contents: hello, tools: [{ functionDeclarations: [{}] }] },
      /tools\/0\/functionDeclarations\/0 must have required property 'name'/,
    ],
    [{ contents: hello, tools: "x" }, /tools must be/],
    [
      { contents: hello, tools: [{ functionDeclarations: [{ name: "f", parameters: {}, parametersJsonSchema: {} }] }] },
      /functionDeclarations\/0\/parametersJsonSchema must be null/,
    ],
    [
      { contents: hello, toolConfig: { functionCallingConfig: { mode: 0.5 } } },
      /functionCallingConfig\/mode must be string/,
    ],
    [config({ temperature: 3 }), /generationConfig\/temperature must be <= 2/],
    [config({ topK: 0.5 }), /topK must be integer/],
    [config({ maxOutputTokens: "9" }), /maxOutputTokens must be integer/],
    [config({ stopSequences: ["1", "2", "3", "4", "5", "6"] }), /stopSequences must NOT have more than 5/],
    [config({ candidateCount: 9 }), /candidateCount must be <= 8/],
    [config({ thinkingConfig: { thinkingBudget: 1, thinkingLevel: "LOW" } }), /thinkingLevel must be null/],
    [config({ responseSchema: {}, responseJsonSchema: {} }), /responseJsonSchema must be null/],
    [config(null), /taken/],
  ];
  for (const [body, fault] of cases) assert.match(await faultOf(body), fault, JSON.stringify(body));
});

test("the format of an answer is read in Google's newer and older fields", () => {
  const schema = { type: "object", properties: { a_b: { type: "string" } } };
  const formatOf = (generationConfig: object) => decoded({ contents: hello, generationConfig }).settings.format?.value;
  const ofSchema = { kind: "schema", schema };
  const cases: [object, object | undefined][] = [
    [{ responseFormat: { text: { mimeType: "application/json", schema } } }, ofSchema],
    [{ response_format: { text: { mime_type: "APPLICATION_JSON", schema } } }, ofSchema],
    [{ responseFormat: { text: { schema }, image: {} } }, ofSchema],
    [{ responseFormat: { text: { mimeType: "APPLICATION_JSON" } } }, { kind: "json" }],
    [{ responseFormat: { text: { mimeType: "TEXT_PLAIN" } } }, undefined],
    [{ responseFormat: { text: {} } }, undefined],
    [{ responseMimeType: "application/json", _responseJsonSchema: schema }, ofSchema],
  ];
  for (const [config, expected] of cases) assert.deepEqual(formatOf(config), expected, JSON.stringify(config));
  for (const [responseFormat, field] of [
    [{ text: { mimeType: "text/x.enum", schema } }, "responseFormat.text.mimeType"],
    [{ text: { mimeType: "TEXT_PLAIN", schema } }, "responseFormat.text.mimeType"],
    [{ audio: { mimeType: "audio/wav" } }, "responseFormat"],
  ] as const)
    assert.equal(
      refusalOf(() => formatOf({ responseFormat })),
      `generationConfig.${field}`,
    );
});

test("a request that the schema accepts decodes or throws only Refusal", async () => {
  const value = fc.jsonValue({ maxDepth: 3 });
  const media = fc.record({
    mimeType: fc.constantFrom("image/png", "text/plain", "video/mp4"),
    data: fc.constantFrom("aGk=", "!"),
  });
  const part = fc.oneof(
    fc.record(
      {
        text: fc.string(),
        thought: fc.boolean(),
        thoughtSignature: fc.constantFrom(
          "x",
          wrappedSignatureOf(foreign, "t"),
          wrappedSignatureOf(foreign).slice(0, 30),
        ),
      },
      { requiredKeys: [] },
    ),
    fc.record({ inlineData: media }),
    fc.record({
      functionCall: fc.record({ name: fc.constantFrom("f", "g.h"), args: fc.dictionary(fc.string(), value) }),
    }),
    fc.record({
      functionResponse: fc.record({ name: fc.constantFrom("f", "g.h"), response: fc.dictionary(fc.string(), value) }),
    }),
    fc.dictionary(fc.string(), value),
  );
  const content = fc.record({
    role: fc.constantFrom("user", "model", "function", ""),
    parts: fc.array(part, { maxLength: 4 }),
  });
  const schema = fc.dictionary(
    fc.constantFrom("type", "any_of", "properties", "nullable", "enum", "items", "minItems", "__proto__"),
    value,
  );
  const request = fc.record({
    contents: fc.array(content, { minLength: 1, maxLength: 4 }),
    tools: fc.array(
      fc.record({
        functionDeclarations: fc.array(fc.record({ name: fc.constantFrom("f", "g.h"), parameters: schema })),
      }),
    ),
    generationConfig: fc.record({
      responseSchema: schema,
      responseMimeType: fc.constantFrom("application/json", "text/plain"),
    }),
  });
  fc.assert(
    fc.property(request, (body) => {
      try {
        wireOf(decoded(JSON.parse(JSON.stringify(body))));
      } catch (error) {
        assert.ok(error instanceof Refusal, String(error));
      }
    }),
  );
});
