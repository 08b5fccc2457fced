/**
 * Files of the console that control serves, and the webhook's address that it calls.
 */
import assert from "node:assert/strict";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { startControl, type TestControl } from "../support/control.ts";
import { startRedis } from "../support/redis.ts";
import { startScriptedUpstream } from "../support/upstream.ts";

const directory = await mkdtemp(join(tmpdir(), "sluice-exposure-"));
await mkdir(join(directory, "console", "assets"), { recursive: true });
await writeFile(join(directory, "console", "index.html"), "<!doctype html><title>Console</title>");
await writeFile(join(directory, "console", "assets", "main.js"), "1");
await writeFile(join(directory, "secret.txt"), "secret");
const redis = await startRedis();
const receiver = await startScriptedUpstream((response) => response.end());
const start = (environment: Record<string, string> = {}) =>
  startControl({ REDIS_URL: redis.url, CONSOLE_DIRECTORY: join(directory, "console"), ...environment });
after(async () => {
  await receiver[Symbol.asyncDispose]();
  await redis[Symbol.asyncDispose]();
  await rm(directory, { recursive: true });
});

/** `fetch` would resolve the dots. */
const statusOf = (url: string, path: string) =>
  new Promise<{ status: number | undefined; text: string }>((resolve, reject) => {
    const { hostname, port } = new URL(url);
    request({ hostname, port, path, headers: { accept: "*/*" } }, (response) => {
      let text = "";
      response.on("data", (chunk) => {
        text += chunk;
      });
      response.on("end", () => resolve({ status: response.statusCode, text }));
    })
      .on("error", reject)
      .end();
  });

test("no spelling of a path below /assets leaves it, and none is an error of the gateway", async () => {
  await using control = await start();
  assert.equal((await statusOf(control.url, "/assets/main.js")).status, 200);
  const paths = [
    "..%2f",
    "..%2f..%2fsecret.txt",
    "../index.html",
    "%2e%2e%2findex.html",
    "%2e%2e/..%2fsecret.txt",
    "..%5c..%5csecret.txt",
    "..%252f..%252fsecret.txt",
    "main.js%00",
    "%00",
    "%",
    "%ff",
    ".",
    "",
    "none.js",
    "main.js/",
    "main.js%2f..%2f..%2findex.html",
    `${"a".repeat(300)}`,
    `${"..%2f".repeat(30)}etc%2fpasswd`,
  ];
  for (const path of paths) {
    const { status = 0, text } = await statusOf(control.url, `/assets/${path}`);
    assert.ok(status >= 400 && status < 500, `${path}: ${status}`);
    assert.ok(!text.includes("<title>Console") && text !== "secret", path);
  }
});

const deliver = async (control: TestControl, alertWebhookUrl: string): Promise<string | null> => {
  const changed = await control.call("PATCH", "/settings", { alertWebhookUrl });
  assert.equal(changed.status, 200, await changed.text());
  const answer = await control.call("POST", "/settings/test-alert");
  return ((await answer.json()) as { problem: string | null }).problem;
};

test("a webhook from the console reaches public addresses only, and tells nothing of others", async () => {
  await using control = await start();
  const hosts = [
    "127.0.0.1",
    "localhost",
    "[::1]",
    "[::ffff:127.0.0.1]",
    "0.0.0.0",
    "127.1",
    "2130706433",
    "0x7f000001",
    "10.0.0.1",
    "172.16.0.1",
    "192.168.0.1",
    "100.64.0.1",
    "169.254.169.254",
    "[fd00:ec2::254]",
    "[fe80::1]",
    "168.63.129.16",
  ];
  for (const host of hosts)
    assert.match(String(await deliver(control, `http://${host}:${receiver.port}/hook`)), /not a public one/, host);
  assert.equal(receiver.requests.length, 0);
});

test("WEBHOOK_NETWORKS allows private networks, and ALERT_WEBHOOK_URL any address", async () => {
  const url = `http://127.0.0.1:${receiver.port}/hook`;
  {
    await using control = await start({ WEBHOOK_NETWORKS: "127.0.0.0/8" });
    assert.equal(await deliver(control, url), null);
    assert.match(String(await deliver(control, `http://[::1]:${receiver.port}/hook`)), /not a public one/);
  }
  await using control = await start({ ALERT_WEBHOOK_URL: url });
  const answer = await control.call("POST", "/settings/test-alert");
  assert.deepEqual(await answer.json(), { problem: null });
  assert.equal(receiver.requests.length, 2);
});
