/** The OpenAPI document, the reference page, headers and limits of the API. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Operation } from "#api/operation.ts";
import { operations } from "#api/operations.ts";
import { startApi } from "./browsers.ts";
import { openPostgres } from "./databases.ts";

interface Document {
  paths: Record<
    string,
    Record<
      string,
      {
        operationId: string;
        summary: string;
        tags: string[];
        parameters?: { name: string; in: string }[];
        requestBody?: unknown;
        responses: Record<string, unknown>;
      }
    >
  >;
  components: { securitySchemes: Record<string, unknown> };
}

test("the OpenAPI document has every operation with its parameters, body, answer and errors", async () => {
  await using opened = await openPostgres();
  await using api = await startApi(opened.database);
  const { paths, components } = await api.browser().api<Document>("GET", "/openapi.json");
  assert.deepEqual(Object.keys(components.securitySchemes), ["token", "session"]);
  for (const [name, operation] of Object.entries<Operation>(operations)) {
    const path = `/api/v1${operation.path.replaceAll(/:(\w+)/g, "{$1}")}`;
    const described = paths[path]?.[operation.method.toLowerCase()];
    assert.equal(described?.operationId, name);
    assert.ok(described.summary.endsWith("."), name);
    assert.equal(described.tags.length, 1);
    const parameters = (described.parameters ?? []).map(({ in: place, name: parameter }) => `${place} ${parameter}`);
    assert.deepEqual(
      parameters.sort(),
      [
        ...Object.keys(operation.query?.properties ?? {}).map((parameter) => `query ${parameter}`),
        ...Object.keys(operation.params?.properties ?? {}).map((parameter) => `path ${parameter}`),
      ].sort(),
      name,
    );
    assert.equal(described.requestBody !== undefined, operation.body !== undefined, name);
    const status =
      operation.status ?? (operation.answer === undefined && operation.mediaType === undefined ? 204 : 200);
    assert.deepEqual(Object.keys(described.responses).sort(), [String(status), "default"], name);
  }
  assert.equal(Object.values(paths).flatMap(Object.keys).length, Object.keys(operations).length);
});

test("the reference page comes from this server alone, and may not ask another", async () => {
  await using opened = await openPostgres();
  await using api = await startApi(opened.database);
  const browser = api.browser();
  const page = await browser.call<string>("GET", "/api/v1/docs/");
  assert.equal(page.status, 200);
  const policy = page.headers.get("content-security-policy") ?? "";
  assert.match(policy, /^default-src 'self'; /);
  assert.deepEqual(
    policy
      .split(/[; ]+/)
      .filter((word) => !/^([a-z]+-(src|ancestors|uri|action)|'(self|none|unsafe-inline)'|data:|blob:)$/.test(word)),
    [],
  );
  assert.deepEqual(page.body.match(/\b(?:https?:)?\/\/[a-z][^\s"'<>]*/gi) ?? [], []);
  for (const setting of [
    '"withDefaultFonts": false',
    '"telemetry": false',
    '"hideClientButton": true',
    '"showDeveloperTools": "never"',
  ])
    assert.ok(page.body.includes(setting) || page.body.includes(setting.replace(" ", "")), setting);
  const sources = [...page.body.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, source]) => source as string);
  assert.ok(sources.length > 0);
  for (const source of sources) {
    const { origin, pathname } = new URL(source, `${api.url}/api/v1/docs/`);
    assert.equal(origin, api.url);
    assert.equal((await browser.call("GET", pathname)).status, 200, pathname);
  }
});

test("answers have headers that browsers obey, and too many calls wait", async () => {
  await using opened = await openPostgres();
  await using api = await startApi(opened.database, { CONTROL_CALLS_PER_MINUTE: "60" });
  const first = await api.machine("GET", "/me");
  assert.deepEqual(
    ["content-security-policy", "x-content-type-options", "x-frame-options", "referrer-policy", "cache-control"].map(
      (name) => first.headers.get(name),
    ),
    ["default-src 'none'; frame-ancestors 'none'", "nosniff", "DENY", "no-referrer", "no-store"],
  );
  const statusesOf = async (call: () => Promise<{ status: number; headers: Headers }>, times: number) => {
    const answers = await Promise.all(Array.from({ length: times }, call));
    const refused = answers.filter(({ status }) => status === 429);
    for (const { headers } of refused) assert.ok(Number(headers.get("retry-after")) >= 1);
    return refused.length;
  };
  assert.ok((await statusesOf(() => api.machine("GET", "/me"), 100)) >= 30);
  // Another person at the same address goes on, until the address has had four times as many.
  assert.equal((await api.browser().call("GET", "/api/v1/sign-in-methods")).status, 200);
  assert.ok((await statusesOf(() => api.browser().call("GET", "/api/v1/sign-in-methods"), 250)) >= 50);
});
