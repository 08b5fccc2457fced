/** Every case of an attempt's path, on a clock that the test moves. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import type { GenerationJob } from "#relay/job.ts";
import { ContentTimes } from "../../../apps/worker/routing/content-times.ts";
import { LearnedRepairs } from "../../../apps/worker/routing/learned-repairs.ts";
import {
  delta,
  done,
  oneTarget,
  resumable,
  startAttempt,
  streamHead,
  twoTargets,
  type UpstreamCall,
} from "./start-attempt.ts";

test("a streamed answer marks its target once, with its first content, and ends with usage and model", async () => {
  const { attempt, called, outcomes, frames, kinds, time, events, ended } = startAttempt(oneTarget);
  const upstream = await called(1);
  upstream.head(200, streamHead);
  time.now += 40;
  upstream.data(delta({ content: "hello" }));
  assert.deepEqual(outcomes, ["first/theirs answered"]);
  time.now += 10;
  upstream.data(delta({}, "stop"));
  upstream.data(done);
  upstream.end();
  attempt.dispatched();
  attempt.settle({ outcome: "done", isOrphaned: false });
  attempt.forget();
  assert.deepEqual(outcomes, ["first/theirs answered"]);
  assert.deepEqual(
    frames.map(({ kind }) => kind),
    ["usage", "head", "data", "data", "data", "end"],
  );
  assert.equal(JSON.parse(String(frames[1]?.payload)).headers["x-upstream-request-id"], "theirs-1");
  assert.deepEqual(kinds(), [
    "taken",
    "upstreamCallStarted",
    "firstContent",
    "chunk",
    "chunk",
    "upstreamCallEnded",
    "dispatched",
    "settled",
    "ended",
  ]);
  const [taken, , first, chunk] = events;
  assert.equal(taken?.kind === "taken" && taken.queueWaitMs, 1_000);
  assert.equal(first?.kind === "firstContent" && first.sinceCallMs, 40);
  assert.equal(chunk?.kind, "chunk");
  assert.deepEqual([ended()?.outcome, ended()?.upstream, ended()?.diagnosis.status], ["done", "first", 200]);
});

test("a call that fails before its first content moves on to the next target, and the caller sees nothing of it", async () => {
  const { called, outcomes, frames, kinds, text } = startAttempt(twoTargets);
  const first = await called(1);
  first.head(500, {});
  first.data(Buffer.from("{}"));
  first.end();
  assert.equal(first.isAborted, true);
  const second = await called(2);
  assert.equal(second.upstream, "second");
  assert.deepEqual(frames, []);
  second.head(200, streamHead);
  second.data(delta({ content: "hello" }, "stop"));
  second.data(done);
  second.end();
  assert.match(text(), /hello/);
  assert.deepEqual(outcomes, ["first/theirs transient", "second/theirs answered"]);
  assert.deepEqual(kinds().slice(0, 4), ["taken", "upstreamCallStarted", "upstreamCallFailed", "upstreamCallStarted"]);
});

test("the owner learns of each call, if one of them failed", async () => {
  const { called, frames, time } = startAttempt(twoTargets);
  const first = await called(1);
  time.now += 70;
  first.head(500, {});
  first.end();
  const second = await called(2);
  const startedMs = time.now;
  second.head(200, streamHead);
  second.data(delta({ content: "hello" }, "stop"));
  time.now += 30;
  second.data(Buffer.from("data: [DONE]\n\n"));
  second.end();
  const { source } = JSON.parse(String(frames.at(-1)?.payload));
  assert.deepEqual(source.callLog, [
    ["first", "theirs", 1_000, 70, 500, "upstream_failed"],
    ["second", "theirs", startedMs, 30, 200, "answered"],
  ]);

  const alone = startAttempt(oneTarget);
  const only = await alone.called(1);
  only.head(200, streamHead);
  only.data(delta({ content: "hello" }, "stop"));
  only.data(Buffer.from("data: [DONE]\n\n"));
  only.end();
  assert.equal("callLog" in JSON.parse(String(alone.frames.at(-1)?.payload)).source, false);
});

test("of many calls, the first ones and the last are listed", async () => {
  const targets = Array.from({ length: 10 }, (_, index) => `{ upstream: first, model: m${index} }`);
  const { called, failure } = startAttempt(`retries: 9, route: [${targets.join(", ")}]`);
  for (let number = 1; number <= 10; number++) {
    const call = await called(number);
    call.head(number === 10 ? 400 : 500, {});
    call.end();
  }
  const { callLog } = (failure() as { source: { callLog: unknown[][] } }).source;
  assert.deepEqual(
    callLog.map(([, , , , status]) => status),
    [500, 500, 500, 500, 500, 500, 500, 400],
  );
});

test("progress of a stream that fails before its content is withdrawn, so that nobody is billed for it", async () => {
  const { called, frames } = startAttempt(twoTargets);
  const first = await called(1);
  first.head(200, streamHead);
  first.end();
  await called(2);
  assert.deepEqual(
    frames.map(({ kind, payload }) => [kind, String(payload) === "null"]),
    [
      ["usage", false],
      ["usage", true],
    ],
  );
});

test("a stream that breaks after its content fails with what was produced, and its target is marked for that too", async () => {
  const { attempt, called, outcomes, text, failure, ended } = startAttempt(`resume: false, ${twoTargets}`);
  const upstream = await called(1);
  upstream.head(200, streamHead);
  upstream.data(delta({ content: "hello" }));
  upstream.failed({ code: "upstream_failed", message: "The upstream broke." }, "ECONNRESET");
  assert.deepEqual(outcomes, ["first/theirs answered", "first/theirs transient"]);
  assert.match(text(), /hello/);
  assert.equal(failure().message, "The upstream broke.");
  attempt.settle({ outcome: "done", isOrphaned: false });
  attempt.forget();
  assert.deepEqual([ended()?.outcome, ended()?.diagnosis.cause], ["failed", "ECONNRESET"]);
});

test("a stream that breaks after its content is resumed by another target, where the model allows it", async () => {
  const { called, text, failure, events } = startAttempt(resumable);
  const first = await called(1);
  first.head(200, streamHead);
  first.data(delta({ role: "assistant", content: "one " }));
  first.failed({ code: "upstream_failed", message: "The upstream broke." }, "ECONNRESET");
  const second = await called(2);
  second.head(200, streamHead);
  second.data(delta({ role: "assistant", content: "one two" }, "stop"));
  second.data(done);
  second.end();
  assert.equal(text().match(/one /g)?.length, 1);
  assert.match(text(), /two/);
  assert.equal(failure(), null);
  const started = events.flatMap((event) => (event.kind === "upstreamCallStarted" ? [event.call.resumes] : []));
  assert.deepEqual(started, [false, true]);
});

test("a refusal of a request that goes on with an answer never reaches the caller: the next target is called, and the first failure stays", async () => {
  const refusals: [status: number, message: string][] = [
    [400, "This model does not support assistant message prefill. The conversation must end with a user message."],
    [400, "messages: final assistant content cannot end with trailing whitespace"],
    [400, "This model's maximum context length is 10 tokens. Please reduce the length of the messages."],
    [413, "too large"],
    [422, "messages[1]: role assistant is not allowed here"],
  ];
  for (const [status, message] of refusals) {
    const route =
      "route: [{ upstream: first, model: a }, { upstream: filling, model: b }, { upstream: filling, model: c }]";
    const { called, text, failure, time } = startAttempt(`retries: 5, ${route}`);
    const first = await called(1);
    first.head(200, streamHead);
    first.data(delta({ role: "assistant", content: "one " }));
    first.failed({ code: "upstream_failed", message: "The upstream broke." }, "ECONNRESET");
    const refuse = async (number: number) => {
      const call = await called(number);
      assert.match(String(call.request.body), /"role":"assistant","content":"one/);
      call.head(status, {});
      call.data(Buffer.from(JSON.stringify({ error: { message, type: "invalid_request_error" } })));
      call.end();
    };
    await refuse(2);
    await refuse(3);
    time.now += 10_000;
    // Both are asked to start again.
    for (const number of [4, 5]) {
      const call = await called(number);
      assert.doesNotMatch(String(call.request.body), /"role":"assistant"/);
      call.head(status, {});
      call.data(Buffer.from(JSON.stringify({ error: { message, type: "invalid_request_error" } })));
      call.end();
    }
    while (failure() === null) await sleep(10);
    assert.match(text(), /one /);
    assert.equal(failure().message, "The upstream broke.", message);
  }
});

/** How a call fails, and the class of the failure that its caller gets. */
const slowFailures: Record<string, (call: UpstreamCall) => void> = {
  "a reset connection": (call) => call.failed({ code: "upstream_failed", message: "reset" }, "ECONNRESET"),
  "a response that ends without an answer": (call) => {
    call.head(200, streamHead);
    call.end();
  },
  "an error inside a stream": (call) => {
    call.head(200, streamHead);
    call.data(Buffer.from('data: {"error":{"message":"The server had an error","type":"server_error"}}\n\n'));
  },
  ...Object.fromEntries(
    [408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529, 599].map((status) => [
      `the status ${status}`,
      (call: UpstreamCall) => {
        call.head(status, {});
        call.end();
      },
    ]),
  ),
};

for (const framing of ["sse", "whole"] as const)
  test(`a failure after seconds of silence counts as silent: its target is not called again (${framing})`, async () => {
    const durations = [
      [0, 3],
      [1_000, 3],
      [3_000, 2],
      [5_000, 1],
      [8_000, 1],
    ] as const;
    const play = async (name: string, fail: (call: UpstreamCall) => void, silenceMs: number, calls: number) => {
      const { called, time, failure } = startAttempt("retries: 2, route: [{ upstream: first, model: a }]", { framing });
      for (let number = 1; number <= calls; number++) {
        const call = await called(number);
        time.now += silenceMs;
        fail(call);
        time.now += 2_000;
        assert.equal(failure() === null, number < calls, `${name} after ${silenceMs} ms: call ${number}`);
      }
    };
    await Promise.all(
      Object.entries(slowFailures).flatMap(([name, fail]) =>
        durations.map(([silenceMs, calls]) => play(name, fail, silenceMs, calls)),
      ),
    );
  });

test("comments, pings, single bytes and empty parts do not keep a running answer alive", async () => {
  for (const noise of [": PROCESSING\n\n", "event: ping\ndata: {}\n\n", "d", delta({ content: "" }), delta({})]) {
    const { attempt, called, failure, time, text } = startAttempt(oneTarget);
    const call = await called(1);
    call.head(200, streamHead);
    call.data(delta({ content: "one " }));
    for (let second = 0; second < 200 && failure() === null; second++) {
      time.now += 1_000;
      call.data(Buffer.from(noise));
      if (second === 50 && noise !== "d") call.data(delta({ reasoning_content: "still thinking" }));
      attempt.watch(time.now);
    }
    assert.equal(failure()?.message, "The upstream of this model stopped sending content.");
    assert.equal(time.now, noise === "d" ? 122_000 : 173_000, "120 seconds after the last content");
    assert.match(text(), /one /);
    assert.equal(call.isAborted, true);
  }
});

test("a whole answer that trickles is left for another target, and read to its end if there is none", async () => {
  const trickle = async (model: string) => {
    const { attempt, called, failure, time } = startAttempt(model, { framing: "whole" });
    const call = await called(1);
    call.head(200, { "content-type": "application/json" });
    call.data(Buffer.from('{"choices":'));
    for (let second = 0; second < 200 && !call.isAborted; second++) {
      time.now += 1_000;
      call.data(Buffer.from(" "));
      attempt.watch(time.now);
    }
    return { called, call, failure, time };
  };
  const two = await trickle(twoTargets);
  assert.equal((await two.called(2)).upstream, "second");
  assert.equal(two.time.now, 122_000);
  const alone = await trickle(oneTarget);
  assert.deepEqual([alone.call.isAborted, alone.failure()], [false, null]);
});

test("a whole answer is never given up while it grows", async () => {
  const { attempt, called, time, text } = startAttempt(twoTargets, { framing: "whole" });
  const call = await called(1);
  call.head(200, { "content-type": "application/json" });
  const body = JSON.stringify({
    choices: [{ index: 0, message: { content: "x".repeat(8_000) }, finish_reason: "stop" }],
  });
  for (let at = 0; at < body.length; at += 20) {
    time.now += 1_000;
    call.data(Buffer.from(body.slice(at, at + 20)));
    attempt.watch(time.now);
  }
  call.end();
  assert.match(text(), /xxx/);
});

test("a silent target is left after ten seconds while another one is left, and gets longer once its answers have taken longer", async () => {
  const contentTimes = new ContentTimes();
  const silentMs = async () => {
    const { attempt, called, time } = startAttempt(twoTargets, {}, new LearnedRepairs(), contentTimes);
    const call = await called(1);
    call.head(200, streamHead);
    const startedAt = time.now;
    while (!call.isAborted) {
      time.now += 250;
      attempt.watch(time.now);
    }
    assert.equal((await called(2)).upstream, "second");
    return time.now - startedAt;
  };
  assert.equal(await silentMs(), 10_250);
  assert.equal(await silentMs(), 30_250, "what was given up may have been slow");
  assert.equal(await silentMs(), 30_250, "a target that is always silent gets no more");
  for (let answer = 0; answer < 64; answer++) contentTimes.learn("first/theirs", true, 500);
  assert.equal(await silentMs(), 10_250);
  for (let answer = 0; answer < 64; answer++) contentTimes.learn("first/theirs", true, 15_000);
  assert.equal(await silentMs(), 45_250);
});

test("the caller's own fault fails the attempt at once, although another target is left", async () => {
  const { called, failure, outcomes } = startAttempt(twoTargets);
  const upstream = await called(1);
  upstream.head(400, {});
  upstream.data(Buffer.from('{"error":{"message":"temperature must be below 2"}}'));
  upstream.end();
  assert.equal(failure().code, "invalid_request");
  assert.deepEqual(outcomes, ["first/theirs answered"]);
});

test("a target that refuses the reasoning of earlier turns is called once more without it, although no retry is left", async () => {
  const message = { role: "assistant", content: "a", reasoning_content: "r" };
  const body = JSON.stringify({ model: "m", stream: true, messages: [message, { role: "user", content: "q" }] });
  const { called, failure, outcomes, events, text } = startAttempt(oneTarget, { body });
  const refuse = (upstream: UpstreamCall) => {
    upstream.head(400, {});
    upstream.data(Buffer.from('{"error":{"message":"property \'reasoning_content\' is unsupported"}}'));
    upstream.end();
  };
  refuse(await called(1));
  const second = await called(2);
  assert.equal(second.upstream, "first");
  assert.deepEqual(JSON.parse(String(second.request.body)).messages[0], { role: "assistant", content: "a" });
  second.head(200, streamHead);
  second.data(delta({ content: "hello" }, "stop"));
  second.data(done);
  second.end();
  assert.match(text(), /hello/);
  assert.deepEqual(outcomes, ["first/theirs answered", "first/theirs answered"]);
  const repaired = events.flatMap((event) => (event.kind === "upstreamCallFailed" ? [event.repair] : []));
  assert.deepEqual(repaired, [{ kind: "companions" }]);
  assert.equal(failure(), null);

  const again = startAttempt(oneTarget, { body });
  refuse(await again.called(1));
  refuse(await again.called(2));
  assert.equal(again.failure().code, "invalid_request");
});

test("a cancelled attempt aborts its call and sends nothing more, and what was produced is estimated", async () => {
  const { attempt, called, frames, events, kinds } = startAttempt(oneTarget);
  const upstream = await called(1);
  upstream.head(200, streamHead);
  upstream.data(delta({ content: "hello" }));
  const sent = frames.length;
  attempt.settle({ outcome: "cancelled", isOrphaned: false });
  attempt.abort();
  attempt.forget();
  upstream.data(delta({ content: " world" }));
  upstream.end();
  assert.equal(upstream.isAborted, true);
  assert.equal(frames.length, sent);
  const settled = events.find((event) => event.kind === "settled");
  assert.ok((settled?.usage?.outputTokens ?? 0) > 0);
  assert.deepEqual(kinds().slice(-3), ["settled", "upstreamCallEnded", "ended"]);
});

test("an attempt that is cancelled while its request is read calls no upstream", async () => {
  const { attempt, started, kinds } = startAttempt(oneTarget, { body: null });
  attempt.abort();
  await started;
  attempt.forget();
  assert.deepEqual(kinds(), ["taken", "ended"]);
});

test("a request whose body is gone fails and asks for a retry", async () => {
  const { started, failure } = startAttempt(oneTarget, { body: null });
  await started;
  assert.deepEqual([failure().code, /send it again/.test(failure().message)], ["unavailable", true]);
});

test("while the window is closed the upstream is not read, no timeout runs, and the end waits", async () => {
  const { attempt, called, frames, time } = startAttempt(oneTarget);
  const upstream = await called(1);
  upstream.head(200, streamHead);
  upstream.data(delta({ content: "hello" }));
  attempt.flow(false);
  assert.equal(upstream.isRead, false);
  upstream.data(delta({ content: " world" }, "stop"));
  time.now += 3_600_000;
  attempt.watch(time.now);
  upstream.data(done);
  upstream.end();
  assert.equal(frames.at(-1)?.kind, "data");
  attempt.flow(true);
  assert.equal(frames.at(-1)?.kind, "end");
});

test("a stream that falls silent after its content fails with a timeout", async () => {
  const { attempt, called, failure, time } = startAttempt(oneTarget);
  const upstream = await called(1);
  upstream.head(200, streamHead);
  upstream.data(delta({ content: "hello" }));
  time.now += 29_999;
  attempt.watch(time.now);
  assert.equal(failure(), null);
  time.now += 2;
  attempt.watch(time.now);
  assert.deepEqual(failure(), {
    code: "upstream_timeout",
    message: "The upstream of this model fell silent.",
    upstreamRequestId: "theirs-1",
    source: {
      ...{ upstream: "first", target: "theirs", dialect: "openai-chat", calls: 1 },
      callLog: [["first", "theirs", 1_000, 30_001, 200, "upstream_timeout"]],
    },
  });
  assert.equal(upstream.isAborted, true);
});

test("an answer that lacks only its terminator is complete after two seconds", async () => {
  const { attempt, called, frames, time } = startAttempt(oneTarget);
  const upstream = await called(1);
  upstream.head(200, streamHead);
  upstream.data(delta({ content: "hello" }, "stop"));
  attempt.watch(time.now);
  time.now += 2_001;
  attempt.watch(time.now);
  assert.equal(frames.at(-1)?.kind, "end");
});

test("progress that a data frame told is not reported again", async () => {
  const { attempt, called, frames, time } = startAttempt(oneTarget);
  const reports = () => frames.filter(({ kind }) => kind === "usage").length;
  const upstream = await called(1);
  upstream.head(200, streamHead);
  upstream.data(delta({ content: "hello" }));
  attempt.watch(time.now);
  assert.equal(reports(), 1);
});

test("an error of the gateway's own code fails the attempt at once and is kept for the operator", async () => {
  const { attempt, called, failure, ended } = startAttempt(oneTarget);
  const upstream = await called(1);
  upstream.data(Buffer.from("data"));
  assert.equal(failure().code, "internal");
  attempt.settle({ outcome: "done", isOrphaned: false });
  attempt.forget();
  assert.equal(ended()?.outcome, "failed");
  assert.match(String(ended()?.fault), /an answer arrived without a head/);
});

test("a request is shaped by the traits that the catalogue sets, and by the defaults of the model's name", async () => {
  const body = '{"model":"m","reasoning_effort":"high","messages":[{"role":"user","content":"hello"}]}';
  const thinkingOf = async (model: string) => {
    const { attempt, called } = startAttempt(model, { body, framing: "whole" });
    const { request } = await called(1);
    attempt.abort();
    return JSON.parse(String(request.body)).generationConfig.thinkingConfig;
  };
  const route = "route: [{ upstream: google, model: gemini-2.5-pro }]";
  const set = "traits: { thinkingTokensMax: 300 }";
  assert.deepEqual(await thinkingOf(route), { thinkingBudget: 24_576, includeThoughts: true });
  assert.deepEqual(await thinkingOf(`${set}, ${route}`), { thinkingBudget: 300, includeThoughts: true });
});

test("a field that only optimises and that a target refuses is left out, once for this request and at once for later ones", async () => {
  const body =
    '{"model":"m","stream":true,"prompt_cache_key":"k","user":"u","messages":[{"role":"user","content":"hello"}]}';
  const learnedRepairs = new LearnedRepairs();
  const { called, failure, events, text } = startAttempt(oneTarget, { body }, learnedRepairs);
  const first = await called(1);
  first.head(400, {});
  first.data(
    Buffer.from('{"error":{"message":"property \'prompt_cache_key\' is unsupported","type":"invalid_request_error"}}'),
  );
  first.end();
  const second = await called(2);
  const { prompt_cache_key, user } = JSON.parse(String(second.request.body));
  assert.deepEqual([prompt_cache_key, user], [undefined, "u"]);
  second.head(200, streamHead);
  second.data(delta({ content: "hello" }, "stop"));
  second.data(done);
  second.end();
  assert.match(text(), /hello/);
  assert.equal(failure(), null);
  assert.deepEqual(
    events.flatMap((event) => (event.kind === "repairsLearned" ? event.repairs : [])),
    [{ kind: "omit", fields: ["prompt_cache_key"], isLasting: true }],
  );

  const later = startAttempt(oneTarget, { body }, learnedRepairs);
  assert.equal(JSON.parse(String((await later.called(1)).request.body)).prompt_cache_key, undefined);

  const without = startAttempt(oneTarget);
  const only = await without.called(1);
  only.head(400, {});
  only.data(Buffer.from('{"error":{"message":"Unsupported parameter: \'temperature\'","param":"temperature"}}'));
  only.end();
  assert.equal(without.failure().code, "invalid_request");
});

test("the body's own cache mark goes first, and marks in blocks only if the upstream still refuses", async () => {
  const mark = { cache_control: { type: "ephemeral" } };
  const messages = [{ role: "user", content: [{ type: "text", text: "hello", ...mark }] }];
  const refusal = { error: { message: 'json: unknown field "cache_control"' } };
  const unmarked = [{ role: "user", content: [{ type: "text", text: "hello" }] }];
  const sentFor = async (own: object, refusals: number, learnedRepairs = new LearnedRepairs()) => {
    const body = JSON.stringify({ model: "m", max_tokens: 9, ...own, messages });
    const { called, failure } = startAttempt(
      "route: [{ upstream: messages, model: m }]",
      { body, dialect: "anthropic-messages", framing: "whole" },
      learnedRepairs,
    );
    for (let call = 1; call <= refusals; call++) {
      const refused = await called(call);
      refused.head(400, {});
      refused.data(Buffer.from(JSON.stringify(refusal)));
      refused.end();
    }
    const last = await called(refusals + 1);
    last.head(200, whole);
    last.data(Buffer.from('{"type":"message","content":[],"stop_reason":"end_turn","usage":{}}'));
    last.end();
    assert.equal(failure(), null);
    return JSON.parse(String(last.request.body));
  };
  const learnedRepairs = new LearnedRepairs();
  const rest = { model: "m", max_tokens: 9 };
  assert.deepEqual(await sentFor(mark, 1, learnedRepairs), { ...rest, messages });
  assert.deepEqual(await sentFor(mark, 0, learnedRepairs), { ...rest, messages });
  assert.deepEqual(await sentFor({}, 1), { ...rest, messages: unmarked });
  assert.deepEqual(await sentFor(mark, 2), { ...rest, messages: unmarked });
});

test("the gateway ends the answer at stop sequences that a target refuses, at once after the first refusal", async () => {
  const learnedRepairs = new LearnedRepairs();
  const bodyOf = (stop: string[]) =>
    JSON.stringify({ model: "m", stream: true, own: 1, stop, messages: [{ role: "user", content: "hello" }] });
  const attemptWith = (stop: string[]) => startAttempt(oneTarget, { body: bodyOf(stop) }, learnedRepairs);
  const stopsOf = ({ request }: UpstreamCall) => JSON.parse(String(request.body)).stop;
  const stop = ["a1", "b2", "c3", "d4", "e5"];
  const { called, text, failure } = attemptWith(stop);
  const first = await called(1);
  assert.deepEqual(stopsOf(first), stop);
  const message =
    "Invalid 'stop': array too long. Expected an array with maximum length 4, but got an array with length 5 instead.";
  first.head(400, {});
  first.data(Buffer.from(JSON.stringify({ error: { message, param: "stop", code: "array_above_max_length" } })));
  first.end();
  const second = await called(2);
  assert.deepEqual(stopsOf(second), stop.slice(0, 4));
  second.head(200, streamHead);
  second.data(delta({ content: "hello e5 there" }));
  assert.match(text(), /"content":"hello "/);
  assert.doesNotMatch(text(), /there/);
  assert.equal(failure(), null);

  const later = attemptWith(stop);
  assert.deepEqual(stopsOf(await later.called(1)), stop.slice(0, 4));
  later.attempt.abort();
  const few = attemptWith(stop.slice(0, 2));
  const { own, stop: fewer } = JSON.parse(String((await few.called(1)).request.body));
  assert.deepEqual([own, fewer], [1, stop.slice(0, 2)]);
  few.attempt.abort();
});

test("the gateway ends a legacy completion at stop sequences that a target refuses, whole and streamed", async () => {
  const learnedRepairs = new LearnedRepairs();
  const stop = ["a1", "b2", "c3", "d4", "e5"];
  const model = `traits: { completions: true }, ${oneTarget}`;
  const attemptWith = (framing: "whole" | "sse", more: object = {}) => {
    const body = JSON.stringify({ model: "m", own: 1, stop, prompt: "hello", stream: framing === "sse", ...more });
    return startAttempt(model, { body, operation: "completion", framing }, learnedRepairs);
  };
  const bodyOf = ({ request }: UpstreamCall) => JSON.parse(String(request.body));
  const completion = (text: string) => ({ choices: [{ index: 0, text, finish_reason: "length" }] });
  const message =
    "Invalid 'stop': array too long. Expected an array with maximum length 4, but got an array with length 5.";

  const streamed = attemptWith("sse");
  const first = await streamed.called(1);
  assert.equal(first.request.path, "/completions");
  assert.deepEqual(bodyOf(first).stop, stop);
  first.head(400, {});
  first.data(Buffer.from(JSON.stringify({ error: { message, param: "stop", code: "array_above_max_length" } })));
  first.end();
  const second = await streamed.called(2);
  assert.deepEqual(
    [second.request.path, bodyOf(second).stop, bodyOf(second).own],
    ["/completions", stop.slice(0, 4), 1],
  );
  second.head(200, streamHead);
  second.data(Buffer.from(`data: ${JSON.stringify({ choices: [{ index: 0, text: "hello e5 there" }] })}\n\n`));
  assert.match(streamed.text(), /"object":"text_completion".*"text":"hello "/);
  assert.match(streamed.text(), /"finish_reason":"stop"/);
  assert.doesNotMatch(streamed.text(), /there/);

  const whole = attemptWith("whole");
  const third = await whole.called(1);
  assert.deepEqual(bodyOf(third).stop, stop.slice(0, 4));
  third.head(200, { "content-type": "application/json" });
  third.data(
    Buffer.from(JSON.stringify({ ...completion("hello e5 there"), usage: { prompt_tokens: 1, completion_tokens: 3 } })),
  );
  third.end();
  const { choices, usage } = JSON.parse(whole.text());
  assert.deepEqual(choices, [{ text: "hello ", index: 0, logprobs: null, finish_reason: "stop" }]);
  assert.equal(usage.completion_tokens, 3);

  // Only one text can be ended.
  for (const more of [{ n: 2 }, { prompt: ["one", "two"] }, { logprobs: 1 }, { echo: true }]) {
    const several = attemptWith("whole", more);
    assert.deepEqual(bodyOf(await several.called(1)).stop, stop);
    several.attempt.abort();
  }
  const few = attemptWith("whole", { stop: stop.slice(0, 2) });
  assert.deepEqual(bodyOf(await few.called(1)).stop, stop.slice(0, 2));
  few.attempt.abort();
});

test("instructions among the messages go as text to a server that refuses them, at once after the first refusal", async () => {
  const system = { role: "system", content: "Be brief." };
  const body = JSON.stringify({ model: "m", max_tokens: 9, messages: [{ role: "user", content: "hello" }, system] });
  const job = { body, dialect: "anthropic-messages", framing: "whole" } as const;
  const model = "route: [{ upstream: messages, model: m }]";
  const answer = { type: "message", role: "assistant", content: [], model: "m", stop_reason: "end_turn", usage: {} };
  // https://github.com/deepseek-ai/awesome-deepseek-integration/issues/639,
  // https://github.com/QwenLM/Qwen/issues/2244 and https://github.com/zai-org/GLM-5/issues/74
  const refusals: [status: number, refusal: object][] = [
    [400, { error: { message: "messages[1].role: unknown variant `system`, expected `user` or `assistant`" } }],
    [
      422,
      {
        detail: [
          {
            type: "literal_error",
            loc: ["body", "messages", 1, "role"],
            msg: "Input should be 'user' or 'assistant'",
            input: "system",
          },
        ],
      },
    ],
  ];
  for (const [status, refusal] of refusals) {
    const learnedRepairs = new LearnedRepairs();
    const { called, failure } = startAttempt(model, job, learnedRepairs);
    const rolesOf = ({ request }: { request: { body?: unknown } }) =>
      JSON.parse(String(request.body)).messages.map(({ role }: { role: string }) => role);
    const first = await called(1);
    assert.deepEqual(rolesOf(first), ["user", "system"]);
    first.head(status, {});
    first.data(Buffer.from(JSON.stringify(refusal)));
    first.end();
    const second = await called(2);
    assert.deepEqual(rolesOf(second), ["user", "user"]);
    second.head(200, whole);
    second.data(Buffer.from(JSON.stringify(answer)));
    second.end();
    assert.equal(failure(), null);
    const later = startAttempt(model, job, learnedRepairs);
    assert.deepEqual(rolesOf(await later.called(1)), ["user", "user"]);
    later.attempt.abort();
  }
});

test("an account whose credits pay for a part of the output gets that part", async () => {
  // https://github.com/can1357/oh-my-pi/issues/9569, https://github.com/anomalyco/opencode/issues/12219
  const cases: [more: object, affordable: number, sent: object | undefined][] = [
    [{ max_tokens: 32_000 }, 27_342, { max_tokens: 27_342 }],
    [{}, 30_104, { max_tokens: 30_104 }],
    [{ max_completion_tokens: 32_000 }, 2_000, { max_completion_tokens: 2_000, max_tokens: 2_000 }],
    [{ max_tokens: 4_096 }, 222, undefined],
    [{ max_tokens: 32_000 }, 0, undefined],
  ];
  for (const [more, affordable, sent] of cases) {
    const body = JSON.stringify({ model: "m", stream: true, ...more, messages: [{ role: "user", content: "hello" }] });
    const { called, failure, attempt } = startAttempt(oneTarget, { body });
    const first = await called(1);
    const message = `This request requires more credits, or fewer max_tokens. You requested up to 32000 tokens, but can only afford ${affordable}. To increase, visit https://openrouter.ai/settings/credits and upgrade to a paid account`;
    first.head(402, {});
    first.data(Buffer.from(JSON.stringify({ error: { message, code: 402, metadata: { provider_name: null } } })));
    first.end();
    if (sent === undefined) assert.notEqual(failure(), null);
    else {
      const { model: _m, stream: _s, messages: _c, ...limits } = JSON.parse(String((await called(2)).request.body));
      assert.deepEqual(limits, { ...sent, stream_options: { include_usage: true } });
    }
    attempt.abort();
  }
});

test("functions beside reasoning go to the endpoint of Responses, if the upstream has it, and else without reasoning", async () => {
  const functions = [{ type: "function", function: { name: "f", parameters: { type: "object", properties: {} } } }];
  const bodyOf = (more: object) =>
    JSON.stringify({ model: "m", stream: true, messages: [{ role: "user", content: "hello" }], ...more });
  const calledWith = async (upstream: string, model: string, more: object) => {
    const { called } = startAttempt(`retries: 0, route: [{ upstream: ${upstream}, model: ${model} }]`, {
      body: bodyOf(more),
    });
    const { request } = await called(1);
    return { path: request.path, ...JSON.parse(String(request.body)) };
  };
  const thinking = await calledWith("both", "gpt-5.6-sol", { tools: functions, reasoning_effort: "high" });
  assert.deepEqual([thinking.path, thinking.reasoning.effort, thinking.tools[0].name], ["/responses", "high", "f"]);
  assert.equal((await calledWith("both", "gpt-5.6-sol", {})).path, "/chat/completions");
  assert.equal((await calledWith("both", "gpt-5.2", { tools: functions })).path, "/chat/completions");
  const several = await calledWith("both", "gpt-5.6-sol", { tools: functions, n: 2 });
  assert.deepEqual([several.path, several.reasoning_effort], ["/chat/completions", "none"]);
  const alone = await calledWith("first", "gpt-5.6-sol", { tools: functions, reasoning_effort: "high" });
  assert.deepEqual([alone.path, alone.reasoning_effort], ["/chat/completions", "none"]);
});

const whole = { "content-type": "application/json" };
const long = "x".repeat(2_000);
/**
 * An answer of more bytes than its request may get, in each framing that an upstream may choose.
 */
const oversized: [what: string, framing: GenerationJob["framing"], head: Record<string, string>, bytes: Buffer][] = [
  ["whole", "whole", whole, Buffer.from(JSON.stringify({ choices: [{ message: { content: long } }] }))],
  ["whole, for a stream", "sse", whole, Buffer.from(JSON.stringify({ choices: [{ message: { content: long } }] }))],
  ["streamed, for a whole answer", "whole", streamHead, delta({ content: long })],
  ["one event of a stream", "sse", streamHead, delta({ content: long })],
];

test("an answer that is too large is paid for: no target is called again, and the caller is charged", async () => {
  for (const [what, framing, head, bytes] of oversized) {
    const stream = framing === "sse";
    const body = JSON.stringify({ model: "m", stream, messages: [{ role: "user", content: "hello" }] });
    const { attempt, called, failure, outcomes, events } = startAttempt(twoTargets, {
      framing,
      body,
      answerBytesMax: 1_000,
    });
    const upstream = await called(1);
    upstream.head(200, head);
    for (let at = 0; at < bytes.length; at += 300) upstream.data(bytes.subarray(at, at + 300));
    const { code, isPaid, model, message } = failure();
    assert.deepEqual([code, isPaid, model], ["upstream_failed", true, "m"], what);
    assert.match(message, /1000 bytes/, what);
    assert.equal(upstream.isAborted, true, what);
    attempt.settle({ outcome: "done", isOrphaned: false });
    attempt.forget();
    assert.equal(events.filter(({ kind }) => kind === "upstreamCallStarted").length, 1, what);
    assert.equal(outcomes.includes("first/theirs transient"), false, what);
  }
});

test("a large answer that finds no memory is not read, cannot be late, and goes on when there is some", async () => {
  const { attempt, answerMemory, called, time, failure, frames } = startAttempt(oneTarget, {
    framing: "whole",
    body: '{"model":"m","messages":[{"role":"user","content":"hello"}]}',
  });
  const other = answerMemory.claim("key_2", () => undefined);
  other.hold(12 << 20);
  const upstream = await called(1);
  upstream.head(200, whole);
  upstream.data(Buffer.from('{"choices":[{"index":0,"finish_reason":"stop","message":{"content":"'));
  for (let count = 0; count < 5; count++) upstream.data(Buffer.alloc(1 << 20, "x"));
  assert.equal(upstream.isRead, false);
  time.now += 3_600_000;
  attempt.watch(time.now);
  assert.equal(failure(), null);
  other.end();
  assert.equal(upstream.isRead, true);
  assert.equal(answerMemory.used, 8 << 20);
  attempt.abort();
  attempt.forget();
  assert.deepEqual([answerMemory.used, frames.length], [0, 0]);
});

test("Vertex AI counts the tokens of a conversation without a request around it", async () => {
  const body = JSON.stringify({
    model: "m",
    system: "Be brief.",
    messages: [
      { role: "user", content: "hi" },
      { role: "assistant", content: [{ type: "tool_use", id: "t1", name: "f", input: {} }] },
      { role: "user", content: [{ type: "tool_result", tool_use_id: "t1", content: "ok" }] },
    ],
    tools: [{ name: "f", input_schema: { type: "object" } }],
  });
  for (const [upstream, path] of [
    ["vertex", ""],
    ["google", "generateContentRequest"],
  ] as const) {
    const job = { dialect: "anthropic-messages", operation: "token-count", framing: "whole", body } as const;
    const { called } = startAttempt(`route: [{ upstream: ${upstream}, model: theirs }]`, job);
    const { request } = await called(1);
    assert.ok(Buffer.isBuffer(request.body));
    const sent = JSON.parse(request.body.toString());
    const { contents, systemInstruction, tools, ...others } = path === "" ? sent : sent[path];
    assert.deepEqual(systemInstruction, { parts: [{ text: "Be brief." }] });
    assert.equal(tools.length, 1);
    assert.equal(contents[1].parts[0].functionCall.id, path === "" ? undefined : "t1");
    if (path === "") assert.deepEqual(others, {});
  }
});

test("Vertex AI gets the service tier in a header, and AI Studio in the body", async () => {
  for (const [upstream, tier, header, field] of [
    ["vertex", "flex", "flex", undefined],
    ["vertex", "priority", "priority", undefined],
    ["vertex", "default", undefined, undefined],
    ["vertex", undefined, undefined, undefined],
    ["google", "flex", undefined, "flex"],
  ] as const) {
    const body = JSON.stringify({ model: "m", messages: [{ role: "user", content: "hi" }], service_tier: tier });
    const { called } = startAttempt(`route: [{ upstream: ${upstream}, model: theirs }]`, { body });
    const { request } = await called(1);
    assert.ok(Buffer.isBuffer(request.body));
    assert.equal(request.headers?.["x-vertex-ai-llm-shared-request-type"], header, `${upstream} ${tier}`);
    assert.equal(JSON.parse(request.body.toString()).serviceTier, field, `${upstream} ${tier}`);
  }
});

for (const [how, read, message] of [
  ["is gone", async () => null, /was lost before it could be answered/],
  [
    "could not be read",
    async () => {
      throw new Error("Command timed out");
    },
    /could not read the request from Redis in time/,
  ],
] as const)
  test(`a large body that ${how} fails with what happened and with a time to try again`, async () => {
    const { attempt, started, failure, ended } = startAttempt(oneTarget, { body: null }, undefined, undefined, read);
    await started;
    assert.equal(failure().code, "unavailable");
    assert.match(failure().message, message);
    assert.ok(failure().retryAfterSeconds >= 1);
    attempt.forget();
    assert.equal((ended()?.fault as Error | undefined)?.message, how === "is gone" ? undefined : "Command timed out");
  });

test("a large body is not read to its end for an attempt that is over", async () => {
  const read = async (_generation: string, signal: AbortSignal) => {
    await sleep(60_000, undefined, { signal });
    return null;
  };
  const { attempt, started, frames } = startAttempt(oneTarget, { body: null }, undefined, undefined, read);
  attempt.abort();
  await started;
  assert.deepEqual(frames, []);
});
