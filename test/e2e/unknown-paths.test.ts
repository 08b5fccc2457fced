/**
 * Paths of the vendors' APIs that are not served: each client gets the error that it can read, and
 * never another vendor's list.
 */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import Anthropic from "@anthropic-ai/sdk";
import { GoogleGenAI } from "@google/genai";
import { startGateway } from "../support/gateway.ts";

const gateway = await startGateway({ workers: [] });
after(() => gateway[Symbol.asyncDispose]());
const { key, url } = gateway;

const clients = {
  openai: { authorization: `Bearer ${key}`, "user-agent": "OpenAI/JS 7.57.0" },
  azure: { "api-key": key, "user-agent": "AzureOpenAI/JS 7.57.0" },
  anthropic: { "x-api-key": key, "anthropic-version": "2023-06-01" },
  google: { "x-goog-api-key": key, "x-goog-api-client": "google-genai-sdk/3.1.0 gl-node/v24.21.0" },
  token: { authorization: `Bearer ${key}`, "x-goog-api-client": "gl-python/3.11.7" },
  query: {},
  bearer: { authorization: `Bearer ${key}` },
  ollama: { authorization: `Bearer ${key}`, "user-agent": "ollama/0.6.4 (x64 linux) Node.js/v24" },
} satisfies Record<string, Record<string, string>>;

type Client = keyof typeof clients;

/** The fields of an error in each vendor's format. */
const shapes = {
  openai: (body: unknown) => {
    const { error } = body as { error: { code: string; type: string } };
    assert.deepEqual([error.code, error.type], ["unknown_url", "invalid_request_error"]);
  },
  anthropic: (body: unknown) => {
    const { type, error } = body as { type: string; error: { type: string } };
    assert.deepEqual([type, error.type], ["error", "not_found_error"]);
  },
  google: (body: unknown) => {
    const { error } = body as { error: { code: number; status: string } };
    assert.deepEqual([error.code, error.status], [404, "NOT_FOUND"]);
  },
  ollama: (body: unknown) => assert.equal(typeof (body as { error: unknown }).error, "string"),
};

const shared = [
  "GET /v1/files",
  "GET /v1/files/file-1",
  "DELETE /v1/files/file-1",
  "GET /v1/batches",
  "GET /v1/batches/b",
];

const table: [keyof typeof shapes, Client[], string[]][] = [
  [
    "openai",
    ["openai", "azure", "bearer"],
    [
      ...shared,
      "POST /v1/files",
      "GET /v1/files/file-1/content",
      "POST /v1/batches",
      "POST /v1/batches/b/cancel",
      "POST /v1/uploads",
      "POST /v1/uploads/u/parts",
      "GET /v1/realtime/other",
      "POST /v1/realtime/other",
      "POST /v1/fine_tuning/jobs",
      "GET /v1/fine_tuning/jobs/j/events",
      "POST /v1/live/sessions",
      "POST /v1/videos",
      "GET /v1/vector_stores",
      "POST /v1/containers",
      "GET /v1/evals",
      "GET /openai/files?api-version=1",
      "GET /openai/v1/files",
      "GET /v1beta/openai/files",
      "POST /v1beta/openai/batches",
    ],
  ],
  [
    "anthropic",
    ["anthropic"],
    [...shared, "POST /v1/files", "GET /v1/skills", "POST /v1/complete", "GET /v1/organizations/me"],
  ],
  [
    "anthropic",
    ["anthropic", "bearer"],
    [
      "POST /v1/messages/batches",
      "GET /v1/messages/batches",
      "GET /v1/messages/batches/b/results",
      "POST /v1/messages/batches/b/cancel",
      "POST /v1/projects/p/locations/l/publishers/anthropic/models/m:predict",
    ],
  ],
  ["google", ["google", "token", "query"], [...shared, "POST /v1/batches/b:cancel", "GET /v1/operations/o"]],
  [
    "google",
    ["google", "token", "query", "bearer"],
    [
      "POST /upload/v1/files",
      "POST /upload/v1beta/files?uploadType=resumable",
      "GET /v1/cachedContents",
      "POST /v1beta/cachedContents",
      "PATCH /v1beta/cachedContents/c",
      "GET /v1beta/files",
      "GET /v1beta/files/f:download?alt=media",
      "POST /v1beta/models/m:batchGenerateContent",
      "POST /v1beta/models/m:asyncBatchEmbedContent",
      "POST /v1beta/models/m:predict",
      "POST /v1beta1/publishers/google/models/m:predict",
      "GET /v1beta1/publishers/google/models",
      "GET /v1/publishers/google/models",
      "POST /v1/projects/p/locations/l/batchPredictionJobs",
      "GET /ws/google.ai.generativelanguage.v1.GenerativeService.BidiGenerateContentConstrained",
      "GET //ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateMusic",
    ],
  ],
  [
    "ollama",
    ["ollama"],
    ["POST /api/pull", "DELETE /api/delete", "POST /api/create", "HEAD /api/blobs/x", "GET /api/x"],
  ],
];

for (const [shape, names, requests] of table)
  for (const name of names)
    test(`${name} gets ${shape}'s error for ${requests[0]} and ${requests.length - 1} others`, async () => {
      for (const request of requests) {
        const [method = "", path = ""] = request.split(" ");
        const query = name === "query" ? `${path.includes("?") ? "&" : "?"}key=${key}` : "";
        const hasBody = method === "POST" || method === "PATCH" || method === "DELETE";
        const response = await fetch(`${url}${path}${query}`, {
          method,
          headers: { ...clients[name], ...(hasBody && { "content-type": "application/json" }) },
          ...(hasBody && { body: "{}" }),
        });
        assert.equal(response.status, 404, request);
        if (method !== "HEAD") shapes[shape](await response.json());
      }
    });

test("official clients report that files and batches do not exist, rather than empty lists", async () => {
  const openai = gateway.client();
  const anthropic = new Anthropic({ apiKey: key, baseURL: url, maxRetries: 0 });
  const google = new GoogleGenAI({ apiKey: key, httpOptions: { baseUrl: url } });
  const isMissing = ({ status }: { status?: number }) => status === 404;
  for (const ask of [
    () => openai.files.list(),
    () => openai.batches.list(),
    () => openai.fineTuning.jobs.list(),
    () => anthropic.messages.batches.list(),
    () => anthropic.beta.files.list(),
    () => google.files.list(),
    () => google.batches.list(),
    () => google.caches.list(),
    () => google.files.upload({ file: new Blob(["x"]), config: { mimeType: "text/plain" } }),
  ])
    await assert.rejects(async () => void (await ask()), isMissing);
});

test("a model list with a slash behind its path, and an unknown method of a model, name what is served", async () => {
  const messageFor = async (method: string, path: string) => {
    const response = await fetch(`${url}${path}`, {
      method,
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      ...(method === "POST" && { body: "{}" }),
    });
    assert.equal(response.status, 404, path);
    return ((await response.json()) as { error: { message: string } }).error.message;
  };
  for (const [path, meant] of [
    ["/v1/models/", "/v1/models"],
    ["/v1/models/?limit=1", "/v1/models"],
    ["/v1beta/models/", "/v1beta/models"],
  ] as const) {
    const message = await messageFor("GET", path);
    assert.ok(message.startsWith(`There is no GET ${path.split("?")[0]} here. The path is ${meant}. Set `), message);
  }
  for (const path of ["/v1beta/models/m:predict", "/v1/projects/p/locations/l/publishers/google/models/m:predict"])
    assert.match(
      await messageFor("POST", path),
      /^There is no method 'predict' here; use one of generateContent, .*\. This gateway does not support predictions\. Images are made at POST \/v1\/images\/generations, or by generateContent\.$/,
    );
  for (const [method, path, advice] of [
    ["POST", "/v1/files", /does not support stored files\. Send the file itself .* 'file_data'/],
    ["GET", "/openai/v1/files", /stored files\./],
    ["POST", "/upload/v1beta/files", /stored files\. .*'inlineData'/],
    ["GET", "/v1beta/files/f", /stored files\./],
    ["POST", "/v1/uploads/u/parts", /stored files\./],
    ["POST", "/v1/batches", /batches\. .*'background: true'/],
    ["POST", "/v1/messages/batches", /batches\. .*POST \/v1\/messages\./],
    ["POST", "/v1beta/models/m:batchGenerateContent", /batches\. .*generateContent/],
    ["POST", "/v1beta/models/m:asyncBatchEmbedContent", /batches\./],
    ["POST", "/v1/assistants", /assistants and threads\. Use POST \/v1\/responses/],
    ["POST", "/v1/threads/t/runs", /assistants and threads\./],
    ["GET", "/v1/vector_stores", /stores to search in\./],
    ["GET", "/v1beta/fileSearchStores", /stores to search in\./],
    ["POST", "/v1/fine_tuning/jobs", /fine-tuning of models\./],
    ["GET", "/v1beta/tunedModels", /fine-tuning of models\./],
    ["GET", "/v1/evals", /evaluations\./],
    ["POST", "/v1/containers", /hosted containers and skills\./],
    ["GET", "/v1/skills", /hosted containers and skills\./],
    ["POST", "/v1/videos", /videos\./],
    ["POST", "/v1beta/models/m:predictLongRunning", /videos\./],
    ["POST", "/v1beta/cachedContents", /stored prompts\. Send the whole prompt/],
    ["GET", "/v1/organization/usage/completions", /administration .*GET \/v1\/usage/],
    ["POST", "/v1/complete", /legacy completions\. Use POST \/v1\/messages/],
  ] as const)
    assert.match(await messageFor(method, path), advice, path);
  assert.doesNotMatch(await messageFor("GET", "/v1/unheard"), /support/);
  assert.match(await messageFor("POST", "/v1beta/models/m:x"), /'x' here; use one of .*batchEmbedContents\.$/);
});
