import assert from "node:assert/strict";
import { test } from "node:test";
import { csvLinesOf } from "../../apps/control/ledger/csv.ts";

test("a text that a spreadsheet takes for a formula becomes plain text, and an amount stays a number", () => {
  const lineOf = (value: string) => csvLinesOf([{ value }], ["value"]).trimEnd();
  for (const sign of ["=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20"])
    assert.equal(lineOf(`${sign}1+1`), `'${sign}1+1`);
  assert.equal(lineOf("\t=1"), "'\t=1");
  for (const end of ["\r", "\n"]) assert.equal(lineOf(`${end}=1`), `"'${end}=1"`);
  for (const plain of ["-0.5", "12", "gpt-5", "a=1"]) assert.equal(lineOf(plain), plain);
  assert.equal(lineOf('a "b", c'), '"a ""b"", c"');
});
