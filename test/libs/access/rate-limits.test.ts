import assert from "node:assert/strict";
import { test } from "node:test";
import {
  type Estimate,
  LimitCounters,
  type LimitDecision,
  type LimitedSubject,
  type LimitName,
  type Limits,
  type Reservation,
  requestLimitsOf,
  reservationOf,
} from "#access/rate-limits.ts";
import { nanoOf } from "#ledger/money.ts";
import { keyspaceOf } from "#service/keyspace.ts";
import { leaseMs } from "#service/lease.ts";
import { connectTestRedis } from "../../support/redis.ts";
import { age } from "./aging.ts";

/**
 * A patient connection: a thousand concurrent scripts may exceed the time-out of the other kind.
 */
const redis = await connectTestRedis("patient");

let spaces = 0;
let generations = 0;
const nextId = () => `gen_${++generations}`;
/** Separate counters for each test. */
const countersOf = () => {
  const keyspace = keyspaceOf(`limits-${++spaces}`);
  return { keyspace, counters: new LimitCounters(redis, keyspace) };
};
const key = (limits: Limits, name = "key_1"): LimitedSubject => ({ scope: "key", name, limits });
const group = (limits: Limits): LimitedSubject => ({ scope: "group", name: "default", limits });
const account = (limits: Limits): LimitedSubject => ({ scope: "account", name: "acme", limits });
const small: Estimate = { inputTokens: 10, outputTokens: 20, nano: nanoOf(0.5) };

const ask = (counters: LimitCounters, subjects: LimitedSubject[], estimate: Estimate) =>
  counters.admit(reservationOf(nextId(), subjects, estimate, Date.now()));
async function admitted(counters: LimitCounters, subjects: LimitedSubject[], estimate: Estimate): Promise<Reservation> {
  const reservation = reservationOf(nextId(), subjects, estimate, Date.now());
  assert.equal((await counters.admit(reservation)).kind, "admitted");
  return reservation;
}
const outcomeOf = (decision: LimitDecision) =>
  decision.kind === "admitted" ? "admitted" : `${decision.subject.scope} ${decision.limit}`;

const dimensions: { limit: LimitName; limits: Limits; admitted: number }[] = [
  { limit: "requestsPerMinute", limits: { requestsPerMinute: 3 }, admitted: 3 },
  { limit: "tokensPerMinute", limits: { tokensPerMinute: 60 }, admitted: 2 },
  { limit: "tokensPerMinute", limits: { tokensPerMinute: 1 }, admitted: 1 },
  { limit: "generationsMax", limits: { generationsMax: 2 }, admitted: 2 },
  { limit: "budgetPerDay", limits: { budgetPerDay: 1 }, admitted: 2 },
  { limit: "budgetPerMonth", limits: { budgetPerMonth: 1.2, budgetPerDay: 100 }, admitted: 3 },
  { limit: "budgetPerDay", limits: { budgetPerDay: 0 }, admitted: 0 },
];

test("look decides like admit, and counts and reserves nothing", async () => {
  for (const { limit, limits, admitted: count } of dimensions) {
    const { counters } = countersOf();
    const subjects = [group({}), key(limits)];
    const look = async () =>
      outcomeOf(await counters.look(subjects, { inputTokens: 1, outputTokens: 0, nano: nanoOf(1) }));
    for (let call = 0; call < count; call++) {
      for (let looks = 0; looks < 5; looks++) assert.equal(await look(), "admitted", limit);
      await admitted(counters, subjects, small);
    }
    assert.equal(await look(), `key ${limit}`);
    const [looked, outcome] = [await counters.look(subjects, small), await ask(counters, subjects, small)];
    assert.ok(looked.kind === "refused" && outcome.kind === "refused" && looked.isSpent === outcome.isSpent);
    assert.ok(Math.abs(looked.retryMs - outcome.retryMs) < 1_000);
    assert.deepEqual(
      [looked.standings.requests?.remaining, looked.standings.tokens?.remaining],
      [outcome.standings.requests?.remaining, outcome.standings.tokens?.remaining],
    );
  }
});

for (const { limit, limits, admitted } of dimensions)
  for (const subjectOf of [key, group, account])
    test(`${limit} of ${JSON.stringify(limits)} on a ${subjectOf({}).scope} admits ${admitted}, then refuses without counting`, async () => {
      const { counters } = countersOf();
      const others = [key({ requestsPerMinute: 1_000 }, "key_2"), group({}), account({})];
      const subjects = [...others.filter(({ scope }) => scope !== subjectOf({}).scope), subjectOf(limits)];
      const outcomes: string[] = [];
      for (let call = 0; call < admitted + 3; call++) outcomes.push(outcomeOf(await ask(counters, subjects, small)));
      const refusal = `${subjectOf({}).scope} ${limit}`;
      assert.deepEqual(outcomes, [...Array(admitted).fill("admitted"), refusal, refusal, refusal]);
      const { standings } = await ask(
        counters,
        subjects.map((subject) => ({ ...subject, limits: { requestsPerMinute: 1_000, ...subject.limits } })),
        small,
      );
      if (standings.requests)
        assert.ok(standings.requests.limit - standings.requests.remaining <= admitted, "refused calls were counted");
    });

test("tokens that running generations reserve may come back any moment; those that were used, after a minute", async () => {
  const { counters, keyspace } = countersOf();
  const subjects = [key({ tokensPerMinute: 1_000 })];
  const tokens = (inputTokens: number) => ({ inputTokens, outputTokens: 0, nano: 0 });
  const retryMs = async (estimate: Estimate) => {
    const decision = await ask(counters, subjects, estimate);
    return decision.kind === "refused" ? decision.retryMs : undefined;
  };
  const running = await admitted(counters, subjects, tokens(600));
  assert.equal(await retryMs(tokens(500)), 1_000);
  const [lease = ""] = await redis.hvals(keyspace.limit("key", "key_1", "reserved"));
  await counters.settle(running, { tokens: 600, nano: 0 });
  const refused = await ask(counters, subjects, tokens(500));
  assert.ok(refused.kind === "refused");
  assert.equal(refused.retryMs, (Number(lease.split(" ")[0]) + 60) * 1_000 - refused.standings.now, "nothing runs");
  const part = await admitted(counters, subjects, tokens(50));
  assert.ok(Number(await retryMs(tokens(500))) > 50_000, "too little runs");
  assert.equal(await retryMs(tokens(400)), 1_000);
  await counters.settle(part, { tokens: 10, nano: 0 });
  assert.equal(await retryMs(tokens(390)), undefined);
});

test("five concurrent calls do not exceed a limit of one, for every limit", async () => {
  for (const limits of [
    { requestsPerMinute: 1 },
    { tokensPerMinute: 1 },
    { generationsMax: 1 },
    { budgetPerDay: 0.1 },
    { budgetPerMonth: 0.1 },
  ]) {
    const { counters } = countersOf();
    const decisions = await Promise.all(Array.from({ length: 5 }, () => ask(counters, [key(limits)], small)));
    assert.equal(decisions.filter(({ kind }) => kind === "admitted").length, 1, JSON.stringify(limits));
  }
});

test("a refusal by one subject counts nothing at the others", async () => {
  const { counters } = countersOf();
  const subjects = [
    key({ requestsPerMinute: 100, generationsMax: 1, budgetPerDay: 0.4 }),
    group({ tokensPerMinute: 1 }),
    account({ requestsPerMinute: 5 }),
  ];
  await ask(counters, subjects, small);
  for (let call = 0; call < 5; call++) assert.equal((await ask(counters, subjects, small)).kind, "refused");
  const { standings } = await ask(counters, [account({ requestsPerMinute: 5 })], {
    ...small,
    inputTokens: 0,
    outputTokens: 0,
  });
  assert.deepEqual([standings.requests?.limit, standings.requests?.remaining], [5, 3]);
});

test("settling replaces the reservation by the use, whether more, less or nothing", async () => {
  const { counters, keyspace } = countersOf();
  const subjects = [
    key({ requestsPerMinute: 10, tokensPerMinute: 1_000, budgetPerDay: 10, budgetPerMonth: 100, generationsMax: 1 }),
  ];
  const estimate = { inputTokens: 100, outputTokens: 400, nano: nanoOf(2) };
  const used = [
    { tokens: 30, nano: nanoOf(0.25) },
    { tokens: 0, nano: 0 },
    { tokens: 700, nano: nanoOf(3) },
  ];
  for (const settled of used) await counters.settle(await admitted(counters, subjects, estimate), settled);
  const { standings } = await ask(counters, subjects, { inputTokens: 0, outputTokens: 0, nano: 0 });
  assert.equal(standings.tokens?.remaining, 1_000 - 730);
  assert.equal(standings.requests?.remaining, 10 - 4);
  const budget = await redis.hgetall(keyspace.limit("key", "key_1", "budget"));
  const today = new Date();
  assert.equal(Number(budget.dayNano), nanoOf(3.25));
  assert.equal(Number(budget.monthNano), nanoOf(3.25));
  assert.equal(Number(budget.month), today.getUTCFullYear() * 12 + today.getUTCMonth());
  assert.equal(Number(budget.day), Math.floor(today.getTime() / 86_400_000));
  for (const what of ["window", "budget", "running"] as const)
    assert.ok((await redis.pttl(keyspace.limit("key", "key_1", what))) > 0, what);
});

test("returned tokens are available at once", async () => {
  const { counters } = countersOf();
  const subjects = [key({ tokensPerMinute: 100 })];
  const reservation = await admitted(counters, subjects, { inputTokens: 10, outputTokens: 5_000, nano: 0 });
  const refused = await ask(counters, subjects, small);
  assert.ok(refused.kind === "refused");
  assert.equal(refused.retryMs, 1_000);
  await counters.settle(reservation, { tokens: 15, nano: 0 });
  assert.equal((await ask(counters, subjects, small)).kind, "admitted");
});

test("the window slides: a request stops counting after one minute and not before", async () => {
  const { counters, keyspace } = countersOf();
  const window = keyspace.limit("key", "key_1", "window");
  const now = Math.floor(Number((await redis.time())[0]));
  const from = now - 70;
  const slots = {
    [`r${now - 65}`]: 2,
    [`r${now - 30}`]: 1,
    [`r${now - 10}`]: 2,
    [`t${now - 65}`]: 50,
    [`t${now - 30}`]: 90,
  };
  await redis.hset(window, { from, r: 5, t: 140, rl: now - 10, tl: now - 30, ...slots });
  const refused = await ask(counters, [key({ requestsPerMinute: 3, tokensPerMinute: 1_000 })], small);
  assert.ok(refused.kind === "refused" && refused.limit === "requestsPerMinute");
  assert.equal(refused.retryMs, (now - 30 + 60) * 1_000 - refused.standings.now);
  assert.equal(refused.standings.tokens?.remaining, 910);
  assert.equal((await ask(counters, [key({ requestsPerMinute: 4 })], small)).kind, "admitted");
});

test("a lease lives as long as it is renewed", async () => {
  const { counters, keyspace } = countersOf();
  const subjects = [key({ generationsMax: 2 }), group({ requestsPerMinute: 100 })];
  const running = keyspace.limit("key", "key_1", "running");
  const [left, kept] = [await admitted(counters, subjects, small), await admitted(counters, subjects, small)];
  assert.equal((await ask(counters, subjects, small)).kind, "refused");
  const past = Date.now() - 1;
  await redis.zadd(running, past, left.generation, past, kept.generation);
  await counters.renew([kept]);
  assert.ok(Number(await redis.zscore(running, kept.generation)) > past + leaseMs / 2);
  assert.equal((await ask(counters, subjects, small)).kind, "admitted");
  assert.equal((await ask(counters, subjects, small)).kind, "refused");
});

test("after Redis lost its scripts and counters, calls succeed and later use counts", async () => {
  const { counters, keyspace } = countersOf();
  const subjects = [key({ tokensPerMinute: 100, budgetPerDay: 10 })];
  const reservation = await admitted(counters, subjects, small);
  await redis.flushall();
  await redis.script("FLUSH");
  await counters.settle(reservation, { tokens: 25, nano: nanoOf(0.1) });
  assert.equal(await redis.hget(keyspace.limit("key", "key_1", "budget"), "dayNano"), "100000000");
  await counters.renew([await admitted(counters, subjects, small)]);
  assert.equal(
    (await ask(counters, subjects, { ...small, inputTokens: 0, outputTokens: 0 })).standings.tokens?.remaining,
    100 - 25 - 30,
  );
});

test("renewal restores leases that Redis lost, and the generation is settled once", async () => {
  const { counters, keyspace } = countersOf();
  const subjects = [key({ tokensPerMinute: 1_000, budgetPerDay: 1 })];
  const reservation = await admitted(counters, subjects, { inputTokens: 10, outputTokens: 20, nano: nanoOf(1.5) });
  await redis.flushall();
  await counters.renew([reservation]);
  const refused = await ask(counters, subjects, small);
  assert.ok(refused.kind === "refused" && !refused.isSpent);
  for (let call = 0; call < 2; call++) await counters.settle(reservation, { tokens: 40, nano: nanoOf(0.25) });
  assert.equal(await redis.hget(keyspace.limit("key", "key_1", "budget"), "dayNano"), "250000000");
  const { standings } = await ask(counters, subjects, { ...small, inputTokens: 0, outputTokens: 0 });
  assert.equal(standings.tokens?.remaining, 960);
});

test("when the lease of a dead holder expires, its slot, money and tokens are available again", async () => {
  const { counters, keyspace } = countersOf();
  for (const limits of [
    { generationsMax: 1 },
    { budgetPerDay: 1 },
    { budgetPerMonth: 1 },
    { tokensPerMinute: 5_000 },
  ]) {
    const subjects = [key(limits, Object.keys(limits)[0])];
    const large = { inputTokens: 4_000, outputTokens: 4_000, nano: nanoOf(7) };
    await admitted(counters, subjects, large);
    await age(redis, keyspace, leaseMs / 1_000 - 2);
    assert.equal((await ask(counters, subjects, small)).kind, "refused", JSON.stringify(limits));
    await age(redis, keyspace, 2);
    await admitted(counters, subjects, large);
  }
});

test("an expired lease returns its reservation once, and use that is settled later still counts", async () => {
  const { counters, keyspace } = countersOf();
  const subjects = [key({ tokensPerMinute: 1_000, budgetPerDay: 10 })];
  const late = await admitted(counters, subjects, { inputTokens: 100, outputTokens: 100, nano: nanoOf(2) });
  await age(redis, keyspace, leaseMs / 1_000);
  await ask(counters, subjects, { inputTokens: 0, outputTokens: 0, nano: 0 });
  await counters.settle(late, { tokens: 150, nano: nanoOf(1.5) });
  assert.equal(
    (await ask(counters, subjects, { inputTokens: 0, outputTokens: 0, nano: 0 })).standings.tokens?.remaining,
    850,
  );
  assert.equal(await redis.hget(keyspace.limit("key", "key_1", "budget"), "dayNano"), "1500000000");
});

test("a repeated settle counts once while Redis remembers it, and a confirmed one is forgotten", async () => {
  const { counters, keyspace } = countersOf();
  const subjects = [key({ tokensPerMinute: 1_000, budgetPerDay: 10 }), account({ budgetPerMonth: 10 })];
  const reservation = await admitted(counters, subjects, small);
  for (let call = 0; call < 3; call++) await counters.settle(reservation, { tokens: 70, nano: nanoOf(2) });
  for (const subject of ["key:key_1", "account:acme"] as const) {
    const [scope, name] = subject.split(":") as ["key" | "account", string];
    assert.equal(await redis.hget(keyspace.limit(scope, name, "budget"), "monthNano"), "2000000000", subject);
  }
  assert.equal(await redis.hget(keyspace.limit("key", "key_1", "window"), "t"), "70");
  assert.deepEqual(await redis.zrange(keyspace.limitsSettled, "0", "-1"), [reservation.generation]);
  counters.forget(reservation.generation);
  const next = await admitted(counters, subjects, small);
  await counters.settle(next, { tokens: 1, nano: nanoOf(1) });
  assert.deepEqual(await redis.zrange(keyspace.limitsSettled, "0", "-1"), [next.generation]);
});

test("an unanswered admission costs nothing, whether Redis runs it before settle, after it, or never", async () => {
  const { counters, keyspace } = countersOf();
  const subjects = [key({ requestsPerMinute: 10, tokensPerMinute: 1_000, generationsMax: 1, budgetPerDay: 1 })];
  const never = { tokens: 0, nano: 0, neverBegan: true };
  const ran = await admitted(counters, subjects, { ...small, nano: nanoOf(5) });
  await counters.settle(ran, never);
  await counters.settle(reservationOf(nextId(), subjects, small, Date.now()), never);
  const standings = async () => {
    const { requests, tokens } = (
      await ask(counters, [key({ requestsPerMinute: 10, tokensPerMinute: 1_000 })], {
        ...small,
        inputTokens: 0,
        outputTokens: 0,
      })
    ).standings;
    return [requests?.remaining, tokens?.remaining];
  };
  assert.deepEqual(await standings(), [9, 1_000]);
  const late = reservationOf(nextId(), subjects, { ...small, nano: nanoOf(5) }, Date.now());
  await counters.settle(late, never);
  await age(redis, keyspace, leaseMs / 1_000);
  await counters.admit(late);
  await age(redis, keyspace, leaseMs / 1_000);
  await admitted(counters, subjects, small);
});

test("tokens returned after their minute do not reduce later use", async () => {
  const { counters, keyspace } = countersOf();
  const subjects = [key({ tokensPerMinute: 1_000 })];
  const long = await admitted(counters, subjects, { inputTokens: 100, outputTokens: 800, nano: 0 });
  for (let second = 0; second < 62; second += 2) {
    await age(redis, keyspace, 2);
    await counters.renew([long]);
  }
  await counters.settle(await admitted(counters, subjects, { inputTokens: 100, outputTokens: 800, nano: 0 }), {
    tokens: 900,
    nano: 0,
  });
  await counters.settle(long, { tokens: 50, nano: 0 });
  const { standings } = await ask(counters, subjects, { inputTokens: 0, outputTokens: 0, nano: 0 });
  assert.equal(standings.tokens?.remaining, 100);
  assert.equal((await ask(counters, subjects, { inputTokens: 200, outputTokens: 0, nano: 0 })).kind, "refused");
});

test("a budget filled by reservations is not spent, and admits again when the running requests end", async () => {
  for (const limits of [{ budgetPerDay: 1 }, { budgetPerMonth: 1 }]) {
    const { counters } = countersOf();
    const subjects = [key(limits)];
    const running = await admitted(counters, subjects, { ...small, nano: nanoOf(3) });
    const reserved = await ask(counters, subjects, small);
    assert.ok(reserved.kind === "refused" && !reserved.isSpent && reserved.retryMs === 1_000);
    await counters.settle(running, { tokens: 1, nano: nanoOf(0.9) });
    await counters.settle(await admitted(counters, subjects, small), { tokens: 1, nano: nanoOf(0.2) });
    const spent = await ask(counters, subjects, small);
    assert.ok(spent.kind === "refused" && spent.isSpent);
    const both = await ask(counters, [key({ requestsPerMinute: 0, ...limits })], small);
    assert.equal(outcomeOf(both), `key ${Object.keys(limits)[0]}`);
  }
});

test("countRequest uses neither slot nor tokens, and refuses above the request limit", async () => {
  const { counters, keyspace } = countersOf();
  const subjects = requestLimitsOf([
    key({ requestsPerMinute: 2, generationsMax: 1, tokensPerMinute: 1, budgetPerDay: 0 }),
  ]);
  assert.deepEqual(requestLimitsOf([key({ generationsMax: 1 })]), []);
  const kinds = [];
  for (let call = 0; call < 3; call++) kinds.push((await counters.countRequest(subjects)).kind);
  assert.deepEqual(kinds, ["admitted", "admitted", "refused"]);
  assert.deepEqual(await redis.keys(`${keyspace.limit("key", "key_1", "window").slice(0, -"window".length)}*`), [
    keyspace.limit("key", "key_1", "window"),
  ]);
});

/** More admitted generations than one call renews. */
async function manyOf(counters: LimitCounters): Promise<Map<string, Reservation>> {
  const reservations = await Promise.all(
    Array.from({ length: 1_500 }, () => admitted(counters, [key({ generationsMax: 5_000 })], small)),
  );
  return new Map(reservations.map((reservation) => [reservation.generation, reservation]));
}

test("a generation settled during a renewal of many leases gets no new lease", async () => {
  const { counters, keyspace } = countersOf();
  const reservations = await manyOf(counters);
  const all = [...reservations.values()];
  const renewing = counters.renew(reservations.values());
  reservations.clear();
  await Promise.all(all.map((reservation) => counters.settle(reservation, { tokens: 0, nano: 0 })));
  await renewing;
  assert.equal(await redis.zcard(keyspace.limit("key", "key_1", "running")), 0);
});

test("renewal restores all leases in an empty Redis", async () => {
  const { counters, keyspace } = countersOf();
  const reservations = await manyOf(counters);
  await redis.flushall();
  await counters.renew(reservations.values());
  assert.equal(await redis.zcard(keyspace.limit("key", "key_1", "running")), 1_500);
});

test("one call renews about 1,000 leases", async () => {
  const { counters } = countersOf();
  const reservations = await manyOf(counters);
  await redis.config("RESETSTAT");
  await counters.renew(reservations.values());
  const calls = [...(await redis.info("commandstats")).matchAll(/cmdstat_eval(?:sha)?:calls=(\d+)/g)];
  assert.equal(
    calls.reduce((sum, [, count]) => sum + Number(count), 0),
    2,
    "the calls for 1,500 leases",
  );
});

test("standings show the tightest limit of all subjects, and when it is fully available again", async () => {
  const [requests, tokens] = [key({ requestsPerMinute: 10 }), account({ tokensPerMinute: 100 })];
  const wide = group({ requestsPerMinute: 5, tokensPerMinute: 1_000 });
  for (const subjects of [
    [requests, wide, tokens],
    [tokens, wide, requests],
  ]) {
    const { counters } = countersOf();
    await admitted(counters, [tokens], { inputTokens: 1, outputTokens: 0, nano: 0 });
    const { standings } = await ask(counters, subjects, small);
    assert.deepEqual([standings.requests?.limit, standings.requests?.remaining], [5, 4]);
    assert.deepEqual([standings.tokens?.limit, standings.tokens?.remaining], [100, 69]);
    for (const { resetMs } of [standings.requests, standings.tokens].filter((standing) => standing !== undefined))
      assert.ok(resetMs > 58_000 && resetMs <= 60_000, `${resetMs} ms`);
  }
});

test("with equal remainders, standings show the limit of the first subject", async () => {
  const { counters } = countersOf();
  const ofMany = account({ requestsPerMinute: 5 });
  for (let call = 0; call < 2; call++) await admitted(counters, [ofMany], small);
  const { standings } = await ask(counters, [key({ requestsPerMinute: 3 }), ofMany], small);
  assert.deepEqual([standings.requests?.limit, standings.requests?.remaining], [3, 2]);
});
