import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { credentialNamesOf, secretOf } from "#catalogue/environment.ts";
import { CatalogueFault } from "#catalogue/fault.ts";
import { loadCatalogue, parseCatalogue } from "#catalogue/load.ts";
import { isLong } from "../../support/long.ts";

const parse = (text: string, environment = {}) => parseCatalogue(Buffer.from(text), "catalogue.yaml", environment);
const published = join(import.meta.dirname, "../../../catalogue.yaml");

/** Line numbers start at 1: groups are on line 1, upstreams on line 3, models on line 6. */
const good = `groups:
  default: { models: ["*"] }
upstreams:
  openai: { dialect: openai-chat, baseUrl: "https://api.example/v1", credential: OPENAI_API_KEY }
  other: { dialect: openai-chat, baseUrl: "\${OTHER_URL:-http://127.0.0.1:1}/v1", requires: OTHER }
models:
  - id: vendor/model:1
    prices: { inputPerMillion: 1, outputPerMillion: 2 }
    route:
      - { upstream: openai, model: m1 }
  - id: second
    created: 2025-08-07
    queue: image
    prices: { inputPerMillion: 1, outputPerMillion: 2, cachedInputPerMillion: 0.5 }
    route:
      - { upstream: other, model: m2 }
`;

const noOtherPrices = { images: [], tiers: [], serviceTiers: {} };

test("the shipped catalogue is valid, and offers a vendor's models only with that vendor's credential", () => {
  const without = loadCatalogue(published, {});
  assert.deepEqual(
    without.modelsOf("default").map(({ id }) => id),
    [
      "sim-text",
      "sim-fast",
      "sim-slow",
      "sim-gpt",
      "sim-claude",
      "sim-gemini",
      "sim-image",
      "sim-embedding",
      "sim-completion",
      "sim-moderation",
      "sim-rerank",
      "sim-speech",
      "sim-transcript",
      "sim-realtime",
      "sim-live",
      "sim-image-slow",
    ],
  );
  assert.deepEqual(
    [...without.upstreams.keys()],
    ["simulator", "simulator-responses", "simulator-messages", "simulator-gemini"],
  );
  assert.equal(without.upstreams.get("simulator")?.baseUrl, "http://127.0.0.1:8089/v1");
  assert.equal(without.modelFor("default", "sim-image-slow")?.queue, "image");

  const withOpenai = loadCatalogue(published, { OPENAI_API_KEY: "sk-secret", SIMULATOR_URL: "http://10.0.0.1:7" });
  assert.equal(withOpenai.modelFor("default", "gpt-5-mini")?.route[0]?.upstream, "openai");
  assert.equal(withOpenai.modelFor("simulator", "gpt-5-mini"), undefined);
  assert.equal(withOpenai.modelsOf("simulator").length, 16);
  for (const [variable, id] of [
    ["ANTHROPIC_API_KEY", "claude-sonnet-4-5"],
    ["GEMINI_API_KEY", "gemini-2.5-flash"],
  ] as const)
    assert.ok(loadCatalogue(published, { [variable]: "secret" }).modelFor("default", id));
  assert.equal(withOpenai.upstreams.get("simulator")?.baseUrl, "http://10.0.0.1:7/v1");
});

test("absent settings have their documented defaults", () => {
  const catalogue = parse(good, { OTHER: "1" });
  assert.deepEqual(catalogue.queues.get("chat"), { waitingMax: 10_000, waitMs: 60_000, parts: 1 });
  assert.deepEqual(catalogue.queues.get("image"), { waitMs: 600_000, waitingMax: 10_000, parts: 1 });
  assert.equal(catalogue.currency, "USD");
  assert.equal(catalogue.groups.get("default")?.weight, 1);
  const model = catalogue.modelFor("default", "vendor/model:1");
  assert.deepEqual(model, {
    id: "vendor/model:1",
    name: "vendor/model:1",
    ownedBy: "sluice",
    created: 0,
    queue: "chat",
    recommendedDialect: "openai-chat",
    capabilities: [],
    prices: { inputPerMillion: 1, outputPerMillion: 2, ...noOtherPrices },
    retries: 2,
    fallbacks: [],
    affinity: "session",
    strategy: "weights",
    whenFlexFull: "wait",
    deterministic: false,
    route: [{ upstream: "openai", model: "m1" }],
  });
  assert.equal(catalogue.modelFor("default", "second")?.created, Date.UTC(2025, 7, 7) / 1_000);
  assert.deepEqual(catalogue.upstreams.get("openai")?.timeouts, {
    connectTimeoutMs: 5_000,
    betweenTokensTimeoutMs: 30_000,
    totalTimeoutMs: 600_000,
  });
  assert.equal(catalogue.upstreams.get("openai")?.connectionsMax, 10_000);
});

test("an upstream whose required variable is unset or empty is not offered, nor is a model without another upstream", () => {
  for (const environment of [{}, { OTHER: "" }]) {
    const catalogue = parse(good, environment);
    assert.equal(catalogue.modelFor("default", "second"), undefined);
    assert.deepEqual([...catalogue.upstreams.keys()], ["openai"]);
    assert.ok(catalogue.declaredModels.has("second"));
  }
  assert.ok(parse(good, { OTHER: "yes" }).modelFor("default", "second"));
  const both = good.replace(
    "- { upstream: other, model: m2 }",
    "- { upstream: other, model: m2 }\n      - { upstream: openai, model: m3 }",
  );
  assert.deepEqual(parse(both).modelFor("default", "second")?.route, [{ upstream: "openai", model: "m3" }]);
});

test("a group sees the models of its ids and prefixes, and an unknown group sees none", () => {
  const catalogue = parse(
    good.replace(
      "upstreams:",
      '  narrow: { models: ["vendor/*"], weight: 3 }\n  exact: { models: [second] }\nupstreams:',
    ),
    {
      OTHER: "1",
    },
  );
  assert.deepEqual(
    ["default", "narrow", "exact", "absent"].map((group) => catalogue.modelsOf(group).map(({ id }) => id)),
    [["vendor/model:1", "second"], ["vendor/model:1"], ["second"], []],
  );
  assert.equal(catalogue.modelFor("narrow", "second"), undefined);
  assert.equal(catalogue.modelFor("absent", "second"), undefined);
  assert.equal(catalogue.modelFor("default", "vendor/*"), undefined);
});

test("the catalogue contains the names of credentials and never their secrets", () => {
  const environment = { OPENAI_API_KEY: "sk-very-secret", OTHER: "another-secret" };
  const catalogue = parse(good, environment);
  const everything = JSON.stringify([catalogue, [...catalogue.upstreams], [...catalogue.groups]]);
  assert.doesNotMatch(everything, /secret/);
  const [openai, other] = [...catalogue.upstreams.values()];
  const [name] = credentialNamesOf(openai!);
  assert.equal(secretOf(name, environment), "sk-very-secret");
  assert.equal(secretOf(name, { OPENAI_API_KEY: "" }), undefined);
  assert.deepEqual(credentialNamesOf(other!), []);
  const further = good.replace("credential: OPENAI_API_KEY", "credential: OPENAI_API_KEY, credentials: [SECOND]");
  assert.deepEqual([...parse(further).credentialVariables], ["OPENAI_API_KEY", "SECOND", "OTHER"]);
});

test("a variable that is part of an address is no secret, though an upstream may require it", () => {
  const text = good.replace(`\${OTHER_URL:-http://127.0.0.1:1}/v1`, `\${OTHER:-http://127.0.0.1:1}/\${OTHER_PATH}`);
  const { credentialVariables, addressVariables } = parse(text, { OTHER: "http://127.0.0.1:1", OTHER_PATH: "v1" });
  assert.deepEqual([...credentialVariables], ["OPENAI_API_KEY"]);
  assert.deepEqual([...addressVariables], ["OTHER", "OTHER_PATH"]);
});

test("a catalogue is immutable", () => {
  const catalogue = parse(good);
  const model = catalogue.modelFor("default", "vendor/model:1")!;
  assert.throws(() => Object.assign(model.prices, { inputPerMillion: 0 }), TypeError);
  assert.throws(() => Object.assign(catalogue.upstreams.get("openai")!.timeouts, { totalTimeoutMs: 1 }), TypeError);
  assert.throws(() => Object.assign(catalogue, { version: "" }), TypeError);
  assert.throws(() => (catalogue.modelsOf("default") as unknown[]).pop(), TypeError);
});

test("the version changes with the content", () => {
  assert.equal(parse(good).version, parse(good, { OTHER: "1" }).version);
  assert.notEqual(parse(good).version, parse(`${good}\n`).version);
});

test("aliases and merge keys work, and mistakes inside them have a line number", () => {
  const shared = good
    .replace(
      "    prices: { inputPerMillion: 1, outputPerMillion: 2 }",
      "    prices: &prices { inputPerMillion: 1, outputPerMillion: 2 }",
    )
    .replace(
      "    prices: { inputPerMillion: 1, outputPerMillion: 2, cachedInputPerMillion: 0.5 }",
      "    prices: { <<: *prices, outputPerMillion: 9 }",
    );
  assert.deepEqual(parse(shared, { OTHER: "1" }).modelFor("default", "second")?.prices, {
    inputPerMillion: 1,
    outputPerMillion: 9,
    ...noOtherPrices,
  });
  const faulty = shared
    .replace("outputPerMillion: 2 }", "outputPerMillion: -2 }")
    .replace("{ <<: *prices, outputPerMillion: 9 }", "*prices");
  assert.throws(() => parse(faulty), {
    message: /^catalogue\.yaml:8:\d+: models\[0\]\.prices\.outputPerMillion: must be >= 0 \(and 1 more\)$/,
  });
});

interface Fault {
  name: string;
  /** The first occurrence in the valid file is replaced. */
  from: string | RegExp;
  to: string;
  message: string;
  environment?: Record<string, string>;
}

const faults: Fault[] = [
  {
    name: "an unknown upstream",
    from: "upstream: openai",
    to: "upstream: opena",
    message: '10:21: models[0].route[0].upstream: no upstream is named "opena" (did you mean "openai"?)',
  },
  {
    name: "a cache domain of a credential that the upstream has not",
    from: "credential: OPENAI_API_KEY }",
    to: "credential: OPENAI_API_KEY, cacheDomain: { OPENAI_API_KEYS: acme } }",
    message:
      '4:113: upstreams.openai.cacheDomain.OPENAI_API_KEYS: no credential of this upstream is named "OPENAI_API_KEYS" (did you mean "OPENAI_API_KEY"?)',
  },
  {
    name: "a limit of an upstream that is none",
    from: "credential: OPENAI_API_KEY }",
    to: "credential: OPENAI_API_KEY, requestsPerMinute: 0 }",
    message: "4:117: upstreams.openai.requestsPerMinute: must be >= 1",
  },
  {
    name: "a limit of credentials that is unknown",
    from: "credential: OPENAI_API_KEY }",
    to: "credential: OPENAI_API_KEY, credentialLimits: { requestPerMinute: 5 } }",
    message:
      '4:118: upstreams.openai.credentialLimits.requestPerMinute: no such setting (did you mean "requestsPerMinute"?); known here: concurrencyMax, requestsPerMinute, tokensPerMinute',
  },
  {
    name: "a way of being full that is unknown",
    from: "credential: OPENAI_API_KEY }",
    to: "credential: OPENAI_API_KEY, whenFull: queue }",
    message: '4:108: upstreams.openai.whenFull: must be "next" or "wait" or "refuse", not "queue"',
  },
  {
    name: "a limit of a target that is no number",
    from: "model: m1 }",
    to: "model: m1, tokensPerMinute: 1k }",
    message: '10:57: models[0].route[0].tokensPerMinute: must be an integer, not "1k"',
  },
  {
    name: "an unknown strategy",
    from: "- id: second",
    to: "- id: second\n    strategy: fastest",
    message:
      '12:15: models[1].strategy: must be "weights" or "leastBusy" or "lowestLatency" or "cheapest", not "fastest"',
  },
  {
    name: "a strategy without targets to choose from",
    from: /route:\n.*m1 }/,
    to: "strategy: leastBusy\n    route: [{ upstream: openai, model: m1, weight: 1 }, { upstream: openai, model: m2 }]",
    message:
      '9:15: models[0].strategy: "leastBusy" needs targets to choose from: give at least two adjacent targets of the route a `weight`, such as 1 each',
  },
  {
    name: "the cheapest of targets without prices",
    from: /route:\n.*m1 }/,
    to: "strategy: cheapest\n    route: [{ upstream: openai, model: m1, weight: 1, prices: { inputPerMillion: 1, outputPerMillion: 2 } }, { upstream: openai, model: m2, weight: 1 }]",
    message:
      "10:110: models[0].route[1].prices: missing: `strategy: cheapest` compares targets by what the operator pays there",
  },
  {
    name: "a mirror at an unknown upstream",
    from: "- id: second",
    to: "- id: second\n    mirror: { upstream: opnai, model: m3, percent: 5 }",
    message: '12:25: models[1].mirror.upstream: no upstream is named "opnai" (did you mean "openai"?)',
  },
  {
    name: "a mirror of more than all requests",
    from: "- id: second",
    to: "- id: second\n    mirror: { upstream: openai, model: m3, percent: 500 }",
    message: "12:53: models[1].mirror.percent: must be <= 100",
  },
  {
    name: "a mirror in the queue of its model",
    from: "- id: second",
    to: "- id: second\n    mirror: { upstream: openai, model: m3, percent: 5, queue: image }",
    message:
      "12:63: models[1].mirror.queue: is the model's own queue, where copies would delay the requests of callers",
  },
  {
    name: "rate limit headers in an unknown way",
    from: "credential: OPENAI_API_KEY }",
    to: "credential: OPENAI_API_KEY, rateLimitHeaders: off }",
    message: '4:116: upstreams.openai.rateLimitHeaders: must be "obey" or "ignore", not "off"',
  },
  {
    name: "a cache domain without a name",
    from: "credential: OPENAI_API_KEY }",
    to: "credential: OPENAI_API_KEY, cacheDomain: 5 }",
    message:
      "4:111: upstreams.openai.cacheDomain: must be a name of 1 to 100 characters, or names by the variables of credentials",
  },
  {
    name: "an unknown life of cached prompts",
    from: "- id: second",
    to: "- id: second\n    promptCache: { ttl: 10m }",
    message: '12:25: models[1].promptCache.ttl: must be "5m" or "1h", not "10m"',
  },
  {
    name: "an unknown affinity",
    from: "- id: second",
    to: "- id: second\n    affinity: sticky",
    message: '12:15: models[1].affinity: must be "session" or "off", not "sticky"',
  },
  {
    name: "an unknown queue",
    from: "queue: image",
    to: "queue: images",
    message: '13:12: models[1].queue: no queue is named "images" (did you mean "image"?)',
  },
  {
    name: "a duplicate id",
    from: "id: second",
    to: "id: vendor/model:1",
    message: '11:9: models[1].id: "vendor/model:1" is already the id of models[0]',
  },
  {
    name: "an id with a space",
    from: "id: second",
    to: "id: sec ond",
    message:
      "11:9: models[1].id: must be 1 to 128 of A-Z, a-z, 0-9 and ._:/@+-, begin with a letter or digit, and may end in `*`; put it in quotes if it looks like a number",
  },
  {
    name: "an id that is too long",
    from: "id: second",
    to: `id: ${"x".repeat(129)}`,
    message:
      "11:9: models[1].id: must be 1 to 128 of A-Z, a-z, 0-9 and ._:/@+-, begin with a letter or digit, and may end in `*`; put it in quotes if it looks like a number",
  },
  {
    name: "an id that YAML reads as a number",
    from: "id: second",
    to: "id: 4.1",
    message: "11:9: models[1].id: must be a string, not 4.1 (put it in quotes)",
  },
  {
    name: "a missing id",
    from: "  - id: second\n    created",
    to: "  - created",
    message: "11:5: models[1].id: missing",
  },
  {
    name: "an empty route",
    from: /route:\n.*m1 }/,
    to: "route: []",
    message: "9:12: models[0].route: must name at least one target, and at most 20",
  },
  {
    name: "a route that is not a list",
    from: /route:\n.*m1 }/,
    to: "route: openai",
    message: '9:12: models[0].route: must be a list, not "openai"',
  },
  {
    name: "an unknown setting of a model",
    from: "queue: image",
    to: "queu: image",
    message:
      '13:5: models[1].queu: no such setting (did you mean "queue"?); known here: id, name, description, ownedBy, created, contextWindow, outputTokensMax, queue, recommendedDialect, capabilities, prices, pricesByModel, retries, fallbacks, resume, deterministic, traits, affinity, strategy, whenFlexFull, promptCache, timeouts, mirror, route',
  },
  {
    name: "a model setting under its former name",
    from: "queue: image",
    to: "lane: image",
    message: "13:5: models[1].lane: was renamed to queue in version 0.2.0",
  },
  {
    name: "resume under its former name",
    from: "queue: image",
    to: "splice: true",
    message: "13:5: models[1].splice: was renamed to resume in version 0.2.0",
  },
  {
    name: "queues under their former name",
    from: "upstreams:",
    to: "lanes: {}\nupstreams:",
    message: "3:1: lanes: was renamed to queues in version 0.2.0",
  },
  {
    name: "timeouts under their former name",
    from: "credential: OPENAI_API_KEY",
    to: "limits: { totalTimeoutMs: 10 }",
    message: "4:70: upstreams.openai.limits: was renamed to timeouts in version 0.2.0",
  },
  {
    name: "connectionsMax at its former place",
    from: "credential: OPENAI_API_KEY",
    to: "timeouts: { connectionsMax: 10 }",
    message: "4:82: upstreams.openai.timeouts.connectionsMax: is set on the upstream itself since version 0.2.0",
  },
  {
    name: "an unknown setting at the top",
    from: "upstreams:",
    to: "zebra: 1\nupstreams:",
    message:
      "3:1: zebra: no such setting; known here: currency, addresses, publicGroup, queues, groups, upstreams, models",
  },
  {
    name: "a public group that does not exist",
    from: "upstreams:",
    to: "publicGroup: defalt\nupstreams:",
    message: '3:14: publicGroup: no group is named "defalt" (did you mean "default"?)',
  },
  {
    name: "a negative price",
    from: "inputPerMillion: 1",
    to: "inputPerMillion: -1",
    message: "8:32: models[0].prices.inputPerMillion: must be >= 0",
  },
  {
    name: "a price that is a text",
    from: "inputPerMillion: 1",
    to: "inputPerMillion: cheap",
    message: '8:32: models[0].prices.inputPerMillion: must be a number, not "cheap"',
  },
  {
    name: "a price with more than nine decimals",
    from: "inputPerMillion: 1",
    to: "inputPerMillion: 0.0000000001",
    message: "8:32: models[0].prices.inputPerMillion: has more than nine decimals",
  },
  {
    name: "a price of a target with more than nine decimals",
    from: "model: m1 }",
    to: "model: m1, prices: { inputPerMillion: 1, outputPerMillion: 1.0000000005 } }",
    message: "10:88: models[0].route[0].prices.outputPerMillion: has more than nine decimals",
  },
  {
    name: "a group's ratio with more than six decimals",
    from: '["*"] }',
    to: '["*"], priceRatio: 1.0000001 }',
    message: "2:41: groups.default.priceRatio: has more than six decimals",
  },
  {
    name: "a ratio of a service tier with more than six decimals",
    from: "outputPerMillion: 2 }",
    to: "outputPerMillion: 2, serviceTiers: { flex: 0.3333333 } }",
    message: "8:78: models[0].prices.serviceTiers.flex: has more than six decimals",
  },
  {
    name: "two tiers with the same bound",
    from: "outputPerMillion: 2 }",
    to: "outputPerMillion: 2, tiers: [{ aboveInputTokens: 9, inputPerMillion: 2 }, { aboveInputTokens: 9, inputPerMillion: 3 }] }",
    message: "8:129: models[0].prices.tiers[1].aboveInputTokens: is already the bound of tiers[0]",
  },
  {
    name: "a tier that changes nothing",
    from: "outputPerMillion: 2 }",
    to: "outputPerMillion: 2, tiers: [{ aboveInputTokens: 9 }] }",
    message: "8:64: models[0].prices.tiers[0]: changes no price",
  },
  {
    name: "a price of an image that never applies",
    from: "outputPerMillion: 2 }",
    to: "outputPerMillion: 2, images: [{ quality: low, price: 1 }, { size: 1x1, quality: low, price: 2 }] }",
    message:
      "8:93: models[0].prices.images[1]: never applies, because images[0] matches the same images; put it before that",
  },
  {
    name: "images that would be free",
    from: "outputPerMillion: 2 }",
    to: "outputPerMillion: 0, images: [{ size: 1x1, price: 1 }] }",
    message:
      "8:64: models[0].prices.images: has no price for other sizes and qualities, which would be free; add a last entry with `price` alone, or outputPerMillion",
  },
  {
    name: "a missing price",
    from: ", outputPerMillion: 2 }",
    to: " }",
    message: "8:13: models[0].prices.outputPerMillion: missing",
  },
  {
    name: "a date that does not exist",
    from: "2025-08-07",
    to: "2025-02-30",
    message: "12:14: models[1].created: must be a date such as 2026-01-31, or seconds since 1970",
  },
  {
    name: "a boolean instead of a date",
    from: "2025-08-07",
    to: "true",
    message: "12:14: models[1].created: must be a date such as 2026-01-31, or seconds since 1970",
  },
  {
    name: "a weight of 0",
    from: 'models: ["*"]',
    to: 'models: ["*"], weight: 0',
    message: "2:37: groups.default.weight: must be >= 1",
  },
  {
    name: "an origin with a path",
    from: 'models: ["*"]',
    to: 'models: ["*"], origins: ["https://app.example/"]',
    message: '2:39: groups.default.origins[0]: must be an origin such as "https://app.example", without a path, or "*"',
  },
  {
    name: "a group without models",
    from: 'models: ["*"]',
    to: "models: []",
    message: "2:22: groups.default.models: must not have fewer than 1 items",
  },
  {
    name: "a group with an unknown model",
    from: 'models: ["*"]',
    to: "models: [secnod]",
    message: '2:23: groups.default.models[0]: no model has the id "secnod" (did you mean "second"?)',
  },
  {
    name: "a star in the middle of a pattern",
    from: 'models: ["*"]',
    to: 'models: ["a*b"]',
    message: "2:23: groups.default.models[0]: `*` may stand only at the end",
  },
  {
    name: "no group",
    from: 'groups:\n  default: { models: ["*"] }',
    to: "groups: {}\n",
    message: "1:9: groups: must have at least one group",
  },
  {
    name: "a group's name with a capital",
    from: "  default:",
    to: "  Default:",
    message:
      '2:3: groups.Default: the name of a group must be 1 to 40 of a-z, 0-9, ".", "_" and "-", and begin with a letter or digit',
  },
  {
    name: "an unknown dialect",
    from: "dialect: openai-chat",
    to: "dialect: openai-chta",
    message:
      '4:22: upstreams.openai.dialect: must be "openai-chat" or "openai-responses" or "anthropic-messages" or "gemini" or "openai-images", not "openai-chta" (did you mean "openai-chat"?)',
  },
  {
    name: "a trailing slash",
    from: "api.example/v1",
    to: "api.example/v1/",
    message: "4:44: upstreams.openai.baseUrl: must not end in a slash",
  },
  {
    name: "another scheme",
    from: "https://api",
    to: "ftp://api",
    message: "4:44: upstreams.openai.baseUrl: the scheme must be http or https, not ftp",
  },
  {
    name: "a password in an address",
    from: "https://api",
    to: "https://me:hunter2@api",
    message: "4:44: upstreams.openai.baseUrl: must not contain a user name or password; use `credential` instead",
  },
  ...["key=hunter2", "api-version=1&Subscription-Key=hunter2", "access_token=hunter2", "sig=hunter2"].map((query) => ({
    name: `a credential in the query ${query}`,
    from: "https://api.example/v1",
    to: `https://api.example/v1?${query}`,
    message: "4:44: upstreams.openai.baseUrl: the query must not contain a credential; use `credential` instead",
  })),
  {
    name: "an unset variable",
    from: ":-http://127.0.0.1:1",
    to: "",
    message: `5:43: upstreams.other.baseUrl: the environment variable OTHER_URL is not set; set it, use a default as in "\${OTHER_URL:-http://localhost:8000}", or write "requires: OTHER_URL" to skip this upstream while it is not set`,
    environment: { OTHER: "1" },
  },
  {
    name: "a variable with an invalid URL",
    from: "zzz",
    to: "",
    message: "5:43: upstreams.other.baseUrl: not a URL; write http://host or https://host, with a path if it needs one",
    environment: { OTHER: "1", OTHER_URL: "localhost" },
  },
  {
    name: "a secret instead of a variable name",
    from: "credential: OPENAI_API_KEY",
    to: "credential: sk-proj-12",
    message:
      '4:82: upstreams.openai.credential: must be the name of an environment variable, or "stored:" and that of a stored credential, not a value',
  },
  {
    name: "a credential among the headers",
    from: "credential: OPENAI_API_KEY",
    to: "headers: { Authorization: x }",
    message:
      "4:81: upstreams.openai.headers.Authorization: may not be set here; use `credential` for secrets, the worker sets the other headers",
  },
  {
    name: "an invalid header name",
    from: "credential: OPENAI_API_KEY",
    to: 'headers: { "a b": x }',
    message: "4:81: upstreams.openai.headers.a b: not the name of an HTTP header",
  },
  {
    name: "a timeout that is not a number",
    from: "credential: OPENAI_API_KEY",
    to: "timeouts: { totalTimeoutMs: 10s }",
    message: '4:98: upstreams.openai.timeouts.totalTimeoutMs: must be an integer, not "10s"',
  },
  {
    name: "an output limit above the context window",
    from: "queue: image",
    to: "contextWindow: 10\n    outputTokensMax: 11",
    message: "14:22: models[1].outputTokensMax: is more than contextWindow, which is 10",
  },
  {
    name: "a daily budget above the monthly budget",
    from: '["*"] }',
    to: '["*"], keyLimits: { budgetPerDay: 2, budgetPerMonth: 1.5 } }',
    message: "2:56: groups.default.keyLimits.budgetPerDay: is more than budgetPerMonth, which is 1.5",
  },
  {
    name: "a budget of a model",
    from: '["*"] }',
    to: '["*"], modelLimits: { "*": { budgetPerDay: 2 } } }',
    message:
      "2:65: groups.default.modelLimits.*.budgetPerDay: is not possible: budgets are those of keys, accounts, groups and tags",
  },
  {
    name: "limits of an unknown model",
    from: '["*"] }',
    to: '["*"], modelLimits: { nothing: { requestsPerMinute: 2 } } }',
    message: '2:44: groups.default.modelLimits.nothing: no model has the id "nothing"',
  },
  {
    name: "limits of models by another pattern",
    from: '["*"] }',
    to: '["*"], modelLimits: { "a*b": { requestsPerMinute: 2 } } }',
    message: "2:44: groups.default.modelLimits.a*b: `*` may stand only at the end",
  },
  {
    name: "a budget in total of a tag",
    from: '["*"] }',
    to: '["*"], tagLimits: { a: { budgetTotal: 2 } } }',
    message: "2:60: groups.default.tagLimits.a.budgetTotal: is not possible: the sums of tags end with their records",
  },
  {
    name: "a wait for limits without onLimit: wait",
    from: '["*"] }',
    to: '["*"], accountLimits: { generationsMax: 2, waitMs: 500 } }',
    message: "2:73: groups.default.accountLimits.waitMs: is of use only with onLimit: wait",
  },
  {
    name: "an unknown way to treat requests over limits",
    from: '["*"] }',
    to: '["*"], limits: { generationsMax: 2, onLimit: queue } }',
    message: '2:67: groups.default.limits.onLimit: must be "refuse" or "wait", not "queue"',
  },
  {
    name: "a limit of 0",
    from: '["*"] }',
    to: '["*"], limits: { generationsMax: 0 } }',
    message: "2:55: groups.default.limits.generationsMax: must be >= 1",
  },
  {
    name: "a queue with a wait of 0",
    from: "upstreams:",
    to: "queues:\n  chat: { waitMs: 0 }\nupstreams:",
    message: "4:19: queues.chat.waitMs: must be >= 1",
  },
  {
    name: "a priority that does not exist",
    from: '["*"] }',
    to: '["*"], priority: high }',
    message: '2:39: groups.default.priority: must be "interactive" or "normal" or "background", not "high"',
  },
  {
    name: "a reserved share of everything",
    from: '["*"] }',
    to: '["*"], reservedPercent: 100 }',
    message: "2:46: groups.default.reservedPercent: must be <= 90",
  },
  {
    name: "an empty queue",
    from: "upstreams:",
    to: "queues:\n  batch:\nupstreams:",
    message: "4:9: queues.batch: must be a mapping, not empty",
  },
  {
    name: "a duplicate key",
    from: "upstreams:",
    to: "groups: {}\nupstreams:",
    message: "3:1: Map keys must be unique",
  },
  { name: "an open bracket", from: '["*"]', to: '["*"', message: "" },
  { name: "a tab", from: "  default:", to: "\tdefault:", message: "" },
];

for (const { name, from, to, message, environment = {} } of faults) {
  test(`an error names file, line and column: ${name}`, () => {
    const text = from === "zzz" ? good.replace(":-http://127.0.0.1:1", "") : good.replace(from, () => to);
    assert.throws(
      () => parse(text, environment),
      (error) => {
        assert.ok(error instanceof CatalogueFault);
        if (message === "") assert.match(error.message, /^catalogue\.yaml:\d+:\d+: [^\n]+$/);
        else assert.equal(error.message, `catalogue.yaml:${message}`);
        assert.doesNotMatch(error.message, /hunter2/);
        return true;
      },
    );
  });
}

test("an error names its position however many errors there are", () => {
  const upstreams = Array.from(
    { length: 40 },
    (_, place) => `  "Bad ${place}": { dialect: openai-chat, baseUrl: "http://127.0.0.1:1" }\n`,
  ).join("");
  assert.throws(
    () => parse(good.replace("upstreams:\n", `upstreams:\n${upstreams}`)),
    /^Error: catalogue.yaml:4:3: upstreams\.Bad 0: the name/,
  );
});

test("thousands of models may share anchors, and a base URL may have a query", () => {
  const models = Array.from(
    { length: 3_000 },
    (_, number) => `  - { <<: *first, id: m${number}, prices: { <<: *prices, perRequest: 1 }, route: *route }`,
  );
  const text = `groups: { default: { models: ["*"] } }
upstreams: { azure: { dialect: openai-chat, baseUrl: "https://azure.example/openai/deployments/m?api-version=2024-10-21&keyboard=de" } }
models:
  - &first { id: first, prices: &prices { inputPerMillion: 1, outputPerMillion: 2 }, route: &route [{ upstream: azure, model: m }] }
${models.join("\n")}
`;
  const { models: read } = parseCatalogue(Buffer.from(text), "many.yaml", {});
  assert.equal(read.length, 3_001);
  assert.equal(read[3_000]?.prices?.inputPerMillion, 1);
});

/** Repeats lines, up to a length that usual settings read in a moment. */
const repeated = (line: (place: number) => string, before = "", length = 100_000): string => {
  const lines = [before];
  for (let [place, size] = [0, 0]; size < length; place++) {
    const next = line(place);
    lines.push(next);
    size += next.length;
  }
  return lines.join("");
};

test("no text holds the process for longer than usual settings of its length would", () => {
  const anchor = `a: &a { ${Array.from({ length: 300 }, (_, place) => `k${place}: 1`).join(", ")} }\nb:\n`;
  const nested = Array.from({ length: 12 }, (_, place) =>
    place === 0 ? "a0: &a0 [1, 1]\n" : `a${place}: &a${place} [${Array(9).fill(`*a${place - 1}`)}]\n`,
  ).join("");
  const texts: (readonly [name: string, text: string, fault: RegExp])[] = [
    ["different keys", repeated((place) => `k${place}: 1\n`), /groups: missing/],
    ["different keys in one line", `{ ${repeated((place) => `k${place}: 1, `)} }`, /groups: missing/],
    ["the same key", repeated(() => "k: 1\n"), /2:1: Map keys must be unique \(and 99 more\)/],
    ["aliases of one anchor", repeated(() => "  - *a\n", "a: &a 1\nb:\n"), /groups: missing/],
    ["an anchor for each alias", repeated(() => "  - &a 1\n  - *a\n", "a:\n"), /groups: missing/],
    ["a merged anchor", repeated(() => "  - <<: *a\n", anchor, 20_000), /more than \d+ (values|anchors)/],
    ["merged again and again", `a: &a { x: 1 }\nb:\n  <<: [${repeated(() => "*a, ")}]`, /groups: missing/],
    [
      "many uses of a large anchor",
      repeated(() => "  - *a\n", `${repeated(() => " - 1\n", "a: &a\n", 9_000)}b:\n`, 9_000),
      /values/,
    ],
    ["anchors inside anchors", nested, /values/],
    ["an alias inside its own anchor", "a: &a [*a]\n", /inside its own anchor/],
    ["aliases of nothing", repeated(() => "- *x\n"), /1:3: the alias \*x has no anchor/],
    ["brackets without a beginning", repeated(() => "]\n"), /1:1: Unexpected flow-seq-end/],
    ["documents", repeated(() => "---\na\n"), /multiple documents/],
    ["unknown tags", repeated(() => "- !t 1\n"), /Unresolved tag: !t \(and 99 more\)/],
    ["nested lists", "[".repeat(50_000) + "]".repeat(50_000), /call stack/],
    ["nested blocks", "- ".repeat(50_000), /call stack/],
    ...(isLong ? [["commas", `[${"1,".repeat(1_500_000)}]`, /more than 2000000 tokens/] as const] : []),
    ["a model that is wrong in many places", repeated(() => "  - {}\n", "models:\n"), /\(and 99 more\)/],
  ];
  const cpuMsOf = (text: string): { ms: number; fault: string } => {
    const start = process.cpuUsage();
    let fault = "";
    try {
      parse(text);
    } catch (error) {
      assert.ok(error instanceof CatalogueFault, String(error));
      fault = error.message;
    }
    const { user, system } = process.cpuUsage(start);
    return { ms: (user + system) / 1_000, fault };
  };
  const usual = repeated((place) => `  - { id: m${place}, prices: { inputPerMillion: 1 }, route: [] }\n`, "models:\n");
  cpuMsOf(usual);
  const allowed = cpuMsOf(usual).ms * 12 + 500;
  for (const [name, text, expected] of texts) {
    const { ms, fault } = cpuMsOf(text);
    assert.match(fault, expected, name);
    assert.ok(ms < allowed, `${name}: ${ms} of ${allowed} ms`);
  }
});

test("a missing, empty, binary or too large file and a directory each give a one-line error", async (t) => {
  const directory = await mkdtemp(join(tmpdir(), "catalogue-"));
  t.after(() => rm(directory, { recursive: true }));
  const at = (name: string) => join(directory, name);
  await writeFile(at("empty.yaml"), "# nothing\n");
  await writeFile(at("list.yaml"), "- a\n");
  await writeFile(at("two.yaml"), `${good}---\n${good}`);
  await writeFile(at("binary.yaml"), Buffer.from([0x61, 0xff, 0xfe]));
  await writeFile(at("large.yaml"), Buffer.alloc(5_000_000, "#"));
  await writeFile(
    at("bomb.yaml"),
    [
      "a: &a [x,x,x,x,x,x,x,x,x]",
      ...[..."bcdefghi"].map(
        (name, place) => `${name}: &${name} [${Array(9).fill(`*${"abcdefgh"[place]}`).join(",")}]`,
      ),
    ].join("\n"),
  );
  for (const [name, expected] of [
    ["missing.yaml", /missing\.yaml: no such file$/],
    ["empty.yaml", /empty\.yaml:1:1: the catalogue is empty$/],
    ["list.yaml", /list\.yaml:1:1: must be a mapping, not a list$/],
    ["two.yaml", /two\.yaml:\d+:\d+: .*multiple documents/],
    ["binary.yaml", /binary\.yaml: not UTF-8 text$/],
    ["large.yaml", /large\.yaml: larger than 4194304 bytes$/],
    ["bomb.yaml", /bomb\.yaml:1:1: .*alias/],
    [".", /: not a file$/],
  ] as const) {
    assert.throws(
      () => loadCatalogue(at(name), {}),
      (error) => error instanceof CatalogueFault && expected.test(error.message) && !error.message.includes("\n"),
      name,
    );
  }
});

test("a catalogue with 500 models loads and finds each of them", () => {
  const models = Array.from(
    { length: 500 },
    (_, index) =>
      `  - { id: m-${index}, prices: { inputPerMillion: 1, outputPerMillion: 2 }, route: [{ upstream: openai, model: m }] }\n`,
  );
  const catalogue = parse(good + models.join(""));
  assert.equal(catalogue.modelsOf("default").length, 501);
  assert.equal(catalogue.modelFor("default", "m-499")?.id, "m-499");
});
