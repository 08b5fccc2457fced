import assert from "node:assert/strict";
import { after, test } from "node:test";
import {
  type Estimate,
  LimitCounters,
  type LimitDecision,
  type LimitedSubject,
  type LimitName,
  type Limits,
  type Reservation,
  slotLifeMs,
} from "#access/limits.ts";
import { keyspaceOf } from "#service/keyspace.ts";
import { connectRedis } from "#service/redis.ts";
import { startRedis } from "../../support/redis.ts";

const server = await startRedis();
/** Of the patient kind: a thousand and more scripts at once may take their time. */
const redis = await connectRedis(server.url, "patient");
after(async () => {
  redis.disconnect();
  await server[Symbol.asyncDispose]();
});

let spaces = 0;
let generations = 0;
const nextId = () => `gen_${++generations}`;
/** Counters of a test's own. */
const countersOf = () => {
  const keyspace = keyspaceOf(`limits-${++spaces}`);
  return { keyspace, counters: new LimitCounters(redis, keyspace) };
};
const key = (limits: Limits, name = "key_1"): LimitedSubject => ({ scope: "key", name, limits });
const group = (limits: Limits): LimitedSubject => ({ scope: "group", name: "default", limits });
const account = (limits: Limits): LimitedSubject => ({ scope: "account", name: "acme", limits });
const small: Estimate = { inputTokens: 10, outputTokens: 20, money: 0.5 };

function reservationOf(decision: LimitDecision): Reservation {
  assert.equal(decision.kind, "admitted");
  return (decision as Extract<LimitDecision, { kind: "admitted" }>).reservation;
}
const outcomeOf = (decision: LimitDecision) => (decision.kind === "admitted" ? "admitted" : `${decision.subject.scope} ${decision.limit}`);

const dimensions: { limit: LimitName; limits: Limits; admitted: number }[] = [
  { limit: "requestsPerMinute", limits: { requestsPerMinute: 3 }, admitted: 3 },
  { limit: "tokensPerMinute", limits: { tokensPerMinute: 60 }, admitted: 2 },
  { limit: "tokensPerMinute", limits: { tokensPerMinute: 1 }, admitted: 1 },
  { limit: "generationsMax", limits: { generationsMax: 2 }, admitted: 2 },
  { limit: "budgetPerDay", limits: { budgetPerDay: 1 }, admitted: 2 },
  { limit: "budgetPerMonth", limits: { budgetPerMonth: 1.2, budgetPerDay: 100 }, admitted: 3 },
  { limit: "budgetPerDay", limits: { budgetPerDay: 0 }, admitted: 0 },
];

for (const { limit, limits, admitted } of dimensions)
  for (const subjectOf of [key, group, account])
    test(`${limit} of ${JSON.stringify(limits)} admits ${admitted} of a ${subjectOf({}).scope}, then refuses at no cost`, async () => {
      const { counters } = countersOf();
      const others = [key({ requestsPerMinute: 1_000 }, "key_2"), group({}), account({})];
      const subjects = [...others.filter(({ scope }) => scope !== subjectOf({}).scope), subjectOf(limits)];
      const outcomes: string[] = [];
      for (let call = 0; call < admitted + 3; call++) outcomes.push(outcomeOf(await counters.admit(nextId(), subjects, small)));
      const refusal = `${subjectOf({}).scope} ${limit}`;
      assert.deepEqual(outcomes, [...Array(admitted).fill("admitted"), refusal, refusal, refusal]);
      const { standings } = await counters.admit(
        nextId(),
        subjects.map((subject) => ({ ...subject, limits: { requestsPerMinute: 1_000, ...subject.limits } })),
        small,
      );
      if (standings.requests) assert.ok(standings.requests.limit - standings.requests.remaining <= admitted, "refused calls were counted");
    });

test("five calls at once do not pass a limit of one, whatever is limited", async () => {
  for (const limits of [{ requestsPerMinute: 1 }, { tokensPerMinute: 1 }, { generationsMax: 1 }, { budgetPerDay: 0.1 }, { budgetPerMonth: 0.1 }]) {
    const { counters } = countersOf();
    const decisions = await Promise.all(Array.from({ length: 5 }, () => counters.admit(nextId(), [key(limits)], small)));
    assert.equal(decisions.filter(({ kind }) => kind === "admitted").length, 1, JSON.stringify(limits));
  }
});

test("a refusal by one subject takes nothing of the others", async () => {
  const { counters } = countersOf();
  const subjects = [key({ requestsPerMinute: 100, generationsMax: 1, budgetPerDay: 0.4 }), group({ tokensPerMinute: 1 }), account({ requestsPerMinute: 5 })];
  await counters.admit(nextId(), subjects, small);
  for (let call = 0; call < 5; call++) assert.equal((await counters.admit(nextId(), subjects, small)).kind, "refused");
  const { standings } = await counters.admit(nextId(), [account({ requestsPerMinute: 5 })], { ...small, inputTokens: 0, outputTokens: 0 });
  assert.deepEqual([standings.requests?.limit, standings.requests?.remaining], [5, 3]);
});

test("what was reserved is settled by what was used: more, less or nothing", async () => {
  const { counters, keyspace } = countersOf();
  const subjects = [key({ requestsPerMinute: 10, tokensPerMinute: 1_000, budgetPerDay: 10, budgetPerMonth: 100, generationsMax: 1 })];
  const estimate = { inputTokens: 100, outputTokens: 400, money: 2 };
  const used = [
    { tokens: 30, money: 0.25 },
    { tokens: 0, money: 0 },
    { tokens: 700, money: 3 },
  ];
  for (const settled of used) await counters.settle(reservationOf(await counters.admit(nextId(), subjects, estimate)), settled);
  const { standings } = await counters.admit(nextId(), subjects, { inputTokens: 0, outputTokens: 0, money: 0 });
  assert.equal(standings.tokens?.remaining, 1_000 - 730);
  assert.equal(standings.requests?.remaining, 10 - 4);
  const budget = await redis.hgetall(keyspace.limit("key", "key_1", "budget"));
  const today = new Date();
  assert.equal(Number(budget.dayMoney), 3.25);
  assert.equal(Number(budget.monthMoney), 3.25);
  assert.equal(Number(budget.month), today.getUTCFullYear() * 12 + today.getUTCMonth());
  assert.equal(Number(budget.day), Math.floor(today.getTime() / 86_400_000));
  for (const what of ["window", "budget", "running"] as const) assert.ok((await redis.pttl(keyspace.limit("key", "key_1", what))) > 0, what);
});

test("tokens that are given back make room at once", async () => {
  const { counters } = countersOf();
  const subjects = [key({ tokensPerMinute: 100 })];
  const reservation = reservationOf(await counters.admit(nextId(), subjects, { inputTokens: 10, outputTokens: 5_000, money: 0 }));
  const refused = await counters.admit(nextId(), subjects, small);
  const secondOfAdmission = Math.floor(reservation.admittedAt / 1_000);
  assert.ok(refused.kind === "refused");
  assert.equal(refused.retryMs, (secondOfAdmission + 60) * 1_000 - refused.standings.now);
  await counters.settle(reservation, { tokens: 15, money: 0 });
  assert.equal((await counters.admit(nextId(), subjects, small)).kind, "admitted");
});

test("a minute's window slides: room comes back when what took it is a minute old, and not before", async () => {
  const { counters, keyspace } = countersOf();
  const window = keyspace.limit("key", "key_1", "window");
  const now = Math.floor(Number((await redis.time())[0]));
  const from = now - 70;
  const slots = { [`r${now - 65}`]: 2, [`r${now - 30}`]: 1, [`r${now - 10}`]: 2, [`t${now - 65}`]: 50, [`t${now - 30}`]: 90 };
  await redis.hset(window, { from, r: 5, t: 140, rl: now - 10, tl: now - 30, ...slots });
  const refused = await counters.admit(nextId(), [key({ requestsPerMinute: 3, tokensPerMinute: 1_000 })], small);
  assert.ok(refused.kind === "refused" && refused.limit === "requestsPerMinute");
  assert.equal(refused.retryMs, (now - 30 + 60) * 1_000 - refused.standings.now);
  assert.equal(refused.standings.tokens?.remaining, 910);
  assert.equal((await counters.admit(nextId(), [key({ requestsPerMinute: 4 })], small)).kind, "admitted");
});

test("a slot lives for as long as it is prolonged", async () => {
  const { counters, keyspace } = countersOf();
  const subjects = [key({ generationsMax: 2 }), group({ requestsPerMinute: 100 })];
  const running = keyspace.limit("key", "key_1", "running");
  const [left, kept] = [await counters.admit(nextId(), subjects, small), await counters.admit(nextId(), subjects, small)].map(reservationOf) as [
    Reservation,
    Reservation,
  ];
  assert.equal((await counters.admit(nextId(), subjects, small)).kind, "refused");
  const past = Date.now() - 1;
  await redis.zadd(running, past, left.generation, past, kept.generation);
  await counters.renew([kept]);
  assert.ok(Number(await redis.zscore(running, kept.generation)) > past + slotLifeMs / 2);
  assert.equal(await redis.exists(keyspace.limit("group", "default", "running")), 0);
  assert.equal((await counters.admit(nextId(), subjects, small)).kind, "admitted");
  assert.equal((await counters.admit(nextId(), subjects, small)).kind, "refused");
});

test("a Redis that forgot the scripts and all that was counted is no fault", async () => {
  const { counters } = countersOf();
  const reservation = reservationOf(await counters.admit(nextId(), [key({ tokensPerMinute: 100, budgetPerDay: 10 })], small));
  await redis.flushall();
  await redis.script("FLUSH");
  await counters.settle(reservation, { tokens: 1, money: 0.1 });
  await counters.renew([{ ...reservation, slotKeys: ["{limits}:running"] }]);
  assert.equal((await counters.admit(nextId(), [key({ tokensPerMinute: 100 })], small)).kind, "admitted");
});

/** Admitted generations, more than are prolonged by one call. */
async function manyOf(counters: LimitCounters): Promise<Map<string, Reservation>> {
  const decisions = await Promise.all(Array.from({ length: 1_500 }, () => counters.admit(nextId(), [key({ generationsMax: 5_000 })], small)));
  return new Map(decisions.map(reservationOf).map((reservation) => [reservation.generation, reservation]));
}

test("what is settled while many slots are prolonged has no slot again", async () => {
  const { counters, keyspace } = countersOf();
  const held = await manyOf(counters);
  const all = [...held.values()];
  const renewing = counters.renew(held.values());
  held.clear();
  await Promise.all(all.map((reservation) => counters.settle(reservation, { tokens: 0, money: 0 })));
  await renewing;
  assert.equal(await redis.zcard(keyspace.limit("key", "key_1", "running")), 0);
});

test("a Redis that came back empty has all slots again once they are prolonged", async () => {
  const { counters, keyspace } = countersOf();
  const held = await manyOf(counters);
  await redis.flushall();
  await counters.renew(held.values());
  assert.equal(await redis.zcard(keyspace.limit("key", "key_1", "running")), 1_500);
});
