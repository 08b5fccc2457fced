import assert from "node:assert/strict";
import { test } from "node:test";
import { invalidFieldIn } from "#dialects/request-schema/invalid-field.ts";
import { type EmbeddingFormat, embeddingAnswerOf, embeddingRequestOf } from "#operations/embeddings/formats.ts";
import { operations } from "#operations/operations.ts";

const exchangeOf = (text: string, from: EmbeddingFormat = "openai", to = from) => {
  const made = embeddingRequestOf(from, to, Buffer.from(text), "theirs");
  return { ...made, answerOf: (bytes: Buffer) => embeddingAnswerOf(from, to, made.requested, "mine", bytes) };
};
const answered = (request: string, answer: string, from?: EmbeddingFormat, to?: EmbeddingFormat) =>
  exchangeOf(request, from, to).answerOf(Buffer.from(answer))?.body.toString();

/** Numbers that a double can't hold as they are written. */
const numbers = "[0.10000000000000000001, -0, 1.0, 12345678901234567890, 1e-400]";
const floats = [0.5, -1.25, 3];
const base64 = Buffer.from(new Uint8Array(Float32Array.from(floats).buffer)).toString("base64");

test("requests and answers of one format keep every byte but the model's name", () => {
  const request =
    '\n{ "input" : ["a","b"],\t"model":"mine", "new":1e400, "seed":12345678901234567890, "x":{"model":"mine"} }\n';
  assert.equal(exchangeOf(request).request.body.toString(), request.replace('"mine"', '"theirs"'));
  const item = (index: number) => `{"index":${index}, "embedding" :${numbers},"new":1e400}`;
  const answer = ` {"data":[${item(0)} , ${item(1)}], "model":"theirs","usage":{"prompt_tokens":2},"big":12345678901234567890}\n`;
  assert.equal(answered(request, answer), answer.replace("theirs", "mine"));
  assert.equal(exchangeOf(request).answerOf(Buffer.from(answer))?.usage?.inputTokens, 2);

  const single = '{"content":{"parts":[{"text":"a"}]}, "big":12345678901234567890}';
  assert.equal(exchangeOf(single, "gemini").request.body.toString(), `${single.slice(0, -1)},"model":"models/theirs"}`);
  const batch = `{"requests":[${single}, {"model":"models/mine","content":{"parts":[{"text":"b"}]}}]}`;
  assert.equal(
    exchangeOf(batch, "gemini").request.body.toString(),
    `{"requests":[${single.slice(0, -1)},"model":"models/theirs"}, {"model":"models/theirs","content":{"parts":[{"text":"b"}]}}]}`,
  );
  assert.equal(
    answered(single, `{"embedding":{"values":${numbers}} }`, "gemini"),
    `{"embedding":{"values":${numbers}} }`,
  );
});

test("an encoding of null is none, and strict servers do not see it", () => {
  const schema = operations.embedding.endpoints[0]?.schema as object;
  assert.equal(invalidFieldIn(schema, { model: "mine", input: "a", encoding_format: null }), undefined);
  const { request, answerOf } = exchangeOf('{"model":"mine","encoding_format":null,"input":"a"}');
  assert.equal(request.body.toString(), '{"model":"theirs","input":"a"}');
  assert.ok(answerOf(Buffer.from('{"data":[{"index":0,"embedding":[1]}]}')));
});

test("an embedding is encoded as the caller asked, whatever its upstream sends", () => {
  const request = (format?: string) =>
    JSON.stringify({ model: "mine", input: "a", ...(format !== undefined && { encoding_format: format }) });
  const answer = (embedding: string) =>
    `{"object":"list","data":[{"object":"embedding","index":0,"embedding":${embedding}}],"model":"mine"}`;
  const [plain, packed] = [answer(JSON.stringify(floats)), answer(`"${base64}"`)];
  for (const sent of [plain, packed]) {
    assert.equal(answered(request("base64"), sent), packed);
    assert.equal(answered(request("float"), sent), plain);
    assert.equal(answered(request(), sent), plain);
  }
});

test("an answer without an embedding for each input is a failure", () => {
  const item = '{"embedding":[1]}';
  const cases: [input: unknown, data: string][] = [
    ["a", "[]"],
    ["a", "null"],
    ["a", `[${item},${item}]`],
    [["a", "b"], `[${item}]`],
    ["a", '[{"embedding":[]}]'],
    ["a", '[{"embedding":null}]'],
    ["a", '[{"embedding":""}]'],
    ["a", "[null]"],
    [[1, 2], "[]"],
    [[[1], [2]], `[${item}]`],
  ];
  for (const [input, data] of cases)
    assert.equal(answered(JSON.stringify({ model: "mine", input }), `{"data":${data}}`), undefined, data);
  for (const broken of ["", "{}", "[]", `{"data":[${item}`])
    assert.equal(answered('{"model":"m","input":"a"}', broken), undefined);
  for (const [input, count] of [
    ["a", 1],
    [["a", "b"], 2],
    [[1, 2], 1],
    [[[1], [2]], 2],
  ] as const)
    assert.notEqual(
      answered(JSON.stringify({ model: "mine", input }), `{"data":[${Array(count).fill(item)}]}`),
      undefined,
    );

  const google = '{"content":{"parts":[{"text":"a"}]}}';
  for (const answer of ['{"embedding":{}}', '{"embedding":{"values":[]}}', '{"embeddings":[]}', "{}"]) {
    assert.equal(answered(google, answer, "gemini"), undefined, answer);
    assert.equal(answered('{"model":"m","input":"a"}', answer, "openai", "gemini"), undefined, answer);
  }
  assert.equal(answered(google, '{"data":[{"embedding":[]}]}', "gemini", "openai"), undefined);
});

test("a single part stands for a list, and a number for the name of a task", () => {
  const content = { parts: { text: "a" } };
  const request = { content, taskType: 1 };
  const bodies = [request, { requests: [request, { content: { parts: [{ text: "a" }] } }] }];
  for (const [place, body] of bodies.entries()) {
    const { schema } = operations.embedding.endpoints[place + 1] ?? {};
    assert.equal(invalidFieldIn(schema as object, body), undefined);
    const { texts } = exchangeOf(JSON.stringify(body), "gemini", "openai");
    assert.deepEqual(texts, place === 0 ? ["a"] : ["a", "a"]);
    for (const parts of ["a", 1, { text: 1 }, []])
      assert.notEqual(
        invalidFieldIn(schema as object, place === 0 ? { content: { parts } } : { requests: [{ content: { parts } }] }),
        undefined,
      );
  }
});

test("each vendor's count of an embedding's tokens is read", () => {
  const openai = { from: "openai", request: '{"model":"mine","input":"a"}' } as const;
  const google = { from: "gemini", request: '{"content":{"parts":[{"text":"a"}]}}' } as const;
  const data = '"data":[{"index":0,"embedding":[1]}]';
  const vector = '{"values":[1]}';
  const reports: [name: string, to: EmbeddingFormat, report: string, tokens: number | undefined, images?: number][] = [
    ["OpenAI", "openai", '"usage":{"prompt_tokens":7,"total_tokens":7}', 7],
    // https://docs.voyageai.com/reference/embeddings-api
    ["Voyage", "openai", '"usage":{"total_tokens":7}', 7],
    ["names of Responses", "openai", '"usage":{"input_tokens":7,"output_tokens":0}', 7],
    [
      "a model of images",
      "openai",
      '"usage":{"prompt_tokens":7,"total_tokens":7,"prompt_tokens_details":{"image_tokens":4}}',
      7,
      4,
    ],
    // https://github.com/maximhq/bifrost/pull/7295
    [
      "Google",
      "gemini",
      '"usageMetadata":{"promptTokenCount":7,"promptTokenDetails":[{"modality":"TEXT","tokenCount":7}]}',
      7,
    ],
    [
      "Google, of an image",
      "gemini",
      '"usageMetadata":{"promptTokenCount":7,"promptTokenDetails":[{"modality":"IMAGE","tokenCount":4}]}',
      7,
      4,
    ],
    ["nobody", "openai", '"usage":{"prompt_tokens":0,"total_tokens":0}', undefined],
    ["an older model of Google", "gemini", '"usageMetadata":{}', undefined],
  ];
  for (const { from, request } of [openai, google])
    for (const [name, to, report, tokens, images] of reports) {
      const vectors = to === "openai" ? data : from === "gemini" ? `"embedding":${vector}` : `"embeddings":[${vector}]`;
      const answer = exchangeOf(request, from, to).answerOf(Buffer.from(`{${vectors},${report}}`));
      assert.deepEqual(
        [answer?.usage?.inputTokens, answer?.usage?.units?.imageInputTokens],
        [tokens, images],
        `${from} by ${name}`,
      );
    }
  const voyage = JSON.parse(answered(openai.request, `{${data},"usage":{"total_tokens":7}}`) ?? "");
  assert.deepEqual(voyage.usage, { prompt_tokens: 7, total_tokens: 7 });
});
