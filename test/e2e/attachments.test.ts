/**
 * Images and documents that requests name by address: who fetches them, and what their upstream
 * receives.
 */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { startGateway } from "../support/gateway.ts";
import { png } from "../support/png.ts";
import { jsonAnswer, startScriptedUpstream } from "../support/upstream.ts";
import { modelLine } from "./support.ts";

const pdf = Buffer.from("%PDF-1.7 a document");
const data = { png: png.toString("base64"), pdf: pdf.toString("base64") };
const files = await startScriptedUpstream((response, { path }) => response.end(path.endsWith(".pdf") ? pdf : png));
const here = files.origin;

const dialects = ["openai-chat", "openai-responses", "anthropic-messages", "gemini"] as const;
const upstreamDialects = [...dialects, "openai-images"];
const upstream = await startScriptedUpstream();
const upstreamLine = (name: string, dialect: string, more = "") =>
  `  ${name}: { dialect: ${dialect}, circuitBreakerFailuresMax: 0, baseUrl: "${upstream.url}"${more} }\n`;
const gateway = await startGateway({
  catalogue: `groups:\n  default: { models: ["*"] }\nupstreams:\n${upstreamDialects
    .flatMap((dialect) => [
      upstreamLine(dialect, dialect),
      upstreamLine(`fetching-${dialect}`, dialect, ", fetchesAttachments: true"),
    ])
    .join("")}models:\n${upstreamDialects
    .flatMap((dialect) => [
      modelLine({ id: dialect, upstream: dialect, model: "theirs" }),
      modelLine({ id: `fetching-${dialect}`, upstream: `fetching-${dialect}`, model: "theirs" }),
    ])
    .join("")}`,
  environment: { ATTACHMENT_NETWORKS: "127.0.0.1/32" },
});
after(async () => {
  await gateway[Symbol.asyncDispose]();
  await upstream[Symbol.asyncDispose]();
  await files[Symbol.asyncDispose]();
});

const answers: Record<(typeof dialects)[number], object> = {
  "openai-chat": { choices: [{ index: 0, message: { role: "assistant", content: "a" }, finish_reason: "stop" }] },
  "openai-responses": {
    id: "r",
    object: "response",
    status: "completed",
    output: [
      {
        type: "message",
        role: "assistant",
        id: "m",
        status: "completed",
        content: [{ type: "output_text", text: "a", annotations: [] }],
      },
    ],
  },
  "anthropic-messages": {
    type: "message",
    role: "assistant",
    content: [{ type: "text", text: "a" }],
    stop_reason: "end_turn",
    usage: { input_tokens: 1, output_tokens: 1 },
  },
  gemini: { candidates: [{ content: { parts: [{ text: "a" }] }, finishReason: "STOP" }] },
};

async function post(path: string, body: string): Promise<{ status: number; param: unknown; text: string }> {
  const response = await fetch(`${gateway.url}${path}`, {
    method: "POST",
    headers: { authorization: `Bearer ${gateway.key}`, "content-type": "application/json" },
    body,
  });
  const text = await response.text();
  const { error } = JSON.parse(text) as { error?: { param?: unknown; message?: string } };
  return { status: response.status, param: error?.param ?? /^[\w.[\]]+(?=[: ])/.exec(error?.message ?? "")?.[0], text };
}

/** A caller's request in its own format, and the part of it that names a source. */
const callers: Record<
  (typeof dialects)[number],
  {
    path: (model: string) => string;
    body: (model: string, part: string) => string;
    image: (url: string) => string;
    sent: string;
    param: string;
  }
> = {
  "openai-chat": {
    path: () => "/v1/chat/completions",
    body: (model, part) =>
      `{ "model":"${model}", "messages":[{"role":"user","content":[{"type":"text","text":"é"}, ${part} ]}],"seed":1.0}`,
    image: (url) => `{"type":"image_url","image_url":{"detail":"low","url":"${url}"}}`,
    sent: `{"type":"image_url","image_url":{"detail":"low","url":"data:image/png;base64,${data.png}"}}`,
    param: "messages[0].content[1].image_url.url",
  },
  "openai-responses": {
    path: () => "/v1/responses",
    body: (model, part) =>
      `{ "model":"${model}","store":false,"stream":false,"reasoning":{"effort":"none"}, "input":[{"role":"user","content":[{"type":"input_text","text":"é"}, ${part} ]}]}`,
    image: (url) => `{"type":"input_image","image_url":"${url}"}`,
    sent: `{"type":"input_image","image_url":"data:image/png;base64,${data.png}"}`,
    param: "input[0].content[1].image_url",
  },
  "anthropic-messages": {
    path: () => "/v1/messages",
    body: (model, part) =>
      `{ "model":"${model}", "max_tokens":5,"messages":[{"role":"user","content":[{"type":"text","text":"é"}, ${part} ]}],"top_k":1}`,
    image: (url) => `{"type":"image","source":{"type":"url","url":"${url}"},"cache_control":{"type":"ephemeral"}}`,
    sent: `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"${data.png}"},"cache_control":{"type":"ephemeral"}}`,
    param: "messages[0].content[1].source.url",
  },
  gemini: {
    path: (model) => `/v1beta/models/${model}:generateContent`,
    body: (_model, part) =>
      `{ "contents":[{"role":"user","parts":[{"text":"é"}, ${part} ]}],"generationConfig":{"temperature":1.0}}`,
    image: (url) => `{"fileData":{"fileUri":"${url}","mimeType":"image/png"}}`,
    sent: `{"inlineData":{"mimeType":"image/png","data":"${data.png}"}}`,
    param: "contents[0].parts[1].fileData.fileUri",
  },
};

for (const dialect of dialects) {
  const { path, body, image, sent, param } = callers[dialect];
  const secret = "http://10.255.255.1/a.png";

  test(`${dialect}: an upstream of the same format gets the content, and every other byte unchanged`, async () => {
    upstream.answerWith(jsonAnswer(answers[dialect]));
    const { status, text } = await post(path(dialect), body(dialect, image(`${here}/a.png`)));
    assert.equal(status, 200, text);
    assert.equal(upstream.last().body.toString(), body("theirs", sent));
    assert.equal(upstream.last().headers["content-length"], String(upstream.last().body.length));
  });

  test(`${dialect}: a private address reaches no upstream, whoever fetches`, async () => {
    upstream.answerWith(jsonAnswer(answers[dialect]));
    await post(path(dialect), body(dialect, image(`${here}/a.png`)));
    const before = upstream.last();
    for (const model of [dialect, `fetching-${dialect}`]) {
      const refused = await post(path(model), body(model, image(secret)));
      assert.equal(refused.status, 400, refused.text);
      if (dialect !== "anthropic-messages" && dialect !== "gemini") assert.equal(refused.param, param);
      assert.ok(refused.text.includes(`${param}: `), refused.text);
    }
    assert.equal(upstream.last(), before);
  });

  test(`${dialect}: an upstream that fetches itself gets the caller's own bytes`, async () => {
    upstream.answerWith(jsonAnswer(answers[dialect]));
    const before = files.requests.length;
    const model = `fetching-${dialect}`;
    const { status, text } = await post(path(model), body(model, image(`${here}/a.png`)));
    assert.equal(status, 200, text);
    assert.equal(upstream.last().body.toString(), body("theirs", image(`${here}/a.png`)));
    assert.equal(files.requests.length, before);
  });

  test(`${dialect}: images of callers of other formats are fetched for it, and no private address is passed on`, async () => {
    upstream.answerWith(jsonAnswer(answers[dialect]));
    const [other, caller] =
      dialect === "openai-chat"
        ? (["anthropic-messages", callers["anthropic-messages"]] as const)
        : (["openai-chat", callers["openai-chat"]] as const);
    const { status, text } = await post(caller.path(dialect), caller.body(dialect, caller.image(`${here}/a.png`)));
    assert.equal(status, 200, `${other}: ${text}`);
    assert.ok(upstream.last().body.toString().includes(data.png));
    for (const model of [dialect, `fetching-${dialect}`])
      assert.equal((await post(caller.path(model), caller.body(model, caller.image(secret)))).status, 400);
  });
}

test("documents are sent, with a name if the format requires one", async () => {
  const { path, body } = callers["openai-responses"];
  upstream.answerWith(jsonAnswer(answers["openai-responses"]));
  const part = `{"type":"input_file","file_url":"${here}/a.pdf"}`;
  assert.equal((await post(path(""), body("openai-responses", part))).status, 200);
  assert.equal(
    upstream.last().body.toString(),
    body(
      "theirs",
      `{"type":"input_file","filename":"document.pdf","file_data":"data:application/pdf;base64,${data.pdf}"}`,
    ),
  );
});

test("token counts and compaction include the content of attachments", async () => {
  upstream.answerWith(jsonAnswer('{"input_tokens":7,"totalTokens":7,"object":"response.input_tokens"}'));
  for (const [dialect, path] of [
    ["anthropic-messages", "/v1/messages/count_tokens"],
    ["openai-responses", "/v1/responses/input_tokens"],
    ["gemini", "/v1beta/models/gemini:countTokens"],
  ] as const) {
    const { body, image } = callers[dialect];
    const counted =
      dialect === "gemini"
        ? `{"generateContentRequest":${body("", image(`${here}/a.png`)).replace("{", '{"model":"models/gemini",')}}`
        : body(dialect, image(`${here}/a.png`));
    const { status, text } = await post(path, counted);
    assert.equal(status, 200, text);
    assert.match(text, /7/);
    assert.ok(upstream.last().body.toString().includes(data.png), dialect);
    assert.ok(!upstream.last().body.toString().includes(here));
  }
  upstream.answerWith(
    jsonAnswer(
      '{"id":"resp_1","status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"A summary."}]}]}',
    ),
  );
  const { body, image } = callers["openai-responses"];
  const { status, text } = await post("/v1/responses/compact", body("openai-responses", image(`${here}/a.png`)));
  assert.equal(status, 200, text);
  assert.ok(upstream.last().body.toString().includes(data.png));
});

test("an attachment that only an upstream could fetch is rejected if it does not fetch, and a private tool server if the upstream is private", async () => {
  const { path, body } = callers["openai-chat"];
  const video = await post(path(""), body("openai-chat", `{"type":"video_url","video_url":{"url":"${here}/a.mp4"}}`));
  assert.deepEqual([video.status, video.param], [400, "messages[0].content[1].video_url.url"]);
  const tools = (model: string) =>
    `{"model":"${model}","input":"x","tools":[{"type":"mcp","server_label":"s","server_url":"http://10.255.255.1/"}]}`;
  for (const model of ["openai-responses", "fetching-openai-responses"]) {
    const refused = await post("/v1/responses", tools(model));
    assert.deepEqual([refused.status, refused.param], [400, "tools[0].server_url"]);
  }
});

test("an image to moderate is fetched for the upstream, and no private address is passed on", async () => {
  const moderate = (model: string, url: string) =>
    fetch(`${gateway.url}/v1/moderations`, {
      method: "POST",
      headers: { authorization: `Bearer ${gateway.key}`, "content-type": "application/json" },
      body: JSON.stringify({ model, input: [{ type: "image_url", image_url: { url } }] }),
    });
  upstream.answerWith(jsonAnswer({ id: "m", model: "theirs", results: [{ flagged: false }] }));
  assert.equal((await moderate("openai-chat", `${here}/a.png`)).status, 200);
  assert.deepEqual(upstream.last().json, {
    model: "theirs",
    input: [{ type: "image_url", image_url: { url: `data:image/png;base64,${data.png}` } }],
  });
  const before = upstream.last();
  for (const model of ["openai-chat", "fetching-openai-chat"]) {
    const response = await moderate(model, "http://10.0.0.1/a.png");
    const { error } = (await response.json()) as { error: { param: string } };
    assert.deepEqual([response.status, error.param], [400, "input[0].image_url.url"]);
  }
  assert.equal(upstream.last(), before);
});

test("images of a JSON edit are fetched for the upstream, and no private address is passed on", async () => {
  const edit = (model: string, more: object) =>
    post("/v1/images/edits", JSON.stringify({ model, prompt: "a hat", n: 1, ...more }));
  const own = { image_url: `data:image/png;base64,${data.png}` };
  const remote = { image_url: `${here}/a.png` };
  const picture = { inlineData: { mimeType: "image/png", data: data.png } };
  upstream.answerWith(jsonAnswer({ created: 1, data: [{ b64_json: data.png }] }));
  assert.equal((await edit("openai-images", { images: [remote, own], mask: remote, user: null })).status, 200);
  assert.equal(upstream.last().path, "/v1/images/edits");
  assert.deepEqual(upstream.last().json, {
    ...{ model: "theirs", prompt: "a hat", n: 1, user: null },
    images: [own, own],
    mask: own,
  });
  await edit("fetching-openai-images", { images: [remote] });
  assert.deepEqual(upstream.last().json.images, [remote]);
  await edit("openai-images", { images: [own] });
  assert.match(String(upstream.last().headers["content-type"]), /^multipart\/form-data/);

  const content = { parts: [picture] };
  upstream.answerWith(jsonAnswer({ candidates: [{ content, finishReason: "STOP" }] }));
  const answered = await edit("gemini", { images: [own, remote] });
  assert.equal(answered.status, 200, answered.text);
  assert.deepEqual(upstream.last().json.contents[0].parts, [picture, picture, { text: "a hat" }]);
  await edit("fetching-gemini", { images: [remote] });
  assert.deepEqual(upstream.last().json.contents[0].parts[0], { fileData: { fileUri: remote.image_url } });

  const before = upstream.last();
  for (const model of ["openai-images", "fetching-openai-images", "gemini", "fetching-gemini"]) {
    const refused = await edit(model, { images: [own, { image_url: "http://10.0.0.1/a.png" }] });
    assert.deepEqual([refused.status, refused.param], [400, "images[1].image_url"], refused.text);
  }
  assert.equal(upstream.last(), before);
});
