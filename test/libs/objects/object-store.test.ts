/** Both object stores: a directory, and a bucket of a real server with S3's protocol. */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { mkdtemp, readdir, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { buffer } from "node:stream/consumers";
import { after, test } from "node:test";
import { setImmediate } from "node:timers/promises";
import type { ObjectStore } from "#objects/object-store.ts";
import { openObjectStore } from "#objects/open.ts";
import { rcloneMissing, startS3 } from "../../support/rclone.ts";

const directory = await mkdtemp(join(tmpdir(), "sluice-objects-"));
const server = rcloneMissing === undefined ? await startS3() : undefined;
after(async () => {
  await server?.[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
});

const mebibyte = 1 << 20;

async function* chunksOf(bytes: Buffer, size = 100_003): AsyncGenerator<Buffer> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

const readAll = async (store: ObjectStore, name: string, start?: number) => {
  const stream = await store.get(name, start);
  return stream && buffer(stream);
};

const filesIn = async (path: string) => {
  const entries = await readdir(path, { recursive: true, withFileTypes: true });
  return entries.filter((entry) => entry.isFile()).map(({ name }) => name);
};

const stores: { kind: string; files: string; skip: string | false; open(): Promise<ObjectStore> }[] = [
  { kind: "a directory", files: directory, skip: false, open: () => openObjectStore({ directory, s3: undefined }) },
  {
    kind: "a bucket",
    files: server?.directory ?? "",
    skip: rcloneMissing ?? false,
    open: () =>
      openObjectStore({
        directory,
        s3: {
          bucket: server?.bucket ?? "",
          prefix: "sluice/",
          region: "us-east-1",
          endpoint: server?.url,
          credentials: server?.credentials,
        },
      }),
  },
];

for (const { kind, files, skip, open } of stores) {
  test(`${kind} gives back objects of every size, whole and from any byte on`, { skip }, async () => {
    const store = await open();
    for (const size of [0, 1, 70_000, 5 * mebibyte, 12 * mebibyte + 1]) {
      const bytes = randomBytes(size);
      const name = `object${size}`;
      await store.put(name, chunksOf(bytes));
      assert.ok((await readAll(store, name))?.equals(bytes), `${size} bytes`);
      const start = Math.floor(size / 3);
      if (start > 0) assert.ok((await readAll(store, name, start))?.equals(bytes.subarray(start)));
      await store.remove(name);
      assert.equal(await store.get(name), undefined);
    }
    assert.deepEqual(await filesIn(files), []);
  });

  test(`${kind} replaces an object`, { skip }, async () => {
    const store = await open();
    await store.put("batches/1/0-input", chunksOf(Buffer.from("first")));
    await store.put("batches/1/0-input", chunksOf(Buffer.from("second")));
    assert.equal(String(await readAll(store, "batches/1/0-input")), "second");
    await store.remove("batches/1/0-input");
    await store.remove("batches/1/0-input");
  });

  test(`${kind} has nothing of an object whose source fails`, { skip }, async () => {
    const store = await open();
    for (const size of [1, 6 * mebibyte]) {
      const failing = async function* () {
        yield* chunksOf(randomBytes(size));
        throw new Error("the source fails");
      };
      await assert.rejects(store.put("broken", failing()), /the source fails/);
      assert.equal(await store.get("broken"), undefined);
      await store.remove("broken");
      assert.deepEqual(await filesIn(files), []);
    }
  });

  test(`${kind} refuses a name that is not one`, { skip }, async () => {
    const store = await open();
    for (const name of ["", "../secret", "a/../../b", "a//b", "/etc/passwd", "abc.", "ABCD", "a".repeat(300)])
      await assert.rejects(async () => store.get(name), /not the name of an object/, name);
  });
}

test("of two processes that write an object at once, the later one wins, and the other gives up", async () => {
  const store = await openObjectStore({ directory, s3: undefined });
  const [first, second] = [new PassThrough(), new PassThrough()];
  const puts = [first, second].map((source) => store.put("at-once", source));
  const outcomes = Promise.allSettled(puts);
  for (const source of [first, second]) source.write("begin ");
  await setImmediate();
  first.end("first");
  second.end("second");
  const settled = await outcomes;
  const winner = settled.findIndex(({ status }) => status === "fulfilled");
  assert.equal(settled.filter(({ status }) => status === "fulfilled").length, 1);
  assert.equal(String(await readAll(store, "at-once")), ["begin first", "begin second"][winner]);
  await store.remove("at-once");
  assert.ok(!(await filesIn(directory)).some((name) => name.startsWith("at-once")));
});

test("only the owner of a directory can read its objects", async () => {
  const store = await openObjectStore({ directory, s3: undefined });
  await store.put("private", chunksOf(Buffer.from("x")));
  assert.equal((await stat(join(directory, "pr"))).mode & 0o077, 0);
  assert.equal((await stat(join(directory, "pr", "private"))).mode & 0o077, 0);
  await store.remove("private");
});

test("another key does not open a bucket", { skip: rcloneMissing ?? false }, async () => {
  const credentials = { accessKeyId: "test", secretAccessKey: "another" };
  const s3 = { bucket: "files", prefix: "", region: "us-east-1", endpoint: server?.url, credentials };
  const store = await openObjectStore({ directory, s3 });
  await assert.rejects(store.put("object", chunksOf(Buffer.from("x"))), /SignatureDoesNotMatch|signature/i);
});
