/** `sluice batches` and `sluice webhooks` on the control of a gateway. */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { after, test } from "node:test";
import { toFile } from "openai";
import { batchesCommand } from "../../apps/cli/batches.ts";
import { webhooksCommand } from "../../apps/cli/webhooks.ts";
import { startFilesGateway } from "../support/files.ts";
import { until } from "../support/time.ts";
import { startScriptedUpstream } from "../support/upstream.ts";

const service = await startFilesGateway({ withBatches: true, control: { WEBHOOK_NETWORKS: "127.0.0.0/8" } });
const receiver = await startScriptedUpstream((response) => response.writeHead(204).end());
after(async () => {
  await service[Symbol.asyncDispose]();
  await receiver[Symbol.asyncDispose]();
});
const { control, gateway } = service;
const client = gateway.client({ key: await service.addAccount("acme") });

const runs =
  (command: typeof batchesCommand) =>
  async (...args: string[]) => {
    const written = { out: "", err: "" };
    const code = await command(
      args,
      { SLUICE_CONTROL_URL: control.url, OPERATOR_TOKEN: control.token },
      {
        out(text) {
          written.out += text;
        },
        err(text) {
          written.err += text;
        },
      },
    );
    return { code, ...written };
  };
const batches = runs(batchesCommand);
const webhooks = runs(webhooksCommand);

const line = (id: string, more: object) =>
  `${JSON.stringify({ custom_id: id, method: "POST", url: "/v1/chat/completions", body: { model: "sim-fast", messages: [{ role: "user", content: "hi" }], ...more } })}\n`;

test("a negative number is refused with the numbers that an option takes", async () => {
  assert.match((await batches("list", "--limit", "-5")).err, /--limit must be a number from 1 to 500\n$/);
  assert.match(
    (await webhooks("rotate", "webhook_1", "--overlap", "-5")).err,
    /--overlap must be a number of hours\n$/,
  );
});

test("results of a batch are printed and stored, all or one kind", async () => {
  const input = Buffer.from(line("good", {}) + line("bad", { messages: "none" }));
  const file = await client.files.create({ file: await toFile(input, "in.jsonl"), purpose: "batch" });
  const create = { input_file_id: file.id, endpoint: "/v1/chat/completions", completion_window: "24h" } as const;
  const { id } = await client.batches.create(create);
  const early = await batches("results", id);
  if (early.code !== 0)
    assert.deepEqual(
      [early.code, early.err],
      [1, "sluice batches: The batch is not over; its results are read afterwards.\n"],
    );
  await until("its end", async () => (await client.batches.retrieve(id)).status === "completed");
  const idsIn = (text: string) =>
    text
      .trim()
      .split("\n")
      .map((each) => JSON.parse(each).custom_id);
  assert.deepEqual(idsIn((await batches("results", id)).out), ["good", "bad"]);
  assert.deepEqual(idsIn((await batches("results", id, "--kind", "error")).out), ["bad"]);
  const path = join(service.directory, "results.jsonl");
  assert.deepEqual(await batches("results", id, "--kind", "output", "--to", path), { code: 0, out: "", err: "" });
  assert.deepEqual(idsIn(await readFile(path, "utf8")), ["good"]);
  assert.equal((await batches("results", id, "--to", path)).code, 1);
  assert.equal((await batches("results", "batch_none")).code, 1);
  assert.equal((await batches("results")).code, 2);
});

test("a webhook is created, tested, rotated, disabled and deleted", async () => {
  await service.addAccount("hooked");
  const created = await webhooks("create", "--account", "hooked", "--url", receiver.origin);
  const [id = "", secret = ""] = created.out.split("\n");
  assert.match(secret, /^whsec_/);
  assert.match((await webhooks("list")).out, new RegExp(`${id}.*enabled.*batch.completed`));
  assert.match((await webhooks("test", id)).out, /webhook\.test/);
  await until("the event", () => receiver.requests.length === 1);
  await until("its delivery", async () => (await webhooks("deliveries")).out.includes("delivered"));
  const [delivery = ""] = ((await webhooks("deliveries")).out.split("\n")[1] ?? "").split(" ");
  assert.equal((await webhooks("repeat", delivery)).code, 0);
  await until("the event again", () => receiver.requests.length === 2);
  assert.notEqual((await webhooks("rotate", id)).out.split("\n")[1], secret);
  assert.match((await webhooks("disable", id)).out, /disabled \(person\)/);
  assert.equal((await webhooks("test", id)).code, 1);
  assert.equal((await webhooks("delete", id)).code, 0);
  assert.ok(!(await webhooks("list")).out.includes(id));
  assert.equal((await webhooks("create")).code, 2);
});
