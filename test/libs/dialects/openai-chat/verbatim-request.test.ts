import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { verbatim } from "#dialects/openai-chat/verbatim.ts";
import { targetOf } from "../../../support/target.ts";

const requestOf = (bytes: Buffer, streams: boolean, streamUsage: boolean) =>
  verbatim.request(bytes, streams ? "sse" : "whole", targetOf("openai-chat", "upstream-name", { streamUsage }));

const translated = (text: string, streamUsage = true) => {
  const request = requestOf(Buffer.from(text), (JSON.parse(text) as { stream?: unknown }).stream === true, streamUsage);
  assert.ok(request);
  assert.equal(request.path, "/chat/completions");
  return { body: request.body.toString() };
};

test("only the model's name changes: unknown fields, large numbers, order and white space stay", () => {
  const text =
    '\n{ "top_k" : 12345678901234567890,\t"model":"mine", "x":{"model":"inner"}, "seed":1.0, "é":"\\u00e9 " }\n';
  assert.equal(translated(text).body, text.replace('"mine"', '"upstream-name"'));
});

test("a repeated model field is replaced each time", () => {
  assert.equal(
    translated('{"model":"a","\\u006dodel":"b"}').body,
    '{"model":"upstream-name","\\u006dodel":"upstream-name"}',
  );
});

test("a stream request asks for the usage and keeps the caller's other options", () => {
  assert.equal(
    translated('{"model":"m","stream":true}').body,
    '{"model":"upstream-name","stream":true,"stream_options":{"include_usage":true}}',
  );
  assert.equal(
    translated('{"model":"m","stream":true,"stream_options":null}').body,
    '{"model":"upstream-name","stream":true,"stream_options":{"include_usage":true}}',
  );
  assert.equal(
    translated('{"model":"m","stream":true,"stream_options":{ }}').body,
    '{"model":"upstream-name","stream":true,"stream_options":{ "include_usage":true}}',
  );
  assert.equal(
    translated('{"model":"m","stream":true,"stream_options":{"big":12345678901234567890, "include_usage":false }}')
      .body,
    '{"model":"upstream-name","stream":true,"stream_options":{"big":12345678901234567890, "include_usage":true }}',
  );
  assert.equal(
    translated('{"model":"m","stream":true,"stream_options":{"big":12345678901234567890}}').body,
    '{"model":"upstream-name","stream":true,"stream_options":{"big":12345678901234567890,"include_usage":true}}',
  );
});

test("a request without a stream has no stream options", () => {
  assert.equal(translated('{"model":"m"}').body, '{"model":"upstream-name"}');
  assert.equal(
    translated('{"model":"m", "stream_options":{"include_usage":true} ,"stream":false}').body,
    '{"model":"upstream-name", "stream":false}',
  );
  assert.equal(
    translated('{"model":"m","stream":null,"stream_options":{"include_usage":true}}').body,
    '{"model":"upstream-name","stream":null}',
  );
});

test("an upstream without stream options gets none", () => {
  assert.equal(translated('{"model":"m","stream":true}', false).body, '{"model":"upstream-name","stream":true}');
  const translation = translated('{"stream_options":{"include_usage":true},"model":"m","stream":true}', false);
  assert.equal(translation.body, '{"model":"upstream-name","stream":true}');
});

test("deeply nested options are kept", () => {
  const deep = `${"[".repeat(100_000)}${"]".repeat(100_000)}`;
  const { body } = translated(`{"model":"m","stream":true,"stream_options":{"x":${deep}}}`);
  assert.ok(body.endsWith(`{"x":${deep},"include_usage":true}}`));
});

test("bytes that are not an object with a model are rejected and never throw", () => {
  for (const text of ["", "[]", "{}", '{"model":', '{"models":"m"}'])
    assert.equal(requestOf(Buffer.from(text), true, true), undefined);
  fc.assert(
    fc.property(
      fc.uint8Array({ maxLength: 80 }),
      fc.boolean(),
      (bytes, usage) => void requestOf(Buffer.from(bytes), true, usage),
    ),
  );
});

test("the upstream's request equals the caller's except for the model and the stream options", () => {
  const request = fc.record(
    {
      model: fc.string(),
      stream: fc.constantFrom(true, false, null),
      stream_options: fc.oneof(
        fc.constant(null),
        fc.record({ include_usage: fc.constantFrom(true, false, null), other: fc.jsonValue() }, { requiredKeys: [] }),
      ),
      n: fc.constantFrom(1, 2, null),
      messages: fc.array(fc.jsonValue(), { maxLength: 3 }),
    },
    { requiredKeys: ["model"] },
  );
  fc.assert(
    fc.property(request, fc.boolean(), (requestBody, streamUsage) => {
      const { stream_options: theirs, ...expected } = { ...requestBody, model: "upstream-name" };
      const { stream_options: ours, ...rest } = JSON.parse(
        translated(JSON.stringify(requestBody, null, 1), streamUsage).body,
      ) as Record<string, unknown>;
      assert.deepEqual(rest, JSON.parse(JSON.stringify(expected)));
      assert.deepEqual(
        ours,
        requestBody.stream === true && streamUsage
          ? JSON.parse(JSON.stringify({ ...theirs, include_usage: true }))
          : undefined,
      );
    }),
  );
});

test("a caller's own request has the settings that its model requires beside tools, and every other byte stays", () => {
  const tools = '"tools":[{"type":"function","function":{"name":"f"}}]';
  const cases: [model: string, sent: string, kept: string][] = [
    ["gpt-5.4", `{"model":"m", ${tools}}`, `{"model":"gpt-5.4", ${tools},"reasoning_effort":"none"}`],
    [
      "gpt-5.4",
      `{"model":"m","reasoning_effort":"high",${tools}}`,
      `{"model":"gpt-5.4","reasoning_effort":"none",${tools}}`,
    ],
    [
      "gpt-5.4",
      '{"model":"m","reasoning_effort":"high","tools":[]}',
      '{"model":"gpt-5.4","reasoning_effort":"high","tools":[]}',
    ],
    [
      "gpt-5.4",
      '{"model":"m","tools":[{"type":"custom","custom":{"name":"f"}}]}',
      '{"model":"gpt-5.4","tools":[{"type":"custom","custom":{"name":"f"}}]}',
    ],
    ["gpt-5.2", `{"model":"m",${tools}}`, `{"model":"gpt-5.2",${tools}}`],
    [
      "deepseek-v4-pro",
      `{"model":"m",${tools},"tool_choice":"required"}`,
      `{"model":"deepseek-v4-pro",${tools},"tool_choice":"required","thinking":{"type":"disabled"}}`,
    ],
    [
      "qwen3.8-max",
      `{"model":"m",${tools},"tool_choice":{"type":"function","function":{"name":"f"}}}`,
      `{"model":"qwen3.8-max",${tools},"tool_choice":{"type":"function","function":{"name":"f"}},"enable_thinking":false}`,
    ],
    ["kimi-k3", `{"model":"m",${tools},"tool_choice":"required"}`, `{"model":"kimi-k3",${tools},"tool_choice":"auto"}`],
    ["glm-5.3", `{"model":"m","tool_choice":"required",${tools}}`, `{"model":"glm-5.3","tool_choice":"auto",${tools}}`],
    ["glm-5.3", `{"model":"m","tool_choice":"auto",${tools}}`, `{"model":"glm-5.3","tool_choice":"auto",${tools}}`],
  ];
  for (const [model, sent, kept] of cases)
    assert.equal(String(verbatim.request(Buffer.from(sent), "whole", targetOf("openai-chat", model))?.body), kept);
});
