import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { after, before, test } from "node:test";
import { authenticate } from "#access/authenticate.ts";
import { hashOf, looksLikeKey } from "#access/key.ts";
import { readRecords } from "#access/projection.ts";
import { keyspaceOf } from "#service/keyspace.ts";
import { connectRedis } from "#service/redis.ts";
import { controlOf } from "../../apps/cli/control-address.ts";
import { keysCommand } from "../../apps/cli/keys.ts";
import { expiryOf } from "../../apps/cli/keys-text.ts";
import { startRedis, type TestRedis } from "../support/redis.ts";

const command = join(import.meta.dirname, "../../apps/cli/keys.ts");
const runner = `const { keysCommand } = await import(${JSON.stringify(command)}); process.exitCode = await keysCommand(process.argv.slice(1), process.env);`;
const catalogue = `groups: { default: { models: ["*"] }, narrow: { models: [one] } }
upstreams: { u: { dialect: openai-chat, baseUrl: "http://127.0.0.1:1", requires: NOT_SET_HERE } }
models:
  - { id: one, prices: { inputPerMillion: 1, outputPerMillion: 1 }, route: [{ upstream: u, model: m }] }
`;

let server: TestRedis;
let directory: string;

before(async () => {
  server = await startRedis();
  directory = await mkdtemp(join(tmpdir(), "keys-"));
  await writeFile(join(directory, "catalogue.yaml"), catalogue);
});
after(async () => {
  await server[Symbol.asyncDispose]();
  await rm(directory, { recursive: true });
});

/** Runs `sluice keys …`. Each test has its own namespace. */
function keysIn(namespace: string, catalogueFile = "catalogue.yaml") {
  return async (...args: string[]) => {
    const environment = {
      SLUICE_NAMESPACE: namespace,
      SLUICE_CATALOGUE: join(directory, catalogueFile),
      REDIS_URL: server.url,
    };
    const written = { out: "", err: "" };
    const output = {
      out: (text: string) => {
        written.out += text;
      },
      err: (text: string) => {
        written.err += text;
      },
    };
    return { code: await keysCommand(args, environment, output), ...written };
  };
}

/** Runs it in a separate process, in the directory of the catalogue. */
function keysProcessIn(namespace: string, environment: Record<string, string> = {}) {
  return async (...args: string[]) => {
    const { PATH } = process.env;
    const child = spawn(process.execPath, ["--input-type=module", "-e", runner, "--", ...args], {
      cwd: directory,
      env: { PATH, SLUICE_NAMESPACE: namespace, ...environment },
      stdio: ["ignore", "pipe", "pipe"],
    });
    const [out, err, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, "exit")]);
    return { out, err, code: code as number };
  };
}

async function recordsIn(namespace: string) {
  const redis = await connectRedis(server.url, "request");
  const records = await readRecords(redis, keyspaceOf(namespace));
  redis.disconnect();
  return records;
}

test("a key can be revoked while Redis' memory is full", async () => {
  const keys = keysIn("full");
  await keys("create", "--group", "default", "--name", "abused");
  const redis = await connectRedis(server.url, "request");
  try {
    await redis.config("SET", "maxmemory", "1kb");
    await assert.rejects(redis.set("anything", "x"), /OOM/);
    assert.deepEqual(await keys("revoke", "abused").then(({ code, err }) => [code, err]), [0, ""]);
  } finally {
    await redis.config("SET", "maxmemory", "0");
    redis.disconnect();
  }
  assert.ok([...(await recordsIn("full")).values()].every(({ revokedAt }) => revokedAt !== undefined));
});

test("a key is created, shown once, stored as a hash, listed and revoked", async () => {
  const keys = keysIn("life");
  const created = await keys(
    "create",
    "--group",
    "default",
    "--name",
    "ci",
    "--expires",
    "90d",
    "--models",
    "one, o*",
    "--origins",
    "https://app.example, http://localhost:5173",
    "--json",
  );
  assert.equal(created.err, "");
  assert.equal(created.code, 0);
  const { key, ...record } = JSON.parse(created.out);
  assert.ok(looksLikeKey(key));
  assert.deepEqual(
    [record.name, record.group, record.models, record.origins, record.hint],
    ["ci", "default", ["one", "o*"], ["https://app.example", "http://localhost:5173"], key.slice(-4)],
  );
  assert.equal(record.expiresAt, record.createdAt + 90 * 86_400_000);

  const stored = await recordsIn("life");
  assert.deepEqual(stored.get(hashOf(key)), record);
  assert.ok(!JSON.stringify([...stored]).includes(key));
  assert.equal(authenticate([key], { find: (hash) => stored.get(hash) }, Date.now()).kind, "admitted");

  const listed = await keys("list", "--json");
  assert.deepEqual(JSON.parse(listed.out), [{ ...record, state: "live" }]);
  assert.ok(!listed.out.includes(key));

  const revoked = await keys("revoke", "ci");
  assert.deepEqual([revoked.code, revoked.out], [0, `Revoked ${record.id}, named ci, ending in ${record.hint}.\n`]);
  assert.equal(JSON.parse((await keys("list", "--json")).out)[0].state, "revoked");
  assert.equal((await keys("revoke", record.id)).code, 0);
});

test("without --json, create and list print a table", async () => {
  const keys = keysIn("table");
  const { out, code } = await keys("create", "--group", "narrow", "--name", "a person's", "--expires", "2099-01-31");
  assert.equal(code, 0);
  assert.match(out, /^sk-sluice-\w{38}\n\nStore this key now: it is never shown again\.\n/);
  const list = await keys("list");
  const [titles, row, ...rest] = list.out.trimEnd().split("\n");
  assert.deepEqual(rest, []);
  assert.match(
    titles!,
    /^ID +NAME +GROUP +KEY +STATE +CREATED \(UTC\) +EXPIRES \(UTC\) +MODELS +ORIGINS +ACCOUNT +PRIORITY +LIMITS$/,
  );
  assert.match(
    row!,
    /^key_[0-9a-f]{24} {2}a person's {2}narrow {2}…\w{4} {2}live {3}\d{4}-\d\d-\d\d \d\d:\d\d {2}2099-01-31 00:00 {2}all of its group {2}those of its group {2}none {5}that of its group {2}those of its group$/,
  );
});

test("a key can have its own limits and an account, and the list shows them", async () => {
  const keys = keysIn("limited");
  const limited = [
    "--requests-per-minute",
    "60",
    "--tokens-per-minute",
    "90000",
    "--generations",
    "4",
    "--budget-per-day",
    "2.5",
    "--budget-per-month",
    "40",
    "--on-limit",
    "wait",
    "--wait",
    "45s",
    "--priority",
    "background",
  ];
  const { limits, account, priority } = JSON.parse(
    (await keys("create", "--group", "default", "--name", "ci", "--account", "acme", ...limited, "--json")).out,
  );
  assert.deepEqual(limits, {
    requestsPerMinute: 60,
    tokensPerMinute: 90_000,
    generationsMax: 4,
    budgetPerDay: 2.5,
    budgetPerMonth: 40,
    onLimit: "wait",
    waitMs: 45_000,
  });
  assert.deepEqual([account, priority], ["acme", "background"]);
  assert.match(
    (await keys("list")).out,
    / {2}acme {5}background {2}60 requests\/min, 90000 tokens\/min, 4 at once, 2\.5\/day, 40\/month, wait\n$/,
  );
});

test("a key is revoked by its name or last characters only if they match one key", async () => {
  const keys = keysIn("twins");
  const made = [];
  for (const name of ["twin", "twin", "single"])
    made.push(JSON.parse((await keys("create", "--group", "default", "--name", name, "--json")).out));
  const ambiguous = await keys("revoke", "twin");
  assert.deepEqual([ambiguous.code, ambiguous.out], [1, ""]);
  assert.match(
    (await keys("rotate", "twin")).err,
    /^sluice keys rotate: 2 keys match "twin"; use the id: key_\w+, key_\w+\n$/,
  );
  assert.match(ambiguous.err, /^sluice keys revoke: 2 keys match "twin"; use the id: key_\w+, key_\w+\n$/);
  assert.equal((await keys("revoke", made[0].id)).code, 0);
  assert.equal((await keys("revoke", "twin")).code, 0);
  assert.equal((await keys("revoke", made[2].hint)).code, 0);
  const unknown = await keys("revoke", "single");
  assert.deepEqual([unknown.code, unknown.err], [1, 'sluice keys revoke: no key matches "single"\n']);
});

test("an invalid command gives a one-line error and creates nothing", async () => {
  const keys = keysIn("faults");
  const create = ["create", "--name", "x"];
  for (const [args, code, expected] of [
    [[...create], 1, /--group and --name are required/],
    [
      [...create, "--group", "default", "--requests-per-minute", "0"],
      1,
      /--requests-per-minute must be an integer from 1 to 1000000000$/m,
    ],
    [
      [...create, "--group", "default", "--budget-per-day", "much"],
      1,
      /--budget-per-day must be an amount such as 2\.50, from 0 to 1000000$/m,
    ],
    ...["-5", "-0.5", "-.5"].map(
      (amount) =>
        [
          [...create, "--group", "default", "--budget-per-month", amount],
          1,
          /--budget-per-month must be an amount such as 2\.50, from 0 to 1000000$/m,
        ] as [string[], number, RegExp],
    ),
    [[...create, "--group", "default", "--requests-per-minute", "-5"], 1, /must be an integer from 1 to 1000000000$/m],
    [[...create, "--group", "default", "--wait", "-30s"], 1, /--wait must be a duration/],
    [[...create, "--group", "default", "--expires", "-5d"], 1, /--expires must be in the future/],
    [["rotate", "a", "--overlap", "-1h"], 1, /--overlap must be a duration/],
    [[...create, "--group", "default", "--budget-per-month"], 2, /argument missing/],
    [[...create, "--group", "default", "--budget-per-month", "--json"], 2, /ambiguous/],
    [[...create, "--group", "default", "--account", "a b"], 1, /--account must be 1 to 100 of/],
    [[...create, "--group", "absent"], 1, /no group is named "absent"; the catalogue has default, narrow/],
    [[...create, "--group", "default", "--expires", "2001-01-01"], 1, /--expires must be in the future/],
    [[...create, "--group", "default", "--expires", "soon"], 1, /--expires must be in the future/],
    [[...create, "--group", "default", "--models", "absent"], 1, /no model of the catalogue has the id "absent"/],
    [
      [...create, "--group", "default", "--priority", "urgent"],
      1,
      /--priority must be one of interactive, normal, bac/,
    ],
    [[...create, "--group", "default", "--on-limit", "queue"], 1, /--on-limit must be one of refuse, wait$/m],
    [[...create, "--group", "default", "--wait", "11m"], 1, /--wait must be a duration such as 30s or 5m, up to 10m$/m],
    [[...create, "--group", "default", "--wait", "0s"], 1, /--wait must be a duration/],
    [[...create, "--group", "default", "--origins", "https://app.example/"], 1, /--origins must be up to 100 origins/],
    [[...create, "--group", "default", "--models", ","], 1, /--models must name at least one model/],
    [["create", "--group", "default", "--name", "a\nb"], 1, /--name must be/],
    [[...create, "--grup", "default"], 2, /Unknown option '--grup'/],
    [["revoke"], 1, /name one key/],
    [["revoke", "absent"], 1, /no key matches "absent"/],
  ] as const) {
    const result = await keys(...args);
    assert.deepEqual([result.code, result.out, result.err.split("\n").length], [code, "", 2], args.join(" "));
    assert.match(result.err, expected);
  }
  const unnamed = await keys("destroy");
  assert.deepEqual([unnamed.code, unnamed.err.split("\n")[0]], [2, 'sluice keys: there is no command "destroy"']);
  assert.equal((await recordsIn("faults")).size, 0);
});

test("without REDIS_URL the command uses the gateway of this directory; without a gateway the error says what to do", async () => {
  const expected = [
    1,
    "",
    'sluice keys list: no gateway runs in this directory; start it with "npm start", or set REDIS_URL\n',
  ];
  const keys = keysProcessIn("private");
  const alone = await keys("list");
  assert.deepEqual([alone.code, alone.out, alone.err], expected);

  await mkdir(join(directory, ".sluice"));
  const ready = join(directory, ".sluice", "ready.json");
  await writeFile(ready, JSON.stringify({ baseUrl: "http://127.0.0.1:8080", redisUrl: server.url }));
  assert.equal((await keys("create", "--group", "default", "--name", "x")).code, 0);
  assert.match((await keys("list")).out, /default/);

  await writeFile(ready, JSON.stringify({ redisUrl: `${server.url}.gone` }));
  const stale = await keys("list");
  assert.deepEqual([stale.code, stale.out, stale.err], expected);

  const elsewhere = await keysProcessIn("private", { REDIS_URL: "redis://127.0.0.1:1" })("list");
  assert.match(elsewhere.err, /^sluice keys list: no Redis at 127\.0\.0\.1:1: [^\n]+\n$/);
});

test("SLUICE_CATALOGUE names the catalogue, and an error in it names the line", async () => {
  await writeFile(join(directory, "bad.yaml"), "groups: {}\n");
  const bad = await keysIn("named", "bad.yaml")("create", "--group", "default", "--name", "x");
  assert.deepEqual([bad.code, bad.out], [1, ""]);
  assert.match(bad.err, /^sluice keys create: \S*bad\.yaml:1:\d+: [^\n]+\n$/);
});

test("an expiry is a duration or a date in the future", () => {
  const now = Date.UTC(2030, 0, 1);
  assert.deepEqual(
    [
      "30m",
      "12h",
      "90d",
      "4w",
      "2030-01-02",
      "2030-01-01T01:00:00Z",
      "2030-01-01T01:00+01:00",
      "0d",
      "2029-12-31",
      "2030-02-31",
      "90",
      "d",
      "",
    ].map((text) => expiryOf(text, now)),
    [
      now + 1_800_000,
      now + 43_200_000,
      now + 7_776_000_000,
      now + 2_419_200_000,
      now + 86_400_000,
      now + 3_600_000,
      "faulty",
      "faulty",
      "faulty",
      "faulty",
      "faulty",
      "faulty",
      "faulty",
    ],
  );
});

test("--help shows the usage, whatever else is given", async () => {
  const keys = keysIn("help");
  for (const args of [["--help"], ["create", "--help"], ["revoke", "x", "-h"]]) {
    const { code, out, err } = await keys(...args);
    assert.deepEqual([code, err], [0, ""]);
    assert.match(out, /^Usage:\n {2}sluice keys create/);
  }
});

test("the address of control is refused, and not shown, where nobody may call it", async () => {
  for (const url of ["http://bob:hidden@127.0.0.1:1", "ftp://bob:hidden@host", "bob:hidden@host:8090", "http://"]) {
    let errors = "";
    const output = { out: assert.fail, err: (text: string) => (errors += text) };
    const environment = { SLUICE_CONTROL_URL: url, OPERATOR_TOKEN: "a token" };
    assert.notEqual(await keysCommand(["list"], environment, output), 0, url);
    assert.match(errors, /SLUICE_CONTROL_URL must be/);
    assert.doesNotMatch(errors, /hidden/);
  }
});

test("without a token for control, each command says the same", async () => {
  const [keysErrors, topErrors]: string[][] = [[], []];
  const environment = { SLUICE_CONTROL_URL: "http://127.0.0.1:1" };
  await keysCommand(["list"], environment, { out: assert.fail, err: (text: string) => keysErrors?.push(text) });
  assert.throws(
    () => controlOf(environment),
    (error: Error) => Boolean(topErrors?.push(error.message)),
  );
  assert.deepEqual(topErrors, ["OPERATOR_TOKEN must be set to call control at http://127.0.0.1:1"]);
  assert.deepEqual(keysErrors, [`sluice keys list: ${topErrors?.[0]}\n`]);
});
