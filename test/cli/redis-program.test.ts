import assert from "node:assert/strict";
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { type TestContext, test } from "node:test";
import { StartupFault } from "#service/startup.ts";
import { ensureRedisProgram, findRedisProgram } from "../../apps/cli/redis-program.ts";
import { stateOf } from "../../apps/cli/state.ts";

/** A directory with programs that only print their version. */
function programs(t: TestContext, versions: Record<string, string>): string {
  const directory = mkdtempSync(join(tmpdir(), "redis-program-"));
  t.after(() => rmSync(directory, { recursive: true, force: true }));
  for (const [name, text] of Object.entries(versions)) {
    writeFileSync(join(directory, name), `#!/bin/sh\necho '${text}'\n`);
    chmodSync(join(directory, name), 0o755);
  }
  return directory;
}

const redis = (version: string) =>
  `Redis server v=${version} sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=ae4d7c971a948f0`;
const valkey = (version: string) =>
  `Valkey server v=${version} sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=ae4d7c971a948f0`;

test("a Redis or Valkey of a supported version is found", async (t) => {
  const cases: [Record<string, string>, string, string][] = [
    [{ "redis-server": redis("7.0.15") }, "redis-server", "Redis 7.0.15"],
    [{ "valkey-server": valkey("8.1.0") }, "valkey-server", "Valkey 8.1.0"],
    [{ "redis-server": redis("6.0.16"), "valkey-server": valkey("9.0.0") }, "valkey-server", "Valkey 9.0.0"],
    [{ "redis-server": valkey("8.0.1") }, "redis-server", "Valkey 8.0.1"],
  ];
  for (const [versions, name, version] of cases) {
    const directory = programs(t, versions);
    assert.deepEqual(await findRedisProgram(`${join(directory, "nowhere")}${delimiter}${directory}`), {
      kind: "found",
      program: { path: join(directory, name), version },
    });
  }
});

test("old servers, other programs and directories are refused", async (t) => {
  const old = programs(t, { "redis-server": redis("6.0.16") });
  assert.deepEqual(await findRedisProgram(old), {
    kind: "tooOld",
    path: join(old, "redis-server"),
    version: "Redis 6.0.16",
  });
  assert.equal((await findRedisProgram(programs(t, { "valkey-server": valkey("7.2.5") }))).kind, "tooOld");
  assert.equal((await findRedisProgram(programs(t, { "redis-server": "something else" }))).kind, "none");
  const folder = programs(t, {});
  mkdirSync(join(folder, "redis-server"));
  assert.equal((await findRedisProgram(folder)).kind, "none");
});

test("an old Redis on PATH gives an error that says what to install", async (t) => {
  const directory = programs(t, { "redis-server": redis("6.0.16") });
  await assert.rejects(
    ensureRedisProgram({ PATH: directory }, stateOf(directory), AbortSignal.timeout(10_000)),
    (error: Error) => {
      assert.ok(error instanceof StartupFault);
      assert.match(
        error.message,
        /redis-server is Redis 6\.0\.16; install Redis 7 or Valkey 8, or newer .*, or set REDIS_URL$/,
      );
      return true;
    },
  );
});
