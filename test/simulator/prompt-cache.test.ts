/** Prompt caching of the simulator, by the rules of the vendors. */
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { ask, startSimulator } from "./support.ts";

const long = "All work and no play makes a dull day. ".repeat(120);
const mark = (ttl?: string) => ({ cache_control: { type: "ephemeral", ...(ttl !== undefined && { ttl }) } });
const block = (text: string, more: object = {}) => ({ type: "text", text, ...more });
const user = (text: string, more: object = {}) => ({ role: "user", content: [block(text, more)] });
const assistant = (text: string) => ({ role: "assistant", content: [block(text)] });

async function startCaching(t: TestContext) {
  const time = { now: 0 };
  const { url } = await startSimulator(t, { clock: { now: () => time.now } });
  const messages = async (body: object, { key = "a", settings = "" } = {}) => {
    const { status, text } = await ask({
      url,
      path: "/v1/messages",
      headers: { "x-api-key": key, "anthropic-version": "2023-06-01" },
      body: { model: `sim-claude;prompt-cache${settings}`, max_tokens: 16, ...body },
    });
    assert.equal(status, 200, text);
    const { usage } = JSON.parse(text);
    return {
      input: usage.input_tokens as number,
      read: usage.cache_read_input_tokens as number,
      written: usage.cache_creation_input_tokens as number,
      hour: usage.cache_creation.ephemeral_1h_input_tokens as number,
    };
  };
  const chat = async (body: object, key = "a") => {
    const { text } = await ask({
      url,
      headers: { authorization: `Bearer ${key}` },
      body: { model: "sim-gpt;prompt-cache", ...body },
    });
    return JSON.parse(text).usage.prompt_tokens_details.cached_tokens as number;
  };
  return { time, messages, chat };
}

test("Anthropic: a prompt is read up to the last mark that an earlier one had", async (t) => {
  const { messages } = await startCaching(t);
  const system = [block(long, mark())];
  const first = await messages({ system, messages: [user("one", mark())] });
  assert.equal(first.read, 0);
  assert.ok(first.written > 1_024);
  const turns = [user("one"), assistant("two"), user("three", mark())];
  const second = await messages({ system, messages: turns });
  assert.equal(second.read, first.written);
  assert.ok(second.written > 0);
  assert.deepEqual(await messages({ system, messages: turns }), {
    input: second.input,
    read: first.written + second.written,
    written: 0,
    hour: 0,
  });
  assert.equal((await messages({ system, messages: turns }, { key: "b" })).read, 0, "another organisation");
  const changed = await messages({ system: [block(`x${long}`, mark())], messages: turns });
  assert.equal(changed.read, 0, "another beginning");
});

test("Anthropic: below the minimum, and without a mark, nothing is cached", async (t) => {
  const { messages } = await startCaching(t);
  for (const body of [
    { system: [block("short", mark())], messages: [user("one")] },
    { system: long, messages: [user("one")] },
  ])
    for (let time = 0; time < 2; time++)
      assert.deepEqual(await messages(body).then(({ read, written }) => [read, written]), [0, 0]);
  const { written } = await messages(
    { system: [block(long, mark())], messages: [user("one")] },
    { settings: ";cache-minimum=4096" },
  );
  assert.equal(written, 0);
});

test("Anthropic: a mark finds an earlier one at most 20 blocks before it", async (t) => {
  for (const [turns, isFound] of [
    [19, true],
    [20, false],
  ] as const) {
    const { messages } = await startCaching(t);
    const system = [block(long)];
    await messages({ system, messages: [user("one", mark())] });
    const blocks = Array.from({ length: turns }, (_, index) => block(`block ${index}`));
    const content = [block("one"), ...blocks.slice(0, -1), { ...blocks.at(-1), ...mark() }];
    const { read } = await messages({ system, messages: [{ role: "user", content }] });
    assert.equal(read > 0, isFound, `${turns} blocks later`);
  }
});

test("Anthropic: five minutes or an hour since the last use; an hour's part comes first", async (t) => {
  const { time, messages } = await startCaching(t);
  const body = { system: [block(long, mark("1h"))], messages: [user("one", mark())] };
  const first = await messages(body);
  assert.ok(first.hour > 1_024 && first.hour < first.written);
  time.now += 299_999;
  assert.equal((await messages(body)).read, first.written);
  time.now += 299_999;
  assert.equal((await messages(body)).read, first.written, "a read lengthens its life");
  time.now += 300_000;
  const later = await messages(body);
  assert.deepEqual([later.read, later.written], [first.hour, first.written - first.hour]);
  time.now += 3_600_000;
  assert.equal((await messages(body)).read, 0);
  await assert.rejects(
    messages({ system: [block(long, mark("5m"))], messages: [user("one", mark("1h"))] }),
    /must not come after a ttl='5m'/,
  );
});

test("OpenAI: the same beginning of 1,024 tokens and more, in steps of 128", async (t) => {
  const { time, chat } = await startCaching(t);
  const messages = [
    { role: "system", content: long },
    { role: "user", content: "one" },
  ];
  assert.equal(await chat({ messages }), 0);
  const longer = [...messages, { role: "assistant", content: "two" }, { role: "user", content: "three" }];
  const cached = await chat({ messages: longer });
  assert.ok(cached >= 1_024 && cached % 128 === 0, `${cached}`);
  assert.equal(await chat({ messages: longer }, "b"), 0, "another organisation");
  assert.equal(await chat({ messages: longer, prompt_cache_key: "k" }), 0, "another machine");
  assert.equal(await chat({ messages: [{ role: "system", content: `x${long}` }, ...messages.slice(1)] }), 0);
  assert.equal(await chat({ messages: [{ role: "user", content: "short" }] }), 0);
  assert.equal(await chat({ messages: [{ role: "user", content: "short" }] }), 0);
  time.now += 600_000;
  assert.equal(await chat({ messages: longer }), 0, "idle for ten minutes");
});
