/**
 * Faults that the fault suite (test/faults) can't show: the official client's classes of error and
 * its own retries, huge answers, and answers that never end.
 */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import OpenAI from "openai";
import { catalogueOf, type Gateway, startGateway } from "../support/gateway.ts";
import { readStream } from "../support/stream.ts";
import { modelLine } from "./support.ts";

/** Settings of the simulator. */
const faults = [
  "status=400",
  "status=401",
  "status=404",
  "status=422",
  "status=429;retry-after=7",
  "status=500",
  "error=3",
  "cut=3",
];

const gateway: Gateway = await startGateway({
  catalogue:
    catalogueOf(
      [{ id: "spare", model: "sim-text" }],
      `  hasty: { dialect: openai-chat, circuitBreakerFailuresMax: 0, baseUrl: "\${SIMULATOR_URL}/v1", timeouts: { totalTimeoutMs: 4000 } }\n`,
    ) +
    faults.map((fault, index) => modelLine({ id: `fault-${index}`, model: `sim-text;${fault}` })).join("") +
    modelLine({ id: "large", model: "sim-text;rate=0;tokens=600;size=65536" }) +
    modelLine({ id: "recovers", model: "sim-text;rate=0;status=503;retry-after=1;fail-first=1" }) +
    modelLine({ id: "endless", upstream: "hasty", model: "sim-text;rate=20;first=0;tokens=10000" }),
});
after(() => gateway[Symbol.asyncDispose]());

const messages = [{ role: "user" as const, content: "Hello, how are you?" }];
const answer = "You said: Hello, how are you?\nThis is the simulator: the same words always get the same answer.";

test("an answer above the buffer size can be streamed, and is refused as a whole answer", async () => {
  const read = await readStream(await gateway.post({ model: "large", messages, stream: true }));
  assert.deepEqual([read.done, read.broken, read.error, read.content.length], [true, false, undefined, 600 * 65_536]);
  const refused = await gateway.post({ model: "large", messages });
  assert.equal(refused.status, 502);
  assert.match(((await refused.json()) as { error: { message: string } }).error.message, /more than the \d+ bytes/);
});

test("a stream that exceeds its upstream's time limit ends with an error", async () => {
  const read = await readStream(await gateway.post({ model: "endless", messages, stream: true }));
  assert.equal(read.error?.code, "upstream_timeout");
  assert.ok(read.chunks > 0);
  assert.equal(read.done, false);
});

test("the client throws the right class of error, with its request id", async () => {
  const client = gateway.client();
  const model = (fault: string) => `fault-${faults.indexOf(fault)}`;
  const failing = async (fault: string, stream: boolean) => {
    try {
      const completion = await client.chat.completions.create({ model: model(fault), messages, stream });
      if (Symbol.asyncIterator in completion) for await (const _ of completion);
      return assert.fail("no error");
    } catch (error) {
      assert.ok(error instanceof OpenAI.APIError, String(error));
      assert.match(
        error.requestID ?? error.headers?.get("x-request-id") ?? "",
        fault.endsWith("=3") && stream ? /^(req_.*)?$/ : /^req_/,
      );
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

test("the client's retries wait for the Retry-After, and then succeed", async () => {
  const startedAt = performance.now();
  const completion = await gateway.client({ retries: 1 }).chat.completions.create({ model: "recovers", messages });
  assert.equal(completion.choices[0]?.message.content, answer);
  assert.ok(performance.now() - startedAt >= 1_000);
});
