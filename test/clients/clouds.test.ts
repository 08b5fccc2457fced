/**
 * Clients of Azure, Vertex AI and Google's base URL for OpenAI's clients: official ones where there
 * is one in JavaScript, otherwise their requests.
 */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { GoogleGenAI } from "@google/genai";
import { OAuth2Client } from "google-auth-library";
import OpenAI, { AzureOpenAI } from "openai";
import WebSocket from "ws";
import { conversationDialects } from "#dialects/dialect.ts";
import { png } from "../support/png.ts";
import { greeting, modelOf, startClientsGateway } from "./support.ts";

const gateway = await startClientsGateway();
after(() => gateway[Symbol.asyncDispose]());
const { key, url } = gateway;
const messages = [{ role: "user" as const, content: "hello there" }];
const model = modelOf("openai-chat");

const azureWith = (more: object = {}) =>
  new AzureOpenAI({ endpoint: url, apiKey: key, apiVersion: "2025-04-01-preview", maxRetries: 0, ...more });

for (const upstream of conversationDialects) {
  const model = modelOf(upstream);

  test(`AzureOpenAI from ${upstream}: the deployment is the model`, async () => {
    for (const client of [azureWith(), azureWith({ deployment: model })]) {
      const whole = await client.chat.completions.create({ model: client.deploymentName ? "" : model, messages });
      assert.equal(whole.choices[0]?.message.content, greeting);
      assert.equal(whole.model, model);
      let text = "";
      for await (const { choices } of await client.chat.completions.create({ model: model, messages, stream: true }))
        text += choices[0]?.delta.content ?? "";
      assert.equal(text, greeting);
    }
  });

  test(`Anthropic's client for Vertex AI from ${upstream}: the path names the model`, async () => {
    const at = (name: string) =>
      `${url}/v1/projects/p1/locations/us-east5/publishers/anthropic/models/${encodeURIComponent(name)}`;
    const post = (path: string, body: object) =>
      fetch(path, {
        method: "POST",
        headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
        body: JSON.stringify({ ...body, anthropic_version: "2026-10-21" }),
      });
    const whole = await post(`${at(model)}:rawPredict`, { max_tokens: 100, messages });
    const answer = (await whole.json()) as { content: { text: string }[]; model: string };
    assert.deepEqual([answer.content[0]?.text, answer.model], [greeting, model]);
    const streamed = await post(`${at(model)}:streamRawPredict`, { max_tokens: 100, stream: true, messages });
    assert.match(await streamed.text(), /event: message_stop/);
    const count = await post(`${at("count-tokens")}:rawPredict`, { model: model, messages });
    assert.ok(((await count.json()) as { input_tokens: number }).input_tokens > 0);
    const unknown = await post(`${at("none")}:rawPredict`, { max_tokens: 100, messages });
    assert.equal(unknown.status, 404);
    assert.match(await unknown.text(), /"type":"not_found_error".*none/);
  });

  for (const [name, options] of [
    ["with an API key", { apiKey: key }],
    [
      "with a project",
      {
        project: "p1",
        location: "us-central1",
        googleAuthOptions: { authClient: tokenClient() },
      },
    ],
  ] as const)
    test(`Google's client for Vertex AI ${name} from ${upstream}`, async () => {
      const { models } = new GoogleGenAI({ vertexai: true, ...options, httpOptions: { baseUrl: url } } as never);
      const whole = await models.generateContent({ model: model, contents: "hello there" });
      assert.equal(whole.text, greeting);
      let text = "";
      for await (const chunk of await models.generateContentStream({ model: model, contents: "hello there" }))
        text += chunk.text ?? "";
      assert.equal(text, greeting);
      const { totalTokens } = await models.countTokens({ model: model, contents: "hello there" });
      assert.ok((totalTokens ?? 0) > 0);
    });
}

/** Credentials that Google's library takes for a user's, with the gateway's key as their token. */
function tokenClient(): OAuth2Client {
  const client = new OAuth2Client();
  client.setCredentials({ access_token: key, expiry_date: Date.now() + 3_600_000 });
  return client;
}

test("AzureOpenAI: responses, models, embeddings, images and forms", async () => {
  const client = azureWith();
  const response = await client.responses.create({ model, input: "hello there" });
  assert.equal(response.output_text, greeting);
  assert.equal((await client.responses.retrieve(response.id)).output_text, greeting);
  const listed: string[] = [];
  for await (const { id } of client.models.list()) listed.push(id);
  assert.ok(listed.includes(model));
  const { data } = await client.embeddings.create({ model: "embedding", input: "hello" });
  assert.equal(data.length, 1);
  const image = await client.images.generate({ model: "picture", prompt: "a cat" });
  assert.ok(image.data?.[0]?.b64_json);
  const file = new File([new Uint8Array(png)], "a.png", { type: "image/png" });
  const edited = await azureWith({ deployment: "picture" }).images.edit({
    model: "other",
    image: file,
    prompt: "a dog",
  });
  assert.ok(edited.data?.[0]?.b64_json);
});

test("forms at Azure's deployment paths need no model, and a model in the form has no effect", async () => {
  const post = (deployment: string, path: string, name: string, type: string, more: object, headers: object = {}) => {
    const form = new FormData();
    form.append(name, new File([new Uint8Array(png)], name === "file" ? "x.wav" : "x.png", { type }));
    for (const [field, value] of Object.entries(more)) form.append(field, value);
    return fetch(`${url}/openai/deployments/${deployment}${path}?api-version=2025-04-01-preview`, {
      method: "POST",
      headers: { "api-key": key, ...headers },
      body: form,
    });
  };
  for (const more of [{}, { model: "other" }, { model: "" }]) {
    for (const path of ["/audio/transcriptions", "/audio/translations"]) {
      const response = await post("transcriber", path, "file", "audio/wav", more);
      assert.match(await response.text(), /I heard x\.wav/);
    }
    const response = await post("picture", "/images/edits", "image", "image/png", { prompt: "a dog", ...more });
    assert.match(await response.text(), /b64_json/);
  }
  const unknown = await post("none", "/audio/transcriptions", "file", "audio/wav", { model: "transcriber" });
  assert.equal(unknown.status, 404);
  const once = { "idempotency-key": "form-1" };
  assert.equal((await post("transcriber", "/audio/transcriptions", "file", "audio/wav", {}, once)).status, 200);
  assert.equal((await post("none", "/audio/transcriptions", "file", "audio/wav", {}, once)).status, 422);
});

test("AzureOpenAI: a token in place of the key, and errors", async () => {
  const { apiKey: _, ...options } = { apiKey: "" };
  const client = azureWith({ ...options, apiKey: undefined, azureADTokenProvider: async () => key });
  assert.equal((await client.chat.completions.create({ model, messages })).choices[0]?.message.content, greeting);
  await assert.rejects(azureWith({ apiKey: "sk-wrong" }).chat.completions.create({ model, messages }), {
    status: 401,
    code: "invalid_api_key",
  });
  await assert.rejects(azureWith().chat.completions.create({ model: "none", messages }), {
    status: 404,
    code: "model_not_found",
  });
});

for (const path of ["/", "/openai/v1", "/v1beta/openai", "/v1beta/openai/"])
  test(`OpenAI's client with the base URL ${path}`, async () => {
    const client = new OpenAI({ apiKey: key, baseURL: `${url}${path}`, maxRetries: 0 });
    assert.equal((await client.chat.completions.create({ model, messages })).choices[0]?.message.content, greeting);
    assert.equal((await client.responses.create({ model, input: "hello there" })).output_text, greeting);
    const { data } = await client.models.list();
    assert.ok(data.some(({ id }) => id === model));
    assert.equal((await client.models.retrieve(model)).object, "model");
    await assert.rejects(client.files.list(), { status: 404, code: "unknown_url" });
  });

test("requests of the AI SDK's Azure provider", async () => {
  const ask = async (path: string, body: object) => {
    const response = await fetch(`${url}/openai${path}`, {
      method: "POST",
      headers: { "api-key": key, "content-type": "application/json" },
      body: JSON.stringify(body),
    });
    assert.equal(response.status, 200, path);
    return response.text();
  };
  const input = [{ role: "user", content: [{ type: "input_text", text: "hello there" }] }];
  assert.match(await ask("/responses", { model, input }), /You said/);
  assert.match(await ask("/chat/completions", { model, messages }), /You said/);
  assert.match(await ask("/embeddings", { model: "embedding", input: ["x"], encoding_format: "float" }), /embedding/);
  assert.match(await ask(`/deployments/${model}/responses?api-version=v1`, { model: "any", input }), /You said/);
  assert.match(await ask(`/deployments/${model}/chat/completions?api-version=v1`, { messages }), /You said/);
});

test("Responses over WebSocket at Azure's path", async () => {
  const socket = new WebSocket(`${url.replace("http", "ws")}/openai/v1/responses`, { headers: { "api-key": key } });
  const text = await new Promise<string>((resolve, reject) => {
    let received = "";
    socket.on("open", () => socket.send(JSON.stringify({ type: "response.create", model, input: "hello there" })));
    socket.on("message", (data) => {
      received += data;
      if (received.includes("response.completed")) resolve(received);
    });
    socket.on("error", reject);
  });
  socket.terminate();
  assert.match(text, /You said/);
});
