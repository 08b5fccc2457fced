import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { clientsFile, clientsPageOf } from "../docs/adaptations.ts";
import { referenceFile, referenceOf } from "../docs/reference.ts";

test("the reference page matches the tables in the code; `npm run reference` writes it", () => {
  assert.equal(readFileSync(referenceFile, "utf8"), referenceOf());
});

test("the guide for clients has the tables of what is adapted, ignored and refused, as the code has them", () => {
  const page = readFileSync(clientsFile, "utf8");
  assert.equal(page, clientsPageOf(page));
});
