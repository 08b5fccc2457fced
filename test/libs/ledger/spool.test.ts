import assert from "node:assert/strict";
import { mkdtemp, open, readdir, rm, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { Spool } from "#ledger/spool.ts";

const root = await mkdtemp(join(tmpdir(), "sluice-spool-"));
after(() => rm(root, { recursive: true, force: true }));
let directories = 0;
const nextDirectory = () => join(root, String(++directories));

/** A receiver of the lines that are sent, until `accepts` says no. */
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

test("what was sent of a file is not sent again, and bytes in two chunks stay one character", async () => {
  const directory = nextDirectory();
  const spool = new Spool(directory);
  const written = Array.from({ length: 200 }, (_, index) => `${"é".repeat(index % 7)} ${index}`);
  await spool.append(written.join("\n"));
  await spool.complete();
  let count = 0;
  const { lines, send } = collector(() => ++count % 3 !== 0);
  while (!(await spool.drain(61, send)));
  assert.deepEqual(lines, written);
  assert.deepEqual(await readdir(directory), []);
  assert.equal(spool.bytes, 0);
});

test("a process that was frozen while another one sent its file appends to a new file", async () => {
  const directory = nextDirectory();
  const frozen = new Spool(directory);
  await frozen.append("one");
  for (const name of await readdir(directory)) await utimes(join(directory, name), 0, 0);
  const { lines, send } = collector();
  await new Spool(directory).drain(64, send);
  await frozen.append("two");
  await frozen.complete();
  await frozen.drain(64, send);
  assert.deepEqual(lines, ["one", "two"]);
  assert.deepEqual(await readdir(directory), []);
  assert.equal(frozen.bytes, 0);
});

test("a file that a process is sending is left alone, however old it is", async () => {
  const directory = nextDirectory();
  const sending = new Spool(directory);
  await sending.append("one\ntwo");
  await sending.complete();
  for (const name of await readdir(directory)) await utimes(join(directory, name), 0, 0);
  const other = collector();
  const sent: string[] = [];
  await sending.drain(64, async (text) => {
    await new Spool(directory).drain(64, other.send);
    sent.push(text);
    return true;
  });
  assert.deepEqual(sent, ["one\ntwo"]);
  assert.deepEqual(other.lines, []);
});

test("two processes that find the same files send each line at least once, and leave nothing", async () => {
  const directory = nextDirectory();
  const written: string[] = [];
  for (let file = 0; file < 12; file++) {
    const dead = new Spool(directory);
    const own = Array.from({ length: 50 }, (_, index) => `${file} ${index}`);
    written.push(...own);
    await dead.append(own.join("\n"));
    await dead.close();
  }
  for (const name of await readdir(directory)) await utimes(join(directory, name), 0, 0);
  const { lines, send } = collector();
  await Promise.all([new Spool(directory).drain(32, send), new Spool(directory).drain(32, send)]);
  assert.deepEqual([...new Set(lines)].sort(), written.sort());
  assert.deepEqual(await readdir(directory), []);
});

test("after a failed append, later lines go to a new file", async () => {
  const directory = nextDirectory();
  await writeFile(directory, "not a directory");
  const spool = new Spool(directory);
  await assert.rejects(spool.append("one"));
  await rm(directory);
  await spool.append("one");
  await spool.complete();
  const { lines, send } = collector();
  await spool.drain(64, send);
  assert.deepEqual(lines, ["one"]);
});

test("a full disk gets no file for each try, and keeps the lines that it took", async (context) => {
  const directory = nextDirectory();
  const spool = new Spool(directory);
  await spool.append("one");
  const handle = await open(directory);
  const full = context.mock.method(Object.getPrototypeOf(handle), "appendFile", async () => {
    throw Object.assign(new Error("no space left on device"), { code: "ENOSPC" });
  });
  await handle.close();
  for (let count = 0; count < 5; count++) await assert.rejects(spool.append("two"), { code: "ENOSPC" });
  assert.equal((await readdir(directory)).length, 1);
  full.mock.restore();
  await spool.append("three");
  await spool.complete();
  const { lines, send } = collector();
  await spool.drain(64, send);
  assert.deepEqual(lines, ["one", "three"]);
  assert.deepEqual(await readdir(directory), []);
});
