/**
 * Without a collector, the processes load nothing of OpenTelemetry besides its API, which
 * prom-client uses.
 */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";

const root = join(import.meta.dirname, "..", "..", "..");
const program = `
import { registerHooks } from "node:module";
import { pino } from "pino";
let loaded = 0;
const isCounted = (url) => url.includes("/@opentelemetry/") && !url.includes("/@opentelemetry/api/");
registerHooks({ load: (url, context, next) => { if (isCounted(url)) loaded++; return next(url, context); } });
const { openTracing } = await import("#tracing/tracing.ts");
await import("./apps/ingress/ingress.ts");
await import("./apps/worker/worker.ts");
const outcomes = [];
const endpoint = { OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:4318" };
for (const environment of [{}, { ...endpoint, OTEL_SDK_DISABLED: "true" }, endpoint]) {
  const tracing = await openTracing("ingress", environment, pino({ level: "silent" }));
  outcomes.push([tracing !== undefined, loaded > 0]);
}
console.log(JSON.stringify(outcomes));
`;

test("off loads nothing of OpenTelemetry", async () => {
  const args = ["--input-type=module", "--eval", program];
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: root, env: { PATH: process.env.PATH } });
  assert.deepEqual(JSON.parse(stdout), [
    [false, false],
    [false, false],
    [true, true],
  ]);
});
