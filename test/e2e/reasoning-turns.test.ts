/**
 * Conversations of several turns with models that refuse a turn whose reasoning did not come back.
 */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { startGateway } from "../support/gateway.ts";
import { socketCatalogue } from "./socket-support.ts";

const forms = ["content", "field", "details", "parts", "call"];
const strict = (form: string) => `sim-text;rate=0;reasoning=6;reasoning-form=${form};needs-reasoning`;

const gateway = await startGateway({
  isDurable: true,
  catalogue: socketCatalogue({
    ...Object.fromEntries(forms.map((form) => [`chat-${form}`, strict(form)])),
    sim: "sim-text",
    "chat-other": "sim-text;rate=0;strict-messages",
  }),
});
after(() => gateway[Symbol.asyncDispose]());

const client = gateway.client();
const tools = [
  {
    type: "function" as const,
    name: "get_weather",
    description: "Says the weather.",
    strict: false,
    parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
  },
];
const question = 'Use get_weather for "Paris".';
interface Response {
  id: string;
  output: object[];
  output_text: string;
}

/** A response, streamed or whole. */
async function responseTo(body: object, isStreamed: boolean): Promise<Response> {
  const request = { ...body, tools } as never;
  return (
    isStreamed ? await client.responses.stream(request).finalResponse() : await client.responses.create(request)
  ) as never;
}

const resultOf = ({ output }: Response) => {
  const call = (output as { type: string; call_id: string }[]).find(({ type }) => type === "function_call");
  assert.ok(call !== undefined, "a call");
  return { type: "function_call_output", call_id: call.call_id, output: "It rains." };
};

for (const form of forms)
  for (const isStreamed of [false, true]) {
    const model = `chat-${form}`;
    const told = /The tool get_weather returned: .*It rains\./;
    const name = `${form}, ${isStreamed ? "streamed" : "whole"}`;

    test(`reasoning comes back by previous_response_id: ${name}`, async () => {
      const first = await responseTo({ model, input: question }, isStreamed);
      const second = await responseTo({ model, previous_response_id: first.id, input: [resultOf(first)] }, isStreamed);
      assert.match(second.output_text, told);
    });

    test(`reasoning comes back in a conversation: ${name}`, async () => {
      const { id: conversation } = await client.conversations.create({});
      const first = await responseTo({ model, conversation, input: question }, isStreamed);
      const second = await responseTo({ model, conversation, input: [resultOf(first)] }, isStreamed);
      assert.match(second.output_text, told);
    });

    test(`reasoning comes back from a caller who stores nothing here, and another model gets none of it: ${name}`, async () => {
      const input: object[] = [{ role: "user", content: question }];
      const first = await responseTo({ model, store: false, input }, isStreamed);
      input.push(...first.output, resultOf(first));
      assert.match((await responseTo({ model, store: false, input }, isStreamed)).output_text, told);
      assert.match((await responseTo({ model: "chat-other", store: false, input }, isStreamed)).output_text, told);
    });
  }

for (const isStreamed of [false, true])
  test(`a conversation that a vendor compacted goes on with another model, and the caller is told, ${isStreamed ? "streamed" : "whole"}`, async () => {
    const input = [
      { type: "compaction", id: "cmp_1", encrypted_content: "sealed by a vendor" },
      { role: "user", content: "hello there" },
    ];
    const response = await fetch(`${gateway.ingresses[0]?.urls.api}/v1/responses`, {
      method: "POST",
      headers: { authorization: `Bearer ${gateway.key}`, "content-type": "application/json" },
      body: JSON.stringify({ model: "chat-other", store: false, stream: isStreamed, input }),
    });
    const text = await response.text();
    assert.equal(response.status, 200, text);
    assert.match(text, /hello/);
    assert.match(String(response.headers.get("x-sluice-warning")), /^input\[0\] is a compaction item of a vendor/);
  });
