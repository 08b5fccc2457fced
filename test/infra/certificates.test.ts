/**
 * A private certificate authority that the chart mounts is trusted by every client of a process:
 * those of Redis, Postgres, upstreams and collectors of traces.
 */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { startCollector } from "../support/collector.ts";
import { startGateway, startRole } from "../support/gateway.ts";
import { startPostgres } from "../support/postgres.ts";
import { until } from "../support/time.ts";
import { startPostgresFront, startTlsFront, startTlsTunnel, tlsFiles } from "../support/tls.ts";
import { chartText } from "./chart.ts";

/** The file that the chart's init container makes of mounted authorities. */
function bundleOf(directory: string, ...authorities: string[]): string {
  const [, script = ""] =
    /name: certificates[\s\S]*?command: \[sh, -c, "([^"]+)"\]/.exec(chartText("templates/_helpers.tpl")) ?? [];
  for (const path of ["authorities", "certificates"]) mkdirSync(join(directory, path));
  for (const [index, authority] of authorities.entries())
    writeFileSync(join(directory, `authorities/${index}.crt`), authority);
  execFileSync("sh", ["-c", script.replaceAll("/run/", `${directory}/`)]);
  return join(directory, "certificates/ca.crt");
}

test("every client of a process trusts the mounted authorities, and no others", async () => {
  const directory = mkdtempSync(join(tmpdir(), "authorities-"));
  await using resources = new AsyncDisposableStack();
  resources.defer(() => rmSync(directory, { recursive: true }));
  const gateway = resources.use(await startGateway({ ingresses: 0, workers: [] }));
  const postgres = resources.use(await startPostgres());
  const collector = resources.use(await startCollector());
  const database = new URL((await postgres.createDatabase()).replace("@/", "@localhost/"));
  const [redisFront, postgresFront, upstreamFront, collectorFront] = await Promise.all([
    startTlsTunnel({ path: gateway.redis.url.replace("unix://", "") }),
    startPostgresFront({ path: join(database.searchParams.get("host")!, ".s.PGSQL.5432") }),
    startTlsFront(Number(new URL(gateway.simulatorUrl).port), "http/1.1"),
    startTlsFront(Number(new URL(collector.url).port), "http/1.1"),
  ]);
  for (const front of [redisFront, postgresFront, upstreamFront, collectorFront]) resources.use(front);
  // The first one has no line break at its end, as Secrets often have none.
  const authority = readFileSync(tlsFiles.caFile, "utf8");
  const bundle = bundleOf(directory, readFileSync(tlsFiles.certificateFile, "utf8").trimEnd(), authority);
  const environment = {
    NODE_EXTRA_CA_CERTS: bundle,
    REDIS_URL: `rediss://localhost:${redisFront.port}`,
    SIMULATOR_URL: `https://localhost:${upstreamFront.port}`,
    OTEL_EXPORTER_OTLP_ENDPOINT: `https://localhost:${collectorFront.port}`,
  };
  const controlEnvironment = {
    ...environment,
    SLUICE_CATALOGUE: gateway.catalogueFile,
    CONTROL_PORT: "0",
    DATABASE_URL: `postgres://sluice@localhost:${postgresFront.port}${database.pathname}?sslmode=verify-full`,
  };

  const [ingress, , control] = await Promise.all([
    gateway.addIngress(environment, true),
    gateway.addWorker("chat=8", environment, true),
    startRole("control", [], controlEnvironment),
  ]);
  resources.defer(() => control.kill());
  const model = "sim-fast";
  const messages = [{ role: "user", content: "Hello" }];
  const answer = await gateway.post({ model, messages }, { url: ingress.urls.api as string });
  assert.equal(answer.status, 200, await answer.text());
  await until("spans of ingress and worker", () =>
    ["sluice-ingress", "sluice-worker"].every((service) => collector.spans.some((span) => span.service === service)),
  );

  const { NODE_EXTRA_CA_CERTS: _, ...untrusting } = controlEnvironment;
  const refused = (more: Record<string, string>) => startRole("control", [], { ...untrusting, ...more });
  await assert.rejects(refused({}), /certificate/, "Redis");
  await assert.rejects(refused({ REDIS_URL: gateway.redis.url }), /certificate/, "Postgres");
});
