import assert from "node:assert/strict";
import { test } from "node:test";
import { elementsOf } from "#wire/elements.ts";
import { linesOf } from "#wire/lines.ts";
import type { BatchDialect } from "../../../apps/control/batches/formats.ts";
import { batchFormats } from "../../../apps/control/batches/formats.ts";
import { InputCheck, type InputFault } from "../../../apps/control/batches/input-check.ts";

const bounds = { linesMax: 5, bytesMax: 10_000, lineBytesMax: 300, faultsMax: 100 };
const endpoint = "/v1/chat/completions";

/** In parts of a few bytes, so that every line and string is split somewhere. */
async function* inParts(bytes: Buffer, size: number): AsyncGenerator<Buffer> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

async function checked(text: string | Buffer, dialect: BatchDialect = "openai", more: object = {}, size = 7) {
  const ownBounds = { ...bounds, ...more };
  const check = new InputCheck({
    format: batchFormats[dialect],
    endpoint,
    bounds: ownBounds,
    allowsModel: (model) => model !== "secret",
  });
  const bodies: string[] = [];
  for await (const line of linesOf(inParts(Buffer.from(text), size), ownBounds.lineBytesMax)) {
    const request = check.add(line);
    if (request !== undefined) bodies.push(request.body.toString());
    if (check.isOver) break;
  }
  check.end();
  return { bodies, faults: check.faults, model: check.model, tokens: check.tokens };
}

const line = (more: object = {}, body: object = {}) =>
  JSON.stringify({ custom_id: "a", method: "POST", url: endpoint, body: { model: "m", ...body }, ...more });

const codesOf = (faults: readonly InputFault[]) => faults.map(({ line: at, code, param }) => [at, code, param]);

/** The input, and the faults as line, code and field. */
const openaiFaults: Record<string, [input: string | Buffer, faults: unknown[], more?: object]> = {
  "no input": ["", [[null, "empty_file", null]]],
  "only blank lines": ["\n \r\n\t\n", [[null, "empty_file", null]]],
  "no JSON": [`${line()}\n{"custom_id":`, [[2, "invalid_json_line", null]]],
  "JSON twice on a line": [`${line()} ${line()}`, [[1, "invalid_json_line", null]]],
  "deep nesting": [line().replace('"m"', `${"[".repeat(100)}${"]".repeat(99)}`), [[1, "invalid_json_line", null]]],
  "too many levels": [
    line({}, { a: JSON.parse(`${"[".repeat(300)}${"]".repeat(300)}`) }),
    [[1, "invalid_request", null]],
    { lineBytesMax: 10_000 },
  ],
  "too many values": [
    line({}, { a: Array(100_001).fill({}) }),
    [[1, "invalid_request", null]],
    { bytesMax: 1_000_000, lineBytesMax: 1_000_000 },
  ],
  "no object": ["[]", [[1, "invalid_request", "custom_id"]]],
  "no custom_id": [line({ custom_id: undefined }), [[1, "invalid_request", "custom_id"]]],
  "an empty custom_id": [line({ custom_id: "" }), [[1, "invalid_request", "custom_id"]]],
  "a number as custom_id": [line({ custom_id: 1 }), [[1, "invalid_request", "custom_id"]]],
  "another method": [line({ method: "GET" }), [[1, "invalid_request", "method"]]],
  "no method": [line({ method: undefined }), [[1, "invalid_request", "method"]]],
  "another url": [line({ url: "/v1/embeddings" }), [[1, "url_mismatch", "url"]]],
  "no url": [line({ url: undefined }), [[1, "url_mismatch", "url"]]],
  "no body": [line({ body: undefined }), [[1, "invalid_request", "body"]]],
  "a list as body": [line({ body: [] }), [[1, "invalid_request", "body"]]],
  "a stream": [line({}, { stream: true }), [[1, "invalid_request", "body.stream"]]],
  "a background response": [line({}, { background: true }), [[1, "invalid_request", "body.background"]]],
  "no model": [line({}, { model: undefined }), [[1, "invalid_request", "body.model"]]],
  "a number as model": [line({}, { model: 1 }), [[1, "invalid_request", "body.model"]]],
  "a forbidden model": [line({}, { model: "secret" }), [[1, "model_not_found", "body.model"]]],
  "the same custom_id": [
    [line(), line({ custom_id: "b" }), line(), line({ custom_id: "b" })].join("\n"),
    [
      [3, "duplicate_custom_id", "custom_id"],
      [4, "duplicate_custom_id", "custom_id"],
    ],
  ],
  "a long line": [line({}, { text: "x".repeat(400) }), [[1, "line_too_long", null]]],
  "too many lines": [
    Array.from({ length: 7 }, (_, index) => line({ custom_id: `${index}` })).join("\n"),
    [[null, "too_many_tasks", null]],
  ],
  "too many bytes": [
    [line(), line({ custom_id: "b" })].join("\n"),
    [[null, "file_too_large", null]],
    { bytesMax: 150 },
  ],
  "every fault of a file": [
    `{\n\n${line({ url: "/v1/x" })}\n${line()}\n${line()}\n`,
    [
      [1, "invalid_json_line", null],
      [3, "url_mismatch", "url"],
      [5, "duplicate_custom_id", "custom_id"],
    ],
  ],
  "more faults than are listed": ["{\n{\n{", [[1, "invalid_json_line", null]], { faultsMax: 1 }],
};

for (const [name, [input, faults, more]] of Object.entries(openaiFaults))
  test(`a file with ${name} is refused`, async () => {
    const result = await checked(input, "openai", more);
    assert.deepEqual(codesOf(result.faults), faults);
    for (const { message } of result.faults) assert.match(message, /\.$/);
  });

test("valid files have no faults, and bodies keep their bytes", async () => {
  const raw =
    '{"custom_id":"a","method":"POST","url":"/chat/completions","body":{ "model":"m","n":1.0,"id":12345678901234567890 }}';
  for (const size of [1, 2, 3, 64, 1_000])
    for (const input of [`${raw}\n`, `\uFEFF${raw}`, `${raw}\r\n\r\n`])
      assert.deepEqual(await checked(input, "openai", {}, size), {
        bodies: ['{ "model":"m","n":1.0,"id":12345678901234567890 }'],
        faults: [],
        model: "m",
        tokens: 13,
      });
});

test("a file of several models has none of its own", async () => {
  const { faults, model } = await checked(`${line()}\n${line({ custom_id: "b" }, { model: "n" })}`);
  assert.deepEqual({ faults, model }, { faults: [], model: undefined });
});

const anthropicFaults: Record<string, [request: object, param: string]> = {
  "no custom_id": [{ params: { model: "m", max_tokens: 1 } }, "custom_id"],
  "a custom_id with a space": [{ custom_id: "a b", params: { model: "m", max_tokens: 1 } }, "custom_id"],
  "a long custom_id": [{ custom_id: "a".repeat(65), params: { model: "m", max_tokens: 1 } }, "custom_id"],
  "no params": [{ custom_id: "a" }, "params"],
  "a stream": [{ custom_id: "a", params: { model: "m", max_tokens: 1, stream: true } }, "params.stream"],
  "no model": [{ custom_id: "a", params: { max_tokens: 1 } }, "params.model"],
  "no max_tokens": [{ custom_id: "a", params: { model: "m" } }, "params.max_tokens"],
  "max_tokens of zero": [{ custom_id: "a", params: { model: "m", max_tokens: 0 } }, "params.max_tokens"],
};

for (const [name, [request, param]] of Object.entries(anthropicFaults))
  test(`a request of Anthropic's with ${name} is refused`, async () => {
    assert.deepEqual(codesOf((await checked(JSON.stringify(request), "anthropic")).faults), [
      [1, "invalid_request", param],
    ]);
  });

const geminiFaults: Record<string, [request: object, param: string]> = {
  "no request": [{ key: "a" }, "request"],
  "a list as request": [{ key: "a", request: [] }, "request"],
  "a number as key": [{ key: 1, request: {} }, "key"],
  "a text as metadata": [{ request: {}, metadata: "a" }, "metadata"],
};

for (const [name, [request, param]] of Object.entries(geminiFaults))
  test(`a request of Gemini's with ${name} is refused`, async () => {
    assert.deepEqual(codesOf((await checked(JSON.stringify(request), "gemini")).faults), [
      [1, "invalid_request", param],
    ]);
  });

async function partsOf(text: string, path: string[], size: number) {
  const elements: (string | undefined)[] = [];
  let rest: string | undefined;
  for await (const part of elementsOf(inParts(Buffer.from(text), size), path, {
    elementBytesMax: 40,
    restBytesMax: 200,
  }))
    if (part.kind === "rest") rest = part.bytes.toString();
    else elements.push(part.bytes?.toString());
  return { elements, rest };
}

const arrays: [text: string, path: string[], elements: (string | undefined)[], rest: string | undefined][] = [
  ['{"requests":[{"a":[1,"]"]},{"b":"\\"},{"}]}', ["requests"], ['{"a":[1,"]"]}', '{"b":"\\"},{"}'], '{"requests":[]}'],
  ['{"x":{"requests":[1]},"requests":[2],"y":3}', ["requests"], ["2"], '{"x":{"requests":[1]},"requests":[],"y":3}'],
  ['{"requests":[ ]}', ["requests"], [], '{"requests":[]}'],
  ['{"requests":7}', ["requests"], [], '{"requests":7}'],
  ['{"b":{"r":{"r":[{},[]]}},"n":"r"}', ["b", "r", "r"], ["{}", "[]"], '{"b":{"r":{"r":[]}},"n":"r"}'],
  ['{"requests":[1,2', ["requests"], ["1"], undefined],
  [`{"requests":[1,"${"x".repeat(50)}",2]}`, ["requests"], ["1", undefined], undefined],
  [`{"requests":[1],"y":"${"x".repeat(300)}"}`, ["requests"], ["1"], undefined],
];

for (const [text, path, elements, rest] of arrays)
  test(`the elements of ${path.join(".")} in ${text.slice(0, 50)}`, async () => {
    for (const size of [1, 3, 1_000]) assert.deepEqual(await partsOf(text, path, size), { elements, rest });
  });

test("a body is read no further once its rest is too long", async () => {
  for (const filler of ["[", '{"a":', "x"]) {
    let read = 0;
    async function* body() {
      yield Buffer.from('{"x":');
      for (; read < 1_000; read++) yield Buffer.from(filler.repeat(1_000));
    }
    const parts: unknown[] = [];
    for await (const part of elementsOf(body(), ["requests"], { elementBytesMax: 40, restBytesMax: 2_000 }))
      parts.push(part);
    assert.deepEqual(parts, []);
    assert.ok(read < 5, `${read}`);
  }
});

test("a body is read no further once an element is too long", async () => {
  for (const filler of ["[", "1", " ", '{"a":', '"x', "x,"]) {
    let read = 0;
    async function* body() {
      yield Buffer.from('{"requests":[1,[');
      for (; read < 1_000; read++) yield Buffer.from(filler.repeat(1_000));
    }
    const bounds = { elementBytesMax: 2_000, restBytesMax: 40 };
    const parts = await Array.fromAsync(elementsOf(body(), ["requests"], bounds));
    assert.deepEqual(
      parts.map((part) => part.bytes?.toString()),
      ["1", undefined],
    );
    assert.ok(read < 5, `${read}`);
  }
});

const data = "a".repeat(400_000);
const attached: Record<string, [dialect: BatchDialect, line: object]> = {
  "OpenAI's chat": [
    "openai",
    {
      ...{ custom_id: "a", method: "POST", url: endpoint },
      body: {
        model: "m",
        messages: [
          {
            role: "user",
            content: [{ type: "image_url", image_url: { url: `data:image/png;base64,${data}` } }],
          },
        ],
      },
    },
  ],
  "Anthropic's messages": [
    "anthropic",
    {
      custom_id: "a",
      params: {
        ...{ model: "m", max_tokens: 1 },
        messages: [
          {
            role: "user",
            content: [{ type: "image", source: { type: "base64", media_type: "image/png", data } }],
          },
        ],
      },
    },
  ],
  Gemini: [
    "gemini",
    { key: "a", request: { contents: [{ parts: [{ inlineData: { mimeType: "image/png", data } }] }] } },
  ],
};

for (const [name, [dialect, request]] of Object.entries(attached))
  test(`${name}: an image in base64 counts as an image, as in a request of its own`, async () => {
    const more = { bytesMax: 1_000_000, lineBytesMax: 1_000_000 };
    const { faults, tokens } = await checked(JSON.stringify(request), dialect, more, 100_000);
    assert.deepEqual(faults, []);
    assert.ok(tokens > 2_000 && tokens < 2_100, String(tokens));
  });
