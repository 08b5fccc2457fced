/**
 * OpenAI's own client, its current major and the one before, with nothing changed but address and
 * key, on upstreams of every dialect.
 */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import OpenAI from "openai";
import OpenAIOld from "openai-6";
import { conversationDialects } from "#dialects/dialect.ts";
import { png } from "../support/png.ts";
import { until } from "../support/time.ts";
import { greeting, modelOf, simulatedModelOf, startClientsGateway, weather } from "./support.ts";

const gateway = await startClientsGateway();
after(() => gateway[Symbol.asyncDispose]());

const messages = [{ role: "user" as const, content: "hello there" }];
const chatTool = {
  type: "function" as const,
  function: { name: weather.name, description: weather.description, parameters: weather.schema, strict: true },
};
const responsesTool = {
  type: "function" as const,
  name: weather.name,
  description: weather.description,
  parameters: weather.schema,
  strict: true,
};
const wantsWeather = 'Use get_weather for "Paris".';
const answerSchema = {
  type: "object" as const,
  properties: { color: { type: "string", enum: ["red", "green"] } },
  required: ["color"],
  additionalProperties: false,
};

for (const [name, Client] of [
  ["openai 7", OpenAI],
  ["openai 6", OpenAIOld],
] as const) {
  const client = new Client({ apiKey: gateway.key, baseURL: `${gateway.url}/v1`, maxRetries: 0 }) as OpenAI;

  for (const upstream of conversationDialects) {
    const model = modelOf(upstream);

    test(`${name}, chat completions from ${upstream}: whole, streamed, and by the stream helper`, async () => {
      const whole = await client.chat.completions.create({ model, messages });
      assert.deepEqual(
        [whole.choices[0]?.message.content, whole.choices[0]?.finish_reason, whole.model],
        [greeting, "stop", model],
      );
      assert.ok((whole.usage?.total_tokens ?? 0) > 0);
      assert.match(whole._request_id ?? "", /^req_/);
      let text = "";
      let usage = 0;
      for await (const chunk of await client.chat.completions.create({
        model,
        messages,
        stream: true,
        stream_options: { include_usage: true },
      })) {
        text += chunk.choices[0]?.delta.content ?? "";
        usage += chunk.usage?.total_tokens ?? 0;
      }
      assert.equal(text, greeting);
      assert.equal(usage, whole.usage?.total_tokens);
      const helped = await client.chat.completions.stream({ model, messages }).finalChatCompletion();
      assert.equal(helped.choices[0]?.message.content, greeting);
    });

    test(`${name}, chat completions from ${upstream}: the tool runner, whole and streamed, and parsed output`, async () => {
      for (const stream of [false, true]) {
        const requests: unknown[] = [];
        const tools = [
          {
            type: "function" as const,
            function: {
              ...chatTool.function,
              parse: JSON.parse,
              function: (input: unknown) => {
                requests.push(input);
                return "It rains.";
              },
            },
          },
        ];
        const question = [{ role: "user" as const, content: wantsWeather }];
        const runner = stream
          ? client.chat.completions.runTools({
              model,
              messages: question,
              tools,
              stream: true,
              reasoning_effort: "low",
            } as never)
          : client.chat.completions.runTools({ model, messages: question, tools, reasoning_effort: "low" } as never);
        assert.match((await runner.finalContent()) ?? "", /The tool get_weather returned: .*It rains\./);
        assert.deepEqual(requests, [{ city: "Paris" }]);
      }
      const parsed = await client.chat.completions.parse({
        model,
        messages,
        response_format: { type: "json_schema", json_schema: { name: "answer", schema: answerSchema, strict: true } },
      });
      assert.ok(["red", "green"].includes(JSON.parse(parsed.choices[0]?.message.content ?? "").color));
    });

    test(`${name}, responses from ${upstream}: whole, streamed, and by the stream helper`, async () => {
      const whole = await client.responses.create({ model, input: "hello there" });
      assert.deepEqual(
        [whole.output_text, whole.status, whole.model, (whole as { store?: unknown }).store],
        [greeting, "completed", model, true],
      );
      assert.ok((whole.usage?.total_tokens ?? 0) > 0);
      let text = "";
      for await (const event of await client.responses.create({ model, input: "hello there", stream: true }))
        if (event.type === "response.output_text.delta") text += event.delta;
      assert.equal(text, greeting);
      const helped = await client.responses
        .stream({ model, input: "hello there", instructions: "Be brief." })
        .finalResponse();
      assert.deepEqual([helped.output_text, helped.status], [greeting, "completed"]);
    });

    test(`${name}, responses from ${upstream}: tool calls and results with returned thinking, parsed output, token counts`, async () => {
      const question: OpenAI.Responses.ResponseInput = [{ role: "user", content: wantsWeather }];
      const options = {
        model,
        tools: [responsesTool],
        store: false,
        reasoning: { effort: "low" as const, summary: "auto" as const },
        include: ["reasoning.encrypted_content" as const],
      };
      for (const streams of [false, true]) {
        const first = streams
          ? await client.responses.stream({ ...options, input: question }).finalResponse()
          : await client.responses.create({ ...options, input: question });
        const call = first.output.find((item) => item.type === "function_call");
        assert.ok(call?.type === "function_call");
        assert.deepEqual(JSON.parse(call.arguments), { city: "Paris" });
        const input = [
          ...question,
          ...(first.output as OpenAI.Responses.ResponseInput),
          { type: "function_call_output" as const, call_id: call.call_id, output: "It rains." },
        ];
        const second = await client.responses.create({ ...options, input });
        assert.match(second.output_text, /The tool get_weather returned: .*It rains\./);
      }
      const parsed = await client.responses.parse({
        model,
        input: "hello there",
        text: { format: { type: "json_schema", name: "answer", schema: answerSchema, strict: true } },
      });
      assert.ok(["red", "green"].includes(JSON.parse(parsed.output_text).color));
      const { data, response } = await client.responses.inputTokens
        .count({ model, input: "hello there", instructions: "Be brief." })
        .withResponse();
      assert.ok((data.input_tokens ?? 0) > 3);
      assert.equal(response.headers.get("x-sluice-token-count"), upstream === "openai-chat" ? "estimated" : null);
    });

    test(`${name}, responses from ${upstream}: an offered image generation is ignored, and a forced one is rejected by name`, async () => {
      const request = {
        model,
        input: wantsWeather,
        tools: [responsesTool, { type: "image_generation" as const }, { type: "web_search" as const }],
      };
      const offered = await client.responses.create(request);
      assert.ok(offered.output.some((item) => item.type === "function_call" && item.name === weather.name));
      if (upstream === "openai-responses") return;
      for (const tool_choice of [
        { type: "image_generation" as const },
        { type: "allowed_tools" as const, mode: "required" as const, tools: [{ type: "image_generation" }] },
      ])
        await assert.rejects(
          client.responses.create({ ...request, tool_choice }),
          (error: InstanceType<typeof OpenAI.APIError>) => {
            assert.deepEqual([error.status, error.param], [400, "tool_choice"]);
            return error.message.includes("image_generation");
          },
        );
    });

    test(`${name} on ${upstream}: errors have the client's classes, before and inside streams`, async () => {
      await assert.rejects(
        client.chat.completions.create({ model: modelOf(upstream, "refusing"), messages }),
        (error: InstanceType<typeof OpenAI.APIError>) => {
          assert.ok(error instanceof Client.BadRequestError);
          assert.match(error.requestID ?? "", /^req_/);
          return true;
        },
      );
      await assert.rejects(
        client.responses.create({ model: modelOf(upstream, "failing"), input: "x", stream: true }),
        Client.InternalServerError,
      );
      const broken = await client.chat.completions.create({
        model: modelOf(upstream, "breaking"),
        messages,
        stream: true,
      });
      const reading = async (stream: AsyncIterable<unknown>) => {
        for await (const _ of stream);
      };
      await assert.rejects(reading(broken), Client.APIError);
      await assert.rejects(
        reading(
          await client.responses.create({ model: modelOf(upstream, "breaking"), input: "hello there", stream: true }),
        ),
        Client.APIError,
      );
    });

    test(`${name} on ${upstream}: retryable errors are retried, and an abort reaches the upstream`, async () => {
      const patient = new Client({ apiKey: gateway.key, baseURL: `${gateway.url}/v1`, maxRetries: 2 }) as OpenAI;
      const simulated = simulatedModelOf(upstream, "busy");
      const before = (await gateway.seen(simulated)).length;
      const answered = await patient.chat.completions.create({ model: modelOf(upstream, "busy"), messages });
      assert.equal(answered.choices[0]?.message.content, greeting);
      assert.ok((await gateway.seen(simulated)).length - before >= 1);
      const slow = simulatedModelOf(upstream, "slow");
      const stream = await client.responses.create({
        model: modelOf(upstream, "slow"),
        input: "hello there",
        stream: true,
      });
      for await (const event of stream) if (event.type === "response.output_text.delta") break;
      stream.controller.abort();
      await until("the upstream call is closed", async () =>
        (await gateway.seen(slow)).every(({ closedAt }) => closedAt !== undefined),
      );
    });
  }

  for (const streams of [false, true])
    test(`${name}, responses of a reasoning model, ${streams ? "streamed" : "whole"}: the documented loop works with default settings`, async () => {
      const input: OpenAI.Responses.ResponseInput = [{ role: "user", content: wantsWeather }];
      const ask = async () => {
        const request = { model: "reasoner", input, tools: [responsesTool] };
        const response = streams
          ? await client.responses.stream(request).finalResponse()
          : await client.responses.create(request);
        input.push(...(response.output as OpenAI.Responses.ResponseInput));
        return response;
      };
      const first = await ask();
      const [thought, call] = first.output;
      assert.ok(thought?.type === "reasoning" && thought.encrypted_content && call?.type === "function_call");
      input.push({ type: "function_call_output", call_id: call.call_id, output: "It rains." });
      const second = await ask();
      assert.match(second.output_text, /The tool get_weather returned: .*It rains\./);
      assert.equal(second.output[0]?.type, "reasoning");
      input.push({ role: "user", content: "hello there" });
      assert.equal((await ask()).output_text, greeting);
    });

  test(`${name}, responses of a reasoning model: an earlier conversation continues although its reasoning cannot be resolved`, async () => {
    const { output_text } = await client.responses.create({
      model: "reasoner",
      include: [],
      input: [
        { role: "user", content: wantsWeather },
        { type: "reasoning", id: "rs_lost", summary: [] },
        { type: "function_call", id: "fc_lost", call_id: "call_1", name: weather.name, arguments: '{"city":"Paris"}' },
        { type: "function_call_output", call_id: "call_1", output: "It rains." },
      ],
    });
    assert.match(output_text, /The tool get_weather returned: .*It rains\./);
  });

  test(`${name}: a conversation continues after compaction by endpoint and by trigger, with an upstream of any dialect`, async () => {
    const question = { role: "user" as const, content: "hello there" };
    const goesOn = async (output: unknown) => {
      const input = [...(output as OpenAI.Responses.ResponseInput), question];
      for (const upstream of ["openai-responses", "anthropic-messages"] as const) {
        const { output_text } = await client.responses.create({ model: modelOf(upstream), input });
        assert.match(output_text, /^You said: (hello there|Summary of the conversation so far)/);
      }
    };
    const input: OpenAI.Responses.ResponseInput = [question, { role: "assistant", content: greeting }];
    for (const upstream of ["openai-responses", "openai-chat", "anthropic-messages", "gemini"] as const) {
      const model = modelOf(upstream);
      const compacted = await client.responses.compact({ model: model as never, input, instructions: "Be brief." });
      assert.deepEqual(
        [compacted.object, compacted.output.map(({ type }) => type), compacted.usage.total_tokens > 0],
        ["response.compaction", ["message", "compaction"], true],
      );
      await goesOn(compacted.output);
      const triggered = await client.responses
        .stream({ model, input: [...input, { type: "compaction_trigger" } as never] })
        .finalResponse();
      assert.deepEqual(
        triggered.output.map(({ type }) => type),
        ["compaction"],
      );
      await goesOn(triggered.output);
      const managed = await client.responses.create({
        model,
        input: [question],
        context_management: [{ type: "compaction", compact_threshold: 1_000_000 }],
      });
      assert.equal(managed.output_text, greeting);
    }
  });

  test(`${name}: embeddings, in both encodings, from both kinds of upstream`, async () => {
    for (const model of ["embedding", "gemini-embedding"]) {
      const packed = await client.embeddings.create({ model, input: ["one", "two"], dimensions: 8 });
      const plain = await client.embeddings.create({
        model,
        input: ["one", "two"],
        dimensions: 8,
        encoding_format: "float",
      });
      assert.deepEqual(
        [packed.data.length, packed.data[1]?.index, packed.data[0]?.embedding.length, packed.model],
        [2, 1, 8, model],
      );
      for (const [place, value] of (plain.data[1]?.embedding ?? []).entries())
        assert.ok(Math.abs(value - Number(packed.data[1]?.embedding[place])) < 1e-6);
      assert.ok(packed.usage.prompt_tokens > 0);
    }
  });

  test(`${name}: images, whole, streamed, and edited, from both kinds of upstream`, async () => {
    for (const model of ["picture", "gemini-picture"]) {
      const made = await client.images.generate({ model, prompt: "a cat", size: "1536x1024" as never });
      assert.equal(
        Buffer.from(made.data?.[0]?.b64_json ?? "", "base64")
          .subarray(1, 4)
          .toString(),
        "PNG",
      );
      assert.ok((made.usage?.total_tokens ?? 0) > 0);
      const types: string[] = [];
      for await (const event of await client.images.generate({
        model,
        prompt: "a cat",
        stream: true,
        partial_images: 2,
      }))
        types.push(event.type);
      const partial = "image_generation.partial_image";
      assert.deepEqual(
        types,
        model === "picture" ? [partial, partial, "image_generation.completed"] : ["image_generation.completed"],
      );
      const image = new File([new Uint8Array(png)], "a.png", { type: "image/png" });
      const edited = await client.images.edit({ model, prompt: "with a hat", image: [image, image] });
      assert.equal(
        Buffer.from(edited.data?.[0]?.b64_json ?? "", "base64")
          .subarray(1, 4)
          .toString(),
        "PNG",
      );
      const edits: string[] = [];
      for await (const event of await client.images.edit({ model, prompt: "with a hat", image, stream: true }))
        edits.push(event.type);
      assert.equal(edits.at(-1), "image_edit.completed");
      const image_url = `data:image/png;base64,${Buffer.from(png).toString("base64")}`;
      const body = { model, prompt: "with a hat", images: [{ image_url }], n: 1, quality: "high", user: null };
      const answer = await client.post<{ data: { b64_json: string }[] }>("/images/edits", { body });
      assert.match(answer.data[0]?.b64_json ?? "", /^iVBOR/);
      for (const [image, name, words] of [
        [{ image_url: "ftp://example.com/a.png" }, "image_url", /http\(s\) address or a data URL/],
        [{ file_id: "file-1" }, "file_id", /must be 'image_url'/],
      ] as const)
        await assert.rejects(
          client.post("/images/edits", { body: { ...body, images: [image] } }),
          (error: InstanceType<typeof OpenAI.APIError>) =>
            error.status === 400 && error.param === `images[0].${name}` && words.test(error.message),
        );
    }
    await assert.rejects(
      client.images.generate({ model: "gemini-picture", prompt: "a cat", n: 2 }),
      (error: InstanceType<typeof OpenAI.APIError>) => error.status === 400 && error.param === "n",
    );
    await assert.rejects(
      client.images.generate({ model: modelOf("openai-chat"), prompt: "a cat" }),
      Client.BadRequestError,
    );
  });
}
