import assert from "node:assert/strict";
import { after, test } from "node:test";
import Anthropic, { RateLimitError as AnthropicRateLimitError } from "@anthropic-ai/sdk";
import { ApiError, GoogleGenAI } from "@google/genai";
import OpenAI, { RateLimitError } from "openai";
import { hashOf } from "#access/key.ts";
import { nanoPerUnit } from "#ledger/money.ts";
import { systemClock } from "#service/clock.ts";
import { keyspaceOf } from "#service/keyspace.ts";
import { leaseMs } from "#service/lease.ts";
import { connectRedis } from "#service/redis.ts";
import { startGateway } from "../support/gateway.ts";
import { metricsOf } from "../support/metrics.ts";
import { startIngress } from "../support/roles.ts";
import { until } from "../support/time.ts";
import { Bare } from "./socket-support.ts";

const fast = "sim-text;rate=0;first=0;tokens=20";
const slow = "sim-text;rate=50;first=0;tokens=5000";
const brief = "sim-text;rate=20;first=0;tokens=40";
const stalling = `${slow};stall=10`;
const broken = "sim-text;status=400";
const modelLine = (id: string, model: string) =>
  `  - { id: ${id}, outputTokensMax: 100, prices: { inputPerMillion: 1000, outputPerMillion: 1000 }, route: [{ upstream: simulator, model: "${model}" }] }`;
const freeLine = (id: string, model: string, fallbacks: string) =>
  `  - { id: ${id}, retries: 0, fallbacks: ${fallbacks}, prices: { inputPerMillion: 0, outputPerMillion: 0 }, route: [{ upstream: simulator, model: "${model}" }] }`;
const gateway = await startGateway({
  ingresses: 2,
  environment: { REDIS_WAIT_MS: "1000" },
  catalogue: `groups:
  default: { models: ["*"] }
  requests: { models: ["*"], keyLimits: { requestsPerMinute: 2, tokensPerMinute: 100000 } }
  shared: { models: ["*"], limits: { requestsPerMinute: 3 } }
  accounts: { models: ["*"], accountLimits: { requestsPerMinute: 2 } }
  left: { models: ["*"], limits: { tokensPerMinute: 100000 } }
  tokens: { models: ["*"], limits: { tokensPerMinute: 130 } }
  budget: { models: ["*"], keyLimits: { budgetPerDay: 0.01 } }
  together: { models: ["*"], limits: { budgetTotal: 0.01 } }
  family: { models: ["*"], accountLimits: { budgetPerMonth: 0.01 } }
  tagged: { models: ["*"], tagLimits: { search: { budgetPerMonth: 0.01 }, few: { requestsPerMinute: 2 } } }
  modelled: { models: ["*"], modelLimits: { fast: { requestsPerMinute: 2 }, "free*": { requestsPerMinute: 3 } } }
  slots: { models: ["*"], keyLimits: { generationsMax: 1 } }
  spending: { models: ["*"], keyLimits: { requestsPerMinute: 1000, budgetPerDay: 100 } }
upstreams:
  simulator: { dialect: openai-chat, baseUrl: "\${SIMULATOR_URL}/v1" }
models:
${modelLine("fast", fast)}
${modelLine("slow", slow)}
${modelLine("stalling", stalling)}
${modelLine("brief", brief)}
${modelLine("broken", broken)}
${freeLine("free", "sim-text;rate=0;first=0;tokens=10", "[priced]")}
${freeLine("free-broken", "sim-text;status=500", "[gratis, priced]")}
${freeLine("gratis", "sim-text;status=503", "[]")}
${modelLine("priced", "sim-text;rate=0;first=0;tokens=12")}
  - { id: searching, prices: { inputPerMillion: 0, outputPerMillion: 0, perWebSearch: 1 }, route: [{ upstream: simulator, model: "sim-text;rate=0;first=0;tokens=10" }] }
`,
});
const redis = await connectRedis(gateway.redis.url, "request");
after(async () => {
  redis.disconnect();
  await gateway[Symbol.asyncDispose]();
});
const urls = gateway.ingresses.map(({ urls }) => urls.api as string) as [string, string];
const keyspace = keyspaceOf("sluice");

/** Where a key's slots stand. */
const runningOf = (key: string) => keyspace.limit("key", `key_${hashOf(key).slice(0, 24)}`, "running");
const messages = [{ role: "user" as const, content: "hello" }];
const ask = (key: string, url = urls[0], model = "fast", more: { signal?: AbortSignal; stream?: boolean } = {}) =>
  gateway.post(
    { model, messages, ...(more.stream && { stream: true }) },
    { key, url, ...(more.signal && { signal: more.signal }) },
  );
const statusOf = async (response: Promise<Response>) => {
  const { status, body } = await response;
  await body?.cancel();
  return status;
};
const headersOf = (response: Response, prefix: string) =>
  Object.fromEntries([...response.headers].filter(([name]) => name.startsWith(prefix)));

test("two ingresses count a key's requests together, refusals cost nothing, and other keys of the group have their own limit", async () => {
  const [one, other] = [await gateway.createKey("requests"), await gateway.createKey("requests")];
  const statuses = [];
  for (const url of [urls[0], urls[1], urls[0], urls[1]]) statuses.push(await statusOf(ask(one, url)));
  assert.deepEqual(statuses, [200, 200, 429, 429]);
  assert.equal(await statusOf(ask(other)), 200);
  const key = await gateway.createKey("requests", { limits: { requestsPerMinute: 1 } });
  assert.deepEqual([await statusOf(ask(key)), await statusOf(ask(key))], [200, 429]);
});

test("keys share the requests of their group, and keys of an account those of the account", async () => {
  const shared = await Promise.all(Array.from({ length: 4 }, () => gateway.createKey("shared")));
  const statuses = await Promise.all(shared.map((key, index) => statusOf(ask(key, urls[index % 2]))));
  assert.deepEqual(statuses.sort(), [200, 200, 200, 429]);
  const acme = await Promise.all(Array.from({ length: 3 }, () => gateway.createKey("accounts", { account: "acme" })));
  assert.deepEqual((await Promise.all(acme.map((key) => statusOf(ask(key))))).sort(), [200, 200, 429]);
  const others = [await gateway.createKey("accounts", { account: "other" }), await gateway.createKey("accounts")];
  for (const key of others) assert.equal(await statusOf(ask(key)), 200);
});

test("OpenAI's callers get rate-limit headers and a Retry-After", async () => {
  const key = await gateway.createKey("requests");
  const first = await ask(key);
  await first.text();
  const { "x-ratelimit-remaining-tokens": tokens, ...rest } = headersOf(first, "x-ratelimit-");
  assert.deepEqual(rest, {
    "x-ratelimit-limit-requests": "2",
    "x-ratelimit-remaining-requests": "1",
    "x-ratelimit-reset-requests": "60s",
    "x-ratelimit-limit-tokens": "100000",
    "x-ratelimit-reset-tokens": "60s",
  });
  assert.ok(Number(tokens) < 100_000 && Number(tokens) > 99_700, tokens);
  await (await ask(key)).text();
  const refusal: unknown = await gateway
    .client({ key })
    .chat.completions.create({ model: "fast", messages })
    .catch((error: unknown) => error);
  assert.ok(refusal instanceof RateLimitError);
  assert.deepEqual([refusal.code, refusal.type], ["rate_limit_exceeded", "rate_limit_error"]);
  const retryAfter = Number(refusal.headers.get("retry-after"));
  assert.ok(retryAfter > 50 && retryAfter <= 60, String(retryAfter));
  assert.equal(refusal.headers.get("x-ratelimit-remaining-requests"), "0");
  assert.equal(refusal.headers.get("x-should-retry"), null);
  assert.match(refusal.message, /This key may make 2 requests a minute; try again in \d+ s\./);
});

test("Anthropic's and Google's callers get them in their dialect's form", async () => {
  const key = await gateway.createKey("requests");
  const anthropic = new Anthropic({ apiKey: key, baseURL: urls[0], maxRetries: 0 });
  const request = { model: "fast", max_tokens: 30, messages };
  const { response } = await anthropic.messages.create(request).withResponse();
  const { "anthropic-ratelimit-requests-reset": reset, ...rest } = headersOf(response, "anthropic-ratelimit-requests");
  assert.deepEqual(rest, { "anthropic-ratelimit-requests-limit": "2", "anthropic-ratelimit-requests-remaining": "1" });
  assert.match(reset ?? "", /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
  const lies = Date.parse(reset ?? "") - Date.now();
  assert.ok(lies > 50_000 && lies < 62_000, String(lies));
  assert.equal(response.headers.get("anthropic-ratelimit-tokens-limit"), "100000");
  await anthropic.messages.create(request);
  await assert.rejects(
    anthropic.messages.create(request),
    (error) => error instanceof AnthropicRateLimitError && Number(error.headers?.get("retry-after")) > 50,
  );

  const google = new GoogleGenAI({ apiKey: key, httpOptions: { baseUrl: urls[0] } });
  await assert.rejects(google.models.generateContent({ model: "fast", contents: "hello" }), (error) => {
    assert.ok(error instanceof ApiError && error.status === 429);
    assert.match(error.message, /RESOURCE_EXHAUSTED.*google\.rpc\.RetryInfo","retryDelay":"(5\d|60)s"/s);
    return true;
  });
});

test("a spent budget is an error in each dialect's form that tells clients not to retry", async () => {
  const key = await gateway.createKey("budget");
  assert.equal(await statusOf(ask(key)), 200);
  const openai = await ask(key);
  assert.equal(openai.status, 429);
  assert.deepEqual([openai.headers.get("x-should-retry"), openai.headers.get("retry-after")], ["false", null]);
  const { error } = (await openai.json()) as { error: { type: string; code: string; message: string } };
  assert.deepEqual([error.type, error.code], ["insufficient_quota", "insufficient_quota"]);
  assert.match(error.message, /has spent its budget of 0\.01 USD for this day/);
  const client = new OpenAI({ apiKey: key, baseURL: `${urls[1]}/v1`, maxRetries: 5 });
  await assert.rejects(client.chat.completions.create({ model: "fast", messages }), RateLimitError);

  const anthropic = new Anthropic({ apiKey: key, baseURL: urls[0], maxRetries: 5 });
  await assert.rejects(anthropic.messages.create({ model: "fast", max_tokens: 10, messages }), (refusal) => {
    assert.ok(refusal instanceof Anthropic.APIError);
    assert.deepEqual(
      [refusal.status, refusal.type, refusal.headers?.get("x-should-retry")],
      [402, "billing_error", "false"],
    );
    return true;
  });
  const google = new GoogleGenAI({ apiKey: key, httpOptions: { baseUrl: urls[0] } });
  await assert.rejects(google.models.generateContent({ model: "fast", contents: "hello" }), (refusal) => {
    assert.ok(refusal instanceof ApiError && refusal.status === 429);
    assert.match(
      refusal.message,
      /RESOURCE_EXHAUSTED.*google\.rpc\.QuotaFailure","violations":\[\{[^}]*"quotaId":"[^"]*PerDay/s,
    );
    return true;
  });
});

test("a spent budget of a key, a group or an account is not passed by through a free model with a priced fallback", async () => {
  const calls = async () => (await gateway.seen("sim-text;rate=0;first=0;tokens=12")).length;
  for (const [group, more] of [["budget"], ["together"], ["family", { account: "spent" }]] as const) {
    const key = await gateway.createKey(group, more);
    // A fallback answers while there is money, and spends it.
    const before = await calls();
    assert.equal(await statusOf(ask(key, urls[0], "free-broken")), 200, group);
    assert.equal(await calls(), before + 1, group);
    await until("the budget is spent", async () => (await statusOf(ask(key, urls[0], "priced"))) === 429);
    for (const stream of [false, true])
      for (let count = 0; count < 10; count++)
        assert.notEqual(await statusOf(ask(key, urls[count % 2], "free-broken", { stream })), 200, group);
    assert.equal(await statusOf(ask(key, urls[0], "free")), 200, group);
    assert.equal(await statusOf(ask(key, urls[0], "searching")), 429, `${group}: tokens are free, searches are not`);
    assert.equal(await calls(), before + 1, group);
  }
});

test("a free model reserves what its dearest fallback would cost, so that many at once do not exceed a budget", async () => {
  const key = await gateway.createKey("budget");
  const before = (await gateway.seen("sim-text;rate=0;first=0;tokens=12")).length;
  const statuses = await Promise.all(Array.from({ length: 60 }, () => statusOf(ask(key, urls[0], "free-broken"))));
  const priced = (await gateway.seen("sim-text;rate=0;first=0;tokens=12")).length - before;
  assert.deepEqual([statuses.filter((status) => status === 200).length, priced], [1, 1]);
});

test("budgets follow Redis' clock: an ingress whose clock is days off neither begins a period nor counts in another", async () => {
  for (const offMs of [86_400_000, -86_400_000, 40 * 86_400_000]) {
    const clock = { now: systemClock.now, epoch: () => Date.now() + offMs };
    const environment = { REDIS_URL: gateway.redis.url, SLUICE_CATALOGUE: gateway.catalogueFile, PORT: "0" };
    const off = await startIngress({ ...environment, SIMULATOR_URL: gateway.simulatorUrl }, { clock });
    try {
      const key = await gateway.createKey("spending");
      const budget = keyspace.limit("key", `key_${hashOf(key).slice(0, 24)}`, "budget");
      assert.equal(await statusOf(ask(key)), 200);
      await until("the first request is charged", async () => (await redis.hget(budget, "dayNano")) !== null);
      const before = await redis.hgetall(budget);
      assert.equal(await statusOf(ask(key, off.urls.api)), 200);
      await until("the second is charged", async () => (await redis.hget(budget, "dayNano")) !== before.dayNano);
      const { day, dayNano, month, monthNano } = await redis.hgetall(budget);
      assert.deepEqual([day, month], [before.day, before.month], `${offMs}`);
      assert.deepEqual(
        [Number(dayNano), Number(monthNano)],
        [Number(before.dayNano) * 2, Number(before.monthNano) * 2],
        `${offMs}`,
      );
    } finally {
      await off.close();
    }
  }
});

test("a budget reserved by running requests is a temporary limit, in each dialect's form", async () => {
  const key = await gateway.createKey("budget");
  const leaving = new AbortController();
  const running = await ask(key, urls[0], "slow", { stream: true, signal: leaving.signal });
  assert.equal(running.status, 200);
  const openai = await ask(key, urls[1]);
  assert.equal(openai.status, 429);
  assert.deepEqual([openai.headers.get("x-should-retry"), openai.headers.get("retry-after")], [null, "1"]);
  const { error } = (await openai.json()) as { error: { type: string; code: string; message: string } };
  assert.deepEqual([error.type, error.code], ["rate_limit_error", "rate_limit_exceeded"]);
  assert.match(
    error.message,
    /This key has reserved the rest of its budget of 0\.01 USD for this day \(UTC\) for requests that are running; try again in 1 s\./,
  );
  const anthropic = new Anthropic({ apiKey: key, baseURL: urls[0], maxRetries: 0 });
  await assert.rejects(anthropic.messages.create({ model: "fast", max_tokens: 10, messages }), AnthropicRateLimitError);
  const google = new GoogleGenAI({ apiKey: key, httpOptions: { baseUrl: urls[0] } });
  await assert.rejects(google.models.generateContent({ model: "fast", contents: "hello" }), (refusal) => {
    assert.ok(refusal instanceof ApiError && refusal.status === 429);
    assert.match(refusal.message, /google\.rpc\.RetryInfo","retryDelay":"1s"/);
    assert.doesNotMatch(refusal.message, /PerDay/);
    return true;
  });
  const budget = keyspace.limit("key", `key_${hashOf(key).slice(0, 24)}`, "budget");
  assert.equal(await redis.exists(budget), 0, "nothing is spent yet");
  leaving.abort();
  await until("it is settled", async () => Number(await redis.hget(budget, "dayNano")) > 0);
});

test("all choices of a request are reserved: sixty concurrent requests with a hundred choices do not exceed a budget", async () => {
  const key = await gateway.createKey("default", { limits: { budgetPerDay: 5 } });
  const leaving = new AbortController();
  const post = (_: unknown, index: number) =>
    gateway.post(
      { model: "slow", messages, n: 100, stream: true },
      { key, url: urls[index % 2] as string, signal: leaving.signal },
    );
  const responses = await Promise.all(Array.from({ length: 60 }, post));
  assert.deepEqual(responses.map(({ status }) => status).sort(), [200, ...Array(59).fill(429)]);
  leaving.abort();
  await Promise.allSettled(responses.map(({ body }) => body?.cancel()));
});

test("tokens are settled by the answer's usage; a failed answer costs none", async () => {
  const key = await gateway.createKey("tokens");
  const window = keyspace.limit("group", "tokens", "window");
  for (let call = 0; call < 3; call++) {
    assert.equal(await statusOf(ask(key, urls[call % 2], "broken")), 400);
    // The next one comes by another ingress, and Redis keeps order among what came over one
    // connection alone.
    await until("the failed answer gave its tokens back", async () => (await redis.hget(window, "t")) === "0");
  }
  const answer = (await (await ask(key)).json()) as { usage: { total_tokens: number } };
  await until(
    "the answer was settled",
    async () => (await redis.hget(window, "t")) === String(answer.usage.total_tokens),
  );
  assert.ok(answer.usage.total_tokens < 100);
  // Streams that last: what the first one reserved is not settled before the others have come.
  const responses = await Promise.all(
    Array.from({ length: 5 }, (_, index) => ask(key, urls[index % 2], "slow", { stream: true })),
  );
  assert.deepEqual(responses.map(({ status }) => status).sort(), [200, 429, 429, 429, 429]);
  for (const { body } of responses) await body?.cancel();
});

test("a stream that its caller left is charged approximately for what was sent", async () => {
  const key = await gateway.createKey("left");
  const leaving = new AbortController();
  // It is sent no more than that, however late it leaves.
  const response = await ask(key, urls[0], "stalling", { stream: true, signal: leaving.signal });
  const reader = response.body?.getReader();
  for (let text = ""; text.split("\n\n").length < 5; )
    text += Buffer.from((await reader?.read())?.value ?? []).toString();
  const window = keyspace.limit("group", "left", "window");
  assert.equal(await redis.hget(window, "t"), "121", "what was reserved");
  leaving.abort();
  await until("it is settled", async () => {
    const tokens = Number(await redis.hget(window, "t"));
    return tokens > 20 && tokens < 60;
  });
});

test("a slot is released when its answer ends, fails, or is left by its caller", async () => {
  const key = await gateway.createKey("slots");
  const running = runningOf(key);
  const free = async (what: string) => {
    // Sooner than it would lapse by itself.
    await until(
      `a slot is free after ${what}`,
      async () => (await statusOf(ask(key, urls[1], "broken"))) === 400,
      leaseMs - 1_000,
    );
    await until("that of the probe is back too", async () => (await redis.zcard(running)) === 0);
  };
  assert.equal(await statusOf(ask(key)), 200);
  await free("an answer");
  const leaving = new AbortController();
  const stream = await ask(key, urls[0], "slow", { stream: true, signal: leaving.signal });
  assert.equal(stream.status, 200);
  const refused = await ask(key, urls[1]);
  assert.deepEqual([refused.status, refused.headers.get("retry-after")], [429, "1"]);
  leaving.abort();
  await free("a caller that left");

  const socket = await Bare.open(urls[0], key);
  socket.send({ type: "response.create", model: "slow", input: "hello" });
  assert.equal((await socket.next()).type, "response.created");
  assert.equal(await statusOf(ask(key, urls[1])), 429);
  socket[Symbol.dispose]();
  await free("a connection that closed");
});

test("a turn over a WebSocket is refused with a frame that says when to retry", async () => {
  const key = await gateway.createKey("requests", { limits: { requestsPerMinute: 1 } });
  assert.equal(await statusOf(ask(key)), 200);
  using socket = await Bare.open(urls[0], key);
  socket.send({ type: "response.create", model: "fast", input: "hello" });
  const frame = (await socket.next()) as {
    type: string;
    status: number;
    error: { code: string; headers: Record<string, string> };
  };
  assert.deepEqual([frame.type, frame.status, frame.error.code], ["error", 429, "rate_limit_exceeded"]);
  assert.ok(Number(frame.error.headers["retry-after"]) > 50);
  assert.equal(frame.error.headers["x-ratelimit-limit-requests"], "1");
});

test("the operator sees refusals by limit and scope", async () => {
  const texts = await Promise.all(gateway.ingresses.map(metricsOf));
  for (const series of [
    '{limit="requestsPerMinute",scope="key"}',
    '{limit="budgetPerDay",scope="key"}',
    '{limit="requestsPerMinute",scope="account"}',
  ])
    assert.ok(
      texts.some((text) => text.includes(`sluice_limit_refusals_total${series}`)),
      series,
    );
});

test("leases outlive their time while their ingress lives, and expire within seconds when it is killed", async () => {
  const key = await gateway.createKey("slots");
  const doomed = await gateway.addIngress({}, true);
  const url = doomed.urls.api as string;
  const stream = await ask(key, url, "slow", { stream: true });
  assert.equal(stream.status, 200);
  const reading = stream.text().catch(() => undefined);
  const running = runningOf(key);
  const [member = ""] = await redis.zrange(running, "0", "0");
  assert.match(member, /^gen_/);
  const lapsesAt = Number(await redis.zscore(running, member));
  await until("the slot is prolonged", async () => Number(await redis.zscore(running, member)) > lapsesAt);
  assert.equal(await statusOf(ask(key, urls[1])), 429);
  await doomed.kill();
  const [lapses, [seconds]] = [Number(await redis.zscore(running, member)), await redis.time()];
  assert.ok(lapses - Number(seconds) * 1_000 <= leaseMs + 1_000);
  await until("the slot is free", async () => (await statusOf(ask(key, urls[1], "broken"))) === 400);
  await reading;
});

test("a killed ingress leaves no reservation behind: the budget is available again within seconds", async () => {
  const key = await gateway.createKey("budget");
  const doomed = await gateway.addIngress({}, true);
  const stream = await ask(key, doomed.urls.api as string, "slow", { stream: true });
  assert.equal(stream.status, 200);
  const reading = stream.text().catch(() => undefined);
  assert.equal(await statusOf(ask(key, urls[1])), 429);
  await doomed.kill();
  await until("the key is served", async () => (await statusOf(ask(key, urls[1], "broken"))) === 400);
  await reading;
});

test("answers given while Redis was frozen are settled once it is back, and refused requests cost nothing", async () => {
  const key = await gateway.createKey("spending");
  const subject = `key_${hashOf(key).slice(0, 24)}`;
  const budget = keyspace.limit("key", subject, "budget");
  const stream = await ask(key, urls[0], "brief", { stream: true });
  assert.equal(stream.status, 200);
  gateway.redis.pause();
  const refused = await Promise.all(Array.from({ length: 5 }, () => statusOf(ask(key, urls[0])))).finally(() =>
    gateway.redis.resume(),
  );
  assert.deepEqual(refused, Array(5).fill(503));
  await stream.text();
  await until("all leases are over", async () => (await redis.zcard(keyspace.limit("key", subject, "running"))) === 0);
  await until("the answer is settled", async () => Number(await redis.hget(budget, "dayNano")) > 0);
  const spent = await redis.hget(budget, "dayNano");
  assert.equal(await redis.hget(keyspace.limit("key", subject, "window"), "r"), "1");
  const log = (await (await ask(key)).json()) as { usage: { total_tokens: number } };
  await until("the next one is settled", async () => (await redis.hget(budget, "dayNano")) !== spent);
  // Input and output at one price for each token: its usage is its price.
  const price = (tokens: number) => (tokens * 1_000 * nanoPerUnit) / 1_000_000;
  assert.equal(Number(await redis.hget(budget, "dayNano")), Number(spent) + price(log.usage.total_tokens));
  assert.ok(Number(spent) < price(60), `one answer of 40 tokens and its prompt was spent, not ${spent}`);
});

test("usage after Redis lost its data counts, also of requests whose reservation was lost", async () => {
  const key = await gateway.createKey("spending");
  const subject = `key_${hashOf(key).slice(0, 24)}`;
  const stream = await ask(key, urls[0], "brief", { stream: true });
  assert.equal(stream.status, 200);
  await redis.del(
    ...(["window", "running", "reserved", "budget"] as const).map((what) => keyspace.limit("key", subject, what)),
  );
  await stream.text();
  await until(
    "it is settled",
    async () => Number(await redis.hget(keyspace.limit("key", subject, "budget"), "dayNano")) > 0.03 * nanoPerUnit,
  );
});

test("without Redis a limited caller gets a 503, and none of its slots is lost", async () => {
  const key = await gateway.createKey("slots");
  gateway.redis.pause();
  const refused = await ask(key).finally(() => gateway.redis.resume());
  assert.equal(refused.status, 503);
  assert.ok(Number(refused.headers.get("retry-after")) >= 1);
  await refused.body?.cancel();
  await until("the key is served again", async () => (await statusOf(ask(key))) === 200, 10_000);
});

test("requests whose callers left while Redis was away are settled when it is back", async () => {
  const key = await gateway.createKey("spending");
  const leaving = new AbortController();
  const stream = await ask(key, urls[0], "slow", { stream: true, signal: leaving.signal });
  await stream.body?.getReader().read();
  await gateway.redis.kill();
  leaving.abort();
  await until("its caller is gone", async () => {
    const status = (await (await fetch(`${gateway.ingresses[0]?.urls.operations}/status`)).json()) as {
      generations: number;
    };
    return status.generations === 0;
  });
  await gateway.redis.restartEmpty();
  const budget = keyspace.limit("key", `key_${hashOf(key).slice(0, 24)}`, "budget");
  await until("it is settled", async () => Number(await redis.hget(budget, "dayNano").catch(() => 0)) > 0);
});

test("limits of a model count over an account's keys and both ingresses, for an id and for all of a prefix", async () => {
  const keys = [
    await gateway.createKey("modelled", { account: "modelling" }),
    await gateway.createKey("modelled", { account: "modelling" }),
  ] as const;
  const messageOf = async (response: Response) =>
    ((await response.json()) as { error: { message: string } }).error.message;
  const other = await gateway.createKey("modelled", { account: "modelling-too" });
  assert.equal(await statusOf(ask(keys[0])), 200);
  assert.equal(await statusOf(ask(keys[1], urls[1])), 200);
  const refused = await ask(keys[0], urls[1]);
  assert.equal(refused.status, 429);
  assert.match(await messageOf(refused), /^The model "fast" may make 2 requests a minute/);
  assert.equal(await statusOf(ask(keys[0], urls[0], "brief")), 200);
  assert.equal(await statusOf(ask(other)), 200);
  for (const model of ["free", "free", "free-broken"]) await statusOf(ask(keys[1], urls[1], model));
  const ofPrefix = await ask(keys[0], urls[0], "free");
  assert.equal(ofPrefix.status, 429);
  assert.match(await messageOf(ofPrefix), /^The model "free\*" /);
});

test("a caller is told that tags of its request are left out", async () => {
  for (const stream of [false, true])
    for (const [count, warning] of [
      [10, null],
      [11, /^Tags of this request are left out/],
    ] as const) {
      const tags = Array.from({ length: count }, (_, index) => `t${index}`).join();
      const response = await gateway.post({ model: "fast", stream, messages }, { headers: { "x-sluice-tags": tags } });
      await response.text();
      assert.equal(response.status, 200);
      const header = response.headers.get("x-sluice-warning");
      if (warning === null) assert.equal(header, null);
      else assert.match(header ?? "", warning);
    }
});

test("limits of a tag count over an account's keys and both ingresses, for tags of keys, headers and bodies", async () => {
  const account = "tagging";
  const tagged = await gateway.createKey("tagged", { account, tags: ["search"] });
  const plain = await gateway.createKey("tagged", { account });
  const other = await gateway.createKey("tagged", { account: "tagging-too" });
  const withTags = (key: string, tags: string, more = {}) =>
    gateway.post({ model: "fast", messages, ...more }, { key, url: urls[1], headers: { "x-sluice-tags": tags } });
  // Each answer costs 0.02 or so.
  assert.equal(await statusOf(ask(tagged)), 200);
  const spent = async (response: Promise<Response>) => ((await (await response).json()) as { error: object }).error;
  await until("the budget is spent", async () => {
    const stored = await redis.hget(keyspace.limit("tag", `${account} search`, "budget"), "monthNano");
    return Number(stored) > 0;
  });
  const error = await spent(withTags(plain, "x, search"));
  assert.deepEqual(error, {
    ...error,
    code: "insufficient_quota",
    message: 'The tag "search" has spent its budget of 0.01 USD for this month (UTC).',
  });
  assert.equal(await statusOf(withTags(plain, "", { metadata: { tags: "search" } })), 429);
  assert.equal(await statusOf(ask(tagged)), 429);
  assert.equal(await statusOf(withTags(plain, "searching")), 200);
  assert.equal(await statusOf(withTags(other, "search")), 200);
  const few = [];
  for (const key of [plain, plain, other, plain]) few.push(await statusOf(withTags(key, "few")));
  assert.deepEqual(few, [200, 200, 200, 429]);
});
