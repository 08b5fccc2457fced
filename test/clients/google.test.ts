/**
 * Google's own client, its current major and the one before, with nothing changed but address and
 * key, on upstreams of every dialect.
 */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { type Content, type FunctionDeclaration, GoogleGenAI } from "@google/genai";
import { GoogleGenAI as GoogleOld } from "google-genai-2";
import { conversationDialects } from "#dialects/dialect.ts";
import { png } from "../support/png.ts";
import { until } from "../support/time.ts";
import { greeting, modelOf, simulatedModelOf, startClientsGateway, weather } from "./support.ts";

const gateway = await startClientsGateway();
after(() => gateway[Symbol.asyncDispose]());

const tool: FunctionDeclaration = {
  name: weather.name,
  description: weather.description,
  parametersJsonSchema: weather.schema,
};
const wantsWeather = 'Use get_weather for "Paris".';

for (const [name, Client] of [
  ["@google/genai 3", GoogleGenAI],
  ["@google/genai 2", GoogleOld],
] as const) {
  const { models, chats } = new (Client as typeof GoogleGenAI)({
    apiKey: gateway.key,
    httpOptions: { baseUrl: gateway.url },
  });

  for (const upstream of conversationDialects) {
    const model = modelOf(upstream);

    test(`${name} from ${upstream}: an enum answer is the bare value, whole and streamed`, async () => {
      const values = ["Percussion", "String", "Woodwind"];
      for (const schema of [
        { responseSchema: { type: "STRING" as never, enum: values } },
        { responseJsonSchema: { type: "string", enum: values } },
      ]) {
        const request = {
          model,
          contents: "What kind of instrument is an oboe?",
          config: { responseMimeType: "text/x.enum", ...schema },
        };
        const whole = await models.generateContent(request);
        assert.ok(values.includes(whole.text ?? ""), whole.text);
        let text = "";
        for await (const chunk of await models.generateContentStream(request)) text += chunk.text ?? "";
        assert.equal(text, whole.text);
      }
    });

    test(`${name}: a call that ${upstream} answered without a signature continues on a Gemini model that requires one`, async () => {
      const config = { tools: [{ functionDeclarations: [tool] }] };
      const contents: Content[] = [{ role: "user", parts: [{ text: wantsWeather }] }];
      const first = await models.generateContent({ model, contents, config });
      const [call] = first.functionCalls ?? [];
      assert.ok(call?.name === weather.name && first.candidates?.[0]?.content);
      contents.push(first.candidates[0].content, {
        role: "user",
        parts: [
          {
            functionResponse: {
              name: weather.name,
              ...(call.id && { id: call.id }),
              response: { output: "It rains." },
            },
          },
        ],
      });
      const second = await models.generateContent({ model: "gemini-reasoner", contents, config });
      assert.match(second.text ?? "", /The tool get_weather returned: .*It rains\./);
    });

    test(`${name} from ${upstream}: whole, streamed, and as a chat`, async () => {
      const whole = await models.generateContent({
        model,
        contents: "hello there",
        config: { systemInstruction: "Be brief.", temperature: 0.5 },
      });
      assert.deepEqual(
        [whole.text, whole.candidates?.[0]?.finishReason, whole.modelVersion],
        [greeting, "STOP", model],
      );
      assert.ok((whole.usageMetadata?.totalTokenCount ?? 0) > 0);
      let text = "";
      let finish: unknown;
      for await (const chunk of await models.generateContentStream({ model, contents: "hello there" })) {
        text += chunk.text ?? "";
        finish = chunk.candidates?.[0]?.finishReason ?? finish;
      }
      assert.deepEqual([text, finish], [greeting, "STOP"]);
      const chat = chats.create({ model });
      assert.equal((await chat.sendMessage({ message: "hello" })).text?.split("\n")[0], "You said: hello");
      let again = "";
      for await (const chunk of await chat.sendMessageStream({ message: "hello there" })) again += chunk.text ?? "";
      assert.equal(again, greeting);
    });

    test(`${name} from ${upstream}: tool calls and results with returned thinking`, async () => {
      for (const streams of [false, true]) {
        const config = {
          tools: [{ functionDeclarations: [tool] }],
          thinkingConfig: { includeThoughts: true, thinkingBudget: 1_024 },
        };
        const ask = async (contents: Content[]) => {
          if (!streams)
            return (await models.generateContent({ model, contents, config })).candidates?.[0]?.content as Content;
          const parts: Content["parts"] = [];
          for await (const chunk of await models.generateContentStream({ model, contents, config }))
            parts.push(...(chunk.candidates?.[0]?.content?.parts ?? []));
          return { role: "model", parts };
        };
        const question: Content[] = [{ role: "user", parts: [{ text: wantsWeather }] }];
        const first = await ask(question);
        const call = first.parts?.find(({ functionCall }) => functionCall !== undefined)?.functionCall;
        assert.deepEqual([call?.name, call?.args], ["get_weather", { city: "Paris" }]);
        const response = {
          ...(call?.id !== undefined && { id: call.id }),
          name: "get_weather",
          response: { result: "It rains." },
        };
        const second = await ask([...question, first, { role: "user", parts: [{ functionResponse: response }] }]);
        assert.match(
          second.parts?.map(({ text, thought }) => (thought ? "" : (text ?? ""))).join("") ?? "",
          /The tool get_weather returned: .*It rains\./,
        );
      }
    });

    test(`${name} from ${upstream}: structured output, images, token counts`, async () => {
      const responseJsonSchema = {
        type: "object",
        properties: { color: { type: "string", enum: ["red", "green"] } },
        required: ["color"],
        additionalProperties: false,
      };
      const parsed = await models.generateContent({
        model,
        contents: "hello there",
        config: { responseMimeType: "application/json", responseJsonSchema },
      });
      assert.ok(["red", "green"].includes(JSON.parse(parsed.text ?? "").color));
      const inlineData = { mimeType: "image/png", data: png.toString("base64") };
      const seen = await models.generateContent({ model, contents: [{ inlineData }, { text: "hello there" }] });
      assert.match(seen.text ?? "", /^I see 1 image \(image\/png, 70 bytes\)/);
      assert.ok(((await models.countTokens({ model, contents: "hello there" })).totalTokens ?? 0) > 1);
    });

    test(`${name} on ${upstream}: errors have the client's class, before and inside streams`, async () => {
      await assert.rejects(models.generateContent({ model: modelOf(upstream, "refusing"), contents: "hello there" }), {
        name: "ApiError",
        status: 400,
      });
      await assert.rejects(
        models.generateContentStream({ model: modelOf(upstream, "failing"), contents: "hello there" }),
        { name: "ApiError", status: 502 },
      );
      await assert.rejects(
        async () => {
          for await (const _ of await models.generateContentStream({
            model: modelOf(upstream, "breaking"),
            contents: "hello there",
          }));
        },
        { name: "ApiError" },
      );
    });

    test(`${name} on ${upstream}: retryable errors are retried, and an abort reaches the upstream`, async () => {
      const patient = new (Client as typeof GoogleGenAI)({
        apiKey: gateway.key,
        httpOptions: { baseUrl: gateway.url, retryOptions: { attempts: 3 } },
      });
      assert.equal(
        (await patient.models.generateContent({ model: modelOf(upstream, "busy"), contents: "hello there" })).text,
        greeting,
      );
      const abort = new AbortController();
      const stream = await models.generateContentStream({
        model: modelOf(upstream, "slow"),
        contents: "hello there",
        config: { abortSignal: abort.signal },
      });
      for await (const chunk of stream) if (chunk.text) break;
      abort.abort();
      const slow = simulatedModelOf(upstream, "slow");
      await until("the upstream call is closed", async () =>
        (await gateway.seen(slow)).every(({ closedAt }) => closedAt !== undefined),
      );
    });
  }

  test(`${name}: embeddings and images, from both kinds of upstream`, async () => {
    for (const model of ["embedding", "gemini-embedding"]) {
      const { embeddings } = await models.embedContent({
        model,
        contents: ["one", "two"],
        config: { outputDimensionality: 8 },
      });
      assert.deepEqual([embeddings?.length, embeddings?.[1]?.values?.length], [2, 8]);
    }
    const made = await models.generateContent({
      model: "gemini-picture",
      contents: "a cat",
      config: { responseModalities: ["IMAGE"] },
    });
    const data =
      made.candidates?.[0]?.content?.parts?.find(({ inlineData }) => inlineData !== undefined)?.inlineData?.data ?? "";
    assert.equal(Buffer.from(data, "base64").subarray(1, 4).toString(), "PNG");
  });

  test(`${name}: wrong keys and unknown models`, async () => {
    const stranger = new (Client as typeof GoogleGenAI)({ apiKey: "nothing", httpOptions: { baseUrl: gateway.url } });
    await assert.rejects(stranger.models.generateContent({ model: modelOf("gemini"), contents: "x" }), {
      name: "ApiError",
      status: 400,
    });
    await assert.rejects(models.generateContent({ model: "nothing", contents: "x" }), {
      name: "ApiError",
      status: 404,
    });
  });
}

test("events are asked for in either name of Google's parameter", async () => {
  const typeOf = async (query: string) => {
    const response = await fetch(`${gateway.url}/v1beta/models/${modelOf("gemini")}:streamGenerateContent?${query}`, {
      method: "POST",
      headers: { "x-goog-api-key": gateway.key, "content-type": "application/json" },
      body: JSON.stringify({ contents: [{ parts: [{ text: "hello there" }] }] }),
    });
    await response.text();
    return response.headers.get("content-type")?.split(";")[0];
  };
  for (const query of ["alt=sse", "$alt=sse", "%24alt=sse%3Benum-encoding%3Dint", "alt=json&$alt=sse"])
    assert.equal(await typeOf(query), "text/event-stream", query);
  for (const query of ["", "alt=json", "$alt=json;enum-encoding=int", "alt=ssev"])
    assert.equal(await typeOf(query), "application/json", query);
});

test("without alt=sse a stream is a growing JSON array, also for an upstream of another dialect", async () => {
  for (const upstream of conversationDialects) {
    const ask = (model: string) =>
      fetch(`${gateway.url}/v1beta/models/${model}:streamGenerateContent`, {
        method: "POST",
        headers: { "x-goog-api-key": gateway.key, "content-type": "application/json" },
        body: JSON.stringify({ contents: [{ parts: [{ text: "hello there" }] }] }),
      });
    const response = await ask(modelOf(upstream));
    assert.match(response.headers.get("content-type") ?? "", /^application\/json/);
    const chunks = (await response.json()) as { candidates?: { content?: { parts?: { text?: string }[] } }[] }[];
    assert.ok(chunks.length > 2);
    assert.equal(chunks.map(({ candidates }) => candidates?.[0]?.content?.parts?.[0]?.text ?? "").join(""), greeting);
    const broken = await ask(modelOf(upstream, "breaking"));
    const told = (await broken.json()) as { error?: { code: number } }[];
    assert.equal(told.at(-1)?.error?.code, 502);
  }
});
