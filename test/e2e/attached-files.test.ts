/** Uploaded files in requests: any upstream receives their content. */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { toFile } from "openai";
import { startFilesGateway } from "../support/files.ts";
import { png } from "../support/png.ts";
import { jsonAnswer, startScriptedUpstream } from "../support/upstream.ts";
import { modelLine } from "./support.ts";

const dialects = ["openai-chat", "openai-responses", "anthropic-messages", "gemini"] as const;
type Dialect = (typeof dialects)[number];

const upstream = await startScriptedUpstream();
const service = await startFilesGateway({
  workers: ["chat=16"],
  catalogue: `groups:\n  default: { models: ["*"] }\nupstreams:\n${dialects
    .map((name) => `  ${name}: { dialect: ${name}, circuitBreakerFailuresMax: 0, baseUrl: "${upstream.url}" }\n`)
    .join("")}models:\n${dialects.map((id) => modelLine({ id, upstream: id, model: "theirs" })).join("")}`,
  environment: { BODY_BYTES_MAX: "1000000" },
});
const { gateway } = service;
after(async () => {
  await service[Symbol.asyncDispose]();
  await upstream[Symbol.asyncDispose]();
});

const answers: Record<Dialect, object> = {
  "openai-chat": { choices: [{ index: 0, message: { role: "assistant", content: "a" }, finish_reason: "stop" }] },
  "openai-responses": {
    ...{ id: "r", object: "response", status: "completed" },
    output: [
      {
        ...{ type: "message", role: "assistant", id: "m", status: "completed" },
        content: [{ type: "output_text", text: "a", annotations: [] }],
      },
    ],
  },
  "anthropic-messages": {
    ...{ id: "m", type: "message", role: "assistant", model: "theirs", stop_reason: "end_turn" },
    content: [{ type: "text", text: "a" }],
    usage: { input_tokens: 1, output_tokens: 1 },
  },
  gemini: { candidates: [{ content: { role: "model", parts: [{ text: "a" }] }, finishReason: "STOP" }] },
};

const pdf = Buffer.from("%PDF-1.7 a document");
const text = Buffer.from("a text of a file, which is long enough to be taken for one, whoever looks at it");
const key = await service.addAccount("attached");
const client = gateway.client({ key });
const upload = async (bytes: Buffer, name: string) => {
  const { id } = await client.files.create({ file: await toFile(bytes, name), purpose: "user_data" });
  return id.slice("file-".length);
};
const ids = { pdf: await upload(pdf, "a.pdf"), png: await upload(png, "b.png"), text: await upload(text, "c.txt") };

/** A request of each API that names these files. */
const requests: Record<Dialect, (model: string, files: Partial<typeof ids>) => { path: string; body: object }> = {
  "openai-chat": (model, files) => ({
    path: "/v1/chat/completions",
    body: {
      model,
      messages: [
        {
          role: "user",
          content: [
            ...Object.values(files).map((id) => ({ type: "file", file: { file_id: `file-${id}` } })),
            { type: "text", text: "Hello" },
          ],
        },
      ],
    },
  }),
  "openai-responses": (model, { png: picture, ...files }) => ({
    path: "/v1/responses",
    body: {
      model,
      input: [
        {
          role: "user",
          content: [
            ...Object.values(files).map((id) => ({ type: "input_file", file_id: `file-${id}` })),
            ...(picture === undefined ? [] : [{ type: "input_image", file_id: `file-${picture}` }]),
            { type: "input_text", text: "Hello" },
          ],
        },
      ],
    },
  }),
  "anthropic-messages": (model, { png: picture, ...files }) => ({
    path: "/v1/messages",
    body: {
      model,
      max_tokens: 10,
      messages: [
        {
          role: "user",
          content: [
            ...Object.values(files).map((id) => ({
              type: "document",
              source: { type: "file", file_id: `file_${id}` },
            })),
            ...(picture === undefined ? [] : [{ type: "image", source: { type: "file", file_id: `file_${picture}` } }]),
            { type: "text", text: "Hello" },
          ],
        },
      ],
    },
  }),
  gemini: (model, files) => ({
    path: `/v1beta/models/${model}:generateContent`,
    body: {
      contents: [
        {
          role: "user",
          parts: [
            ...Object.values(files).map((id) => ({ fileData: { fileUri: `${gateway.url}/v1beta/files/${id}` } })),
            { text: "Hello" },
          ],
        },
      ],
    },
  }),
};

const post = async (dialect: Dialect, model: string, files: Partial<typeof ids>, ownKey = key) => {
  const { path, body } = requests[dialect](model, files);
  return fetch(`${gateway.url}${path}`, {
    method: "POST",
    headers: {
      ...(dialect === "anthropic-messages" && { "anthropic-version": "2023-06-01" }),
      authorization: `Bearer ${ownKey}`,
      "content-type": "application/json",
    },
    body: JSON.stringify(body),
  });
};

for (const dialect of dialects)
  for (const target of dialects)
    test(`files named by a request of ${dialect} reach an upstream of ${target}`, async () => {
      upstream.answerWith(jsonAnswer(answers[target]));
      const response = await post(dialect, target, ids);
      assert.equal(response.status, 200, await response.clone().text());
      await response.arrayBuffer();
      const sent = upstream.last().body.toString();
      for (const bytes of [pdf, png]) assert.ok(sent.includes(bytes.toString("base64")), sent);
      assert.ok(sent.includes(text.toString("base64")) || sent.includes(text.toString()), sent);
      for (const id of Object.values(ids)) assert.ok(!sent.includes(id), sent);
    });

test("a file of another account, or none, is a 404 in each API, and no upstream is called", async () => {
  const other = await service.addAccount("others");
  const called = upstream.requests.length;
  for (const dialect of dialects)
    for (const [files, ownKey] of [
      [{ pdf: ids.pdf }, other],
      [{ pdf: "0".repeat(24) }, key],
    ] as const) {
      const response = await post(dialect, dialect, files, ownKey);
      const body = (await response.json()) as { error: { message: string } };
      assert.equal(response.status, 404, `${dialect} ${JSON.stringify(body)}`);
      assert.match(body.error.message, /No such File object/);
    }
  assert.equal(upstream.requests.length, called);
});

test("a request that is too large with its files is refused", async () => {
  const large = await upload(Buffer.alloc(800_000, "a"), "large.txt");
  const response = await post("openai-responses", "openai-responses", { text: large });
  assert.equal(response.status, 413);
  const { status } = await post("openai-responses", "openai-responses", { text: "0".repeat(24) });
  assert.equal(status, 404);
});

test("a name that is none of this gateway's files stays, for the vendor that has the file", async () => {
  upstream.answerWith(jsonAnswer(answers["openai-chat"]));
  const response = await gateway.post(
    {
      model: "openai-chat",
      messages: [{ role: "user", content: [{ type: "file", file: { file_id: "file-Abc123" } }] }],
    },
    { key },
  );
  const body = await response.text();
  assert.match(body, /file_id/);
  assert.equal(response.status, 400);
});
