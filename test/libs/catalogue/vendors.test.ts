/** The vendors that operators pick from. */
import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { readDocument } from "#catalogue/document.ts";
import { entriesOf } from "#catalogue/stored.ts";
import { checkedUpstreamOf } from "#catalogue/upstream-test.ts";
import { vendors } from "#catalogue/vendors.ts";

const filled = ({ upstream, placeholders = [] }: (typeof vendors)[number]) =>
  JSON.parse(
    placeholders.reduce((text, { name, example }) => text.replaceAll(`{${name}}`, example), JSON.stringify(upstream)),
  ) as Record<string, unknown>;

test("the settings of every vendor are valid once its placeholders are filled in", () => {
  for (const vendor of vendors) assert.ok(checkedUpstreamOf(filled(vendor), {}), vendor.id);
  assert.equal(new Set(vendors.map(({ id }) => id)).size, vendors.length);
});

test("vendors have the dialects of the example catalogues", () => {
  const directory = join(import.meta.dirname, "../../../docs/examples");
  const byHost = new Map(vendors.map((vendor) => [new URL(String(filled(vendor).baseUrl)).host, vendor]));
  let compared = 0;
  for (const file of globSync("*.yaml", { cwd: directory })) {
    const { upstreams } = entriesOf(readDocument(readFileSync(join(directory, file)), file).value);
    for (const { baseUrl, dialect, alsoSpeaks } of Object.values(upstreams)) {
      const address = String(baseUrl).replaceAll(
        /\$\{[A-Z_]+(?::-([^}]*))?\}/g,
        (_, standard?: string) => standard ?? "x",
      );
      const vendor = URL.canParse(address) ? byHost.get(new URL(address).host) : undefined;
      if (vendor === undefined || vendor.id === "vllm") continue;
      compared++;
      assert.equal(dialect, vendor.upstream.dialect, file);
      assert.deepEqual(alsoSpeaks, vendor.upstream.alsoSpeaks, file);
    }
  }
  assert.ok(compared >= 15, String(compared));
});
