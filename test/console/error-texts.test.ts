/** Each error of the gateway has words in the console. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { statuses } from "#dialects/errors.ts";
import { errorCodes } from "../../apps/console/parts/error.texts.ts";

test("each error code has words", () => {
  assert.deepEqual([...errorCodes].sort(), Object.keys(statuses).sort());
});
