import assert from "node:assert/strict";
import { test } from "node:test";
import { consistent } from "#dialects/neutral/consistent.ts";
import { Refusal } from "#dialects/neutral/field-support.ts";
import type { Part } from "#dialects/neutral/neutral.ts";
import { openaiChat } from "#dialects/openai-chat/codec.ts";
import { workMsOf } from "../../../support/time.ts";

const user = { role: "user", content: "hi" };
const decoded = (fields: object) =>
  consistent(openaiChat.decodeRequest({ body: { model: "m", messages: [user], ...fields }, framing: "whole" }));

/** The field that is refused, and what is said of it. */
function refusalOf(fields: object): [param: string, message: string] {
  try {
    decoded(fields);
  } catch (error) {
    if (error instanceof Refusal) return [error.param, error.message];
    throw error;
  }
  return ["", "taken"];
}

test("extensions of other servers are translated where the upstream's dialect has an equivalent", () => {
  for (const none of [
    { max_tokens: -1 },
    { max_completion_tokens: -1 },
    { max_tokens: -1, max_completion_tokens: null },
    { max_tokens: null },
  ])
    assert.equal(decoded(none).settings.outputTokensMax, undefined);
  assert.deepEqual(decoded({ max_tokens: -1, max_completion_tokens: 7 }).settings.outputTokensMax, {
    value: 7,
    path: "max_completion_tokens",
  });

  const picture = (image_url: unknown) =>
    decoded({ messages: [{ role: "user", content: [{ type: "image_url", image_url }] }] }).messages[0]?.parts[0];
  assert.deepEqual(picture("https://x/y.png"), {
    kind: "image",
    source: { kind: "url", url: "https://x/y.png" },
    path: "messages[0].content[0].image_url",
  });

  const { tools } = decoded({ tools: [{ function: { name: "f" } }, { type: null, function: { name: "g" } }] });
  assert.deepEqual(
    tools.map(({ name, takesText }) => [name, takesText]),
    [
      ["f", undefined],
      ["g", undefined],
    ],
  );
});

test("results without an id belong to the preceding calls, in order", () => {
  const called = (...ids: string[]) => ({
    role: "assistant",
    content: null,
    tool_calls: ids.map((id) => ({ id, type: "function", function: { name: `f_${id}`, arguments: "{}" } })),
  });
  const result = (content: string, tool_call_id?: string | null) => ({
    role: "tool",
    content,
    ...(tool_call_id !== undefined && { tool_call_id }),
  });
  const resultsOf = (...messages: object[]) =>
    decoded({ messages: [user, ...messages] }).messages.flatMap(({ parts }) =>
      parts.flatMap((part) =>
        part.kind === "result"
          ? [[part.callId, part.name, part.content.map((inner) => inner.kind === "text" && inner.text).join()]]
          : [],
      ),
    );
  assert.deepEqual(resultsOf(called("a", "b"), result("1"), result("2", null)), [
    ["a", "f_a", "1"],
    ["b", "f_b", "2"],
  ]);
  assert.deepEqual(
    resultsOf(called("a", "b", "c"), result("2", "b"), result("1"), result("3"), called("d"), result("4", "")),
    [
      ["b", "f_b", "2"],
      ["a", "f_a", "1"],
      ["c", "f_c", "3"],
      ["d", "f_d", "4"],
    ],
  );
  assert.deepEqual(resultsOf(result("1")), []);
  assert.deepEqual(resultsOf(called("a"), result("1"), result("2")), [["a", "f_a", "1"]]);
});

test("an unsupported field is rejected by name", () => {
  const cases: [object, string, RegExp][] = [
    [{ max_tokens: 0 }, "max_tokens", />= 1/],
    [{ max_tokens: -2 }, "max_tokens", />= -1/],
    [{ temperature: 2.5 }, "temperature", /<= 2/],
    [{ top_logprobs: 50 }, "top_logprobs", /<= 20/],
    [{ response_format: { type: "regex", pattern: "a+" } }, "response_format.type", /is not supported by the upstream/],
    [{ messages: [{ role: "critic", content: "x" }] }, "messages[0].role", /"system", "developer"/],
    [{ messages: [{ role: "user", content: null }] }, "messages[0].content", /must be string or array/],
    [
      { messages: [{ role: "user", content: [{ type: "image_url", image_url: "" }] }] },
      "messages[0].content[0].image_url",
      /must NOT be empty/,
    ],
    [
      { messages: [{ role: "user", content: [{ type: "image_url", image_url: "nowhere" }] }] },
      "messages[0].content[0].image_url",
      /./,
    ],
    [{ tools: [{ type: "function" }] }, "tools[0].function", /is missing/],
    [{ tool_choice: { type: "function" } }, "tool_choice.function", /is missing/],
    [{ logit_bias: { "a/b~c": "7" } }, "logit_bias.a/b~c", /must be number/],
    [{ logprobs: false, top_logprobs: 3 }, "logprobs", /must be true/],
  ];
  for (const [fields, param, message] of cases) {
    const [named, refusalText] = refusalOf(fields);
    assert.equal(named, param, JSON.stringify(fields));
    assert.match(refusalText, message);
  }
});

test("parts of Responses and of other servers of this format are read", () => {
  const partIn = (part: object) => {
    const [first] = decoded({ messages: [{ role: "user", content: [part] }] }).messages[0]?.parts ?? [];
    const { path: _path, ...others } = first as Part;
    return others;
  };
  const pdf = { kind: "file", source: { kind: "url", url: "https://x/y.pdf" } };
  const data = { kind: "file", source: { kind: "data", mimeType: "application/pdf", data: "JVBERi0xLjQK" } };
  const picture = { kind: "image", source: { kind: "url", url: "https://x/y.png" } };
  const cases: [object, object][] = [
    [
      { type: "input_text", text: "a" },
      { kind: "text", text: "a" },
    ],
    [
      { type: "input_image", image_url: "https://x/y.png", detail: "low" },
      { ...picture, detail: "low" },
    ],
    [{ type: "input_file", file_url: "https://x/y.pdf" }, pdf],
    [
      { type: "input_file", file_data: "JVBERi0xLjQK", filename: "y.pdf" },
      { ...data, name: "y.pdf" },
    ],
    // https://github.com/BerriAI/litellm/issues/11529
    [{ type: "file", file: { file_id: "https://x/y.pdf", format: "application/pdf" } }, pdf],
    [{ type: "file", file: { file_id: "data:application/pdf;base64,JVBERi0xLjQK" } }, data],
    [{ type: "file", file: { file_url: "https://x/y.pdf", file_id: null } }, pdf],
    [
      { type: "document_url", document_url: "https://x/y.pdf", document_name: "y" },
      { ...pdf, name: "y" },
    ],
    [{ type: "document_url", document_url: { url: "https://x/y.pdf" } }, pdf],
    [{ type: "file_url", file_url: { url: "https://x/y.pdf" } }, pdf],
  ];
  for (const [part, expected] of cases) assert.deepEqual(partIn(part), expected, JSON.stringify(part));
  const [spoken] = decoded({
    messages: [user, { role: "assistant", content: [{ type: "output_text", text: "a" }] }, user],
  }).messages.slice(1, 2);
  assert.deepEqual(spoken?.parts[0], { kind: "text", text: "a", path: "messages[1].content[0]" });
  for (const [part, field] of [
    [{ type: "file", file: { file_id: "file-1" } }, "file.file_id"],
    [{ type: "input_file", file_id: "file-1" }, "file_id"],
    [{ type: "document_url", document_url: "y.pdf" }, "document_url"],
    [{ type: "file_url" }, "file_url"],
  ])
    assert.equal(refusalOf({ messages: [{ role: "user", content: [part] }] })[0], `messages[0].content[0].${field}`);
});

test("a message's content may be one part without a list", () => {
  const part = { type: "text", text: "a" };
  const { system, messages } = decoded({
    messages: [
      { role: "system", content: part },
      { role: "user", content: part },
      { role: "assistant", content: part },
    ],
  });
  assert.deepEqual(
    [system, ...messages.map(({ parts }) => parts)].flat().map((one) => one.kind === "text" && one.text),
    ["a", "a", "a"],
  );
  assert.equal(refusalOf({ messages: [{ role: "user", content: {} }] })[0], "messages[0].content.type");
});

test("a message without content is empty where its role allows it", () => {
  const call = { id: "a", type: "function", function: { name: "f", arguments: "{}" } };
  const { messages } = decoded({
    messages: [
      user,
      { role: "assistant" },
      user,
      { role: "assistant", tool_calls: [call] },
      { role: "tool", tool_call_id: "a" },
    ],
  });
  assert.deepEqual(messages[1]?.parts, []);
  assert.deepEqual(
    messages[4]?.parts.map((part) => part.kind === "result" && part.content),
    [[]],
  );
  for (const role of ["user", "system"]) assert.equal(refusalOf({ messages: [{ role }] })[0], "messages[0].content");
});

test("Google's tools are left out in the form that LiteLLM has for them", () => {
  const request = decoded({ tools: [{ googleSearch: {} }, { url_context: {} }, { function: { name: "f" } }] });
  assert.deepEqual(
    request.tools.map(({ name }) => name),
    ["f"],
  );
  assert.match(request.warnings?.join() ?? "", /tools\[0\] is googleSearch.*tools\[1\] is url_context/);
  assert.equal(refusalOf({ tools: [{ fileSearch: {} }] })[0], "tools[0].name");
});

test("a call is required by Mistral's word as well", () => {
  const { toolChoice } = decoded({ tools: [{ function: { name: "f" } }], tool_choice: "any" });
  assert.equal(toolChoice?.mode, "required");
});

test("the schema of an answer is read where servers of this format have it", () => {
  const schema = { type: "object", properties: { a: { type: "string" } } };
  const cases: [object, object][] = [
    [
      { type: "json_schema", json_schema: { name: "n", schema, strict: true } },
      { name: "n", strict: true },
    ],
    [
      { type: "json_schema", json_schema: { name: "n", schema, strict: "true" } },
      { name: "n", strict: true },
    ],
    [{ type: "json_schema", json_schema: { schema, name: null, strict: null } }, {}],
    [{ type: "json_schema", schema }, {}],
    [
      { type: "json_schema", name: "n", schema, strict: false, json_schema: null },
      { name: "n", strict: false },
    ],
    [{ type: "json_object", schema }, {}],
    [{ type: "json_object", response_schema: schema, schema: null }, {}],
  ];
  for (const [response_format, more] of cases)
    assert.deepEqual(
      decoded({ response_format }).settings.format?.value,
      { kind: "schema", schema, ...more },
      JSON.stringify(response_format),
    );
  const plain = decoded({ response_format: { type: "json_object", schema: null } });
  assert.deepEqual(plain.settings.format?.value, { kind: "json" });
});

test("metadata may hold anything, such as the list of tags that the gateway reads", () => {
  for (const metadata of [{ tags: ["a", "b"] }, { trace: { id: 1 }, score: 0.5, none: null }, null, {}])
    assert.equal(refusalOf({ metadata })[0], "", JSON.stringify(metadata));
});

test("an error at the end of a large body is found in linear time", async () => {
  const large = (count: number): object[] => [
    { messages: [...Array.from({ length: count }, () => user), { role: "critic", content: "x" }] },
    {
      messages: [
        {
          role: "user",
          content: [...Array.from({ length: count }, () => ({ type: "text", text: "x" })), { type: "text" }],
        },
      ],
    },
    {
      logit_bias: Object.fromEntries(
        Array.from({ length: count }, (_, place) => [`k${place}`, place === count - 1 ? "v" : 7]),
      ),
    },
  ];
  const workMsFor = async (count: number): Promise<number[]> => {
    const works: number[] = [];
    for (const fields of large(count)) works.push(await workMsOf(() => assert.notEqual(refusalOf(fields)[0], "")));
    return works;
  };
  // The first ones compile.
  await workMsFor(10);
  const few = await workMsFor(2_000);
  const many = await workMsFor(20_000);
  // Ten times as much work, where quadratic time is a hundred times as much.
  for (const [index, work] of many.entries()) {
    const fewWork = few[index] ?? 0;
    assert.ok(work < 40 * Math.max(fewWork, 5), `${index}: ${fewWork} ms, then ${work} ms`);
  }
});
