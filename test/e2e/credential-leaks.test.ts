/**
 * Stored credentials in a whole gateway of processes that log everything: no log, status, metric,
 * answer or error shows a value, also when the vendor repeats it.
 */
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { after, test } from "node:test";
import { startControl } from "../support/control.ts";
import { catalogueOf, startGateway } from "../support/gateway.ts";
import { until } from "../support/time.ts";

const value = "sk-leaked-0123456789abcdefWXYZ";
const secret = { CREDENTIALS_SECRET: "a secret that seals credentials in this test" };
const root = join(import.meta.dirname, "../..");
const children: ChildProcess[] = [];
const gateway = await startGateway({
  workers: [],
  catalogue: catalogueOf([{ id: "one", model: "sim-text" }]),
  environment: secret,
});
const common = {
  PATH: process.env.PATH,
  REDIS_URL: gateway.redis.url,
  SLUICE_CATALOGUE: gateway.catalogueFile,
  SIMULATOR_URL: gateway.simulatorUrl,
  LOG_LEVEL: "trace",
};
let logs = "";

/** A role whose whole output is kept. */
async function startLogged(role: string, environment: Record<string, string>, args: string[] = []) {
  const env = { ...common, ...environment };
  const child = spawn(process.execPath, [`apps/${role}/main.ts`, ...args], {
    cwd: root,
    env,
    stdio: ["ignore", "pipe", "pipe", "ipc"],
  });
  children.push(child);
  for (const stream of [child.stdout, child.stderr])
    stream?.on("data", (chunk: Buffer) => {
      logs += chunk.toString();
    });
  const [message] = (await once(child, "message")) as [{ urls: Record<string, string> }];
  return message.urls;
}

const worker = await startLogged("worker", secret, ["--queues", "chat=4"]);
const ingress = await startLogged("ingress", { PORT: "0" });
const control = await startControl({
  REDIS_URL: gateway.redis.url,
  SLUICE_CATALOGUE: gateway.catalogueFile,
  SIMULATOR_URL: gateway.simulatorUrl,
  ...secret,
});
/** It refuses each request, and repeats its key. */
const vendor = createServer((request, response) => {
  const message = `Incorrect API key provided: ${request.headers.authorization}`;
  response.writeHead(401, { "content-type": "application/json", "x-echo": message });
  response.end(JSON.stringify({ error: { message, code: "invalid_api_key" } }));
});
vendor.listen(0, "127.0.0.1");
await once(vendor, "listening");
const url = `http://127.0.0.1:${(vendor.address() as AddressInfo).port}`;
after(async () => {
  vendor.closeAllConnections();
  vendor.close();
  await control[Symbol.asyncDispose]();
  for (const child of children) {
    child.kill("SIGKILL");
    if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
  }
  await gateway[Symbol.asyncDispose]();
});

test("no log, status, metric, answer or error shows a stored credential", async () => {
  const texts: string[] = [];
  const call = async (method: string, path: string, body?: object, revision = 0) =>
    void texts.push(await (await control.call(method, path, body, { "if-match": `"${revision}"` })).text());
  await call("PUT", "/catalogue/credentials/vendor", { value });
  const upstream = { dialect: "openai-chat", baseUrl: url, credential: "stored:vendor" };
  await call("PUT", "/catalogue/upstreams/vendor", upstream, 0);
  const model = { prices: { inputPerMillion: 1, outputPerMillion: 1 }, route: [{ upstream: "vendor", model: "m" }] };
  await call("PUT", "/catalogue/models/leaky", model, 1);
  const ask = async () => {
    const body = { model: "leaky", messages: [{ role: "user", content: "hello" }] };
    const response = await gateway.post(body, { url: ingress.api as string });
    texts.push(await response.text());
    return response.status;
  };
  await until("the vendor refuses the request", async () => (await ask()) >= 429);
  await call("POST", "/catalogue/test-upstream", { upstream, model: "m" });
  await call("POST", "/catalogue/test-upstream", { upstream, value, model: "m" });
  await call("POST", "/catalogue/fetch-models", { upstream, value });
  for (const path of [
    "/catalogue/credentials",
    "/catalogue/entries",
    "/catalogue/export",
    "/audit",
    "/usage/records",
    "/operations",
    "/catalogue/revisions",
  ])
    await call("GET", path);
  for (const address of [worker.operations, ingress.operations, control.operations])
    for (const path of ["/status", "/metrics"]) texts.push(await (await fetch(`${address}${path}`)).text());
  await until("the worker logged the refusal", () => logs.includes("vendor"));
  assert.ok(
    texts.some((text) => text.includes("WXYZ")),
    "the hint is shown",
  );
  for (const text of [...texts, logs])
    assert.ok(!text.includes(value), text.slice(Math.max(0, text.indexOf(value) - 300)).slice(0, 400));
});
