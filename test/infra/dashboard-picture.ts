/**
 * Draws docs/pictures/dashboard.png, with a real gateway, a real Prometheus and the dashboard's own
 * queries: `node test/infra/dashboard-picture.ts`. The panels are drawn with uPlot, not with
 * Grafana. `prometheus` must be in PATH (Debian's package prometheus).
 */
import { spawn } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { stringify } from "yaml";
import { type Panel, rows } from "../../infra/grafana/dashboard.ts";
import { launchBrowser } from "../support/browser.ts";
import { startControlProcess } from "../support/control.ts";
import { embeddedDirectory } from "../support/embedded.ts";
import { startGateway } from "../support/gateway.ts";
import { freePort } from "../support/tcp.ts";
import { until } from "../support/time.ts";
import { alertsFile } from "./promql.ts";

const root = resolve(import.meta.dirname, "../..");
const rangeSeconds = 240;
const stepSeconds = 2;

const catalogue = `groups: { default: { models: ["*"] } }
queues: { chat: { waitMs: 60000 } }
upstreams:
  openai: { dialect: openai-chat, baseUrl: "\${SIMULATOR_URL}/v1" }
  azure: { dialect: openai-chat, baseUrl: "\${SIMULATOR_URL}/v1", concurrencyMax: 30 }
models:
  - { id: gpt-5.2, prices: { inputPerMillion: 1, outputPerMillion: 2 }, route: [{ upstream: openai, model: "sim-text;rate=60;first=300;tokens=80" }] }
  - { id: gpt-5-mini, prices: { inputPerMillion: 1, outputPerMillion: 2 }, route: [{ upstream: azure, model: "sim-text;rate=120;first=120;tokens=60" }] }
  - { id: unreliable, prices: { inputPerMillion: 1, outputPerMillion: 2 }, route: [{ upstream: azure, model: "sim-text;status=503" }, { upstream: openai, model: "sim-text;rate=90;first=200;tokens=40" }] }
  - { id: image-1, queue: image, prices: { inputPerMillion: 1, outputPerMillion: 2 }, route: [{ upstream: openai, model: "sim-text;rate=10;first=900;tokens=20" }] }
`;

interface Series {
  name: string;
  values: [at: number, value: number][];
}

interface Drawn extends Pick<Panel, "title" | "kind" | "unit"> {
  series: Series[];
}

await using opened = new AsyncDisposableStack();
const directory = await mkdtemp(join(tmpdir(), "sluice-dashboard-"));
opened.defer(() => rm(directory, { recursive: true, force: true }));
const gateway = opened.use(
  await startGateway({ processes: "all", ingresses: 2, workers: ["chat=24,image=4", "chat=24,image=4"], catalogue }),
);
const control = opened.use(
  await startControlProcess({
    REDIS_URL: gateway.redis.url,
    SLUICE_CATALOGUE: gateway.catalogueFile,
    SIMULATOR_URL: gateway.simulatorUrl,
    DATABASE_DIRECTORY: await embeddedDirectory(join(directory, "database")),
  }),
);

const operations = [...gateway.ingresses, ...gateway.workers].map(({ urls }) => urls.operations as string);
const port = await freePort();
const prometheusUrl = `http://127.0.0.1:${port}`;
const configuration = {
  global: { scrape_interval: `${stepSeconds}s`, scrape_timeout: "1s", evaluation_interval: "5s" },
  rule_files: [alertsFile],
  scrape_configs: [
    {
      job_name: "sluice",
      static_configs: [
        {
          targets: [...operations, control.operations].map((url) => new URL(url).host),
          labels: { namespace: "sluice" },
        },
      ],
    },
  ],
};
await writeFile(join(directory, "prometheus.yml"), stringify(configuration));
const prometheus = spawn(
  "prometheus",
  [
    `--config.file=${join(directory, "prometheus.yml")}`,
    `--storage.tsdb.path=${join(directory, "data")}`,
    `--web.listen-address=127.0.0.1:${port}`,
  ],
  { stdio: "ignore" },
);
prometheus.on("error", ({ message }) => {
  console.error(`prometheus does not start: ${message}; install Debian's package prometheus`);
  process.exit(1);
});
opened.defer(() => void prometheus.kill());

async function ask<Answer>(path: string, query: Record<string, string>): Promise<Answer> {
  const response = await fetch(`${prometheusUrl}/api/v1/${path}?${new URLSearchParams(query)}`);
  const { status, data, error } = (await response.json()) as { status: string; data: Answer; error?: string };
  if (status !== "success") throw new Error(`${query.query}: ${error}`);
  return data;
}
await until(
  "Prometheus is ready",
  () =>
    fetch(`${prometheusUrl}/-/ready`).then(
      ({ ok }) => ok,
      () => false,
    ),
  30_000,
);

/** Callers, more and fewer of them, until the picture's time is over. */
async function load(): Promise<void> {
  const endsAt = Date.now() + rangeSeconds * 1_000;
  const models = ["gpt-5.2", "gpt-5.2", "gpt-5-mini", "gpt-5-mini", "image-1", "unreliable"];
  const caller = async (index: number) => {
    while (Date.now() < endsAt) {
      const share = 0.5 + 0.5 * Math.sin((Date.now() / 1_000 / rangeSeconds) * 6 * Math.PI);
      if (index / 80 > share) {
        await delay(500);
        continue;
      }
      const model = models[index % models.length];
      const ingress = gateway.ingresses[index % 2]?.urls.api as string;
      const leaves = index % 20 === 19 ? AbortSignal.timeout(400) : undefined;
      await gateway
        .post(
          {
            model: index % 40 === 7 ? "no-such-model" : model,
            stream: true,
            messages: [{ role: "user", content: "Hello" }],
          },
          { url: ingress, ...(leaves && { signal: leaves }) },
        )
        .then((response) => response.text())
        .catch(() => undefined);
      await delay(index % 40 === 7 ? 1_000 : 100);
    }
  };
  const callers = Array.from({ length: 80 }, (_, index) => caller(index));
  await delay(rangeSeconds * 500);
  await control.call("POST", "/operations/queues/image/pause", { reason: "The vendor has an incident." });
  await delay(rangeSeconds * 200);
  await control.call("POST", "/operations/queues/image/resume", {});
  await control.call("POST", "/operations/queues/realtime/drain", { reason: "The vendor has an incident." });
  await Promise.all(callers);
}

async function read({ queries, ...panel }: Panel, end: number): Promise<Drawn> {
  const series: Series[] = [];
  for (const { expr, legend } of queries) {
    const query = expr.replaceAll("$__rate_interval", "15s").replaceAll(/\$(namespace|queue|upstream)/g, ".*");
    const { result } = await ask<{ result: { metric: Record<string, string>; values: [number, string][] }[] }>(
      "query_range",
      { query, start: String(end - rangeSeconds), end: String(end), step: String(stepSeconds) },
    );
    // A table shows what there is at the end.
    const shown = result.filter(
      ({ values }) => panel.kind !== "table" || (values.at(-1)?.[0] ?? 0) > end - 2 * stepSeconds,
    );
    for (const { metric, values } of shown)
      series.push({
        name: legend.replaceAll(/\{\{(\w+)\}\}/g, (_, label: string) => metric[label] ?? "").trim(),
        values: values.map(([at, value]) => [at, Number(value)]),
      });
  }
  return { title: panel.title, kind: panel.kind, unit: panel.unit, series };
}

await load();
const end = Math.floor(Date.now() / 1_000);
const drawn: { title: string; panels: Drawn[] }[] = [];
for (const { title, panels } of rows) {
  const members: Drawn[] = [];
  for (const panel of panels) members.push(await read(panel, end));
  drawn.push({ title, panels: members });
}
const empty = drawn.flatMap(({ title, panels }) =>
  panels
    .filter(({ series }) => series.every(({ values }) => values.length === 0))
    .map((panel) => `${title}: ${panel.title}`),
);
console.log(`panels without data: ${empty.join("; ") || "none"}`);
const { alerts } = await ask<{ alerts: { labels: { alertname: string }; state: string }[] }>("alerts", {});
console.log(`alerts: ${alerts.map(({ labels, state }) => `${labels.alertname} (${state})`).join(", ") || "none"}`);

const browser = await launchBrowser();
opened.defer(() => browser.close());
const page = await browser.newPage({ viewport: { width: 1420, height: 900 } });
const style = `body{background:#111217;color:#d8d9da;font:13px sans-serif;margin:12px}
.row{font-size:15px;font-weight:600;margin:14px 0 6px}.grid{display:grid;grid-template-columns:repeat(3,1fr);gap:8px}.stats{grid-template-columns:repeat(4,1fr)}
.panel{background:#181b1f;border:1px solid #2c2f36;border-radius:3px;padding:8px;min-height:60px}.title{font-weight:600;margin-bottom:6px}
.value{font-size:22px;color:#7eb26d}.legend{display:flex;flex-wrap:wrap;gap:2px 10px;font-size:11px}.none{color:#9a9ba0;text-align:center;padding:40px}`;
await page.setContent(`<!doctype html><title>Sluice</title><style>${style}</style>`);
const uplot = join(root, "node_modules/uplot/dist");
await page.addStyleTag({ content: await readFile(join(uplot, "uPlot.min.css"), "utf8") });
await page.addScriptTag({ content: await readFile(join(uplot, "uPlot.iife.min.js"), "utf8") });
await page.addScriptTag({ path: join(import.meta.dirname, "dashboard-drawing.js") });
await page.evaluate((all) => (globalThis as typeof globalThis & { draw(all: unknown): void }).draw(all), drawn);
// The first rows; all of them with a file's name as the argument.
const [, , file] = process.argv;
await page.screenshot(
  file === undefined
    ? {
        path: join(root, "docs/pictures/dashboard.png"),
        fullPage: true,
        clip: { x: 0, y: 0, width: 1420, height: 1262 },
      }
    : { path: file, fullPage: true },
);
