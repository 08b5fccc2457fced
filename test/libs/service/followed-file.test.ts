import assert from "node:assert/strict";
import { closeSync, mkdtempSync, openSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { type FileReading, followFile } from "#service/followed-file.ts";
import { until } from "../../support/time.ts";

test("a file whose name leads to another one, as that of a mounted file may, is reported; one with a name is not", async () => {
  const directory = mkdtempSync(join(tmpdir(), "followed-"));
  const [file, other] = ["file", "other"].map((name) => join(directory, name)) as [string, string];
  writeFileSync(file, "first");
  const descriptor = openSync(file, "r");
  const readings: Record<"mounted" | "named", FileReading[]> = { mounted: [], named: [] };
  const follow = (kind: keyof typeof readings, path: string) =>
    followFile(path, { bytesMax: 100, everyMs: 5, onReading: (reading) => readings[kind].push(reading) });
  // It leads to the open file, whatever becomes of its name.
  const stop = [follow("mounted", `/proc/self/fd/${descriptor}`), follow("named", file)];
  try {
    const contentsOf = (kind: keyof typeof readings) =>
      readings[kind].map((reading) =>
        reading.kind === "content" ? Buffer.from(reading.bytes).toString() : reading.reason,
      );
    await until("both to be read", () => readings.mounted.length === 1 && readings.named.length === 1);
    writeFileSync(other, "second");
    renameSync(other, file);
    await until("both to change", () => readings.mounted.length === 2 && readings.named.length === 2);
    assert.deepEqual(contentsOf("named"), ["first", "second"]);
    assert.match(contentsOf("mounted")[1]!, /was replaced or deleted outside the container.*mount its directory/);
  } finally {
    for (const end of stop) end();
    closeSync(descriptor);
    rmSync(directory, { recursive: true });
  }
});
