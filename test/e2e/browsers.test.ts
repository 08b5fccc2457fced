/** The official clients in pages of a real browser, which decides what a page may send and read. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { after, test } from "node:test";
import { build } from "vite";
import { startBrowser } from "../support/browser.ts";
import { catalogueOf, startGateway } from "../support/gateway.ts";
import { bodyAnswer, startScriptedUpstream } from "../support/upstream.ts";

/** The code of browser-clients.ts and its packages in one file. */
async function bundle(): Promise<string> {
  const built = await build({
    configFile: false,
    logLevel: "silent",
    build: {
      write: false,
      minify: false,
      rolldownOptions: { input: join(import.meta.dirname, "browser-clients.ts"), output: { codeSplitting: false } },
    },
  });
  assert.ok("output" in built);
  return built.output[0].code;
}

/** Serves a page with the clients, on a port of its own. */
async function servePage(code: string): Promise<string> {
  const script = bodyAnswer(code, "text/javascript");
  const page = bodyAnswer('<!doctype html><script src="/clients.js" type="module"></script>', "text/html");
  const server = await startScriptedUpstream((response, { path }) =>
    (path === "/clients.js" ? script : page)(response),
  );
  after(() => server[Symbol.asyncDispose]());
  return `http://localhost:${server.port}`;
}

const code = await bundle();
const [app, other] = await Promise.all([servePage(code), servePage(code)]);
const gateway = await startGateway({
  catalogue: catalogueOf([{ id: "sim", model: "sim-text;rate=0;first=0" }]).replace(
    "groups:\n",
    `groups:\n  web: { models: ["*"], origins: ["${app}"] }\n`,
  ),
});
after(() => gateway[Symbol.asyncDispose]());
const browser = await startBrowser();
const names = ["openai", "anthropic", "google"] as const;
const greeting = /^You said: hello\n/;

for (const name of names) {
  test(`${name}'s client in a page gets whole and streamed answers, and reads their ids`, async (t) => {
    const page = await browser.newPage(t);
    await page.goto(app);
    const target = { url: gateway.url, key: await gateway.createKey("web"), model: "sim" };
    const result = await page.evaluate(([name, target]) => inPage.clients[name](target), [name, target] as const);
    assert.match(result.whole, greeting);
    assert.equal(result.streamed, result.whole);
    assert.ok(result.chunks > 2, `${result.chunks} chunks`);
    assert.equal(result.requestIds.length, 2);
    for (const id of result.requestIds) assert.match(id ?? "", /^req_/);
  });

  test(`${name}'s client in a page reads why it must wait`, async (t) => {
    const page = await browser.newPage(t);
    await page.goto(app);
    const key = await gateway.createKey("web", { limits: { requestsPerMinute: 1 } });
    const target = { url: gateway.url, key, model: "sim" };
    const fail = () => page.evaluate(([name, target]) => inPage.failures[name](target), [name, target] as const);
    assert.deepEqual(await fail(), { status: 200 });
    const { status, retryAfter, requestId } = await fail();
    assert.equal(status, 429);
    // Google's client keeps no headers of an error.
    if (name === "google") return;
    assert.match(retryAfter ?? "", /^[1-9]\d?$/);
    assert.match(requestId ?? "", /^req_/);
  });

  test(`${name}'s client in a page of another origin is refused by the browser`, async (t) => {
    const page = await browser.newPage(t);
    const refusals: string[] = [];
    page.on("console", (message) => refusals.push(message.text()));
    await page.goto(other);
    const target = { url: gateway.url, key: await gateway.createKey("web"), model: "sim" };
    const failed = await page.evaluate(([name, target]) => inPage.failures[name](target), [name, target] as const);
    assert.equal(failed.status, undefined);
    assert.match(refusals.join("\n"), /blocked by CORS policy: Response to preflight request/);
  });
}
