/** Gemini as the official client sees it. */
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import {
  ApiError,
  type Content,
  type FunctionCall,
  FunctionCallingConfigMode,
  type FunctionDeclaration,
  type GenerateContentConfig,
  type GenerateContentResponse,
  GoogleGenAI,
  type Part,
  ThinkingLevel,
  Type,
} from "@google/genai";
import type { SimulatorOptions } from "../../../apps/simulator/server.ts";
import { ask, startSimulator } from "../support.ts";

const weather: FunctionDeclaration = {
  name: "get_weather",
  parameters: { type: Type.OBJECT, properties: { city: { type: Type.STRING } }, required: ["city"] },
};
const noArguments: FunctionDeclaration = { name: "list_all" };
const tools = [{ functionDeclarations: [weather, noArguments] }];
const thinking = { thinkingConfig: { includeThoughts: true, thinkingLevel: ThinkingLevel.LOW } };
const png = Buffer.alloc(70).toString("base64");

async function start(t: TestContext, options: SimulatorOptions = {}) {
  const { url } = await startSimulator(t, options);
  const client = new GoogleGenAI({ apiKey: options.key ?? "sk-test-0000", httpOptions: { baseUrl: url } });
  const post = (body: unknown, target = "sim-text:generateContent", version = "v1beta") =>
    ask({ url, path: `/${version}/models/${target}`, body });
  const generate = (contents: string | Content[], config: GenerateContentConfig = {}, model = "sim-text") =>
    client.models.generateContent({ model, contents, config });
  const stream = async (contents: string | Content[], config: GenerateContentConfig = {}, model = "sim-text") => {
    const chunks: GenerateContentResponse[] = [];
    for await (const chunk of await client.models.generateContentStream({ model, contents, config }))
      chunks.push(chunk);
    return chunks;
  };
  return { url, client, post, generate, stream };
}

const user = (...parts: Part[]): Content => ({ role: "user", parts });
const partsIn = (answers: GenerateContentResponse[], index = 0): Part[] =>
  answers.flatMap(({ candidates }) => candidates?.filter((one) => one.index === index)[0]?.content?.parts ?? []);

/** Neighbours of text are joined, ids and what only proves are left out. */
function saidIn(answers: GenerateContentResponse[]): unknown[] {
  const contents: unknown[] = [];
  for (const { text, thought, functionCall, inlineData } of partsIn(answers)) {
    const last = contents.at(-1);
    const kind = thought ? "thought" : "text";
    if (text === "") continue;
    if (text !== undefined && Array.isArray(last) && last[0] === kind) last[1] += text;
    else
      contents.push(
        text !== undefined
          ? [kind, text]
          : [functionCall?.name ?? inlineData?.mimeType, functionCall?.args ?? inlineData?.data],
      );
  }
  return contents;
}

test("an answer repeats what the user said and counts its tokens", async (t) => {
  const { generate } = await start(t);
  const answer = await generate("Good morning", { systemInstruction: "Be short." });
  assert.match(answer.text ?? "", /^You said: Good morning/);
  assert.deepEqual([answer.candidates?.[0]?.finishReason, answer.modelVersion], ["STOP", "sim-text"]);
  const {
    promptTokenCount: prompt = 0,
    candidatesTokenCount: shown = 0,
    totalTokenCount: total,
  } = answer.usageMetadata ?? {};
  assert.ok(
    prompt > ((await generate("Good morning")).usageMetadata?.promptTokenCount ?? 0) &&
      shown > 0 &&
      total === prompt + shown,
  );
});

test("a stream has the same content as the whole answer", async (t) => {
  const { generate, stream } = await start(t);
  const cases: [name: string, contents: string, config: GenerateContentConfig, model: string, kinds: string[]][] = [
    ["text", "Grüße, 😀 and\n two lines", {}, "sim-text", ["text"]],
    ["thoughts", "x", thinking, "sim-text", ["thought", "text"]],
    ["thoughts that are not shown", "x", {}, "sim-reasoning", ["text"]],
    [
      "parallel calls",
      "list_all and get_weather",
      { tools, ...thinking },
      "sim-text",
      ["thought", "list_all", "get_weather"],
    ],
    ["a call that is cut off", "get_weather", { tools, maxOutputTokens: 1 }, "sim-text", []],
    ["text and image", "x", {}, "sim-image", ["text", "image/png"]],
    ["nothing", "x", {}, "sim-text;tokens=0", []],
    ["only thoughts", "x", { maxOutputTokens: 2 }, "sim-reasoning", []],
    ["a refusal", "x", {}, "sim-text;filter=2", ["text"]],
  ];
  for (const [name, contents, config, model, kinds] of cases) {
    const whole = await generate(contents, config, model);
    const chunks = await stream(contents, config, model);
    assert.deepEqual(saidIn(chunks), saidIn([whole]), name);
    assert.deepEqual(
      saidIn(chunks).map((entry) => Array.isArray(entry) && entry[0]),
      kinds,
      name,
    );
    const last = chunks.at(-1);
    assert.deepEqual(
      [last?.candidates?.[0]?.finishReason, last?.usageMetadata],
      [whole.candidates?.[0]?.finishReason, whole.usageMetadata],
      name,
    );
    const totals = chunks.map(({ usageMetadata }) => usageMetadata?.totalTokenCount ?? 0);
    assert.deepEqual(
      totals,
      totals.toSorted((one, other) => one - other),
      name,
    );
    assert.ok(
      chunks.slice(0, -1).every(({ candidates }) => candidates?.[0]?.finishReason === undefined),
      name,
    );
    if (kinds.length === 0)
      assert.deepEqual(
        [whole.candidates?.[0]?.content, last?.candidates?.[0]?.content],
        [{ role: "model" }, { role: "model" }],
        name,
      );
  }
});

test("a stream has neither event names nor a terminator, or is one growing array", async (t) => {
  const { post } = await start(t);
  const body = { contents: [user({ text: "x" })], generationConfig: { candidateCount: 2 } };
  const events = await post(body, "sim-text:streamGenerateContent?alt=sse", "v1");
  assert.match(events.text, /^(data: \{.+\}\n\n)+$/);
  const array = await post(body, "sim-text:streamGenerateContent");
  assert.equal(array.headers["content-type"], "application/json; charset=UTF-8");
  const chunks: GenerateContentResponse[] = JSON.parse(array.text);
  const sent = events.events.map((event) => JSON.parse(event));
  assert.deepEqual(sent, chunks);
  const texts = [0, 1].map((index) =>
    partsIn(chunks, index)
      .map(({ text }) => text)
      .join(""),
  );
  assert.ok(texts[0]?.startsWith("You said") && texts[1]?.startsWith("Answer 2."));
  const failed = JSON.parse((await post(body, "sim-text;error=0:streamGenerateContent")).text);
  assert.deepEqual([failed.length, failed[0].error.status], [1, "INTERNAL"]);
});

test("the finish reason is reported, a prompt may be blocked, and usage withheld", async (t) => {
  const { generate, stream, post } = await start(t);
  const endOf = async (contents: string, config: GenerateContentConfig, model?: string) =>
    (await generate(contents, config, model)).candidates?.[0]?.finishReason;
  assert.equal(await endOf("one STOP two", { stopSequences: ["STOP"] }), "STOP");
  assert.equal((await generate("one STOP two", { stopSequences: ["STOP"] })).text, "You said: one ");
  assert.equal(await endOf("x", { maxOutputTokens: 3 }), "MAX_TOKENS");
  assert.equal(await endOf("x", {}, "sim-text;filter=3"), "SAFETY");
  for (const answer of [await generate("x", {}, "sim-text;filter=0"), ...(await stream("x", {}, "sim-text;filter=0"))])
    assert.deepEqual([answer.promptFeedback?.blockReason, answer.candidates], ["SAFETY", undefined]);
  const silent = await post({ contents: [user({ text: "x" })] }, "sim-text;usage=never:streamGenerateContent?alt=sse");
  assert.doesNotMatch(silent.text, /usageMetadata/);
  assert.equal((await generate("x", {}, "sim-text;cached=3")).usageMetadata?.cachedContentTokenCount, 3);
});

test("a function is called according to the mode", async (t) => {
  const { generate } = await start(t);
  const namesOf = async (contents: string, mode?: FunctionCallingConfigMode, allowedFunctionNames?: string[]) => {
    const functionCallingConfig = { ...(mode && { mode }), ...(allowedFunctionNames && { allowedFunctionNames }) };
    const answer = await generate(contents, { tools, toolConfig: { functionCallingConfig } });
    assert.equal(answer.candidates?.[0]?.finishReason, "STOP");
    return (answer.functionCalls ?? []).map(({ name }) => name);
  };
  assert.deepEqual(await namesOf("Good morning"), []);
  assert.deepEqual(await namesOf("Good morning", FunctionCallingConfigMode.ANY), ["get_weather"]);
  assert.deepEqual(await namesOf("Good morning", FunctionCallingConfigMode.ANY, ["list_all"]), ["list_all"]);
  assert.deepEqual(await namesOf("list_all", FunctionCallingConfigMode.NONE), []);
  assert.deepEqual(await namesOf("list_all, then get_weather"), ["list_all", "get_weather"]);
});

test("a single item may stand for a list, and a number for the name of a value", async (t) => {
  const { post } = await start(t);
  const parameters = { type: 6, properties: { city: { type: 1 } } };
  const body = {
    contents: { parts: { text: "Good morning" } },
    system_instruction: { parts: { text: "Be brief." } },
    tools: { function_declarations: { name: "get_weather", parameters } },
    tool_config: { function_calling_config: { mode: 2 } },
    generation_config: { response_modalities: [1] },
  };
  assert.match((await post(body)).text, /"functionCall":\{[^}]*"get_weather"/);
  for (const type of [0, 8, "TEXT"])
    assert.match(
      (await post({ ...body, tools: [{ functionDeclarations: [{ name: "f", parameters: { type } }] }] })).text,
      /Invalid value/,
    );
  assert.match((await post({ content: { parts: { text: "a" } } }, "sim-text:embedContent")).text, /"values"/);
});

const answered = (calls: FunctionCall[], response: Record<string, unknown>): Content =>
  user(
    ...calls.map(({ id, name = "" }) => ({ functionResponse: { ...(id !== undefined && { id }), name, response } })),
  );

test("a loop of calls with thought signatures completes, streamed and whole", async (t) => {
  const { client } = await start(t);
  for (const model of ["sim-text", "sim-reasoning"]) {
    const chat = client.chats.create({ model, config: { tools } });
    const message = 'list_all and get_weather for "Oslo"';
    const calls: FunctionCall[] = [];
    if (model === "sim-text") calls.push(...((await chat.sendMessage({ message })).functionCalls ?? []));
    else
      for await (const chunk of await chat.sendMessageStream({ message })) calls.push(...(chunk.functionCalls ?? []));
    assert.deepEqual(
      calls.map(({ id, name, args }) => [name, args, id !== undefined]),
      [
        ["list_all", {}, model === "sim-reasoning"],
        ["get_weather", { city: "Oslo" }, model === "sim-reasoning"],
      ],
    );
    const proofs = chat
      .getHistory()
      .flatMap(({ parts }) =>
        (parts ?? []).flatMap(({ functionCall, thoughtSignature }) =>
          functionCall ? [thoughtSignature !== undefined] : [],
        ),
      );
    assert.deepEqual(proofs, [model === "sim-reasoning", false]);
    const last = await chat.sendMessage({ message: answered(calls, { output: "7 degrees" }).parts ?? [] });
    assert.match(last.text ?? "", /^The tool list_all returned: 7 degrees\nThe tool get_weather returned: 7 degrees/);
    assert.match((await chat.sendMessage({ message: "Good morning" })).text ?? "", /^You said: Good morning/);
  }
});

test("images and documents are acknowledged and counted, also in responses", async (t) => {
  const { generate } = await start(t);
  const image = { inlineData: { mimeType: "image/png", data: png } };
  const linked = { fileData: { fileUri: "https://example.com/a.pdf", mimeType: "application/pdf" } };
  const shown = await generate([user({ text: "What?" }, image, linked)]);
  assert.match(
    shown.text ?? "",
    /I see 1 image \(image\/png, 70 bytes\)\.\nI read 1 document \(at https:\/\/example.com\/a.pdf\)/,
  );
  assert.ok((shown.usageMetadata?.promptTokenCount ?? 0) > 85);
  const call = { name: "paint", args: {} };
  const response = { functionResponse: { name: "paint", response: { error: "half" }, parts: [image] } };
  const result = await generate([
    user({ text: "paint" }),
    { role: "model", parts: [{ functionCall: call }] },
    user(response),
  ]);
  assert.match(result.text ?? "", /^The tool paint failed: half\nI see 1 image/);
});

test("a JSON answer matches schemas of both kinds, and an enum is bare", async (t) => {
  const { generate } = await start(t);
  const person = {
    type: "object",
    properties: { name: { type: "string" }, age: { type: "integer", minimum: 18 } },
    required: ["name", "age"],
  };
  const capital = {
    type: Type.OBJECT,
    properties: { tags: { type: Type.ARRAY, items: { type: Type.STRING }, minItems: "2" } },
  };
  const json = { responseMimeType: "application/json" };
  assert.deepEqual(Object.keys(JSON.parse((await generate("x", { ...json, responseJsonSchema: person })).text ?? "")), [
    "name",
    "age",
  ]);
  assert.equal(JSON.parse((await generate("x", { ...json, responseSchema: capital })).text ?? "").tags.length, 2);
  assert.equal(typeof JSON.parse((await generate("x", json)).text ?? ""), "object");
  assert.equal(
    (await generate("x", { responseMimeType: "text/x.enum", responseSchema: { type: Type.STRING, enum: ["red"] } }))
      .text,
    "red",
  );
});

test("an image has the requested proportions and size", async (t) => {
  const { generate } = await start(t);
  const answer = await generate(
    "a cat",
    { responseModalities: ["IMAGE"], imageConfig: { aspectRatio: "16:9" } },
    "sim-text;image-bytes=5000",
  );
  const file = Buffer.from(answer.data ?? "", "base64");
  assert.deepEqual(
    [saidIn([answer]).length, file.toString("latin1", 1, 4), file.readUInt32BE(16), file.readUInt32BE(20), file.length],
    [1, "PNG", 1_360, 768, 5_000],
  );
  assert.equal(answer.usageMetadata?.candidatesTokenCount, 272);
});

test("token counts match the answer's, and embeddings have the requested length", async (t) => {
  const { client, generate, post } = await start(t);
  const { totalTokens } = await client.models.countTokens({ model: "sim-text", contents: "Good morning" });
  assert.equal(totalTokens, (await generate("Good morning")).usageMetadata?.promptTokenCount);
  const wrapped = {
    generateContentRequest: {
      model: "models/sim-text",
      contents: [user({ text: "Good morning" })],
      systemInstruction: { parts: [{ text: "Be short." }] },
    },
  };
  assert.ok(JSON.parse((await post(wrapped, "sim-text:countTokens")).text).totalTokens > (totalTokens ?? 0));
  const { embeddings = [] } = await client.models.embedContent({
    model: "sim-text",
    contents: ["a", "b", "a"],
    config: { outputDimensionality: 8 },
  });
  const [first, second, again] = embeddings.map(({ values }) => values);
  assert.deepEqual([first?.length, first], [8, again]);
  assert.notDeepEqual(first, second);
  const single = JSON.parse(
    (await post({ content: user({ text: "a" }), outputDimensionality: 8 }, "sim-text:embedContent")).text,
  );
  assert.deepEqual(single.embedding.values, first);
  assert.equal(
    JSON.parse((await post({ content: user({ text: "a" }) }, "sim-text:embedContent")).text).embedding.values.length,
    768,
  );
});

test("settings may be part of the path, encoded or not, under every version and for Vertex AI", async (t) => {
  const { url } = await start(t);
  const body = {
    contents: [{ parts: [{ text: "x" }] }],
    generation_config: { max_output_tokens: 2 },
    system_instruction: { parts: [{ text: "y" }] },
  };
  for (const base of [
    "v1/models",
    "v1alpha/models",
    "v1beta1/publishers/google/models",
    "v1/projects/p/locations/global/publishers/google/models",
  ])
    for (const model of ["vendor/a:b;tokens=1", encodeURIComponent("vendor/a:b;tokens=1")]) {
      const heard = await ask({ url, path: `/${base}/${model}:generateContent`, body });
      assert.equal(JSON.parse(heard.text).usageMetadata?.candidatesTokenCount, 1, `${base} ${heard.text}`);
    }
  assert.equal((await ask({ url, path: "/v1/models/sim-text:predict", body })).status, 404);
});

test("errors have Google's status and say when to retry, before the answer and within", async (t) => {
  const { generate, stream, post, url } = await start(t);
  await assert.rejects(generate("x", {}, "m;status=503"), (error) => error instanceof ApiError && error.status === 503);
  const limited = await post({ contents: [user({ text: "x" })] }, "m;status=429;retry-after=7:generateContent");
  const { error } = JSON.parse(limited.text);
  assert.deepEqual([error.code, error.status, limited.headers["retry-after"]], [429, "RESOURCE_EXHAUSTED", undefined]);
  assert.deepEqual(error.details, [{ "@type": "type.googleapis.com/google.rpc.RetryInfo", retryDelay: "7s" }]);
  await assert.rejects(stream("x", {}, "m;error=2"), (fault) => fault instanceof ApiError && fault.status === 500);
  const cut = await stream("x", {}, "m;tokens=4;no-end");
  assert.deepEqual([cut.length, cut.at(-1)?.candidates?.[0]?.finishReason], [4, undefined]);
  const malformed = await ask({
    url,
    path: "/v1/models/m;tokens=4;malformed=2:streamGenerateContent?alt=sse",
    body: { contents: [user({ text: "x" })] },
  });
  assert.deepEqual(
    malformed.events.map((event) => event.endsWith("}")),
    [true, false, true, true, true],
  );
});

test("a required key may come in its header, the query or as a bearer token", async (t) => {
  const { url } = await start(t, { key: "sk-right" });
  const statusOf = async (query: string, headers: Record<string, string>) =>
    (
      await ask({
        url,
        path: `/v1/models/m:generateContent${query}`,
        headers,
        body: { contents: [user({ text: "x" })] },
      })
    ).status;
  assert.equal(await statusOf("", { "x-goog-api-key": "sk-right" }), 200);
  assert.equal(await statusOf("?key=sk-right", {}), 200);
  assert.equal(await statusOf("", { authorization: "Bearer sk-right" }), 200);
  assert.equal(await statusOf("?key=sk-wrong", {}), 400);
  assert.equal(await statusOf("", { authorization: "Bearer sk-wrong" }), 401);
});

test("changed or invalid input is a 400 that names the field", async (t) => {
  const { post, generate } = await start(t);
  const first = await generate("list_all and get_weather", { tools, ...thinking });
  const calls = partsIn([first]).filter(({ functionCall }) => functionCall);
  const response = (name: string) => ({ functionResponse: { name, response: {} } });
  const responses = [response("list_all"), response("get_weather")];
  const round = (modelParts: object[], replied: object[]) => ({
    contents: [
      user({ text: "list_all and get_weather" }),
      { role: "model", parts: modelParts },
      { role: "user", parts: replied },
    ],
    generationConfig: thinking,
  });
  const [signed, unsigned] = calls;
  const without = { functionCall: signed?.functionCall };
  const contents = [user({ text: "x" })];
  const schemaOf = (parameters: object) => ({
    contents,
    tools: [{ functionDeclarations: [{ name: "f", parameters }] }],
  });
  const configOf = (generationConfig: object) => ({ contents, generationConfig });
  const cases: [object, RegExp, field?: RegExp][] = [
    [{}, /contents/, /^contents$/],
    [{ contents: [] }, /./, /^contents$/],
    [{ contents: [{ role: "assistant", parts: [{ text: "x" }] }] }, /./, /^contents\[0\]\.role$/],
    [{ contents: [{ role: "user", parts: [] }] }, /./, /^contents\[0\]\.parts$/],
    [{ contents: [{ parts: [{}] }] }, /must have one initialized field/, /^contents\[0\]\.parts\[0\]$/],
    [
      { contents: [{ parts: [{ inlineData: { mimeType: "image/gif", data: "aa" } }] }] },
      /Unsupported MIME type: image\/gif/,
    ],
    [{ contents: [{ parts: [{ inlineData: { mimeType: "image/png", data: "*" } }] }] }, /./, /inlineData\.data$/],
    [
      round([without, unsigned ?? {}], responses),
      /missing a thought_signature .*`default_api:list_all`/,
      /^contents\[1\]\.parts\[0\]$/,
    ],
    [round([{ ...signed, thoughtSignature: "c2ln" }, unsigned ?? {}], responses), /Corrupted thought signature/],
    [
      round([{ ...signed, functionCall: unsigned?.functionCall }], [response("get_weather")]),
      /Corrupted thought signature/,
    ],
    [
      round(calls, responses.slice(1)),
      /number of function response parts is equal to the number of function call parts/,
    ],
    [{ contents: [...contents, { role: "model", parts: calls }] }, /number of function response parts/],
    [round([{ text: "so" }], responses), /function response turn comes immediately after a function call turn/],
    [
      { contents: [{ role: "model", parts: calls }, user(...(responses as Part[]))] },
      /function call turn comes immediately after a user turn/,
    ],
    [
      schemaOf({ type: "OBJECT", additionalProperties: false }),
      /Unknown name "additionalProperties" at 'tools\[0\]\.function_declarations\[0\]\.parameters'/,
    ],
    [
      schemaOf({ type: "OBJECT", properties: { a: { type: ["string", "null"] } } }),
      /parameters\.properties\[a\]\.type/,
    ],
    [
      { contents, tools: [{ functionDeclarations: [{ name: "f", parameters: {}, parametersJsonSchema: {} }] }] },
      /both parameters and/,
    ],
    [{ contents, tools: [{ functionDeclarations: [{ name: "1f" }] }] }, /./, /functionDeclarations\[0\]\.name$/],
    [{ contents, toolConfig: { functionCallingConfig: { mode: "ANY" } } }, /without function_declarations/],
    [
      { contents, tools, toolConfig: { functionCallingConfig: { mode: "AUTO", allowedFunctionNames: ["list_all"] } } },
      /only be set when function calling mode is ANY/,
    ],
    [configOf({ responseSchema: { type: "STRING" } }), /mime type/],
    [configOf({ responseMimeType: "application/json", responseSchema: {}, responseJsonSchema: {} }), /Only one of/],
    [
      configOf({ thinkingConfig: { thinkingBudget: 8, thinkingLevel: "LOW" } }),
      /only one of thinking budget and thinking level/,
    ],
    [configOf({ stopSequences: ["1", "2", "3", "4", "5", "6"] }), /./, /stopSequences$/],
    [configOf({ responseModalities: ["VIDEO"] }), /./, /responseModalities\[0\]$/],
  ];
  for (const [body, message, field] of cases) {
    const heard = await post(body);
    const { error } = JSON.parse(heard.text);
    assert.deepEqual([heard.status, error.code, error.status], [400, 400, "INVALID_ARGUMENT"], String(message));
    assert.match(error.message, message);
    if (field) assert.match(error.details[0].fieldViolations[0].field, field);
  }
  const fine = [
    round(calls, responses),
    { ...round([without, unsigned ?? {}], responses), generationConfig: {} },
    {
      ...round([without, unsigned ?? {}], responses),
      contents: [...round([without, unsigned ?? {}], responses).contents, user({ text: "and now?" })],
    },
    round([{ ...without, thoughtSignature: "skip_thought_signature_validator" }, unsigned ?? {}], responses),
    round([{ ...without, thoughtSignature: btoa("skip_thought_signature_validator") }, unsigned ?? {}], responses),
    configOf({ responseModalities: ["AUDIO"] }),
  ];
  for (const body of fine) assert.equal((await post(body)).status, 200);
});
