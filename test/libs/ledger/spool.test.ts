import assert from "node:assert/strict";
import { mkdtemp, readdir, rm, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { Spool } from "#ledger/spool.ts";

const root = await mkdtemp(join(tmpdir(), "sluice-spool-"));
after(() => rm(root, { recursive: true, force: true }));
let directories = 0;
const nextDirectory = () => join(root, String(++directories));

/** What is sent, until `accepts` says no. */
function collector(accepts: () => boolean = () => true) {
  const lines: string[] = [];
  const send = async (text: string) => {
    if (!accepts()) return false;
    lines.push(...text.split("\n"));
    return true;
  };
  return { lines, send };
}

test("lines are sent in order, in whole lines, and then the files are gone", async () => {
  const directory = nextDirectory();
  const spool = new Spool(directory);
  const written = Array.from({ length: 500 }, (_, index) => `line ${index} é`);
  for (let start = 0; start < written.length; start += 7)
    await spool.append(written.slice(start, start + 7).join("\n"));
  assert.ok(spool.bytes > 0);
  await spool.complete();
  const { lines, send } = collector();
  await spool.drain(64, send);
  assert.deepEqual(lines, written);
  assert.deepEqual(await readdir(directory), []);
  assert.equal(spool.bytes, 0);
});

test("what could not be sent stays and is sent later; lines may be sent twice", async () => {
  const directory = nextDirectory();
  const spool = new Spool(directory);
  await spool.append("one\ntwo\nthree");
  await spool.complete();
  let isUp = false;
  const { lines, send } = collector(() => isUp);
  await spool.drain(8, send);
  assert.deepEqual(lines, []);
  assert.ok(spool.bytes > 0);
  await spool.append("four");
  await spool.complete();
  isUp = true;
  await spool.drain(8, send);
  assert.deepEqual(lines, ["one", "two", "three", "four"]);
  assert.equal(spool.bytes, 0);
});

test("another process sends the files of one that died, even in the middle of a line or of sending", async () => {
  const directory = nextDirectory();
  const dead = new Spool(directory);
  await dead.append("one\ntwo");
  await dead.close();
  await writeFile(join(directory, "half.usage.sending"), "three\nunfini");
  for (const name of await readdir(directory)) await utimes(join(directory, name), 0, 0);
  const { lines, send } = collector();
  await new Spool(directory).drain(64, send);
  assert.deepEqual(lines.sort(), ["one", "three", "two"]);
  assert.deepEqual(await readdir(directory), []);
});

test("a file that somebody may still write to is left alone", async () => {
  const directory = nextDirectory();
  const other = new Spool(directory);
  await other.append("one");
  const { lines, send } = collector();
  await new Spool(directory).drain(64, send);
  assert.deepEqual(lines, []);
  await other.close();
});
