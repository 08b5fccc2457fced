import assert from "node:assert/strict";
import { after, test } from "node:test";
import OpenAI from "openai";
import { catalogueOf, type Gateway, startGateway } from "../support/gateway.ts";
import { readStream, type StreamRead } from "../support/stream.ts";
import { modelLine } from "./support.ts";

/** What a caller gets; `after` is content that came first, so that the error is told in the stream. */
type Expected = { status: number; code: string | null; retryAfter?: number | [number, number]; after?: true } | "whole";

interface Case {
  /** The simulator's fault. */
  fault: string;
  whole: Expected;
  stream: Expected;
}

const upstreamError = { status: 502, code: "upstream_error" };
const upstreamTimeout = { status: 504, code: "upstream_timeout" };
const both = (fault: string, expected: Expected): Case => ({ fault, whole: expected, stream: expected });
const soon = () => new Date(Date.now() + 40_000).toISOString();

const cases: Case[] = [
  both("status=400", { status: 400, code: null }),
  both("status=401", upstreamError),
  both("status=403", upstreamError),
  both("status=404", upstreamError),
  both("status=408", upstreamTimeout),
  both("status=409", upstreamError),
  both("status=413", { status: 413, code: "request_too_large" }),
  both("status=422", { status: 422, code: null }),
  both("status=429", { status: 429, code: "rate_limit_exceeded" }),
  both("status=429;retry-after=7", { status: 429, code: "rate_limit_exceeded", retryAfter: 7 }),
  both("status=429;retry-after=86400", { status: 429, code: "rate_limit_exceeded", retryAfter: 60 }),
  both(`status=429;retry-after=${soon()}`, { status: 429, code: "rate_limit_exceeded", retryAfter: [20, 41] }),
  both("status=429;retry-after=2020-01-01T00:00:00Z", { status: 429, code: "rate_limit_exceeded", retryAfter: 1 }),
  both("status=500", upstreamError),
  both("status=502", upstreamError),
  both("status=503;retry-after=3", { status: 503, code: "server_is_overloaded", retryAfter: 3 }),
  both("status=504", upstreamTimeout),
  both("status=529", { status: 503, code: "server_is_overloaded" }),
  both("reset=0", upstreamError),
  { fault: "reset=3;rate=50", whole: upstreamError, stream: { ...upstreamError, after: true } },
  both("cut=0", upstreamError),
  both("cut=0;early-opening", upstreamError),
  { fault: "cut=3", whole: upstreamError, stream: { ...upstreamError, after: true } },
  both("error=0", upstreamError),
  both("error=0;early-opening", upstreamError),
  { fault: "error=3", whole: upstreamError, stream: { ...upstreamError, after: true } },
  { fault: "malformed=2", whole: upstreamError, stream: "whole" },
  both("no-end", "whole"),
  both("usage=every", "whole"),
  both("usage=never", "whole"),
  both("early-opening", "whole"),
  both("head=60000", upstreamTimeout),
  both("first=60000", upstreamTimeout),
  both("stall=0", upstreamTimeout),
  both("stall=0;early-opening", upstreamTimeout),
  { fault: "stall=3", whole: upstreamTimeout, stream: { ...upstreamTimeout, after: true } },
];

const gateway: Gateway = await startGateway({
  catalogue:
    catalogueOf(
      [{ id: "spare", model: "sim-text" }],
      `  hasty: { dialect: openai-chat, circuitFailuresMax: 0, baseUrl: "\${SIMULATOR_URL}/v1", limits: { firstByteTimeoutMs: 700, firstTokenTimeoutMs: 700, betweenTokensTimeoutMs: 700, totalTimeoutMs: 1500 } }\n`,
    ) +
    cases.map(({ fault }, index) => modelLine({ id: `case-${index}`, upstream: "hasty", model: `sim-text;${fault}` })).join("") +
    modelLine({ id: "large", model: "sim-text;rate=0;tokens=600;size=65536" }) +
    modelLine({ id: "recovers", model: "sim-text;rate=0;status=503;retry-after=1;fail-first=1" }) +
    modelLine({ id: "endless", upstream: "hasty", model: "sim-text;rate=20;tokens=10000" }),
});
after(() => gateway[Symbol.asyncDispose]());

const messages = [{ role: "user" as const, content: "Hello, how are you?" }];
const answer = "You said: Hello, how are you?\nThis is the simulator: the same words always get the same answer.";
const ourTexts = /^The (upstream of this model [a-z0-9 ;]+|simulator was told to fail)\.$/;

interface ErrorBody {
  error: { message: string; type: string; param: string | null; code: string | null };
}

function checkError({ error }: ErrorBody, { code, status }: Exclude<Expected, "whole">): void {
  assert.deepEqual(Object.keys(error), ["message", "type", "param", "code"]);
  assert.equal(error.code, code);
  assert.equal(error.param, null);
  assert.equal(error.type, status === 429 ? "rate_limit_error" : status >= 500 ? "server_error" : "invalid_request_error");
  assert.match(error.message, ourTexts);
}

function checkHead(response: Response, expected: Exclude<Expected, "whole">): void {
  assert.equal(response.status, expected.after ? 200 : expected.status);
  assert.match(response.headers.get("x-request-id") ?? "", /^req_/);
  if (expected.after) return;
  assert.equal(response.headers.get("content-type"), "application/json");
  const given = response.headers.get("retry-after");
  const [least, most] = typeof expected.retryAfter === "object" ? expected.retryAfter : [expected.retryAfter, expected.retryAfter];
  if (least === undefined) assert.equal(given, null);
  else assert.ok(Number(given) >= least && Number(given) <= (most as number), `Retry-After ${given}`);
}

/** Nothing of the upstream: neither its address, nor its name for the model. */
const checkSecrecy = (text: string) =>
  assert.ok(!text.includes("sim-text") && !text.includes(new URL(gateway.simulatorUrl).host) && !text.includes("hasty"), text);

function checkStream(read: StreamRead, expected: Expected, fault: string): void {
  assert.equal(read.broken, false);
  if (expected === "whole") {
    assert.equal(read.error, undefined);
    assert.equal(read.done, true);
    if (!fault.startsWith("malformed")) assert.equal(read.content, answer);
    else assert.ok(read.content.length < answer.length && read.content.endsWith(answer.slice(-40)));
    return;
  }
  assert.equal(read.done, false, "a failed answer has no terminator");
  assert.ok(read.error);
  checkError({ error: read.error } as ErrorBody, expected);
  assert.equal(read.pieces, 3);
  assert.ok(answer.startsWith(read.content));
  assert.ok(read.text.trimEnd().split("\n\n").at(-1)?.startsWith('data: {"error":'), "nothing follows the error");
}

for (const streams of [false, true])
  test(`every fault of an upstream reaches the caller of ${streams ? "a stream" : "a whole answer"} as what it is`, { concurrency: 8 }, async (context) => {
    await Promise.all(
      cases.map(({ fault, whole, stream }, index) =>
        context.test(fault.replace(/\d{4}-[\dT:.-]+Z/, "<date>"), async () => {
          const expected = streams ? stream : whole;
          const startedAt = performance.now();
          const response = await gateway.post({ model: `case-${index}`, messages, stream: streams });
          if (expected !== "whole") checkHead(response, expected);
          else assert.equal(response.status, 200);
          if (streams && (expected === "whole" || expected.after)) {
            const read = await readStream(response);
            checkSecrecy(read.text);
            checkStream(read, expected, fault);
          } else {
            const text = await response.text();
            checkSecrecy(text);
            if (expected === "whole") assert.equal(JSON.parse(text).choices[0].message.content, answer);
            else checkError(JSON.parse(text), expected);
          }
          const slow = expected !== "whole" && expected.code === "upstream_timeout" && !fault.startsWith("status");
          assert.ok(performance.now() - startedAt < (slow ? 4_000 : 2_000), `${performance.now() - startedAt} ms`);
        }),
      ),
    );
  });

test("an answer of more bytes than may be held is streamed whole, and refused in one piece", async () => {
  const read = await readStream(await gateway.post({ model: "large", messages, stream: true }));
  assert.deepEqual([read.done, read.broken, read.error, read.content.length], [true, false, undefined, 600 * 65_536]);
  const refused = await gateway.post({ model: "large", messages });
  assert.equal(refused.status, 502);
  assert.match(((await refused.json()) as ErrorBody).error.message, /more than the \d+ bytes/);
});

test("a stream may not last longer than its upstream's limit, and says so", async () => {
  const read = await readStream(await gateway.post({ model: "endless", messages, stream: true }));
  assert.equal(read.error?.code, "upstream_timeout");
  assert.ok(read.pieces > 10);
  assert.equal(read.done, false);
});

test("the client has the class of error that it should have, with its request id", async () => {
  const client = gateway.client();
  const model = (fault: string) => `case-${cases.findIndex((one) => one.fault === fault)}`;
  const failing = async (fault: string, stream: boolean) => {
    try {
      const completion = await client.chat.completions.create({ model: model(fault), messages, stream });
      if (Symbol.asyncIterator in completion) for await (const _ of completion);
      return assert.fail("no error");
    } catch (error) {
      assert.ok(error instanceof OpenAI.APIError, String(error));
      assert.match(error.requestID ?? error.headers?.get("x-request-id") ?? "", fault.endsWith("=3") && stream ? /^(req_.*)?$/ : /^req_/);
      return error;
    }
  };
  for (const stream of [false, true]) {
    assert.ok((await failing("status=400", stream)) instanceof OpenAI.BadRequestError);
    assert.ok((await failing("status=422", stream)) instanceof OpenAI.UnprocessableEntityError);
    assert.ok((await failing("status=401", stream)) instanceof OpenAI.InternalServerError);
    assert.ok((await failing("status=404", stream)) instanceof OpenAI.InternalServerError);
    assert.ok((await failing("status=500", stream)) instanceof OpenAI.InternalServerError);
    const limited = await failing("status=429;retry-after=7", stream);
    assert.ok(limited instanceof OpenAI.RateLimitError);
    assert.equal(limited.headers.get("retry-after"), "7");
    assert.equal(limited.code, "rate_limit_exceeded");
  }
  assert.equal((await failing("error=3", true)).code, "upstream_error");
  assert.equal((await failing("cut=3", true)).code, "upstream_error");
});

test("the client's own retries wait as long as Retry-After says, and then succeed", async () => {
  const startedAt = performance.now();
  const completion = await gateway.client({ retries: 1 }).chat.completions.create({ model: "recovers", messages });
  assert.equal(completion.choices[0]?.message.content, answer);
  assert.ok(performance.now() - startedAt >= 1_000);
});
