import assert from "node:assert/strict";
import { test } from "node:test";
import { Sealing } from "../../../apps/ingress/common/sealing.ts";

const value = Buffer.from("what a caller said");
const sealing = Sealing.of("sk-one", "key_1");

test("a value is opened with the same API key under the same name alone", () => {
  const sealed = sealing.seal("resp_1", value);
  assert.deepEqual(Sealing.of("sk-one", "key_1").open("resp_1", sealed), value);
  assert.equal(sealing.open("resp_2", sealed), undefined);
  assert.equal(Sealing.of("sk-two", "key_1").open("resp_1", sealed), undefined);
  assert.equal(Sealing.of("sk-one", "key_2").open("resp_1", sealed), undefined);
});

test("a changed or cut value is not opened", () => {
  const sealed = sealing.seal("resp_1", value);
  for (let place = 0; place < sealed.length; place++) {
    const changed = Buffer.from(sealed);
    changed[place] = (changed[place] as number) ^ 1;
    assert.equal(sealing.open("resp_1", changed), undefined);
    assert.equal(sealing.open("resp_1", sealed.subarray(0, place)), undefined);
  }
});

test("the same value is never sealed to the same bytes", () => {
  assert.notDeepEqual(sealing.seal("resp_1", value), sealing.seal("resp_1", value));
});
