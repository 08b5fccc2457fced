/**
 * The playground's dialects against the real gateway: each builds its request from a neutral
 * conversation and reads the answer.
 */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import {
  type AssistantTurn,
  dialects,
  efforts,
  type Settings,
  type Turn,
} from "../../apps/console/playground/conversation.ts";
import { modules } from "../../apps/console/playground/dialects.ts";
import { type Run, send, tokensPerSecond } from "../../apps/console/playground/run.ts";
import { eventsOf } from "../../apps/console/playground/sse.ts";
import { catalogueOf, startGateway } from "../support/gateway.ts";

const upstreams = ["openai-chat", "openai-responses", "anthropic-messages", "gemini"]
  .map((dialect) => {
    const path = dialect === "gemini" ? "v1beta" : "v1";
    return `  ${dialect}: { dialect: ${dialect}, circuitBreakerFailuresMax: 0, baseUrl: "\${SIMULATOR_URL}/${path}" }\n`;
  })
  .join("");
const models = dialects.map(
  (dialect) =>
    `  - { id: "as-${dialect}", retries: 0, capabilities: [text, streaming, tools, vision, json, reasoning], prices: { inputPerMillion: 1, outputPerMillion: 2 }, route: [{ upstream: ${dialect}, model: "sim-text;rate=0;first=0" }] }\n`,
);
const gateway = await startGateway({
  catalogue: `${catalogueOf(
    [
      { id: "slow", model: "sim-text;tokens=200;rate=20;first=0" },
      { id: "broken", model: "sim-text;rate=0;error=3" },
      { id: "failing", model: "sim-text;status=503" },
    ],
    upstreams,
  )}${models.join("")}`,
});
after(() => gateway[Symbol.asyncDispose]());

const user = (text: string, images: string[] = []): Turn => ({ role: "user", text, images });
const weather = {
  name: "get_weather",
  description: "Says the weather of a city.",
  parameters: {
    type: "object",
    properties: { city: { type: "string" } },
    required: ["city"],
    additionalProperties: false,
  },
};
const pixel =
  "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==";

const ask = (
  dialect: (typeof dialects)[number],
  turns: Turn[],
  settings: Settings,
  signal = new AbortController().signal,
  onChange: (run: Run) => void = () => {},
) =>
  send({ baseUrl: gateway.url, key: gateway.key }, dialect, modules[dialect].requestOf(turns, settings), {
    signal,
    onChange,
  });

const failure = ({ state, error, lines }: Run) => `${state}: ${error} ${lines.slice(-6).join("\n")}`;

/** The tool choice in each dialect: none, some, and a named one. */
const toolChoices: Record<(typeof dialects)[number], [field: string, values: unknown[]]> = {
  "openai-chat": ["tool_choice", ["none", "required", { type: "function", function: { name: "get_weather" } }]],
  "openai-responses": ["tool_choice", ["none", "required", { type: "function", name: "get_weather" }]],
  "anthropic-messages": ["tool_choice", [{ type: "none" }, { type: "any" }, { type: "tool", name: "get_weather" }]],
  gemini: [
    "toolConfig",
    [
      { functionCallingConfig: { mode: "NONE" } },
      { functionCallingConfig: { mode: "ANY" } },
      { functionCallingConfig: { mode: "ANY", allowedFunctionNames: ["get_weather"] } },
    ],
  ],
};

for (const dialect of dialects) {
  const model = `as-${dialect}`;

  test(`${dialect}: the tool choice is the dialect's, and the gateway takes it`, async () => {
    const [field, values] = toolChoices[dialect];
    for (const [place, toolChoice] of (["none", "required", { tool: "get_weather" }] as const).entries()) {
      const settings = { model, tools: [weather], toolChoice };
      const { body } = modules[dialect].requestOf([user("hello")], settings);
      assert.deepEqual(body[field], values[place]);
      const run = await ask(dialect, [user("hello")], settings);
      assert.equal(run.state, "complete", failure(run));
    }
    const { body } = modules[dialect].requestOf([user("hello")], { model, tools: [weather] });
    assert.equal(body[field], undefined);
  });

  test(`${dialect}: text streams with usage, a request id and times`, async () => {
    const states: string[] = [];
    const run = await ask(dialect, [user("hello there")], { model, system: "Be brief." }, undefined, ({ state }) =>
      states.push(state),
    );
    assert.equal(run.state, "complete", failure(run));
    assert.match(run.turn.text, /hello there/);
    assert.ok(run.usage && run.usage.input > 0 && run.usage.output > 0);
    assert.match(run.requestId ?? "", /^req_/);
    assert.ok(run.firstContentMs !== undefined && run.durationMs !== undefined);
    assert.ok(run.firstContentMs <= run.durationMs);
    assert.ok(states.includes("streaming"));
    assert.ok(run.lines.some((line) => line.startsWith("data: ")));
  });

  test(`${dialect}: a tool is called, and its result and a further turn are understood`, async () => {
    for (const effort of [undefined, "low"] as const)
      for (const each of dialects) {
        const settings = { model: `as-${each}`, tools: [weather], effort };
        const turns: Turn[] = [user('Call get_weather for "Paris".')];
        const first = await ask(dialect, turns, settings);
        assert.equal(first.state, "complete", failure(first));
        const [call] = first.turn.calls;
        assert.ok(call, failure(first));
        assert.deepEqual([call.name, JSON.parse(call.input)], ["get_weather", { city: "Paris" }]);
        turns.push(first.turn, { role: "tool", results: [{ call, text: "sunny, 21 degrees" }] });
        const second = await ask(dialect, turns, settings);
        assert.equal(second.state, "complete", failure(second));
        assert.match(second.turn.text, /sunny, 21 degrees/);
        turns.push(second.turn, user("hello there"));
        const third = await ask(dialect, turns, settings);
        assert.match(third.turn.text, /hello there/, failure(third));
      }
  });

  test(`${dialect}: a conversation that another dialect began goes on`, async () => {
    for (const other of dialects) {
      const turns: Turn[] = [user('Call get_weather for "Paris".')];
      const first = await ask(other, turns, { model, tools: [weather] });
      const [call] = first.turn.calls;
      assert.ok(call, failure(first));
      turns.push(first.turn, { role: "tool", results: [{ call, text: "rain" }] });
      const second = await ask(dialect, turns, { model, tools: [weather] });
      assert.match(second.turn.text, /rain/, `${other}: ${failure(second)}`);
    }
  });

  test(`${dialect}: reasoning, every effort, sampling and limits`, async () => {
    for (const effort of efforts) {
      const run = await ask(dialect, [user("hello there")], { model, effort, maxTokens: 3_000 });
      assert.equal(run.state, "complete", `${effort}: ${failure(run)}`);
      assert.equal(run.turn.reasoning !== "", effort !== "none", `${effort}: ${failure(run)}`);
    }
    const run = await ask(dialect, [user("hello there ".repeat(20))], { model, temperature: 0.5, maxTokens: 16 });
    assert.equal(run.state, "complete", failure(run));
    assert.match(run.finish ?? "", /length|max/i);
    assert.ok((run.usage?.output ?? 99) <= 16);
  });

  test(`${dialect}: an image and structured output`, async () => {
    const seen = await ask(dialect, [user("What is this?", [pixel])], { model });
    assert.equal(seen.state, "complete", failure(seen));
    assert.match(seen.turn.text, /image\/png|1x1|1 ?× ?1|image/i);
    const shaped = await ask(dialect, [user("hello there")], { model, schema: weather.parameters });
    assert.equal(typeof (JSON.parse(shaped.turn.text) as { city: unknown }).city, "string", failure(shaped));
  });

  test(`${dialect}: errors have the gateway's words, before the answer and in it`, async () => {
    const unknown = await ask(dialect, [user("hello")], { model: "no-such-model" });
    assert.deepEqual([unknown.state, unknown.status], ["failed", 404]);
    assert.match(unknown.error ?? "", /no-such-model/);
    assert.match(unknown.requestId ?? "", /^req_/);
    const failing = await ask(dialect, [user("hello")], { model: "failing" });
    assert.deepEqual([failing.state, failing.status], ["failed", dialect === "anthropic-messages" ? 529 : 503]);
    const broken = await ask(dialect, [user("hello there, this is a longer text")], { model: "broken" });
    assert.equal(broken.state, "failed", failure(broken));
    assert.ok(broken.error && broken.turn.text !== "");
  });

  test(`${dialect}: an answer can be stopped`, async () => {
    const stopping = new AbortController();
    const run = await ask(dialect, [user("hello there")], { model: "slow" }, stopping.signal, ({ turn }) => {
      if (turn.text !== "") stopping.abort();
    });
    assert.equal(run.state, "stopped", failure(run));
    assert.notEqual(run.turn.text, "");
    assert.equal(run.error, undefined);
  });
}

test("tokens per second count from the first content", () => {
  const usage = { input: 1, cached: 0, output: 50, reasoning: 0 };
  const turn: AssistantTurn = { role: "assistant", text: "", reasoning: "", calls: [], native: undefined };
  const rest = { turn, finish: "stop", error: undefined, state: "complete", status: 200, requestId: "", lines: [] };
  assert.equal(tokensPerSecond({ ...rest, state: "complete", usage, firstContentMs: 500, durationMs: 1_500 }), 50);
  assert.equal(tokensPerSecond({ ...rest, state: "complete", usage, firstContentMs: 5, durationMs: 5 }), undefined);
});

test("events are read wherever their bytes are split, with any line end", async () => {
  for (const lineEnd of ["\n", "\r\n", "\r"]) {
    const bytes = Buffer.from([": comment", "event: a", 'data: {"é":', "data:1}", "", "data: x", "", ""].join(lineEnd));
    for (const size of [1, 2, 3, bytes.length]) {
      const chunks = Array.from({ length: Math.ceil(bytes.length / size) }, (_, index) =>
        bytes.subarray(index * size, (index + 1) * size),
      );
      const events: string[] = [];
      for await (const event of eventsOf(ReadableStream.from(chunks) as ReadableStream<Uint8Array>, () => {}))
        events.push(event);
      assert.deepEqual(events, ['{"é":\n1}', "x"], JSON.stringify([lineEnd, size]));
    }
  }
});
