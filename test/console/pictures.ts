/** Takes the pictures of docs/console.md on the real stack: `npm run pictures`. */
import { join, resolve } from "node:path";
import OpenAI from "openai";
import { endAll } from "../support/at-end.ts";
import { startConsole } from "../support/console.ts";
import { catalogueOf } from "../support/gateway.ts";
import { until } from "../support/time.ts";
import { record } from "./usage-support.ts";

const directory = resolve(import.meta.dirname, "../../docs/pictures");
const queues = "chat=64,image=8,audio=8,background=16,realtime=16";
const models = ["gpt-5.2", "claude-opus-4-6", "gemini-3-pro", "gpt-5-mini"];
const catalogue = catalogueOf(
  models.map((id) => {
    // The second one answers for as long as a picture takes.
    const tokens = id === models[1] ? 6_000 : 160;
    return { id, model: `sim-text;rate=60;first=200;tokens=${tokens}` };
  }),
);
const secret = { CREDENTIALS_SECRET: "a secret for the credentials of the pictures" };
const browser = await startConsole(
  { catalogue, processes: "all", workers: [queues, queues], environment: secret },
  secret,
);
const { control, gateway } = browser;

const minuteMs = 60_000;
const hour = 3_600_000;
const now = Date.now();
const keyIds: string[] = [];
for (const name of ["website", "support-bot", "nightly-report"]) {
  const made = await control.call("POST", "/keys", { account: "default", name, group: "default", tags: [name] });
  keyIds.push(((await made.json()) as { id: string }).id);
}
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
      keyId: keyIds[index % keyIds.length] as string,
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

/** On a busy machine a picture is late. */
const patientMs = 10 * minuteMs;
const screen = { viewport: { width: 1280, height: 860 }, timeoutMs: patientMs };

/** Stands below each plot. */
const figures = "Show figures";
const take = async (name: string, path: string, ready: string, options: Parameters<typeof browser.open>[1] = {}) => {
  await using opened = await browser.open(path, { ...screen, ...options });
  await opened.page.getByText(ready).first().waitFor();
  // A plot is drawn by code that is loaded with the first one.
  if (ready === figures) await opened.page.locator("canvas").waitFor();
  await opened.page.waitForLoadState("networkidle");
  await opened.page.screenshot({ path: join(directory, `${name}.png`), animations: "disabled" });
};

await take("start", "/", "Call a model");
await take("keys", "/keys", "nightly-report");
await take("models", "/models", "claude-opus-4-6");
await take("usage", "/usage?range=7d", figures);
await take("usage-dark", "/usage?range=7d", figures, { colorScheme: "dark" });
await take("requests", "/requests?range=24h", figures);
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

const client = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: await browser.addAccount("research") });
const lineOf = (place: number) =>
  JSON.stringify({
    custom_id: `review-${place}`,
    method: "POST",
    url: "/v1/chat/completions",
    body: {
      model: models[(place % 2) * 2],
      messages: [{ role: "user", content: "Hello" }],
      ...(place % 9 === 0 && { temperature: "hot" }),
    },
  });
async function createBatch(lines: number): Promise<string> {
  const text = Array.from({ length: lines }, (_, place) => lineOf(place + 1)).join("\n");
  const file = await client.files.create({ file: new File([text], "reviews.jsonl"), purpose: "batch" });
  const batch = { input_file_id: file.id, endpoint: "/v1/chat/completions", completion_window: "24h" } as const;
  return (await client.batches.create(batch)).id;
}
const short = await createBatch(24);
await until("a batch is over", async () => (await client.batches.retrieve(short)).status === "completed", patientMs);
const long = await createBatch(300);
await until(
  "a part is done",
  async () => ((await client.batches.retrieve(long)).request_counts?.completed ?? 0) > 30,
  patientMs,
);
await take("batches", "/batches", "Completed with errors");
await take("batch", `/batches/${long}`, "Failed requests");
await client.batches.cancel(long);

let revision = 0;
async function put(place: string, body: object): Promise<void> {
  const response = await control.call("PUT", `/catalogue/${place}`, body, { "if-match": `"${revision}"` });
  if (!response.ok) throw new Error(await response.text());
  ({ revision } = (await response.json()) as { revision: number });
}
const upstream = { dialect: "openai-chat", baseUrl: `${gateway.simulatorUrl}/v1` };
await put("upstreams/rack-1", upstream);
await put("upstreams/rack-2", upstream);
const prices = { inputPerMillion: 0.2, outputPerMillion: 0.6 };
await put("models/llama-4-maverick", {
  contextWindow: 128_000,
  prices,
  strategy: "leastBusy",
  route: [
    { upstream: "rack-1", model: "sim-fast", weight: 3, prices: { inputPerMillion: 0.1, outputPerMillion: 0.3 } },
    { upstream: "rack-2", model: "sim-text", weight: 1 },
    { upstream: "simulator", model: "sim-fast" },
  ],
});
await take("route", "/catalogue/models/llama-4-maverick", "75% of the requests");
{
  await using opened = await browser.open("/catalogue?tab=upstreams", screen);
  await opened.page.getByRole("button", { name: "Add an upstream" }).click();
  await opened.page.getByRole("button", { name: "OpenRouter" }).waitFor();
  await opened.page.screenshot({ path: join(directory, "vendors.png"), animations: "disabled" });
}
await browser[Symbol.asyncDispose]();
await endAll();
