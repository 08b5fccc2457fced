/**
 * Hostile, very large and odd bodies: work is bounded, the error is clear, and other callers are
 * not affected.
 */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { type ConversationDialect, conversationDialects } from "#dialects/dialect.ts";
import { modelOf, startClientsGateway } from "../clients/support.ts";
import { metricsOf } from "../support/metrics.ts";
import { png } from "../support/png.ts";
import { workedSecondsOf } from "../support/time.ts";
import { words } from "./bad-input/raw.ts";
import { exchange } from "./support.ts";

const gateway = await startClientsGateway({ processes: "all" });
after(() => gateway[Symbol.asyncDispose]());

interface Answer {
  status: number;
  text: string;
}

async function post(path: string, body: string | FormData | Buffer, contentType?: string): Promise<Answer> {
  const type = contentType ?? (typeof body === "string" ? "application/json" : undefined);
  const response = await fetch(`${gateway.url}${path}`, {
    method: "POST",
    headers: { "x-api-key": gateway.key, ...(type !== undefined && { "content-type": type }) },
    body: body as NonNullable<RequestInit["body"]>,
    signal: AbortSignal.timeout(20_000),
  });
  return { status: response.status, text: await response.text() };
}

/** Every caller with every upstream. */
async function everyPair(
  act: (caller: ConversationDialect, model: string, upstream: ConversationDialect) => Promise<void>,
): Promise<void> {
  for (const caller of conversationDialects)
    await Promise.all(conversationDialects.map((upstream) => act(caller, modelOf(upstream), upstream)));
}

const times = (count: number, text: string) => new Array<string>(count).fill(text).join(",");

/** The gist of each dialect's own error: its kind, and what it says. */
function faultIn({ text }: Answer, dialect: ConversationDialect): { kind: string; message: string } {
  const { error } = JSON.parse(text);
  return { kind: dialect === "gemini" ? error.status : error.type, message: error.message };
}
const invalid: Record<ConversationDialect, string> = {
  "openai-chat": "invalid_request_error",
  "openai-responses": "invalid_request_error",
  "anthropic-messages": "invalid_request_error",
  gemini: "INVALID_ARGUMENT",
};

const ask = (caller: ConversationDialect, model: string, parts: string, more?: string) =>
  post(words[caller].path(model), words[caller].ask(model, parts, more));

test("a body of 100 MB is refused before it is sent, in its endpoint's own format", async () => {
  for (const [path, kind] of [
    ["/v1/chat/completions", "invalid_request_error"],
    ["/v1/responses", "invalid_request_error"],
    ["/v1/responses/input_tokens", "invalid_request_error"],
    ["/v1/embeddings", "invalid_request_error"],
    ["/v1/images/generations", "invalid_request_error"],
    ["/v1/images/edits", "invalid_request_error"],
    ["/v1/messages", "request_too_large"],
    ["/v1/messages/count_tokens", "request_too_large"],
    ["/v1beta/models/x:generateContent", "INVALID_ARGUMENT"],
    ["/v1/models/x:streamGenerateContent", "INVALID_ARGUMENT"],
    ["/v1beta/models/x:countTokens", "INVALID_ARGUMENT"],
    ["/v1beta/models/x:embedContent", "INVALID_ARGUMENT"],
    ["/v1beta/models/x:batchEmbedContents", "INVALID_ARGUMENT"],
  ] as const) {
    const type = path.endsWith("/edits") ? "multipart/form-data; boundary=x" : "application/json";
    const head = `POST ${path} HTTP/1.1\r\nHost: x\r\nx-api-key: ${gateway.key}\r\nContent-Type: ${type}\r\nContent-Length: 100000000\r\n\r\n`;
    const { status, body } = await exchange(gateway.url, head, { until: (text) => text.endsWith("}") });
    assert.equal(status, 413, path);
    const { error } = JSON.parse(body);
    assert.equal(error.status ?? error.type, kind, path);
    assert.match(error.message, /33554432 bytes/, path);
  }
});

test("endless nesting is refused in every field", async () => {
  for (const caller of conversationDialects) {
    const { path, ask, text } = words[caller];
    const model = modelOf(caller);
    const nested = "[".repeat(100_000);
    for (const body of [
      nested,
      '{"a":'.repeat(100_000),
      ask(model, text("x"), `,"unknown":${nested}${"]".repeat(100_000)}`),
    ]) {
      const answer = await post(path(model), body);
      assert.equal(answer.status, 400);
      assert.deepEqual(faultIn(answer, caller), {
        kind: invalid[caller],
        message: "The body is nested more than 200 levels deep.",
      });
    }
  }
});

/**
 * The gateway's processor time: however often others had their turn, nobody waits for longer
 * because of it.
 */
const workedSeconds = () => workedSecondsOf([...gateway.ingresses, ...gateway.workers]);

/**
 * How long a neighbour waits at most while something goes on, and what was worked meanwhile, for
 * the neighbours too. They ask what a worker refuses, so that no upstream has a part in it.
 */
async function neighbourDuring<Result>(
  act: () => Promise<Result>,
): Promise<{ result: Result; longestSeconds: number }> {
  const workedBefore = await workedSeconds();
  let done = false;
  const ended = act().finally(() => {
    done = true;
  });
  let longestMs = 0;
  while (!done) {
    const startedAt = performance.now();
    const { status } = await ask(
      "openai-chat",
      modelOf("gemini"),
      '{"type":"text","text":"hi"}',
      ',"logit_bias":{"1":1}',
    );
    assert.equal(status, 400);
    longestMs = Math.max(longestMs, performance.now() - startedAt);
  }
  const worked = (await workedSeconds()) - workedBefore;
  return { result: await ended, longestSeconds: Math.min(longestMs / 1_000, worked) };
}

const neighbourSeconds = 3;

test("a million messages are refused, and other callers are answered meanwhile", async () => {
  for (const caller of conversationDialects) {
    const { turns } = words[caller];
    const [head = "", tail = ""] = turns(modelOf(caller), [["user", "@@"]]).split(/\{"role".*"@@".*?\}(?:\]\})?(?=\])/);
    const body = `${head}${times(1_000_000, caller === "gemini" ? '{"parts":{"text":"x"}}' : '{"role":"user","content":"x"}')}${tail}`;
    const { result, longestSeconds } = await neighbourDuring(() => post(words[caller].path(modelOf(caller)), body));
    assert.equal(result.status, 400, result.text.slice(0, 200));
    assert.match(faultIn(result, caller).message, /more than 100000 objects and arrays/);
    assert.ok(longestSeconds < neighbourSeconds, `${longestSeconds} s`);
  }
});

test("very many parts, calls and tools are passed on or rejected by name, and other callers are answered meanwhile", async () => {
  const ids = Array.from({ length: 15_000 }, (_, place) => `call_${place}`);
  for (const [caller, upstream, body] of [
    ["openai-chat", "gemini", words["openai-chat"].ask(modelOf("gemini"), times(90_000, '{"type":"text","text":"x"}'))],
    [
      "openai-responses",
      "openai-chat",
      words["openai-responses"].ask(modelOf("openai-chat"), times(90_000, '{"type":"input_text","text":"x"}')),
    ],
    ["gemini", "openai-chat", words.gemini.calls(modelOf("openai-chat"), ids, ids)],
    [
      "openai-responses",
      "gemini",
      words["openai-responses"].calls(modelOf("gemini"), Array(20_000).fill("same"), Array(20_000).fill("same")),
    ],
  ] as const) {
    const { result, longestSeconds } = await neighbourDuring(() => post(words[caller].path(modelOf(upstream)), body));
    assert.equal(result.status, 200, `${caller} ${upstream} ${result.text.slice(0, 200)}`);
    assert.ok(longestSeconds < neighbourSeconds, `${caller} ${upstream} ${longestSeconds} s`);
  }
  const surplus = await ask(
    "openai-chat",
    modelOf("gemini"),
    '{"type":"text","text":"x"}',
    words["openai-chat"].tools(Array(5_000).fill("f"), "{}"),
  );
  assert.equal(JSON.parse(surplus.text).error.param, "tools[4096]");
});

test("thousands of parts and of tools are passed on", async () => {
  await everyPair(async (caller, model) => {
    const { text, tools } = words[caller];
    const names = Array.from({ length: 1_000 }, (_, place) => `tool_${place}`);
    const answer = await ask(caller, model, times(10_000, text("x")), tools(names, '{"type":"object"}'));
    assert.equal(answer.status, 200, `${caller} ${model} ${answer.text.slice(0, 300)}`);
  });
});

const pngData = png.toString("base64");
const jpegData = Buffer.from([0xff, 0xd8, 0xff, 0xe0, 0, 16, 0x4a, 0x46]).toString("base64");
const textData = Buffer.from("hello there\n".repeat(20)).toString("base64");
const pdfData = Buffer.from("%PDF-1.4\n").toString("base64");

test("an attachment's type comes from its bytes, and text in place of it is rejected by field, unless the upstream speaks the caller's format", async () => {
  await everyPair(async (caller, model, upstream) => {
    const { image, document, firstPart, text } = words[caller];
    for (const [part, seen] of [
      [image("image/jpeg", pngData), "image/png"],
      [image("image/png", jpegData), "image/jpeg"],
      [image("image/png", textData), undefined],
      [image("image/png", pdfData), "application/pdf"],
      [document("application/pdf", pngData), "image/png"],
      [document("application/pdf", textData), undefined],
    ] as const) {
      const answer = await ask(caller, model, `${part},${text("hi")}`);
      const what = `${caller} ${model} ${part.slice(0, 80)} ${answer.text.slice(0, 300)}`;
      if (upstream === caller) assert.equal(answer.status, 200, what);
      else if (seen === undefined) {
        assert.equal(answer.status, 400, what);
        assert.ok(faultIn(answer, caller).message.startsWith(firstPart), what);
      } else {
        assert.equal(answer.status, 200, what);
        assert.ok(answer.text.includes(seen), what);
      }
    }
  });
});

test("invalid base64 is rejected by field in linear time", async () => {
  const large = pngData.slice(0, 80) + "A".repeat(8_000_000);
  await everyPair(async (caller, model, upstream) => {
    const { image, firstPart } = words[caller];
    for (const data of ["@@@@", "A", "====", pngData.slice(0, 41), upstream === "gemini" ? `${large}@` : "a b"]) {
      const answer = await ask(caller, model, image("image/png", data));
      const what = `${caller} ${model} ${data.slice(0, 20)} ${answer.text.slice(0, 300)}`;
      if (upstream === caller) assert.ok([200, 400].includes(answer.status), what);
      else {
        assert.equal(answer.status, 400, what);
        assert.ok(faultIn(answer, caller).message.startsWith(firstPart), what);
      }
    }
  });
  assert.equal(
    (await ask("openai-chat", modelOf("anthropic-messages"), words["openai-chat"].image("image/png", large))).status,
    200,
  );
  assert.equal(
    (
      await ask(
        "gemini",
        modelOf("openai-responses"),
        words.gemini.image("image/png", pngData.replace(/(.{20})/g, "$1\\n")),
      )
    ).status,
    200,
  );
});

test("odd characters, numbers and names do no harm", async () => {
  const bodies: [string, (caller: ConversationDialect, model: string) => string][] = [
    ["lone surrogates", (caller, model) => words[caller].ask(model, words[caller].text("a\\ud800b\\udc00"))],
    ["NULs", (caller, model) => words[caller].ask(model, words[caller].text("a\\u0000b"))],
    ["line separators", (caller, model) => words[caller].ask(model, words[caller].text("a\u2028b\u2029"))],
    [
      "a million of them",
      (caller, model) => words[caller].ask(model, words[caller].text("\\ud800\\u0000".repeat(100_000))),
    ],
    [
      "huge numbers",
      (caller, model) =>
        words[caller].ask(model, words[caller].text("x"), `,"unknown":[${"9".repeat(100_000)},1e400,-1e-400]`),
    ],
    [
      "names of prototypes",
      (caller, model) =>
        words[caller].ask(
          model,
          words[caller].text("x"),
          words[caller].tools(["__proto__", "constructor"], '{"type":"object","properties":{"__proto__":{}}}'),
        ),
    ],
    [
      "escaped names",
      (caller, model) =>
        words[caller]
          .ask(model, words[caller].text("x"))
          .replace('"model"', '"\\u006dodel"')
          .replace('"messages"', '"\\u006dessages"'),
    ],
  ];
  await everyPair(async (caller, model) => {
    for (const [name, bodyOf] of bodies) {
      const answer = await post(words[caller].path(model), bodyOf(caller, model));
      assert.equal(answer.status, 200, `${name}: ${caller} ${model} ${answer.text.slice(0, 300)}`);
    }
  });
});

test("recursive and invalid schemas are passed on or rejected in bounded time", async () => {
  const open = '"type":"object","required":["a"],"additionalProperties":false';
  const chain = Array.from({ length: 5_000 }, (_, place) => `"d${place}":{"$ref":"#/$defs/d${place + 1}"}`).join(",");
  const schemas = [
    `{${open},"properties":{"a":{"$ref":"#"}}}`,
    `{${open},"properties":{"a":{"$ref":"#/$defs/x"}},"$defs":{"x":{"$ref":"#/$defs/y"},"y":{"$ref":"#/$defs/x"}}}`,
    `{${open},"properties":{"a":{"$ref":"#/$defs/d0"}},"$defs":{${chain}}}`,
    '{"type":"object","properties":{"a":true,"b":{"items":[]},"c":{"anyOf":{}},"d":null,"e":{"enum":"x","properties":[]}},"required":"x","$defs":[],"anyOf":7}',
    `${'{"type":"object","properties":{"a":'.repeat(80)}{}${"}}".repeat(80)}`,
  ];
  await everyPair(async (caller, model) => {
    const { text, tools, format } = words[caller];
    for (const schema of schemas) {
      const offered = await ask(caller, model, text("x"), tools(["f"], schema));
      assert.equal(offered.status, 200, `${caller} ${model} ${schema.slice(0, 100)} ${offered.text.slice(0, 300)}`);
      const { status, text: told } = await ask(caller, model, text("x"), format(schema));
      assert.ok(status === 200 || status === 400, `${caller} ${model} ${schema.slice(0, 100)} ${told.slice(0, 300)}`);
    }
  });
  const own =
    ',"tools":[{"functionDeclarations":[{"name":"f","parameters":{"type":"OBJECT","properties":{"a":{"$ref":"#"}}}}]}]';
  for (const upstream of conversationDialects) {
    const { status } = await ask("gemini", modelOf(upstream), words.gemini.text("x"), own);
    assert.equal(status, upstream === "gemini" ? 400 : 200, upstream);
  }
});

test("tools may have any name that their own format allows; tools without a name are rejected", async () => {
  await everyPair(async (caller, model, upstream) => {
    const { text, tools } = words[caller];
    const empty = await ask(caller, model, text("x"), tools([""], '{"type":"object"}'));
    assert.equal(empty.status, 400);
    assert.match(faultIn(empty, caller).message, /tools\[0\]\..*name/);
    if (caller === upstream || caller === "anthropic-messages") return;
    for (const names of [["x".repeat(200)], ["wetter für 東京", "a.b/c"], ["a\ud800b"], ["f", "f"]]) {
      const answer = await ask(
        caller,
        model,
        text(`Use ${names[0]?.length === 1 ? "f" : "it"}.`),
        tools(names, '{"type":"object"}'),
      );
      assert.equal(answer.status, 200, `${caller} ${model} ${names} ${answer.text.slice(0, 300)}`);
    }
  });
});

test("unmatched calls and results are matched, also with one id, and empty turns are rejected by field", async () => {
  await everyPair(async (caller, model, upstream) => {
    const { path, calls, turns } = words[caller];
    const check = async (body: string, status: number, field?: RegExp) => {
      const answer = await post(path(model), body);
      const what = `${caller} ${model} ${body.slice(0, 300)} ${answer.text.slice(0, 300)}`;
      if (upstream === caller) return assert.ok([200, 400].includes(answer.status), what);
      assert.equal(answer.status, status, what);
      if (field !== undefined) assert.match(faultIn(answer, caller).message, field, what);
    };
    await check(calls(model, ["a", "b"], ["b", "a"]), 200);
    await check(calls(model, ["a", "a"], ["a", "a"]), 200);
    await check(calls(model, ["a", "b"], ["a"]), 200);
    await check(calls(model, ["a"], ["a", "b"]), 200);
    await check(
      turns(model, [
        ["user", ""],
        ["assistant", ""],
      ]),
      400,
      /^\S+\[0\]\S* must have content/,
    );
    const begins = turns(model, [
      ["assistant", "Hello"],
      ["user", "x"],
    ]);
    await check(begins, 200);
  });
});

test("a malformed form, one with a hundred thousand fields, and one with an unexpected file are rejected", async () => {
  const path = "/v1/images/edits";
  const form = "multipart/form-data; boundary=x";
  const field = '--x\r\nContent-Disposition: form-data; name="a"\r\n\r\nb\r\n';
  for (const [body, type] of [
    ["", form],
    ["x", form],
    ["--x", "multipart/form-data"],
    [field, form],
    [`${field.repeat(100_000)}--x--\r\n`, form],
  ] as const) {
    const answer = await post(path, Buffer.from(body), type);
    assert.equal(answer.status, 400);
    assert.match(answer.text, /not a valid form/);
  }
  const picture = new Blob([png], { type: "image/png" });
  const valid = (model: string): [string, string | Blob][] => [
    ["model", model],
    ["prompt", "a cat"],
    ["image", picture],
    ["n", "1"],
    ["stream", "false"],
  ];
  for (const model of ["picture", "gemini-picture"])
    for (const [name, value, status] of [
      ["user", "u1", 200],
      ["model", undefined, 400],
      ["prompt", undefined, 400],
      ["prompt", "", 400],
      ["prompt", picture, 400],
      ["image", undefined, 400],
      ["image", "a text", 400],
      ["image", new Blob([png], { type: "text/plain" }), 400],
      ["image", new Blob(["no picture"], { type: "image/png" }), model === "picture" ? 200 : 400],
      ["mask", "a text", 400],
      ["n", "0", 400],
      ["n", "many", 400],
      ["size", "big", 400],
      ["stream", "perhaps", 400],
      ["partial_images", "9", 400],
      ["output_compression", "101", 400],
      ["response_format", "tiff", 400],
    ] as const) {
      const fields = new FormData();
      for (const [own, foreign] of [
        ...valid(model).filter(([own]) => own !== name),
        ...(value === undefined ? [] : [[name, value] as [string, string | Blob]]),
      ])
        fields.append(own, foreign as string);
      const answer = await post(path, fields);
      const what = `${model} ${name} ${answer.text.slice(0, 200)}`;
      assert.equal(answer.status, status, what);
      if (status === 400) assert.equal(JSON.parse(answer.text).error.param.replace(/\[\d\]$/, ""), name, what);
    }
});

test("none of these requests caused an internal error", async () => {
  const { status } = await ask("openai-chat", modelOf("openai-chat"), '{"type":"text","text":"hi"}');
  assert.equal(status, 200);
  for (const role of [...gateway.ingresses, ...gateway.workers]) {
    assert.equal(role.hasEnded, false);
    const metrics = await metricsOf(role);
    assert.doesNotMatch(metrics, /code="internal"[^}]*\} [1-9]/);
  }
});
