import assert from "node:assert/strict";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { appendFile, mkdir, mkdtemp, rename, rm, stat, symlink, unlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { CatalogueFault } from "#catalogue/fault.ts";
import { watchCatalogue } from "#catalogue/watch.ts";
import { within } from "../../support/time.ts";

const textOf = (id: string) => `groups: { default: { models: ["*"] } }
upstreams: { u: { dialect: openai-chat, baseUrl: "http://127.0.0.1:1" } }
models:
  - { id: ${id}, prices: { inputPerMillion: 1, outputPerMillion: 1 }, route: [{ upstream: u, model: m }] }
`;

async function directoryFor(t: TestContext): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), "catalogue-"));
  t.after(() => rm(directory, { recursive: true, force: true }));
  return directory;
}

function watchFor(t: TestContext, file: string) {
  const changes: string[] = [];
  const faults: (string | undefined)[] = [];
  const watch = watchCatalogue(
    file,
    {},
    { onChange: (catalogue) => changes.push(idOf(catalogue)), onFault: (message) => faults.push(message) },
  );
  t.after(() => watch.close());
  return { watch, changes, faults, id: () => idOf(watch.current()) };
}

/**
 * Synchronous: an asynchronous write leaves the file empty for a while, and two polls in that time
 * would accept the empty file.
 */
const writeInPlace = writeFileSync;

const idOf = (catalogue: { models: readonly { id: string }[] }) => catalogue.models.map(({ id }) => id).join();

/**
 * The time within which a change takes effect. It is not counted while this machine cannot even
 * read a file.
 */
const withinSecond = (what: string, holds: () => boolean) =>
  within(1_000, what, holds, () => stat(import.meta.filename));

test("a change in place, a replaced file and a change back each take effect within a second", async (t) => {
  const directory = await directoryFor(t);
  const file = join(directory, "catalogue.yaml");
  await writeFile(file, textOf("one"));
  const { changes, faults, id } = watchFor(t, file);
  assert.equal(id(), "one");

  writeInPlace(file, textOf("two"));
  await withinSecond("change in place", () => id() === "two");

  await writeFile(join(directory, "new"), textOf("six"));
  await rename(join(directory, "new"), file);
  await withinSecond("replaced file of the same size", () => id() === "six");

  writeInPlace(file, textOf("one"));
  await withinSecond("change back", () => id() === "one");
  assert.deepEqual(changes, ["two", "six", "one"]);
  assert.deepEqual(faults, []);
});

test("a symbolic link swapped inside the path, as in Kubernetes mounts, is followed", async (t) => {
  const directory = await directoryFor(t);
  for (const [name, id] of [
    ["v1", "one"],
    ["v2", "two"],
  ] as const) {
    await mkdir(join(directory, name));
    await writeFile(join(directory, name, "catalogue.yaml"), textOf(id));
  }
  await symlink("v1", join(directory, "..data"));
  await symlink(join("..data", "catalogue.yaml"), join(directory, "catalogue.yaml"));
  const { id } = watchFor(t, join(directory, "catalogue.yaml"));
  assert.equal(id(), "one");
  await symlink("v2", join(directory, "..next"));
  await rename(join(directory, "..next"), join(directory, "..data"));
  await withinSecond("swapped link", () => id() === "two");
});

test("an invalid file is reported once with its line, the catalogue in force stays, and the corrected file takes effect", async (t) => {
  const directory = await directoryFor(t);
  const file = join(directory, "catalogue.yaml");
  await writeFile(file, textOf("one"));
  const { watch, changes, faults, id } = watchFor(t, file);

  writeInPlace(file, textOf("two").replace("upstream: u", "upstream: v"));
  await withinSecond("the report", () => faults.length > 0);
  assert.deepEqual(faults, [`${file}:4:89: models[0].route[0].upstream: no upstream is named "v"`]);
  assert.equal(watch.fault(), faults[0]);
  assert.equal(id(), "one");

  writeInPlace(file, textOf("two"));
  await withinSecond("corrected", () => id() === "two");
  assert.equal(watch.fault(), undefined);
  assert.deepEqual([changes, faults.slice(1)], [["two"], [undefined]]);
});

test("a deleted file is reported, and takes effect when it exists again", async (t) => {
  const directory = await directoryFor(t);
  const file = join(directory, "catalogue.yaml");
  await writeFile(file, textOf("one"));
  const { watch, changes, faults, id } = watchFor(t, file);

  await unlink(file);
  await withinSecond("the report of the deletion", () => faults.length > 0);
  assert.deepEqual([faults, id()], [[`${file}: no such file`], "one"]);

  writeInPlace(file, textOf("one"));
  await withinSecond("the file exists again", () => watch.fault() === undefined);
  assert.deepEqual(changes, []);

  rmSync(file);
  mkdirSync(file);
  await withinSecond("the report of the directory", () => faults.length > 2);
  assert.deepEqual(faults.slice(1), [undefined, `${file}: not a file`]);
  await rm(file, { recursive: true });
  await writeFile(file, textOf("two"));
  await withinSecond("another content", () => id() === "two");
});

test("a file takes effect only when it is completely written, even if its beginning is valid", async (t) => {
  const directory = await directoryFor(t);
  const file = join(directory, "catalogue.yaml");
  await writeFile(file, textOf("one"));
  // The test calls each poll itself, so that every poll finds more of the file.
  const polls: (() => Promise<void>)[] = [];
  t.mock.method(globalThis, "setTimeout", (poll: () => Promise<void>) => polls.push(poll));
  const { changes, faults, id } = watchFor(t, file);
  const poll = async () => await polls.shift()?.();
  await writeFile(file, textOf("new-0"));
  await poll();
  for (let index = 1; index <= 8; index++) {
    await appendFile(file, `${textOf(`new-${index}`).split("\n")[3]}\n`);
    await poll();
  }
  assert.deepEqual([changes, id()], [[], "one"]);
  await poll();
  assert.equal(id(), "new-0,new-1,new-2,new-3,new-4,new-5,new-6,new-7,new-8");
  assert.deepEqual([changes.length, faults, polls.length], [1, [], 1]);
});

test("the watch continues after a listener throws", async (t) => {
  const directory = await directoryFor(t);
  const file = join(directory, "catalogue.yaml");
  await writeFile(file, textOf("one"));
  const warned = Promise.withResolvers<Error>();
  process.once("warning", warned.resolve);
  const watch = watchCatalogue(
    file,
    {},
    { onChange: () => assert.fail("a mistake"), onFault: () => assert.fail("a mistake") },
  );
  t.after(() => watch.close());
  writeInPlace(file, textOf("two"));
  assert.match((await warned.promise).message, /a mistake/);
  writeInPlace(file, textOf("six"));
  await withinSecond("next change", () => idOf(watch.current()) === "six");
});

test("an invalid file at the start throws, and after close no listener is called", async (t) => {
  const directory = await directoryFor(t);
  const file = join(directory, "catalogue.yaml");
  assert.throws(() => watchFor(t, file), CatalogueFault);
  await writeFile(file, textOf("one"));
  const { watch, changes, id } = watchFor(t, file);
  watch.close();
  await writeFile(file, textOf("two"));
  const other = watchFor(t, file);
  await writeFile(file, textOf("six"));
  await withinSecond("the other watch", () => other.id() === "six");
  assert.deepEqual([changes, id()], [[], "one"]);
});
