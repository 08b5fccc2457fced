import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { after, before, test } from "node:test";
import { hashOf } from "#access/key.ts";
import { keyspaceOf } from "#service/keyspace.ts";
import type { Redis } from "#service/redis.ts";
import { connectRedis } from "#service/redis.ts";
import { catalogueOf, type Gateway, startGateway } from "../support/gateway.ts";
import { metricsOf } from "../support/metrics.ts";
import { until } from "../support/time.ts";
import {
  chatChunk,
  chatCompletion,
  chunkedAnswer,
  dataEvent,
  jsonAnswer,
  startScriptedUpstream,
  streamAnswer,
} from "../support/upstream.ts";
import { modelLine } from "./support.ts";

const models = {
  whole: "sim-text;rate=0;first=400;tokens=8",
  streamed: "sim-text;rate=20;first=100;tokens=12",
  failing: "sim-text;status=400",
  middling: "sim-text;rate=0;first=0;tokens=50;size=4000",
  large: "sim-text;rate=0;first=0;tokens=400;size=4000",
  growing: "sim-text;rate=50;first=0;tokens=400;size=16000",
  paced: "sim-text;rate=20;first=0;tokens=80",
};
type Model = keyof typeof models | "scripted";
const upstream = await startScriptedUpstream();
let gateway: Gateway;
let redis: Redis;

before(async () => {
  const simulated = catalogueOf(
    Object.entries(models).map(([id, model]) => ({ id, model })),
    `  scripted: { dialect: openai-chat, baseUrl: "${upstream.url}" }\n`,
  );
  const grouped = simulated.replace(
    "groups:\n",
    `groups:\n  metered: { models: ["*"], keyLimits: { requestsPerMinute: 3, generationsMax: 1 } }\n`,
  );
  gateway = await startGateway({
    ingresses: 2,
    catalogue: `${grouped}${modelLine({ id: "scripted", model: "scripted", upstream: "scripted" })}`,
  });
  redis = await connectRedis(gateway.redis.url, "patient");
  redis.on("error", () => undefined);
});
after(async () => {
  redis.disconnect();
  await gateway[Symbol.asyncDispose]();
  await upstream[Symbol.asyncDispose]();
});

interface Sending {
  stream?: boolean;
  at?: number;
  words?: string;
  key?: string;
  signal?: AbortSignal;
}

function send(name: string, model: Model, { stream = false, at = 0, words = "hello", key, signal }: Sending = {}) {
  const url = gateway.ingresses[at]?.urls.api as string;
  const body = { model, stream, messages: [{ role: "user", content: words }] };
  return gateway.post(body, {
    url,
    headers: { "idempotency-key": name },
    ...(key && { key }),
    ...(signal && { signal }),
  });
}

async function told(answer: Promise<Response>) {
  const response = await answer;
  return {
    status: response.status,
    type: response.headers.get("content-type"),
    replayed: response.headers.get("idempotent-replayed"),
    id: response.headers.get("x-request-id"),
    text: await response.text(),
  };
}

const event = (content: string) => chatChunk({ content });

/**
 * Has the scripted upstream begin its answers, streams with a word and whole ones not at all, and
 * go on when it is told to.
 */
function holdAnswers() {
  const goOn = Promise.withResolvers<void>();
  const holding = { runs: 0, goOn: goOn.resolve };
  upstream.answerWith(async (response, { json: { stream } }) => {
    holding.runs++;
    if (stream) streamAnswer(event("begin"), "open")(response);
    await goOn.promise;
    if (stream) response.end(event("end") + dataEvent("[DONE]"));
    else jsonAnswer(chatCompletion)(response);
  });
  return holding;
}

const runs = async (model: keyof typeof models) => (await gateway.seen(models[model])).length;
const operations = (at: number, path: string) => fetch(`${gateway.ingresses[at]?.urls.operations}${path}`);
const isReady = async () => (await operations(0, "/readyz")).ok;
const status = async () =>
  (await (await operations(0, "/status")).json()) as { generations: number; bodiesBytes: number };
/** Requests that the first ingress' callers left. */
const leavings = async () =>
  [
    ...(await (await operations(0, "/metrics")).text()).matchAll(/sluice_requests_total\{.*status="499"\} (\d+)/g),
  ].reduce((sum, [, count]) => sum + Number(count), 0);
/** The Redis key of an Idempotency-Key's entry. */
const entryOf = (name: string, key = gateway.key) =>
  keyspaceOf("sluice").idempotency(`key_${hashOf(key).slice(0, 24)}`, createHash("sha256").update(name).digest("hex"));
const hasEntry = async (name: string) => (await redis.get(entryOf(name))) !== null;

for (const [model, stream] of [
  ["whole", false],
  ["streamed", true],
] as const)
  test(`a repeated request runs once, whether its answer is whole or streamed (${model})`, async () => {
    const before = await runs(model);
    const first = told(send(`again-${model}`, model, { stream }));
    await until("it runs", async () => (await runs(model)) === before + 1);
    const beside = [0, 0, 1].map((at) => told(send(`again-${model}`, model, { stream, at })));
    const response = await first;
    const others = [
      ...(await Promise.all(beside)),
      ...(await Promise.all([0, 1].map((at) => told(send(`again-${model}`, model, { stream, at }))))),
    ];
    assert.equal(response.status, 200);
    assert.equal(response.replayed, null);
    for (const other of others) {
      assert.deepEqual({ ...other, id: response.id }, { ...response, replayed: "true" });
      assert.notEqual(other.id, response.id);
    }
    if (stream) assert.match(response.text, /data: \[DONE\]\n\n$/);
    assert.equal(await runs(model), before + 1);
  });

test("ten concurrent requests at two ingresses run once", async () => {
  const before = await runs("whole");
  const answers = await Promise.all(
    Array.from({ length: 10 }, (_, index) => told(send("ten", "whole", { at: index % 2 }))),
  );
  assert.deepEqual(new Set(answers.map(({ status, text }) => `${status} ${text}`)).size, 1);
  assert.equal(answers.filter(({ replayed }) => replayed === null).length, 1);
  assert.equal(await runs("whole"), before + 1);
});

test("an answer larger than a socket's buffer is stored as soon as its caller has it", async () => {
  for (const stream of [false, true]) {
    const answers: Awaited<ReturnType<typeof told>>[] = [];
    for (let turn = 0; turn < 3; turn++) answers.push(await told(send(`middling ${stream}`, "middling", { stream })));
    assert.deepEqual(
      answers.map(({ replayed }) => replayed),
      [null, "true", "true"],
    );
    assert.ok(answers.every(({ text }) => text.length > 200_000 && text === answers[0]?.text));
  }
  assert.equal(await runs("middling"), 2);
});

test("the same Idempotency-Key with another body is refused; another caller's key is separate", async () => {
  assert.equal((await send("twice", "whole")).status, 200);
  for (const at of [0, 1]) {
    const other = await told(send("twice", "whole", { words: "good bye", at }));
    assert.equal(other.status, 422);
    assert.match(other.text, /idempotency-key/);
  }
  const key = await gateway.createKey("default");
  const theirs = await told(send("twice", "whole", { words: "good bye", key }));
  assert.deepEqual([theirs.status, theirs.replayed], [200, null]);
  assert.equal((await send("x".repeat(300), "whole")).status, 400);
});

test("the Idempotency-Key of a running request is refused with another body, at any ingress", async () => {
  for (const stream of [false, true]) {
    const holding = holdAnswers();
    const name = `running ${stream}`;
    const running = told(send(name, "scripted", { stream }));
    await until("it runs", () => holding.runs === 1);
    for (const at of [0, 1]) {
      const other = await told(
        send(name, "scripted", { stream, at, words: "something else", signal: AbortSignal.timeout(10_000) }),
      );
      assert.equal(other.status, 422);
      assert.equal(JSON.parse(other.text).error.param, "idempotency-key");
    }
    const joined = told(send(name, "scripted", { stream }));
    holding.goOn();
    const [first, second] = await Promise.all([running, joined]);
    assert.deepEqual(
      [first.status, first.replayed, second.status, second.replayed, second.text],
      [200, null, 200, "true", first.text],
    );
    assert.equal(holding.runs, 1);
  }
});

test("a request that joined another never runs: without an answer it gets an error, and the next one runs", async () => {
  for (const at of [0, 1]) {
    const fails = Promise.withResolvers<void>();
    const before = upstream.requests.length;
    const runs = () => upstream.requests.length - before;
    upstream.answerWith(async (response) => {
      await fails.promise;
      jsonAnswer({ error: { message: "no" } }, 400)(response);
    }, jsonAnswer(chatCompletion));
    const name = `joined-${at}`;
    const first = send(name, "scripted");
    await until("it runs", () => runs() === 1);
    await redis.config("RESETSTAT");
    const joined = send(name, "scripted", { at });
    // At the same ingress it has a slot; at another one it also tries to claim the key.
    const waits =
      at === 0
        ? async () => /limit="generations",queue=""\} 2$/m.test(await (await operations(at, "/metrics")).text())
        : async () => /cmdstat_set:/.test(await redis.info("commandstats"));
    await until("the other one waits", waits);
    fails.resolve();
    assert.equal((await told(first)).status, 400);
    const { status, text } = await told(joined);
    // At the same ingress it gets the same error.
    if (at === 0) assert.equal(status, 400, text);
    else {
      assert.equal(status, 503, text);
      assert.match(text, /ended without an answer/);
    }
    assert.equal(runs(), 1);
    assert.equal((await told(send(name, "scripted", { at }))).status, 200);
    assert.equal(runs(), 2);
  }
});

test("failed and too large answers are not stored", async () => {
  for (const attempt of [1, 2]) {
    assert.equal((await send("failing", "failing")).status, 400);
    assert.equal(await runs("failing"), attempt);
  }
  for (const attempt of [1, 2]) {
    const answer = await told(send("large", "large"));
    assert.equal(answer.status, 200);
    assert.ok(answer.text.length > 1 << 20);
    assert.equal(await runs("large"), attempt);
  }
});

for (const stream of [false, true])
  test(`an answer whose callers all left continues for retries, ${stream ? "streamed" : "whole"}`, async () => {
    const answers = holdAnswers();
    const key = `left ${stream}`;
    const left = async () => {
      const gone = await leavings();
      const { bodiesBytes } = await status();
      const controller = new AbortController();
      const response = send(key, "scripted", { stream, signal: controller.signal });
      if (stream) await response;
      else {
        response.catch(() => undefined);
        await until("it has arrived", async () => (await status()).bodiesBytes > bodiesBytes);
        await until("it runs", () => answers.runs === 1);
      }
      controller.abort();
      await until("it is gone", async () => (await leavings()) === gone + 1);
    };
    await until("nothing is left of what was before", async () => (await status()).bodiesBytes === 0);
    await left();
    await left();
    const again = told(send(key, "scripted", { stream }));
    answers.goOn();
    const { status: code, replayed, text } = await again;
    assert.deepEqual([code, replayed], [200, "true"]);
    assert.match(text, stream ? /begin.*end.*data: \[DONE\]\n\n$/s : /"finish_reason":"stop"/);
    assert.equal(answers.runs, 1);
    await until("nothing of it is left", async () => (await status()).generations === 0);
  });

test("an answer whose callers all left ends when it is too large to be kept", async () => {
  const controller = new AbortController();
  const response = await send("growing", "growing", { stream: true, signal: controller.signal });
  assert.equal(response.status, 200);
  controller.abort();
  await until(
    "its upstream is hung up on",
    async () => (await gateway.seen(models.growing))[0]?.outcome === "client-closed",
  );
  await until("nothing of it is left", async () => (await status()).generations === 0);
});

test("a caller that joined still gets the answer when the first caller leaves", async () => {
  const before = await runs("streamed");
  const controller = new AbortController();
  const first = send("leaving", "streamed", { stream: true, signal: controller.signal }).then((response) =>
    response.text(),
  );
  first.catch(() => undefined);
  await until("it runs", async () => (await runs("streamed")) === before + 1);
  const joined = await send("leaving", "streamed", { stream: true });
  controller.abort();
  assert.match(await joined.text(), /data: \[DONE\]\n\n$/);
  assert.equal(await runs("streamed"), before + 1);
});

for (const [outage, hasPassed] of [
  ["shortly away", async () => true],
  [
    "away for longer than a request waits for it",
    async () => {
      const { status: code } = await told(send("other", "whole"));
      await until("the ingress knows it, which counts from when it noticed", async () => !(await isReady()));
      return code === 503;
    },
  ],
] as const)
  test(`a caller that leaves before its key is claimed runs nothing, and the key is free: Redis is ${outage}`, async () => {
    const before = await runs("whole");
    const controller = new AbortController();
    gateway.redis.pause();
    const left = send(outage, "whole", { signal: controller.signal }).catch(() => undefined);
    await until("it has arrived", async () => (await status()).bodiesBytes > 0);
    controller.abort();
    await left;
    await until("its caller is gone", async () => (await status()).bodiesBytes === 0);
    await until("the outage is over", hasPassed);
    gateway.redis.resume();
    await until("the ingress serves", isReady);
    const again = await told(send(outage, "whole"));
    assert.deepEqual([again.status, again.replayed], [200, null]);
    assert.equal(await runs("whole"), before + 1);
    await until("nothing of it is left", async () => (await status()).generations === 0);
  });

test("a claim that Redis lost is restored while its request runs, and another's is left alone", async () => {
  const answers = holdAnswers();
  const overtaken = told(send("overtaken", "scripted", { stream: true }));
  await until("it is claimed", () => hasEntry("overtaken"));
  await redis.set(entryOf("overtaken"), "another's", "PX", 60_000);
  const lost = told(send("lost", "scripted", { stream: true }));
  await until("it is claimed", () => hasEntry("lost"));
  await redis.del(entryOf("lost"));
  await until("it is claimed again", () => hasEntry("lost"));
  const again = told(send("lost", "scripted", { stream: true, at: 1 }));
  answers.goOn();
  const { status: code, replayed, text } = await again;
  assert.deepEqual([code, replayed], [200, "true"]);
  assert.equal(text, (await lost).text);
  assert.match((await overtaken).text, /data: \[DONE\]\n\n$/);
  assert.equal(answers.runs, 2);
  assert.equal(await redis.get(entryOf("overtaken")), "another's");
  assert.ok((await redis.pttl(entryOf("overtaken"))) > 20_000);
});

test("a request that ran when Redis came back without data does not run again", async () => {
  const before = await runs("paced");
  const first = told(send("outliving", "paced", { stream: true }));
  await until("it runs", async () => (await runs("paced")) === before + 1);
  await gateway.redis.restartEmpty();
  await until("it is claimed again", () => hasEntry("outliving"));
  await until("the other ingress serves", async () => (await operations(1, "/readyz")).ok);
  const again = await told(send("outliving", "paced", { stream: true, at: 1 }));
  assert.deepEqual([again.status, again.replayed], [200, "true"]);
  assert.equal(again.text, (await first).text);
  assert.equal(await runs("paced"), before + 1);
});

test("an answer is stored although its claim was lost", async () => {
  const answers = holdAnswers();
  const first = told(send("unclaimed", "scripted"));
  await until("it runs", () => answers.runs === 1);
  await redis.del(entryOf("unclaimed"));
  answers.goOn();
  await first;
  await until("it is stored", () => hasEntry("unclaimed"));
  assert.equal((await told(send("unclaimed", "scripted", { at: 1 }))).replayed, "true");
  assert.equal(answers.runs, 1);
});

for (const idle of ["the first", "the second"])
  test(`of two callers of one answer, ${idle} does not read it: the other gets all of it, and that one is disconnected`, async () => {
    const goOn = Promise.withResolvers<void>();
    upstream.answerWith(
      chunkedAnswer(async function* () {
        yield event("begin");
        await goOn.promise;
        for (let count = 0; count < 800; count++) yield event("x".repeat(50_000));
        yield dataEvent("[DONE]");
      }),
    );
    const signal = AbortSignal.timeout(20_000);
    const request = { stream: true, signal };
    const first = await send(`idle-${idle}`, "scripted", request);
    const second = await send(`idle-${idle}`, "scripted", request);
    assert.equal(second.headers.get("idempotent-replayed"), "true");
    goOn.resolve();
    const [reading, unread] = idle === "the first" ? [second, first] : [first, second];
    assert.match(await reading.text(), /data: \[DONE\]\n\n$/);
    await assert.rejects(unread.text(), TypeError);
  });

test("a replayed answer counts as a request, whether stored or still running, and takes no slot", async () => {
  const key = await gateway.createKey("metered");
  const answers = holdAnswers();
  const first = told(send("counted", "scripted", { key }));
  await until("it runs", () => answers.runs === 1);
  const joined = told(send("counted", "scripted", { key }));
  answers.goOn();
  assert.deepEqual([(await first).status, (await joined).replayed], [200, "true"]);
  const stored = await send("counted", "scripted", { key, at: 1 });
  await stored.text();
  assert.deepEqual([stored.status, stored.headers.get("idempotent-replayed")], [200, "true"]);
  assert.deepEqual(
    [stored.headers.get("x-ratelimit-limit-requests"), stored.headers.get("x-ratelimit-remaining-requests")],
    ["3", "0"],
  );
  for (const at of [0, 1]) {
    const refused = await send("counted", "scripted", { key, at });
    assert.equal(refused.status, 429);
    assert.ok(Number(refused.headers.get("retry-after")) > 50);
    assert.equal(refused.headers.get("x-ratelimit-remaining-requests"), "0");
    await refused.body?.cancel();
  }
  assert.equal(answers.runs, 1);
});

test("a stored answer is replayed only for a model that its caller may still use", async () => {
  const key = await gateway.createKey("default");
  assert.equal((await told(send("allowed", "whole", { key }))).status, 200);
  assert.equal((await told(send("allowed", "whole", { key }))).replayed, "true");
  const catalogue = await readFile(gateway.catalogueFile, "utf8");
  await writeFile(
    gateway.catalogueFile,
    catalogue.replace('default: { models: ["*"] }', "default: { models: [failing] }"),
  );
  const listed = async () => {
    const response = await fetch(`${gateway.url}/v1/models`, { headers: { authorization: `Bearer ${key}` } });
    return ((await response.json()) as { data: unknown[] }).data.length;
  };
  await until("the group has one model", async () => (await listed()) === 1);
  const refused = await told(send("allowed", "whole", { key }));
  await writeFile(gateway.catalogueFile, catalogue);
  assert.equal(refused.status, 404);
  assert.match(refused.text, /model_not_found/);
  await until("the group has all models", async () => (await listed()) > 1);
});

/**
 * Sends under so many names to an ingress; says whose answers lie in Redis once nothing of them is
 * under way.
 */
async function storedOf(names: string[], { at, key = gateway.key }: { at: number; key?: string }): Promise<boolean[]> {
  const stored: boolean[] = [];
  for (const name of names) {
    const entry = entryOf(name, key);
    const { status: code, replayed } = await told(send(name, "middling", { at, key }));
    assert.deepEqual([code, replayed], [200, null]);
    let value: string | null = null;
    await until("it is stored, or its claim is gone", async () => {
      value = await redis.get(entry);
      return !value?.includes('"claimedBy"');
    });
    stored.push(value !== null);
  }
  return stored;
}

test("stored answers are bounded per key and in total, and there is space again when answers expire", async () => {
  await redis.del("{sluice:idempotency}:stored", "{sluice:idempotency}:bytes");
  await gateway.addIngress({
    IDEMPOTENCY_KEY_BYTES_MAX: "500000",
    IDEMPOTENCY_BYTES_MAX: "1100000",
    IDEMPOTENCY_WINDOW_MS: "60000",
  });
  const keys = await Promise.all(Array.from({ length: 3 }, () => gateway.createKey("default")));
  const stored = [];
  for (const [place, key] of keys.entries())
    stored.push(
      await storedOf(
        ["a", "b", "c"].map((name) => `${place}${name}`),
        { at: 2, key },
      ),
    );
  assert.deepEqual(stored, [
    [true, true, false],
    [true, true, false],
    [true, false, false],
  ]);
  const bytes = await redis.hgetall("{sluice:idempotency}:bytes");
  assert.equal(Object.keys(bytes).length, 4);
  assert.equal(
    Number(bytes.total),
    Object.entries(bytes).reduce((sum, [name, value]) => sum + (name === "total" ? 0 : Number(value)), 0),
  );
  assert.ok(Number(bytes.total) <= 1_100_000 && Number(bytes.total) > 1_000_000, bytes.total);
  for (const member of await redis.zrange("{sluice:idempotency}:stored", "0", "-1"))
    await redis.zadd("{sluice:idempotency}:stored", 1, member);
  assert.deepEqual(await storedOf(["anew"], { at: 2, key: keys[0] as string }), [true]);
  assert.equal(await redis.hlen("{sluice:idempotency}:bytes"), 2);
});

test("nothing is stored while Redis uses more than half of its memory, and each request is still answered", async () => {
  await redis.set("something else", "x".repeat(20_000_000));
  const used = Number(/used_memory:(\d+)/.exec(await redis.info("memory"))?.[1]);
  await redis.config("SET", "maxmemory", String(Math.floor(used * 1.6)));
  try {
    let sent = 0;
    const isStored = async () => (await storedOf([`full ${sent++}`], { at: 1 }))[0];
    await until("it is seen", async () => !(await isStored()));
    for (let turn = 0; turn < 5; turn++) assert.equal(await isStored(), false);
    await redis.config("SET", "maxmemory", "0");
    await until("it is seen", isStored as () => Promise<boolean>);
  } finally {
    await redis.config("SET", "maxmemory", "0");
    await redis.del("something else");
  }
});

test("no capacity is in use once everything is over", async () => {
  for (const { urls } of gateway.ingresses)
    await until("no bytes are held", async () => /sluice_bodies_bytes 0\n/.test(await metricsOf({ urls })));
});

test("a stored response is kept for its Idempotency-Key as well, whole or streamed", async () => {
  for (const stream of [false, true]) {
    const ask = (input: string) =>
      fetch(`${gateway.url}/v1/responses`, {
        method: "POST",
        headers: {
          authorization: `Bearer ${gateway.key}`,
          "content-type": "application/json",
          "idempotency-key": `stored ${stream}`,
        },
        body: JSON.stringify({ model: "whole", input, stream }),
      });
    const first = await ask("Hi");
    const text = await first.text();
    assert.equal(first.status, 200, text);
    const again = await ask("Hi");
    assert.equal(again.headers.get("idempotent-replayed"), "true");
    assert.equal(await again.text(), text);
    assert.equal((await ask("Other")).status, 422);
  }
});
