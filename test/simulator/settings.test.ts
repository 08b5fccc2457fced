import assert from "node:assert/strict";
import { test } from "node:test";
import {
  type Settings,
  type SettingValues,
  settingsAmong,
  settingsOf,
  settingTable,
  settingValuesIn,
} from "../../apps/simulator/settings.ts";

const valuesOf = (text: string): SettingValues => {
  const outcome = settingValuesIn(text);
  if (outcome.kind === "bad") assert.fail(outcome.fault);
  return outcome.value;
};
const settings = (...texts: string[]): Settings => {
  const outcome = settingsOf(...texts.map(valuesOf));
  if (outcome.kind === "bad") assert.fail(outcome.fault);
  return outcome.value;
};
const faultOf = (text: string) => {
  const outcome = settingValuesIn(text);
  return outcome.kind === "bad" ? outcome.fault : undefined;
};

test("both separators and spaces are accepted", () => {
  const { tokens, rate, firstMs, headMs, tokenBytes, faults } = settings(
    " tokens = 64 ; rate=2.5,first=200;head=0,,size=8; no-end ;",
  );
  assert.deepEqual([tokens, rate, firstMs, headMs, tokenBytes, faults.noEnd], [64, 2.5, 200, 0, 8, true]);
});

test("for each setting, the later source wins", () => {
  const { tokens, rate, faults } = settings("tokens=1,rate=5", "tokens=2;reset=3", "tokens=3");
  assert.deepEqual([tokens, rate, faults.reset], [3, 5, 3]);
});

test("each setting is bounded, and an error names it", () => {
  for (const [name, setting] of Object.entries(settingTable)) {
    const values =
      setting.kind === "integer" || setting.kind === "number"
        ? [setting.max + 1, "-1", "x", "", "1e3", ...(setting.min > 0 ? [setting.min - 1] : [])]
        : setting.kind === "flag"
          ? ["1"]
          : ["other"];
    for (const value of values)
      assert.match(faultOf(`${name}=${value}`) ?? "", new RegExp(`"${name}"`), `${name}=${value}`);
  }
  assert.match(faultOf("tokens") ?? "", /"tokens"/);
  assert.match(faultOf("tokens=1.5") ?? "", /an integer/);
  assert.match(faultOf("unknown=1") ?? "", /no simulator setting "unknown"; there are tokens, /);
  assert.match(faultOf("constructor=1") ?? "", /no simulator setting "constructor"/);
  assert.match(faultOf("tokens=1,tokens=2") ?? "", /"tokens" is given twice/);
});

test("tokens and size are bounded together", () => {
  const outcome = settingsOf(valuesOf("tokens=200000"), valuesOf("size=65536"));
  assert.equal(outcome.kind, "bad");
  assert.match(outcome.kind === "bad" ? outcome.fault : "", /"tokens" and "size"/);
});

test("only the failing requests of a series keep their faults, with 503 by default", () => {
  const plain = settings("fail-first=2");
  assert.equal(settingsAmong(plain, true).faults.status, 503);
  assert.equal(settingsAmong(plain, false).faults.status, undefined);
  const cut = settings("fail-first=2;cut=1;tokens=4");
  assert.deepEqual([settingsAmong(cut, true).faults.cut, settingsAmong(cut, true).faults.status], [1, undefined]);
  assert.deepEqual([settingsAmong(cut, false).faults.cut, settingsAmong(cut, false).tokens], [undefined, 4]);
});
