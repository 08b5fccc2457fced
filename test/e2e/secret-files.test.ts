/** Secrets in files, and that a changed one is in force without a restart. */
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { embeddedDirectory } from "../support/embedded.ts";
import { type Role, startGateway, startRole } from "../support/gateway.ts";
import { until } from "../support/time.ts";
import { chatCompletion, jsonAnswer, startScriptedUpstream } from "../support/upstream.ts";

const directory = mkdtempSync(join(tmpdir(), "sluice-credentials-"));
const database = await embeddedDirectory(join(directory, "database"));
const file = join(directory, "key");
writeFileSync(file, "first-secret\n");
const good = new Set(["Bearer first-secret"]);
const upstream = await startScriptedUpstream((response, { headers }) =>
  good.has(headers.authorization ?? "")
    ? jsonAnswer(chatCompletion)(response)
    : jsonAnswer({ error: { message: "no", code: "invalid_api_key" } }, 401)(response),
);
const gateway = await startGateway({
  environment: { VENDOR_KEY_FILE: file },
  catalogue: `groups: { default: { models: ["*"] } }
upstreams:
  vendor: { dialect: openai-chat, baseUrl: "${upstream.url}", credential: VENDOR_KEY, requires: VENDOR_KEY }
models:
  - { id: m, retries: 0, prices: { inputPerMillion: 1, outputPerMillion: 2 }, route: [{ upstream: vendor, model: theirs }] }
`,
});
after(async () => {
  await gateway[Symbol.asyncDispose]();
  await upstream[Symbol.asyncDispose]();
  rmSync(directory, { recursive: true, force: true });
});

/** The process of a role whose secret is in a file. */
async function startWithSecret(role: string, variable: string, value: string) {
  const path = join(directory, variable);
  writeFileSync(path, `${value}\n`);
  const started: Role = await startRole(role, [], {
    ...environment,
    PORT: "0",
    CONTROL_PORT: "0",
    DATABASE_DIRECTORY: database,
    [`${variable}_FILE`]: path,
  });
  return {
    urls: started.urls,
    change: (next: string) => writeFileSync(path, next),
    [Symbol.asyncDispose]: () => started.kill(),
  };
}

const statusOf = async (url: string, authorization: string) => {
  const response = await fetch(url, { headers: { authorization } });
  await response.arrayBuffer();
  return response.status;
};

const environment = {
  REDIS_URL: gateway.redis.url,
  SLUICE_CATALOGUE: gateway.catalogueFile,
  VENDOR_KEY_FILE: file,
};

async function status(): Promise<number> {
  const response = await gateway.post({ model: "m", messages: [{ role: "user", content: "hello" }] });
  await response.arrayBuffer();
  return response.status;
}

test("a model is offered where only the file of its credential is named", async () => {
  const { data } = await gateway.client().models.list();
  assert.deepEqual(
    data.map(({ id }) => id),
    ["m"],
  );
  assert.equal(await status(), 200);
  assert.equal(upstream.last().headers.authorization, "Bearer first-secret");
});

test("a changed file is used within seconds, and the refusals of the former value are forgotten", async () => {
  good.clear();
  good.add("Bearer second-secret");
  assert.notEqual(await status(), 200);
  const calls = upstream.requests.length;
  assert.notEqual(await status(), 200);
  assert.equal(upstream.requests.length, calls, "the refused credential cools down");
  writeFileSync(file, "second-secret");
  await until("an answer with the new credential", async () => (await status()) === 200, 5_000);
});

test("control follows the file of its operator's token, and the ingress that of its password", async () => {
  const [first, second] = ["the-first-secret-of-the-operator-1", "the-second-secret-of-the-operator"];
  const check = async (
    role: string,
    variable: string,
    address: (urls: Record<string, string>) => string,
    headerOf: (secret: string) => string,
  ) => {
    await using process = await startWithSecret(role, variable, first);
    const url = address(process.urls);
    assert.equal(await statusOf(url, headerOf(first)), 200, role);
    assert.equal(await statusOf(url, headerOf(second)), 401, role);
    process.change(second);
    // Wrong secrets are counted, good ones are not.
    await until(`${role} refuses the first one`, async () => (await statusOf(url, headerOf(first))) === 401);
    assert.equal(await statusOf(url, headerOf(second)), 200, role);
  };
  const basic = (secret: string) => `Basic ${Buffer.from(`operator:${secret}`).toString("base64")}`;
  await Promise.all([
    check(
      "control",
      "OPERATOR_TOKEN",
      ({ control }) => `${control}/api/v1/keys`,
      (secret) => `Bearer ${secret}`,
    ),
    check("ingress", "OPERATOR_PASSWORD", ({ operations }) => `${operations}/queues`, basic),
  ]);
});

test("a secret that is too short or set twice ends the start with a sentence that names it", async () => {
  const refusals = [
    ["control", { OPERATOR_TOKEN: "too-short-secret" }, "OPERATOR_TOKEN must be 32 to 512 visible ASCII characters"],
    ["ingress", { VENDOR_KEY: "too-short" }, "VENDOR_KEY and VENDOR_KEY_FILE are both set"],
    ["worker", { REDIS_URL: "redsi://user:too-short@host" }, "REDIS_URL must be redis:// or rediss:// and addresses"],
  ] as const;
  await Promise.all(
    refusals.map(([role, own, line]) =>
      assert.rejects(startRole(role, [], { ...environment, ...own }), ({ message }: Error) => {
        assert.match(message, new RegExp(`ended with 78: sluice ${role}: [^\n]*${line}[^\n]*\n$`));
        assert.ok(!message.includes("too-short"));
        return true;
      }),
    ),
  );
});
