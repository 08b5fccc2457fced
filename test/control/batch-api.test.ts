/** The operations on inputs and results of batches, and on files, as the console uses them. */
import assert from "node:assert/strict";
import { Readable } from "node:stream";
import { operator, startApi, type TestApi } from "./api.ts";
import { onPostgres } from "./databases.ts";

const endpoint = "/v1/chat/completions";
const lineOf = (id: string, model = "one") =>
  `${JSON.stringify({ custom_id: id, method: "POST", url: endpoint, body: { model, messages: [] } })}\n`;

async function setUp({ call, files }: TestApi, input: string, purpose = "batch") {
  const account = "acme";
  await call(operator, "POST", "/accounts", { id: account, name: account });
  const { body: key } = await call(operator, "POST", "/keys", { account, name: "k", group: "default" });
  const details = { name: "größe ✓.jsonl", purpose, media_type: "application/jsonl", expires_at: null };
  const stored = await files.create({ account, key_id: key.id }, details, Readable.from([Buffer.from(input)]));
  assert.ok("value" in stored);
  return { account, key: key.id as string, file: `file-${stored.value.id}` };
}

onPostgres("an input is checked, with its faults by line, and nothing is created", async (database) => {
  await using api = await startApi(database);
  const { key, file } = await setUp(api, `${lineOf("a")}${lineOf("a")}{\n${lineOf("b", "secret")}`);
  const { status, body } = await api.call(operator, "POST", "/batches/check", { key, file, endpoint });
  assert.equal(status, 200);
  assert.deepEqual(
    body.faults.map(({ line, code }: { line: number; code: string }) => [line, code]),
    [
      [2, "duplicate_custom_id"],
      [3, "invalid_json_line"],
      [4, "model_not_found"],
    ],
  );
  assert.equal(body.requests, 4);
  assert.deepEqual((await api.call(operator, "GET", "/batches")).body.items, []);
});

onPostgres("an input with more tokens than the account may have is refused by the check", async (database) => {
  await using api = await startApi(database);
  const lines = Array.from({ length: 200 }, (_, line) => lineOf(String(line))).join("");
  const { key, file } = await setUp(api, lines);
  const { body } = await api.call(operator, "POST", "/batches/check", { key, file, endpoint });
  assert.ok(body.inputTokens > 1_000);
  assert.deepEqual(
    body.faults.map(({ line, code }: { line: null; code: string }) => [line, code]),
    [[null, "token_limit_exceeded"]],
  );
});

onPostgres("a batch is created of a file, as many as the account may have", async (database) => {
  await using api = await startApi(database);
  const { key, file } = await setUp(api, lineOf("a"));
  const create = () => api.call(operator, "POST", "/batches", { key, file, endpoint });
  const { status, body } = await create();
  assert.deepEqual([status, body.state, body.inputFile, body.keyId], [201, "validating", file, key]);
  assert.equal((await create()).status, 201);
  const refused = await create();
  assert.deepEqual([refused.status, refused.headers["retry-after"]], [429, "60"]);
  const early = await api.call(operator, "GET", `/batches/${body.id}/results`);
  assert.equal(early.status, 409);
});

onPostgres("keys that are not live and files for other purposes make no batch", async (database) => {
  await using api = await startApi(database);
  const { key, file } = await setUp(api, lineOf("a"), "user_data");
  const create = (more: object) => api.call(operator, "POST", "/batches", { key, file, endpoint, ...more });
  assert.deepEqual([(await create({})).status, (await create({})).body.field], [400, "file"]);
  assert.equal((await create({ file: "file-none" })).status, 404);
  assert.equal((await create({ endpoint: "/v1/rerank" })).status, 400);
  await api.call(operator, "POST", `/keys/${key}/revoke`);
  assert.equal((await create({})).status, 404);
});

onPostgres("files are listed, saved under their names and deleted, and their space is shown", async (database) => {
  await using api = await startApi(database);
  const { account, file } = await setUp(api, lineOf("a"));
  const { body: list } = await api.call(operator, "GET", `/files?account=${account}&purpose=batch`);
  assert.deepEqual(
    list.items.map(({ id, name }: { id: string; name: string }) => [id, name]),
    [[file, "größe ✓.jsonl"]],
  );
  const content = await api.call(operator, "GET", `/files/${file}/content`);
  assert.equal(content.text, lineOf("a"));
  assert.equal(
    content.headers["content-disposition"],
    "attachment; filename*=UTF-8''gr%C3%B6%C3%9Fe%20%E2%9C%93.jsonl",
  );
  const space = () => api.call(operator, "GET", `/accounts/${account}/file-space`);
  assert.deepEqual([(await space()).body.files, (await space()).body.bytes], [1, lineOf("a").length]);
  assert.equal((await api.call(operator, "DELETE", `/files/${file}`)).status, 204);
  assert.equal((await api.call(operator, "GET", `/files/${file}`)).status, 404);
  assert.equal((await space()).body.files, 0);
});
