/** One caller's refused request does not affect others until a second caller is refused. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { Credentials, type Refusal } from "../../../apps/worker/routing/credentials.ts";
import type { Candidate } from "../../../apps/worker/routing/route.ts";
import { partOf } from "../../support/part-of.ts";

const hour = 3_600_000;
const target = partOf<Candidate>({
  key: "vendor/model",
  upstream: { name: "vendor", credential: "KEY", credentials: [] },
});
const isFree = (credentials: Credentials, caller: string, now: number) =>
  credentials.choose(target, caller, now).kind === "chosen";

const refusals: [name: string, refuse: (credentials: Credentials, caller: string, now: number) => void][] = [
  ...(["credential", "missing", "quota"] as const).map((why: Refusal): (typeof refusals)[number] => [
    why,
    (credentials, caller, now) => credentials.refused(target, "KEY", why, hour, caller, now),
  ]),
  ["rate-limit", (credentials, caller, now) => credentials.rateLimited(target, "KEY", hour, caller, now)],
];

for (const [name, refuse] of refusals)
  test(`${name}: an hour for the caller whose request was refused, and for others once another caller was`, () => {
    const credentials = new Credentials();
    refuse(credentials, "eve", 0);
    assert.equal(isFree(credentials, "eve", hour - 1), false);
    // A limited rate is mostly that of the credential, for a moment.
    assert.equal(isFree(credentials, "ada", 1), name !== "rate-limit");
    assert.equal(isFree(credentials, "ada", 5_000), true);
    for (let now = 5_000; now < 60_000; now += 5_000) refuse(credentials, "eve", now);
    assert.equal(isFree(credentials, "ada", 66_000), true, "however often the same caller is refused");
    refuse(credentials, "bob", 70_000);
    for (const caller of ["ada", "bob", "eve"]) assert.equal(isFree(credentials, caller, hour), false, caller);
    assert.equal(isFree(credentials, "ada", 70_000 + hour), true);
  });

test("a call that is accepted ends the cooldown for everybody", () => {
  const credentials = new Credentials();
  for (const caller of ["eve", "bob"]) credentials.refused(target, "KEY", "credential", hour, caller, 0);
  assert.equal(isFree(credentials, "ada", 1), false);
  credentials.accepted(target, "KEY");
  for (const caller of ["ada", "bob", "eve"]) assert.equal(isFree(credentials, caller, 1), true);
});

test("refusals that are long ago do not count with new ones", () => {
  const credentials = new Credentials();
  credentials.refused(target, "KEY", "credential", undefined, "eve", 0);
  credentials.refused(target, "KEY", "credential", hour, "bob", 10 * 60_000);
  assert.equal(isFree(credentials, "ada", 11 * 60_000), true);
  assert.equal(isFree(credentials, "bob", 11 * 60_000), false);
});

test("of a target that really refuses, the second caller is the last one that finds out", () => {
  const credentials = new Credentials();
  let calls = 0;
  for (let caller = 0; caller < 50; caller++)
    if (isFree(credentials, `caller-${caller}`, caller)) {
      calls++;
      credentials.refused(target, "KEY", "credential", 60_000, `caller-${caller}`, caller);
    }
  assert.equal(calls, 2);
});

test("a shorter time, of a call that ran beside, does not end a longer one", () => {
  const credentials = new Credentials();
  credentials.rateLimited(target, "KEY", hour, "eve", 0);
  credentials.rateLimited(target, "KEY", 2_000, "eve", 10);
  assert.equal(isFree(credentials, "eve", 60_000), false);
  credentials.rateLimited(target, "KEY", hour, "eve", 60_000);
  assert.equal(isFree(credentials, "eve", hour + 59_999), false, "a later failure extends it");
});
