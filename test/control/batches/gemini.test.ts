/** Gemini's batches with the official client, for models of other dialects' upstreams. */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { type BatchJob, GoogleGenAI } from "@google/genai";
import { startFilesGateway } from "../../support/files.ts";
import { until } from "../../support/time.ts";

const catalogue = `
groups:
  default: { models: ["*"] }
upstreams:
  simulator: { dialect: openai-chat, circuitBreakerFailuresMax: 0, baseUrl: "\${SIMULATOR_URL}/v1" }
models:
  - { id: gemini-x, prices: { inputPerMillion: 1, outputPerMillion: 1 }, route: [{ upstream: simulator, model: sim-fast }] }
  - { id: vendor/slow, prices: { inputPerMillion: 1, outputPerMillion: 1 }, route: [{ upstream: simulator, model: "sim-fast;head=500" }] }
  - { id: emb, prices: { inputPerMillion: 1, outputPerMillion: 0 }, route: [{ upstream: simulator, model: sim-embedding }] }
`;

await using opened = new AsyncDisposableStack();
const { gateway, addAccount } = opened.use(await startFilesGateway({ catalogue, withBatches: true }));
const resources = opened.move();
after(() => resources.disposeAsync());

const clientOf = (apiKey: string) => new GoogleGenAI({ apiKey, httpOptions: { baseUrl: gateway.url } });

const hello = [{ role: "user", parts: [{ text: "hello" }] }];

async function ended(client: GoogleGenAI, { name = "" }: BatchJob): Promise<BatchJob> {
  let job: BatchJob = {};
  await until("the end of the batch", async () => {
    job = await client.batches.get({ name });
    return !["JOB_STATE_PENDING", "JOB_STATE_RUNNING"].includes(job.state ?? "");
  });
  return job;
}

test("inline requests run at an upstream of another dialect, in order, with their metadata", async () => {
  const client = clientOf(await addAccount("inline"));
  const created = await client.batches.create({
    model: "gemini-x",
    src: ["a", "b", "c"].map((key) => ({
      contents: [{ role: "user", parts: [{ text: `hello ${key}` }] }],
      config: { temperature: 0 },
      metadata: { key },
    })),
    config: { displayName: "three" },
  });
  assert.match(created.name ?? "", /^batches\/[a-z0-9]+$/);
  assert.equal(created.displayName, "three");
  const job = await ended(client, created);
  assert.equal(job.state, "JOB_STATE_SUCCEEDED");
  const responses = job.dest?.inlinedResponses ?? [];
  assert.deepEqual(
    responses.map(({ metadata }) => metadata?.key),
    ["a", "b", "c"],
  );
  for (const { response } of responses) assert.ok((response?.candidates?.length ?? 0) > 0);
  const listed = [];
  for await (const one of await client.batches.list()) listed.push(one.name);
  assert.deepEqual(listed, [created.name]);
  const other = clientOf(await addAccount("other"));
  await assert.rejects(other.batches.get({ name: created.name ?? "" }), { status: 404 });
  await client.batches.delete({ name: created.name ?? "" });
  await assert.rejects(client.batches.get({ name: created.name ?? "" }), { status: 404 });
});

test("a request at fault has an error beside the others' responses", async () => {
  const client = clientOf(await addAccount("faults"));
  const job = await ended(
    client,
    await client.batches.create({
      model: "gemini-x",
      src: [{ contents: hello, config: { temperature: 99 } }, { contents: hello }],
    }),
  );
  const [first, second] = job.dest?.inlinedResponses ?? [];
  assert.ok(first?.error);
  assert.ok(second?.response);
});

test("requests of a file have a file of responses", async () => {
  const apiKey = await addAccount("files");
  const client = clientOf(apiKey);
  const lines = ["a", "b"].map((key) => JSON.stringify({ key, request: { contents: hello } })).join("\n");
  const file = await client.files.upload({ file: new Blob([lines]), config: { mimeType: "application/jsonl" } });
  const created = await client.batches.create({ model: "gemini-x", src: { fileName: file.name ?? "" } });
  const { state, dest } = await ended(client, created);
  assert.equal(state, "JOB_STATE_SUCCEEDED");
  const response = await fetch(`${gateway.url}/v1beta/${dest?.fileName}:download?alt=media`, {
    headers: { "x-goog-api-key": apiKey },
  });
  const results = (await response.text())
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
  assert.deepEqual(
    results.map(({ key }) => key),
    ["a", "b"],
  );
  for (const { response: answer } of results) assert.equal(answer.candidates.length, 1);
});

interface Sent {
  name: string;
  metadata?: { displayName: string };
  nextPageToken: string;
  files?: { name: string }[];
  operations?: { name: string }[];
  models?: { name: string }[];
}

test("names in snake case are read, as Google's documentation writes them", async () => {
  const apiKey = await addAccount("snakes");
  const headers = { "x-goog-api-key": apiKey, "content-type": "application/json" };
  const sent = async (path: string, body?: object) => {
    const init = { headers, ...(body && { method: "POST", body: JSON.stringify(body) }) };
    return (await fetch(`${gateway.url}/v1beta/${path}`, init)).json() as Promise<Sent>;
  };
  const create = (batch: object) => sent("models/gemini-x:batchGenerateContent", { batch });
  const requests = [{ request: { contents: hello }, metadata: { key: "a" } }];
  const inline = await create({ display_name: "first", input_config: { requests: { requests } } });
  assert.equal(inline.metadata?.displayName, "first", JSON.stringify(inline));
  const client = clientOf(apiKey);
  const lines = `${JSON.stringify({ key: "a", request: { contents: hello } })}\n`;
  const file = await client.files.upload({ file: new Blob([lines]), config: { mimeType: "application/jsonl" } });
  const ofFile = await create({ display_name: "second", input_config: { file_name: file.name } });
  assert.equal(ofFile.metadata?.displayName, "second", JSON.stringify(ofFile));
  for (const { name } of [inline, ofFile]) assert.equal((await ended(client, { name })).state, "JOB_STATE_SUCCEEDED");
  for (const list of ["files", "batches", "models"]) {
    const first = await sent(`${list}?page_size=1`);
    const second = await sent(`${list}?page_size=1&page_token=${encodeURIComponent(first.nextPageToken)}`);
    const [one, other] = [first, second].map((page) => page.files ?? page.operations ?? page.models);
    assert.deepEqual([one?.length, other?.length], [1, 1], list);
    assert.notEqual(one?.[0]?.name, other?.[0]?.name, list);
  }
});

test("a cancelled batch ends", async () => {
  const client = clientOf(await addAccount("cancels"));
  const src = Array.from({ length: 100 }, () => ({ contents: hello }));
  const created = await client.batches.create({ model: "vendor/slow", src });
  await client.batches.cancel({ name: created.name ?? "" });
  assert.equal((await ended(client, created)).state, "JOB_STATE_CANCELLED");
});

test("embeddings run too", async () => {
  const client = clientOf(await addAccount("embeds"));
  const created = await client.batches.createEmbeddings({
    model: "emb",
    src: { inlinedRequests: { contents: [{ role: "user", parts: [{ text: "a" }] }] } },
  });
  const job = await ended(client, created);
  assert.equal(job.state, "JOB_STATE_SUCCEEDED");
  assert.equal(job.dest?.inlinedEmbedContentResponses?.length, 1);
});

test("an unknown model and a body without requests are refused", async () => {
  const client = clientOf(await addAccount("refused"));
  await assert.rejects(client.batches.create({ model: "none", src: [{ contents: hello }] }), { status: 404 });
  await assert.rejects(client.batches.create({ model: "gemini-x", src: { fileName: "files/none" } }), { status: 404 });
});

test("a display name is a text that the database can store", async () => {
  const client = clientOf(await addAccount("names"));
  const { displayName } = await client.batches.create({
    ...{ model: "gemini-x", src: [{ contents: hello }], config: { displayName: "a\0b\ud800" } },
  });
  assert.equal(displayName, "a_b\ufffd");
});
