/** A repeated member is refused: an upstream may read another of its values than the gateway. */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { type BatchDialect, batchFormats, readLine } from "../../../apps/control/batches/formats.ts";
import { endpoints } from "../../../apps/ingress/common/endpoints.ts";
import { Refusal } from "../../../apps/ingress/common/refusal.ts";
import { BodyReader } from "../../../apps/ingress/request/body-reader.ts";
import { realtimeApis } from "../../../apps/ingress/websocket/realtime/session-api.ts";

const reader = new BodyReader();
after(() => reader.close());

const read = (name: string, bytes: Buffer, contentType?: string, model?: string) => {
  const endpoint = endpoints.get(name);
  assert.ok(endpoint !== undefined);
  return reader.read(endpoint, bytes, {
    key: "k",
    form: contentType === undefined ? undefined : { contentType, model },
  });
};

const refusedFor = (value: unknown, message: RegExp) => {
  assert.ok(value instanceof Refusal);
  assert.equal(value.failure.code, "invalid_request");
  assert.match(value.failure.message, message);
};

const repeats: [json: string, name: string][] = [
  ['{"max_tokens":100000,"max_tokens":1}', "max_tokens"],
  ['{"model":"a","mod\\u0065l":"b"}', "model"],
  ['{"stream_options":{"include_usage":false,"include_usage":true}}', "include_usage"],
  ['{"tools":[{"type":"function","name":"f"},{"type":"function","type":"web_search"}]}', "type"],
  ['{"generationConfig":{"thinkingConfig":{"thinkingBudget":1,"thinkingBudget":0}}}', "thinkingBudget"],
];

const isForm = (name: string) => /^\/v1\/(?:images\/(?:edits|variations)|audio\/trans)/.test(name);

for (const name of endpoints.keys())
  if (!isForm(name) || name === "/v1/images/edits")
    test(`${name}: a member that an object has twice is refused, in a small body and in a large one`, async () => {
      const contentType = isForm(name) ? "application/json" : undefined;
      for (const [json, repeated] of repeats)
        for (const body of [json, `{"user":"${"x".repeat(200_000)}",${json.slice(1)}`])
          refusedFor(await read(name, Buffer.from(body), contentType), new RegExp(`'${repeated}' twice`));
    });

test("a field of Gemini's requests is refused in both spellings at once", async () => {
  const contents = [{ parts: [{ text: "x" }] }];
  for (const [body, param] of [
    [{ contents, generationConfig: { maxOutputTokens: 1 }, generation_config: {} }, "generationConfig"],
    [{ contents, generationConfig: { maxOutputTokens: 1, max_output_tokens: 9 } }, "generationConfig.maxOutputTokens"],
    [
      { contents, generationConfig: { maxOutputTokens: null, max_output_tokens: 9 } },
      "generationConfig.maxOutputTokens",
    ],
    [{ contents, tools: [{ functionDeclarations: [], function_declarations: [] }] }, "tools[0].functionDeclarations"],
  ] as const)
    for (const name of ["generateContent", "streamGenerateContent", "countTokens"]) {
      const refusal = await read(name, Buffer.from(JSON.stringify(body)));
      refusedFor(refusal, /both of its spellings/);
      assert.equal((refusal as Refusal).failure.param, param);
    }
});

const formOf = async (fields: [string, string | File][]) => {
  const form = new FormData();
  for (const [name, value] of fields) form.append(name, value as string);
  const response = new Response(form);
  return [Buffer.from(await response.arrayBuffer()), response.headers.get("content-type") as string] as const;
};

test("a field that a form has twice is refused unless it is a list", async () => {
  const image = new File(["x"], "a.png", { type: "image/png" });
  const sound = new File(["x"], "a.mp3");
  const edit: [string, string | File][] = [
    ["model", "m"],
    ["prompt", "p"],
    ["image", image],
  ];
  const speech: [string, string | File][] = [
    ["model", "m"],
    ["file", sound],
  ];
  for (const [name, fields, repeated] of [
    ["/v1/images/edits", [...edit, ["n", "9"], ["n", "1"]], "n"],
    ["/v1/images/edits", [...edit, ["model", "other"]], "model"],
    ["/v1/images/edits", [...edit, ["prompt[]", "other"]], "prompt"],
    ["/v1/images/edits", [...edit, ["mask", image], ["mask", image]], "mask"],
    ["/v1/images/edits", [...edit, ["image", image]], undefined],
    ["/v1/images/edits", [...edit.slice(0, 2), ["image[]", image], ["image[]", image]], undefined],
    ["/v1/audio/transcriptions", [...speech, ["stream", "true"], ["stream", "false"]], "stream"],
    ["/v1/audio/transcriptions", [...speech, ["model", "other"]], "model"],
    ["/v1/audio/translations", [...speech, ["response_format", "srt"], ["response_format", "text"]], "response_format"],
    ["/v1/audio/transcriptions", [...speech, ["include", "logprobs"], ["include", "logprobs"]], undefined],
    [
      "/v1/audio/transcriptions",
      [...speech, ["timestamp_granularities[]", "word"], ["timestamp_granularities[]", "segment"]],
      undefined,
    ],
  ] as [string, [string, string | File][], string | undefined][]) {
    const result = await read(name, ...(await formOf(fields)));
    if (repeated === undefined)
      assert.ok(!(result instanceof Refusal), result instanceof Refusal ? result.message : "");
    else refusedFor(result, new RegExp(`'${repeated}' twice`));
  }
});

test("the model of the path replaces the form's", async () => {
  const fields: [string, string | File][] = [["file", new File(["x"], "a.mp3")]];
  for (const more of [[], [["model", "m"]]] as [string, string][][]) {
    const [bytes, contentType] = await formOf([...fields, ...more]);
    const result = await read("/v1/audio/transcriptions", bytes, contentType, "deployed");
    assert.ok(!(result instanceof Refusal));
    assert.equal(result.body.model, "deployed");
  }
  const twice = await formOf([...fields, ["model", "m"], ["model", "n"]]);
  refusedFor(await read("/v1/audio/transcriptions", ...twice, "deployed"), /'model' twice/);
});

const [openai, gemini] = realtimeApis;
assert.ok(openai !== undefined && gemini !== undefined);

test("a session's messages that name a model name it once, in any spelling", () => {
  const update = (session: string) => Buffer.from(`{"type":"session.update","session":${session}}`);
  refusedFor(openai.modelIn(update('{"model":"other","model":"m"}'), { models: ["m"] }), /'model' twice/);
  refusedFor(openai.modelIn(update('{"mod\\u0065l":"other"}'), { models: ["m"] }), /cannot be changed/);
  refusedFor(
    openai.modelIn(Buffer.from('{"type":"x","type":"session.update","session":{"model":"other"}}'), { models: ["m"] }),
    /'type' twice/,
  );
  refusedFor(
    openai.modelIn(update(`{"model":"other"${" ".repeat(1 << 20)}}`), { models: ["m"] }),
    /1048576 bytes at most/,
  );
  const named = openai.modelIn(update('{"mod\\u0065l":"m"}'), { models: ["m"] });
  assert.ok(named !== undefined && !(named instanceof Refusal));
  assert.equal(
    openai.modelIn(Buffer.from('{"type":"response.create","response":{"model":"x"}}'), { models: ["m"] }),
    undefined,
  );
  refusedFor(gemini.openedWith(Buffer.from('{"setup":{"model":"a","model":"b"}}')), /'model' twice/);
  refusedFor(
    openai.openedWith(
      Buffer.from(
        '{"type":"session.update","type":"session.update","session":{"type":"transcription","audio":{"input":{"transcription":{"model":"m"}}}}}',
      ),
    ),
    /'type' twice/,
  );
});

test("a line of a batch with a repeated member is at fault", () => {
  const lines: [BatchDialect, string, string][] = [
    ["openai", '{"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":{"model":"a","n":9,"n":1}}', "n"],
    ["anthropic", '{"custom_id":"a","params":{"model":"a"},"params":{"model":"b"}}', "params"],
    ["gemini", '{"key":"a","request":{"contents":[],"contents":[]}}', "contents"],
  ];
  for (const [dialect, line, name] of lines) {
    const fault = readLine(batchFormats[dialect], Buffer.from(line), "/v1/chat/completions");
    assert.match("message" in fault ? fault.message : "", new RegExp(`"${name}" twice`));
  }
});
