import assert from "node:assert/strict";
import { test } from "node:test";
import { consistent } from "#dialects/neutral/consistent.ts";
import { Refusal } from "#dialects/neutral/field-support.ts";
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
  for (const fields of large(10)) refusalOf(fields);
  for (const fields of large(50_000))
    assert.ok((await workMsOf(() => assert.notEqual(refusalOf(fields)[0], ""))) < 2_000, Object.keys(fields).join());
});
