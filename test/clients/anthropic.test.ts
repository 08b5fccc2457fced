/**
 * Anthropic's own client, its current major and the last 0.x, with nothing changed but address and
 * key, on upstreams of every dialect.
 */

import assert from "node:assert/strict";
import { after, test } from "node:test";
import Anthropic from "@anthropic-ai/sdk";
import { betaTool } from "@anthropic-ai/sdk/helpers/beta/json-schema";
import { jsonSchemaOutputFormat } from "@anthropic-ai/sdk/helpers/json-schema";
import AnthropicOld from "anthropic-sdk-0";
import { conversationDialects } from "#dialects/dialect.ts";
import { partOf } from "../support/part-of.ts";
import { png } from "../support/png.ts";
import { until } from "../support/time.ts";
import { greeting, modelOf, simulatedModelOf, startClientsGateway, weather } from "./support.ts";

const gateway = await startClientsGateway();
after(() => gateway[Symbol.asyncDispose]());

const messages = [{ role: "user" as const, content: "hello there" }];
const wantsWeather: Anthropic.MessageParam[] = [{ role: "user", content: 'Use get_weather for "Paris".' }];
const tool = partOf<Anthropic.Tool>({
  name: weather.name,
  description: weather.description,
  input_schema: weather.schema,
});
const max_tokens = 2_000;

const textOf = ({ content }: { content: { type: string; text?: string }[] }) =>
  content.map(({ text }) => text ?? "").join("");
const resultOf = (message: Anthropic.Message): Anthropic.MessageParam => ({
  role: "user",
  content: message.content.flatMap((block) =>
    block.type === "tool_use" ? [{ type: "tool_result" as const, tool_use_id: block.id, content: "It rains." }] : [],
  ),
});

for (const [name, Client] of [
  ["@anthropic-ai/sdk 1", Anthropic],
  ["@anthropic-ai/sdk 0", AnthropicOld],
] as const) {
  const client = new (Client as typeof Anthropic)({ apiKey: gateway.key, baseURL: gateway.url, maxRetries: 0 });

  for (const upstream of conversationDialects) {
    const model = modelOf(upstream);

    test(`${name}, messages from ${upstream}: whole, streamed, by the stream helper, in the beta`, async () => {
      const whole = await client.messages.create({ model, max_tokens, messages, system: "Be brief." });
      assert.deepEqual(
        [textOf(whole), whole.stop_reason, whole.model, whole.role],
        [greeting, "end_turn", model, "assistant"],
      );
      assert.ok(whole.usage.input_tokens > 0 && whole.usage.output_tokens > 0);
      assert.match((whole as { _request_id?: string })._request_id ?? "", /^req_/);
      let text = "";
      for await (const event of await client.messages.create({ model, max_tokens, messages, stream: true }))
        if (event.type === "content_block_delta" && event.delta.type === "text_delta") text += event.delta.text;
      assert.equal(text, greeting);
      const helped = await client.messages.stream({ model, max_tokens, messages }).finalMessage();
      assert.deepEqual([textOf(helped), helped.stop_reason], [greeting, "end_turn"]);
      assert.ok(helped.usage.input_tokens > 0);
      assert.equal(
        textOf(
          await client.beta.messages.create({ model, max_tokens, messages, betas: ["a-beta-of-tomorrow-2027-01-01"] }),
        ),
        greeting,
      );
    });

    test(`${name}, messages from ${upstream}: tool calls and results with returned thinking`, async () => {
      for (const streams of [false, true]) {
        const options = {
          model,
          max_tokens,
          tools: [tool],
          thinking: { type: "enabled" as const, budget_tokens: 1_024 },
        };
        const ask = (conversation: Anthropic.MessageParam[]) => {
          const body = { ...options, messages: conversation };
          return streams ? client.messages.stream(body).finalMessage() : client.messages.create(body);
        };
        const first = await ask(wantsWeather);
        assert.equal(first.stop_reason, "tool_use");
        const call = first.content.find((block) => block.type === "tool_use");
        assert.ok(call?.type === "tool_use");
        assert.deepEqual(call.input, { city: "Paris" });
        const second = await ask([...wantsWeather, { role: "assistant", content: first.content }, resultOf(first)]);
        assert.match(textOf(second), /The tool get_weather returned: .*It rains\./);
      }
    });

    test(`${name}, messages from ${upstream}: the tool runner, parsed output, images, token counts`, async () => {
      const requests: unknown[] = [];
      const runnable = betaTool({
        name: weather.name,
        description: weather.description,
        inputSchema: weather.schema,
        run: (input) => {
          requests.push(input);
          return "It rains.";
        },
      });
      const last = await client.beta.messages.toolRunner({
        model,
        max_tokens,
        messages: wantsWeather as never,
        tools: [runnable],
      });
      assert.match(textOf(last as never), /The tool get_weather returned: .*It rains\./);
      assert.deepEqual(requests, [{ city: "Paris" }]);

      const format = jsonSchemaOutputFormat({
        type: "object",
        properties: { color: { type: "string", enum: ["red", "green"] } },
        required: ["color"],
        additionalProperties: false,
      });
      const parsed = await client.messages.parse({ model, max_tokens, messages, output_config: { format } });
      assert.ok(["red", "green"].includes((parsed.parsed_output as { color: string }).color));

      const source = { type: "base64" as const, media_type: "image/png" as const, data: png.toString("base64") };
      const seen = await client.messages.create({
        model,
        max_tokens,
        messages: [
          {
            role: "user",
            content: [
              { type: "image", source },
              { type: "text", text: "hello there" },
            ],
          },
        ],
      });
      assert.match(textOf(seen), /^I see 1 image \(image\/png, 70 bytes\)/);

      const { data, response } = await client.messages
        .countTokens({ model, messages, system: "Be brief.", tools: [tool] })
        .withResponse();
      assert.ok(data.input_tokens > 10);
      assert.equal(response.headers.get("x-sluice-token-count"), upstream === "openai-chat" ? "estimated" : null);
    });

    test(`${name} on ${upstream}: errors have the client's classes, before and inside streams`, async () => {
      await assert.rejects(
        client.messages.create({ model: modelOf(upstream, "refusing"), max_tokens, messages }),
        (error: InstanceType<typeof Anthropic.APIError>) => {
          assert.ok(error instanceof Client.BadRequestError);
          assert.equal((error as { type?: unknown }).type, "invalid_request_error");
          assert.match(error.requestID ?? "", /^req_/);
          return true;
        },
      );
      await assert.rejects(
        client.messages.create({ model: modelOf(upstream, "failing"), max_tokens, messages, stream: true }),
        Client.InternalServerError,
      );
      const broken = await client.messages.create({
        model: modelOf(upstream, "breaking"),
        max_tokens,
        messages,
        stream: true,
      });
      await assert.rejects(async () => {
        for await (const _ of broken);
      }, Client.APIError);
      await assert.rejects(
        client.messages.stream({ model: modelOf(upstream, "breaking"), max_tokens, messages }).finalMessage(),
        Client.APIError,
      );
    });

    if (upstream !== "anthropic-messages")
      test(`${name} on ${upstream}: client tools that Anthropic defines work as with its own models`, async () => {
        for (const [type, called, member] of [
          ["bash_20250124", "bash", undefined],
          ["text_editor_20250124", "str_replace_editor", "path"],
          ["text_editor_20250728", "str_replace_based_edit_tool", "path"],
          ["memory_20250818", "memory", "command"],
        ] as const) {
          const question: Anthropic.MessageParam[] = [{ role: "user", content: `Use ${called} for "/memories/a".` }];
          const tools = [{ type, name: called }] as Anthropic.ToolUnion[];
          const first = await client.messages.create({ model, max_tokens, tools, messages: question });
          const call = first.content.find((block) => block.type === "tool_use");
          assert.ok(call?.type === "tool_use" && call.name === called, `${type}: ${JSON.stringify(first.content)}`);
          if (member !== undefined)
            assert.equal(typeof (call.input as Record<string, unknown>)[member], "string", type);
          question.push(
            { role: "assistant", content: first.content },
            { role: "user", content: [{ type: "tool_result", tool_use_id: call.id, content: "done" }] },
          );
          assert.match(
            textOf(await client.messages.create({ model, max_tokens, tools, messages: question })),
            new RegExp(`The tool ${called} returned: .*done`),
          );
        }
      });

    test(`${name} on ${upstream}: overload is a 529, which the client retries`, async () => {
      const statuses: number[] = [];
      const counted: typeof fetch = async (...request) => {
        const response = await fetch(...request);
        statuses.push(response.status);
        return response;
      };
      const patient = new (Client as typeof Anthropic)({
        apiKey: gateway.key,
        baseURL: gateway.url,
        maxRetries: 1,
        fetch: counted,
      });
      await assert.rejects(
        patient.messages.create({ model: modelOf(upstream, "overloaded"), max_tokens, messages }),
        (error: InstanceType<typeof Anthropic.APIError>) =>
          error instanceof Client.InternalServerError && (error as { type?: unknown }).type === "overloaded_error",
      );
      assert.deepEqual(statuses, [529, 529]);
    });

    test(`${name} on ${upstream}: retryable errors are retried, and an abort reaches the upstream`, async () => {
      const patient = new (Client as typeof Anthropic)({ apiKey: gateway.key, baseURL: gateway.url, maxRetries: 2 });
      assert.equal(
        textOf(await patient.messages.create({ model: modelOf(upstream, "busy"), max_tokens, messages })),
        greeting,
      );
      const stream = client.messages.stream({ model: modelOf(upstream, "slow"), max_tokens, messages });
      for await (const event of stream) if (event.type === "content_block_delta") break;
      stream.abort();
      const slow = simulatedModelOf(upstream, "slow");
      await until("the upstream call is closed", async () =>
        (await gateway.seen(slow)).every(({ closedAt }) => closedAt !== undefined),
      );
    });
  }

  test(`${name}: a key as authToken, wrong keys, unknown models`, async () => {
    const withToken = new (Client as typeof Anthropic)({
      apiKey: null,
      authToken: gateway.key,
      baseURL: gateway.url,
      maxRetries: 0,
    });
    assert.equal(
      textOf(await withToken.messages.create({ model: modelOf("anthropic-messages"), max_tokens, messages })),
      greeting,
    );
    const stranger = new (Client as typeof Anthropic)({ apiKey: "nothing", baseURL: gateway.url, maxRetries: 0 });
    await assert.rejects(
      stranger.messages.create({ model: modelOf("anthropic-messages"), max_tokens, messages }),
      (error: InstanceType<typeof Anthropic.AuthenticationError>) =>
        error instanceof Client.AuthenticationError &&
        (error.error as { error: Error }).error.message.startsWith("Incorrect API key provided"),
    );
    await assert.rejects(client.messages.create({ model: "nothing", max_tokens, messages }), Client.NotFoundError);
  });
}
