/**
 * promtool checks the expressions of the alerts and of the dashboard, and runs the unit tests of
 * the alerts.
 */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { stringify } from "yaml";
import { promtoolTestsOf } from "./alert-cases.ts";
import { alertsFile, expressions } from "./promql.ts";

const directory = mkdtempSync(join(tmpdir(), "sluice-promtool-"));
after(() => rmSync(directory, { recursive: true }));

function promtool(...args: string[]) {
  const installed = join(homedir(), "go", "bin", "promtool");
  const { error, status, stdout, stderr } = spawnSync(existsSync(installed) ? installed : "promtool", args, {
    encoding: "utf8",
  });
  assert.equal(
    error,
    undefined,
    "promtool is missing: install Debian's package prometheus, or run go install github.com/prometheus/prometheus/cmd/promtool@latest",
  );
  assert.equal(status, 0, `promtool ${args.join(" ")}\n${stdout}${stderr}`);
}

test("Prometheus accepts the rules and the configuration", () => {
  promtool("check", "rules", alertsFile);
  promtool("check", "config", join(alertsFile, "../prometheus.yml"));
});

test("each alert fires and stays silent as its cases say", () => {
  for (const page of [undefined, "https://docs.example.com/operations.html"]) {
    const file = join(directory, "alerts.json");
    writeFileSync(file, promtoolTestsOf(alertsFile, page));
    promtool("test", "rules", file);
  }
});

test("Prometheus accepts the dashboard's expressions", () => {
  const rules = expressions.map(({ expr }, index) => ({
    record: `dashboard:${index}`,
    expr: expr.replaceAll("$__rate_interval", "1m").replaceAll(/\$(namespace|queue|upstream)/g, ".*"),
  }));
  const file = join(directory, "rules.yml");
  writeFileSync(file, stringify({ groups: [{ name: "dashboard", rules }] }));
  promtool("check", "rules", file);
});
