import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { codecs } from "#dialects/codecs.ts";
import { type ConversationDialect, conversationDialects } from "#dialects/dialect.ts";
import { type Failure, failureOf, type OperatorFault } from "#dialects/errors.ts";
import { profiles } from "#dialects/profiles.ts";
import { upstreamErrorOf } from "#dialects/upstream-errors/upstream-errors.ts";
import {
  notTooLong,
  operatorFaults,
  pages,
  quoted,
  rateLimits,
  refusedContent,
  tooLong,
  type UpstreamErrorCase,
} from "./upstream-errors/cases.ts";

const readers = [...conversationDialects.map((dialect) => codecs[dialect].upstreamErrorOf), upstreamErrorOf];

/** Each dialect's reading of a case: a proxy may say anybody's words in any dialect. */
const failuresOf = ({ status, body }: UpstreamErrorCase): Failure[] =>
  readers.map((read) => failureOf(status, read(body)));

/** All that a caller may see of a failure, in every dialect, streamed or not. */
const shownOf = (failure: Failure): string =>
  conversationDialects
    .flatMap((dialect: ConversationDialect) => [
      profiles[dialect].errorBodyOf(failure, "req_1"),
      profiles[dialect].errorEventOf(failure, { requestId: "req_1", model: "m", events: 0 }),
    ])
    .join("\n")
    .replaceAll("type.googleapis.com", "");

const address = /https?:|\.(?:com|ai|io)\b|localhost/;

type Expected = { [Name in keyof Failure]?: Failure[Name] | undefined };

function check(cases: readonly UpstreamErrorCase[], expected: Expected): void {
  for (const one of cases)
    for (const failure of failuresOf(one)) {
      for (const [name, value] of Object.entries(expected))
        assert.equal(failure[name as keyof Failure], value, `${one.upstream}: ${name}`);
      assert.doesNotMatch(shownOf(failure), address, one.upstream);
      if (one.hidden !== undefined) assert.doesNotMatch(shownOf(failure), one.hidden, one.upstream);
    }
}

test("a prompt that is too long is recognised in every upstream's wording", () => {
  check(tooLong, { code: "context_too_long", upstreamCode: "context_length_exceeded", operatorFault: undefined });
});

test("the error for a prompt that is too long keeps the upstream's numbers and drops the rest of its message", () => {
  const messages = new Map(tooLong.map((one) => [one.upstream, failuresOf(one)[0]?.message]));
  assert.equal(
    messages.get("LiteLLM, around Anthropic"),
    "input length and `max_tokens` exceed context limit: 179413 + 32768 > 200000, decrease input length or `max_tokens` and try again",
  );
  assert.match(
    String(messages.get("OpenRouter, the provider's words")),
    /^This model's maximum context length is 262144 tokens/,
  );
  assert.match(
    String(messages.get("OpenRouter behind a router that quotes it")),
    /^This endpoint's maximum context length is 65536 tokens/,
  );
});

test("a request for too much output is not a prompt that is too long", () => {
  for (const one of notTooLong)
    for (const failure of failuresOf(one)) {
      assert.ok(
        failure.code === "invalid_request" || failure.code === "unprocessable",
        `${one.upstream}: ${failure.code}`,
      );
      assert.equal(failure.operatorFault, undefined, one.upstream);
      assert.notEqual(failure.message, "", one.upstream);
    }
});

test("account problems are the operator's, whatever the status, and the caller sees no details", () => {
  for (const [operatorFault, cases] of Object.entries(operatorFaults)) {
    check(cases, {
      code: "upstream_failed",
      operatorFault: operatorFault as OperatorFault,
      upstreamCode: undefined,
      param: undefined,
    });
    for (const failure of cases.flatMap(failuresOf))
      assert.match(failure.message, /^The upstream of this model refused the gateway/);
  }
});

test("refused content is the caller's error, even with a status of denied access", () => {
  check(refusedContent, { code: "content_filter", operatorFault: undefined });
});

test("an account's rate limit is recognised, even with a status that blames the body", () => {
  // One request that is too large says nothing about the next ones: no credential cools down for
  // it.
  const alone = rateLimits.filter(({ body }) => JSON.stringify(body).includes("Request too large for"));
  assert.ok(alone.length > 0 && alone.length < rateLimits.length);
  check(alone, { code: "rate_limited", operatorFault: "unclear", upstreamCode: undefined });
  check(
    rateLimits.filter((one) => !alone.includes(one)),
    { code: "rate_limited", operatorFault: undefined, upstreamCode: undefined },
  );
  for (const failure of rateLimits.flatMap(failuresOf))
    assert.doesNotMatch(failure.message, /Limit|Requested|tier|billing/);
});

const rateLimited = (message: string) => ({ error: { message, code: "rate_limit_exceeded" } });
const waits: [source: string, body: unknown, seconds: number | undefined][] = [
  [
    "https://github.com/openai/codex/pull/2266",
    {
      error: {
        code: "rate_limit_exceeded",
        message:
          "Rate limit reached for gpt-5 in organization org-AAA on tokens per min (TPM): Limit 30000, Used 22999, Requested 12528. Please try again in 11.054s. Visit https://platform.openai.com/account/rate-limits to learn more.",
      },
    },
    12,
  ],
  ["https://github.com/agsaru/Repo2Readme/issues/183", rateLimited("Please try again in 2m59.56s."), 180],
  ["OpenAI, milliseconds", rateLimited("Please try again in 20ms."), 1],
  ["Groq, a day", rateLimited("Please try again in 23h59m1s. Need more tokens?"), 86_341],
  ["Azure", { error: { code: "429", message: "Please retry after 26 seconds. Please contact Azure support" } }, 26],
  ["Gemini, as one text", rateLimited("Quota exceeded.\nPlease retry in 38.559s."), 39],
  ["GitHub Models", rateLimited("Rate limit of 10 per 60s exceeded. Please wait 26 seconds before retrying."), 26],
  [
    "https://github.com/vectorize-io/hindsight/pull/4481",
    { detail: { message: "Limit for model m reached. Wait 10 seconds and try again.", retry_after: 27 } },
    27,
  ],
  ["https://github.com/diegosouzapw/OmniRoute/pull/5974", { retry_after_ms: 45_000, error: "Too many requests" }, 45],
  [
    "https://github.com/router-for-me/CLIProxyAPI/issues/1666",
    { error: { type: "usage_limit_reached", message: "The usage limit has been reached", resets_in_seconds: 529_498 } },
    529_498,
  ],
  ["Google's detail", { error: { message: "Slow down.", details: [{ retryDelay: "26.2s" }] } }, 27],
  ["no time", rateLimited("Please try again later."), undefined],
  ["no unit", rateLimited("Please retry after 26"), undefined],
  ["another unit", rateLimited("Please retry in 2 model calls, or wait 3 milliseconds"), undefined],
  [
    "no number",
    { error: { message: "x", retry_after: "soon", resets_in_seconds: null, retry_after_ms: -5 } },
    undefined,
  ],
];

test("the time of the next retry is read from a body, in members and in words", () => {
  for (const [source, body, seconds] of waits) assert.equal(upstreamErrorOf(body).retryAfterSeconds, seconds, source);
});

test("words that the caller wrote prove nothing about the operator's account", () => {
  for (const one of quoted) {
    const body = JSON.stringify({ model: "m", [one.field]: 1 }).toLowerCase();
    for (const dialect of conversationDialects) {
      const error = codecs[dialect].upstreamErrorOf(one.body);
      const failure = failureOf(one.status, error, (text) => body.includes(JSON.stringify(text).slice(1, -1)));
      assert.equal(failure.operatorFault, undefined, one.upstream);
      assert.ok(failure.code === "invalid_request" || failure.code === "unprocessable", one.upstream);
    }
  }
});

test("a text that only looks like JSON is read as text", () => {
  for (const message of [
    "[{'type': 'extra_forbidden', 'loc': ('body', 'foo')}]",
    "[] is too short - 'messages'",
    "{foo} is not a valid value",
  ])
    assert.equal(failureOf(400, upstreamErrorOf({ error: { message } })).message, message);
});

test("a proxy's error page says nothing about the caller's request, unless the request is too large", () => {
  for (const one of pages) check([one], { code: one.code, operatorFault: undefined, upstreamCode: undefined });
});

test("an unknown reference in the request is the caller's error, even as 403 or 404", () => {
  const missing: UpstreamErrorCase[] = [
    {
      upstream: "Google AI Studio, a file",
      status: 403,
      source: "https://github.com/langgenius/dify-plugin-daemon/issues/192",
      body: {
        error: {
          code: 403,
          message: "You do not have permission to access the File xxxxxxxxx or it may not exist.",
          status: "PERMISSION_DENIED",
        },
      },
    },
    {
      upstream: "OpenAI, an item",
      status: 404,
      source: "https://platform.openai.com/docs/api-reference/responses/create",
      partial: true,
      body: {
        error: {
          message:
            "Item with id 'rs_68c9f3c8a1b48190a1d2e3f4a5b6c7d80123456789abcdef' not found. Items are not persisted when `store` is set to false.",
          type: "invalid_request_error",
          param: "input",
          code: null,
        },
      },
    },
    {
      upstream: "OpenAI, a response",
      status: 400,
      source: "https://platform.openai.com/docs/api-reference/responses/create",
      partial: true,
      body: {
        error: {
          message: "Previous response with id 'resp_1' not found.",
          type: "invalid_request_error",
          param: "previous_response_id",
          code: "previous_response_not_found",
        },
      },
    },
  ];
  check(missing, { code: "invalid_request", operatorFault: undefined });
  assert.match(
    failuresOf(missing[1] as UpstreamErrorCase)[0]?.message ?? "",
    /rs_68c9f3c8a1b48190a1d2e3f4a5b6c7d80123456789abcdef/,
  );
});

test("without information in the body, the status decides", () => {
  const expected: Record<number, Expected> = {
    400: { code: "invalid_request" },
    401: { code: "upstream_failed", operatorFault: "credential" },
    402: { code: "upstream_failed", operatorFault: "quota" },
    403: { code: "upstream_failed", operatorFault: "unclear" },
    404: { code: "upstream_failed", operatorFault: "unclear" },
    410: { code: "upstream_failed", operatorFault: "model" },
    413: { code: "body_too_large" },
    422: { code: "unprocessable" },
    429: { code: "rate_limited" },
    500: { code: "upstream_failed", operatorFault: undefined },
    529: { code: "overloaded" },
  };
  for (const body of [
    undefined,
    null,
    "",
    {},
    [],
    { error: {} },
    { error: { message: "" } },
    '{"error":{"mess',
    "\u0000\u001f\ufffd\ufffd",
    { error: true },
  ])
    for (const [status, failure] of Object.entries(expected))
      check([{ upstream: `${status}: ${JSON.stringify(body)}`, status: Number(status), source: "", body }], failure);
});

test("the upstream's reason is read in every form", () => {
  const told = (body: unknown) => {
    const { message, param, upstreamCode } = failureOf(400, upstreamErrorOf(body));
    return { message, ...(param !== undefined && { param }), ...(upstreamCode !== undefined && { upstreamCode }) };
  };
  assert.deepEqual(told({ detail: "There was an error parsing the body" }), {
    message: "There was an error parsing the body",
  });
  // https://github.com/Gitlawb/openclaude/issues/739
  assert.deepEqual(
    told({
      detail: [
        { type: "extra_forbidden", loc: ["body", "store"], msg: "Extra inputs are not permitted", input: false },
        {
          type: "extra_forbidden",
          loc: ["body", "max_completion_tokens"],
          msg: "Extra inputs are not permitted",
          input: 8192,
        },
      ],
    }),
    {
      message: "store: Extra inputs are not permitted; max_completion_tokens: Extra inputs are not permitted",
      param: "store",
      upstreamCode: "extra_forbidden",
    },
  );
  // https://github.com/Gage-Technologies/mistral-go/pull/2
  assert.deepEqual(
    told({
      object: "error",
      message: {
        detail: [
          {
            type: "extra_forbidden",
            loc: ["body", "messages", 0, "user", "name"],
            msg: "Extra inputs are not permitted",
            input: "",
          },
        ],
      },
      type: "invalid_request_error",
      param: null,
      code: null,
    }),
    {
      message: "messages[0].user.name: Extra inputs are not permitted",
      param: "messages[0].user.name",
      upstreamCode: "extra_forbidden",
    },
  );
  assert.deepEqual(told({ error: "text" }), { message: "text" });
  assert.deepEqual(told({ message: "text" }), { message: "text" });
  assert.deepEqual(told({ message: '{"error":{"message":"nested","code":"a_code"}}' }), {
    message: "nested",
    upstreamCode: "a_code",
  });
  assert.deepEqual(told({ errors: [{ message: "AiError: Bad input", code: 8007 }] }), {
    message: "AiError: Bad input",
    upstreamCode: "8007",
  });
  assert.deepEqual(told({ errors: ["first", "second"] }), { message: "first" });
  assert.deepEqual(told({ error: "Bad Request", message: "The reason.", statusCode: 400 }), { message: "The reason." });
  assert.deepEqual(told({ detail: { error: { message: "deep", param: "p" } } }), { message: "deep", param: "p" });
  assert.deepEqual(told("plain text\n"), { message: "plain text" });
  assert.deepEqual(told('event: error\ndata: {"error":{"message":"in an event"}}\n\n'), { message: "in an event" });
  assert.deepEqual(
    told('[deepseek/deepseek-v4-pro] [400]: {"error":{"message":"behind a router"}} (reset after 30s)'),
    { message: "behind a router" },
  );
  assert.deepEqual(told({ error: { message: "m", code: "3051" } }), { message: "m", upstreamCode: "3051" });
  assert.deepEqual(told({ error: { message: "m", code: "400" } }), { message: "m" });
  assert.deepEqual(told({ error: { message: "m", code: "a sentence is not a code" } }), { message: "m" });
  assert.equal(upstreamErrorOf({ error: { message: "m", code: "503" } }).status, 503);
});

test("error messages are bounded in depth and length", () => {
  const long = "x".repeat(10_000);
  const error = upstreamErrorOf({ error: { message: long, code: long, type: long, param: long } });
  assert.deepEqual(
    [error.message.length, error.code?.length, error.type?.length, error.param?.length],
    [2_000, 200, 200, 200],
  );
  let deep: unknown = { message: "bottom" };
  for (let level = 0; level < 10_000; level++) deep = level % 2 === 0 ? { error: deep } : [deep];
  assert.match(upstreamErrorOf(deep).message, /without a message/);
  const details = Array.from({ length: 10_000 }, (_, index) => ({ loc: ["body", index], msg: "m".repeat(100) }));
  assert.ok(upstreamErrorOf({ detail: details }).message.length <= 2_000);
});

test("no secret and no address survives in any field", () => {
  const secret = "sk-proj-abcdefgh1234567890";
  const error = upstreamErrorOf({
    error: { message: `m ${secret} at api.internal.corp:8080`, code: secret, type: secret, param: `p.${secret}` },
  });
  assert.doesNotMatch(JSON.stringify(error), /abcdefgh|internal/);
});

test("a planted secret never survives, whatever the shape of the error", () => {
  const secret = "sk-proj-Ab12Cd34Ef56Gh78Ij90";
  const host = "vllm-0.vllm.svc.cluster.local:8000";
  const text = fc.oneof(
    fc.string(),
    fc.constantFrom(secret, host, `at ${host}: ${secret}`, JSON.stringify({ error: { message: secret, code: host } })),
  );
  const names = fc.constantFrom(
    "error",
    "message",
    "detail",
    "msg",
    "code",
    "type",
    "param",
    "status",
    "errors",
    "loc",
    "metadata",
    "raw",
    "details",
    "reason",
    "field",
  );
  const { body } = fc.letrec<{ body: unknown }>((tie) => ({
    body: fc.oneof(
      { depthSize: "small" },
      text,
      fc.constantFrom(null, true, 400, 1.5),
      fc.array(tie("body"), { maxLength: 3 }),
      fc.dictionary(names, tie("body"), { maxKeys: 5 }),
    ),
  }));
  fc.assert(
    fc.property(body, fc.constantFrom(200, 400, 403, 413, 422, 500), (value, status) => {
      for (const read of readers) {
        const error = read(value);
        const shown = JSON.stringify(error) + shownOf(failureOf(status, error));
        assert.ok(!shown.includes("Ab12Cd34") && !shown.includes("cluster"), shown);
        assert.ok(error.message !== "" && error.message.length <= 2_000);
      }
    }),
    { numRuns: 500 },
  );
});

test("an error inside a stream is classified by the same rules, in every dialect", () => {
  const wrapped: Record<ConversationDialect, (error: object) => string> = {
    "openai-chat": (error) => JSON.stringify({ error }),
    "openai-responses": (error) => JSON.stringify({ type: "error", error }),
    "anthropic-messages": (error) => JSON.stringify({ type: "error", error }),
    gemini: (error) => JSON.stringify({ error }),
  };
  const failureIn = (dialect: ConversationDialect, error: object): Failure => {
    const data = Buffer.from(wrapped[dialect](error));
    const events = codecs[dialect]
      .streamDecoder()
      .push({ event: dialect.startsWith("openai-chat") ? undefined : "error", data });
    const last = events.at(-1);
    assert.ok(last?.kind === "error", dialect);
    return failureOf(last.error.status ?? 502, last.error);
  };
  for (const dialect of conversationDialects) {
    const long = failureIn(dialect, {
      message: "The prompt is too long: 9, model maximum context length: 8 (sk-abcdef123456)",
    });
    assert.deepEqual([long.code, /sk-/.test(long.message)], ["context_too_long", false], dialect);
    assert.equal(
      failureIn(dialect, { message: "Your credit balance is too low to access the API." }).operatorFault,
      "quota",
      dialect,
    );
    assert.equal(failureIn(dialect, { message: "m", code: "rate_limit_exceeded" }).code, "rate_limited", dialect);
    assert.equal(failureIn(dialect, { message: "Content Exists Risk" }).code, "content_filter", dialect);
    assert.equal(failureIn(dialect, { type: "overloaded_error", message: "Overloaded" }).code, "overloaded", dialect);
  }
});
