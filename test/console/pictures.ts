/** Takes the pictures of docs/console.md on the real stack: `npm run pictures`. */
import { join, resolve } from "node:path";
import { startConsole } from "../support/console.ts";
import { catalogueOf } from "../support/gateway.ts";
import { until } from "../support/time.ts";
import { record } from "./usage-support.ts";

const directory = resolve(import.meta.dirname, "../../docs/pictures");
const queues = "chat=64,image=8,audio=8,background=16,realtime=16";
const models = ["gpt-5.2", "claude-opus-4-6", "gemini-3-pro", "gpt-5-mini"];
const catalogue = catalogueOf(models.map((id) => ({ id, model: "sim-text;rate=60;first=200;tokens=160" })));
await using browser = await startConsole({ catalogue, processes: "all", workers: [queues, queues] });
const { control, gateway } = browser;

const hour = 3_600_000;
const now = Date.now();
const wave = (index: number) => 1 + Math.sin(index / 6) ** 2;
await record(
  browser,
  "default",
  Array.from({ length: 3_000 }, (_, index) => {
    const model = models[(index * 7 + Math.floor(index / 5)) % models.length] as string;
    const [inputTokens, outputTokens] = [400 + ((index * 37) % 3_000), 60 + ((index * 53) % 900)];
    return {
      model,
      modelAnswered: model,
      keyId: `key_${index % 3}`,
      receivedAt: now - Math.floor(((index * 7) % 168) * hour * wave(index) * 0.5),
      inputTokens,
      cachedInputTokens: index % 3 === 0 ? 256 : 0,
      outputTokens,
      cost: String(inputTokens * 1_000 + outputTokens * 2_000),
      upstreamCost: String(inputTokens * 800 + outputTokens * 1_600),
      ...(index % 31 === 0 && { outcome: "failed" as const, errorCode: "upstream_failed", status: 502, cost: "0" }),
    };
  }),
);
for (const name of ["website", "support-bot", "nightly-report"])
  await control.call("POST", "/keys", { account: "default", name, group: "default", tags: [name] });

const take = async (name: string, path: string, ready: string, options: Parameters<typeof browser.open>[1] = {}) => {
  await using opened = await browser.open(path, { viewport: { width: 1280, height: 860 }, ...options });
  await opened.page.getByText(ready).first().waitFor();
  await opened.page.waitForLoadState("networkidle");
  await opened.page.screenshot({ path: join(directory, `${name}.png`), animations: "disabled" });
};

await take("start", "/", "Call a model");
await take("keys", "/keys", "nightly-report");
await take("models", "/models", "claude-opus-4-6");
await take("usage", "/usage?range=7d", "Show figures");
await take("usage-dark", "/usage?range=7d", "Show figures", { colorScheme: "dark" });
await take("requests", "/requests?range=24h", "Show figures");
const response = await gateway.post({ model: models[0], messages: [{ role: "user", content: "Hello" }] });
await response.text();
const path = `/usage/records/${response.headers.get("x-request-id")}`;
await until("the ledger has the request", async () => (await control.call("GET", path)).ok);
const { id } = await control.get<{ id: string }>(path);
await take("request", `/requests/${id}`, "Cost");

const leave = new AbortController();
const body = { model: models[1], stream: true, messages: [{ role: "user", content: "Tell me something long." }] };
const streams = Array.from({ length: 40 }, () => gateway.post(body, { signal: leave.signal }).catch(() => undefined));
await take("operations", "/operations", "40 / 128").finally(() => leave.abort());
await Promise.all(streams);
