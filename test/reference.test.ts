import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { referenceFile, referenceOf } from "../docs/reference.ts";

test("the reference page matches the tables in the code; `npm run reference` writes it", () => {
  assert.equal(readFileSync(referenceFile, "utf8"), referenceOf());
});
