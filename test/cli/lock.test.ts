import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { lockHolderOf, takeLock } from "#service/lock.js";

function fileFor(t: TestContext): string {
  const directory = mkdtempSync(join(tmpdir(), "lock-"));
  t.after(() => rmSync(directory, { recursive: true, force: true }));
  return join(directory, "lock");
}

test("one process holds the lock, which names it, until it releases it", (t) => {
  const file = fileFor(t);
  assert.equal(lockHolderOf(file), undefined);
  const lock = takeLock(file);
  assert.ok(lock.kind === "taken");
  assert.deepEqual(takeLock(file), { kind: "locked", pid: process.pid });
  assert.equal(lockHolderOf(file), process.pid);
  lock.release();
  assert.equal(existsSync(file), false);
  assert.equal(takeLock(file).kind, "taken");
});

test("the lock of a killed process is free", async (t) => {
  const file = fileFor(t);
  const module = new URL("../../libs/service/lock.js", import.meta.url).href;
  const script = `import { takeLock } from ${JSON.stringify(module)}; console.log(takeLock(${JSON.stringify(file)}).kind); setInterval(() => {}, 1000);`;
  const holder = spawn(process.execPath, ["--input-type=module", "-e", script], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  assert.equal(String(await once(holder.stdout, "data")), "taken\n");
  assert.deepEqual(takeLock(file), { kind: "locked", pid: holder.pid });
  holder.kill("SIGKILL");
  await once(holder, "close");
  assert.equal(lockHolderOf(file), undefined);
  assert.equal(takeLock(file).kind, "taken");
});

test("a later process with the holder's id does not hold the lock", {
  skip: process.platform !== "linux" && "needs /proc",
}, (t) => {
  const file = fileFor(t);
  writeFileSync(file, `${process.pid} another-boot 1\n`);
  assert.equal(lockHolderOf(file), undefined);
  assert.equal(takeLock(file).kind, "taken");
});

test("a new empty lock file is locked, and an old one is free", (t) => {
  const file = fileFor(t);
  writeFileSync(file, "");
  const inAMinute = Date.now() / 1_000 + 60;
  utimesSync(file, inAMinute, inAMinute);
  assert.deepEqual(takeLock(file), { kind: "locked", pid: 0 });
  utimesSync(file, 0, 0);
  assert.equal(takeLock(file).kind, "taken");
});
