import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { clientsFile, clientsPageOf } from "../docs/adaptations.ts";
import { referenceFile, referenceOf, variablesFile, variablesOf } from "../docs/reference.ts";

test("the reference page matches the tables in the code; `npm run reference` writes it", () => {
  assert.equal(readFileSync(referenceFile, "utf8"), referenceOf());
});

test("the list of variables that every program reads matches the tables too", () => {
  assert.equal(readFileSync(variablesFile, "utf8"), variablesOf());
});

test("the guide for clients has the tables of what is adapted, ignored and refused, as the code has them", () => {
  const page = readFileSync(clientsFile, "utf8");
  assert.equal(page, clientsPageOf(page));
});
