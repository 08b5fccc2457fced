import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { referenceFile, referenceOf } from "../docs/reference.ts";

test("the reference page says what the programs' tables say; `npm run reference` writes it", () => {
  assert.equal(readFileSync(referenceFile, "utf8"), referenceOf());
});
