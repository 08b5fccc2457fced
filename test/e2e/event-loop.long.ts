/**
 * No request holds up an event loop: at the default limits, whatever a caller sends, one turn of
 * the event loop of an ingress or a worker takes less than 100 ms of the processor's time, but for
 * copies of the largest bodies. `HOSTILE_SHAPES=all` asks every shape in every dialect of every
 * upstream, which takes some minutes, and prints what it took.
 */
import assert from "node:assert/strict";
import { once } from "node:events";
import { join } from "node:path";
import { after, test } from "node:test";
import { pathToFileURL } from "node:url";
import { type ConversationDialect, conversationDialects } from "#dialects/dialect.ts";
import { type Role, startGateway } from "../support/gateway.ts";
import { briefShapes, shapesOf, textBytesMax } from "../support/hostile-shapes.ts";
import { jsonAnswer, startScriptedUpstream } from "../support/upstream.ts";
import { words } from "./bad-input/raw.ts";
import { Bare } from "./socket-support.ts";

/**
 * The processor's time for the reference work below, about that of the machines that the bound is
 * meant for: a slower processor may take longer in proportion.
 */
const referenceMs = 25;
const turnMsMax = 100 * Math.max(1, fastestMsOf(() => JSON.parse(`[${"1234567,".repeat(1_000_000)}0]`)) / referenceMs);
const asksAll = process.env.HOSTILE_SHAPES === "all";

const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };
/** Whatever is asked, the shortest answer there is, by the end of a path. */
const answers: [end: RegExp, answer: object][] = [
  [/input_tokens$/, { object: "response.input_tokens", input_tokens: 7 }],
  [/count_tokens$/, { input_tokens: 7 }],
  [/:countTokens$/, { totalTokens: 7 }],
  [
    /chat\/completions$/,
    { choices: [{ index: 0, message: { role: "assistant", content: "x" }, finish_reason: "stop" }], usage },
  ],
  [
    /responses$/,
    {
      id: "resp_1",
      object: "response",
      status: "completed",
      output: [{ type: "message", role: "assistant", content: [{ type: "output_text", text: "x" }] }],
    },
  ],
  [
    /messages$/,
    {
      type: "message",
      role: "assistant",
      content: [{ type: "text", text: "x" }],
      stop_reason: "end_turn",
      usage: { input_tokens: 1, output_tokens: 1 },
    },
  ],
  [/:generateContent$/, { candidates: [{ content: { role: "model", parts: [{ text: "x" }] }, finishReason: "STOP" }] }],
  [/embeddings$/, { data: [{ index: 0, embedding: [0.5] }] }],
  [/edits$/, { data: [{ b64_json: "AAAA" }] }],
];
/** As many embeddings, of as many numbers, as an answer has room for. */
const embedding = Array.from({ length: 1_536 }, (_, place) => Math.sin(place));
const embeddings = JSON.stringify({ data: Array.from({ length: 1_000 }, (_, index) => ({ index, embedding })) });
const pictures = JSON.stringify({ data: new Array(4).fill({ b64_json: "A".repeat(7 << 20) }) });

const upstream = await startScriptedUpstream((response, { path }) => {
  const [, answer = {}] = answers.find(([end]) => end.test(path)) ?? [];
  const large = path.endsWith("embeddings") ? embeddings : pictures;
  jsonAnswer(path.startsWith("/large/") ? large : answer)(response);
});

const lines = [
  ...[...conversationDialects, "openai-images"].map(
    (dialect) => `  ${dialect}: { dialect: ${dialect}, circuitBreakerFailuresMax: 0, baseUrl: "${upstream.url}" }`,
  ),
  `  large: { dialect: openai-chat, circuitBreakerFailuresMax: 0, baseUrl: "${upstream.origin}/large/v1" }`,
  `  large-images: { dialect: openai-images, circuitBreakerFailuresMax: 0, baseUrl: "${upstream.origin}/large/v1" }`,
];
const model = (id: string) =>
  `  - { id: "${id}", retries: 0, queue: chat, prices: { inputPerMillion: 1, outputPerMillion: 2 }, route: [{ upstream: ${id}, model: "m" }] }`;
const gateway = await startGateway({
  processes: "all",
  catalogue: `groups: { default: { models: ["*"] } }\nupstreams:\n${lines.join("\n")}\nmodels:\n${[...conversationDialects, "openai-images", "large", "large-images"].map(model).join("\n")}\n`,
  environment: { NODE_OPTIONS: `--import=${pathToFileURL(join(import.meta.dirname, "..", "support", "turns.ts"))}` },
});
after(async () => {
  await gateway[Symbol.asyncDispose]();
  await upstream[Symbol.asyncDispose]();
});

const roles = [...gateway.ingresses, ...gateway.workers];

async function turnsOf({ process }: Role): Promise<number> {
  const answer = once(process, "message") as Promise<[{ type: string; longestMs: number }]>;
  process.send({ type: "measured" });
  const [{ type, longestMs }] = await answer;
  assert.equal(type, "turns");
  return longestMs;
}

/** The longest turns of ingress and worker while something goes on, in ms of the processor. */
async function turnsDuring(act: () => Promise<unknown>): Promise<{ ingress: number; worker: number }> {
  for (const { process } of roles) process.send({ type: "measure" });
  await act();
  const [ingress = 0, worker = 0] = await Promise.all(roles.map(turnsOf));
  return { ingress, worker };
}

async function post(path: string, body: string | Buffer | FormData): Promise<{ status: number; text: string }> {
  const response = await fetch(`${gateway.url}${path}`, {
    method: "POST",
    headers: { "x-api-key": gateway.key, ...(!(body instanceof FormData) && { "content-type": "application/json" }) },
    body: body as NonNullable<RequestInit["body"]>,
    signal: AbortSignal.timeout(60_000),
  });
  return { status: response.status, text: await response.text() };
}

function fastestMsOf(act: () => unknown): number {
  const times = Array.from({ length: 5 }, () => {
    const before = process.threadCpuUsage();
    act();
    const { user, system } = process.threadCpuUsage(before);
    return (user + system) / 1_000;
  });
  return Math.min(...times);
}

const slow: string[] = [];

/**
 * Bodies of the largest size are copied several times, and WebSocket frames unmasked, each in one
 * turn: 40 to 140 ms were measured.
 */
const copyMsMax = 2 * turnMsMax;

async function measured(
  name: string,
  act: () => Promise<{ status: number; text: string }>,
  msMax = turnMsMax,
): Promise<void> {
  let result = { status: 0, text: "" };
  const { ingress, worker } = await turnsDuring(async () => {
    result = await act();
  });
  const line = `${name}: ingress ${ingress.toFixed(0)} ms, worker ${worker.toFixed(0)} ms (${result.status})`;
  if (asksAll || process.env.HOSTILE_PRINT)
    console.log(line, result.status === 200 ? "" : result.text.slice(0, 150).replaceAll("\n", " "));
  assert.ok(result.status === 200 || result.status === 400, `${line} ${result.text.slice(0, 300)}`);
  if (Math.max(ingress, worker) >= msMax) slow.push(line);
}

test("as first requests, which find nothing compiled", async () => {
  for (const dialect of conversationDialects)
    await measured(`a first request, ${dialect}`, () =>
      post(words[dialect].path(dialect), words[dialect].ask(dialect, words[dialect].text("x".repeat(200_000)))),
    );
  assert.deepEqual(slow.splice(0), []);
});

/**
 * Four dialects, then the same from another on: every caller's shapes go to every upstream in turn.
 */
const dialectAt = (place: number) => conversationDialects[place % conversationDialects.length] as ConversationDialect;
const pairAt = (place: number) => [dialectAt(place), dialectAt(place + Math.floor(place / 4))] as const;
const allPairs = conversationDialects.flatMap((from) => conversationDialects.map((to) => [from, to] as const));

test("shapes of conversations", async () => {
  for (const [place, shape] of (asksAll ? shapesOf(textBytesMax) : briefShapes()).entries())
    for (const [from, to] of asksAll ? allPairs : [shape.pair ?? pairAt(place)]) {
      const body = shape.body(from, to);
      if (body !== undefined)
        await measured(`${shape.name}, ${from} to ${to}`, () => post(words[from].path(to), Buffer.from(body)));
    }
  assert.deepEqual(slow.splice(0), []);
});

const longText = "lorem ipsum ".repeat(textBytesMax / 12);

test("the largest bodies, several at once", async () => {
  const named = (from: ConversationDialect, to: ConversationDialect) => () =>
    post(words[from].path(to), words[from].ask(to, words[from].text(longText)));
  await measured("31 MB as they are", named("openai-responses", "openai-responses"), copyMsMax);
  await measured("31 MB, translated", named("openai-chat", "gemini"), copyMsMax);
  const three = async () => {
    const [first] = await Promise.all([
      named("gemini", "gemini")(),
      named("anthropic-messages", "openai-chat")(),
      named("openai-responses", "gemini")(),
    ]);
    return first;
  };
  await measured("three of them at once", three, copyMsMax);
  assert.deepEqual(slow.splice(0), []);
});

test("token counts, embeddings and forms", async () => {
  const text = "lörem ipsum ".repeat(300_000);
  const { ask, text: textOf } = words["anthropic-messages"];
  await measured("tokens counted by the upstream", () =>
    post("/v1/messages/count_tokens", ask("anthropic-messages", textOf(text))),
  );
  await measured("tokens of another dialect", () =>
    post("/v1/messages/count_tokens", ask("openai-responses", textOf(text))),
  );
  await measured("tokens estimated", () => post("/v1/messages/count_tokens", ask("openai-chat", textOf(text))));
  await measured("tokens of 100 kB estimated", () =>
    post("/v1/messages/count_tokens", ask("openai-chat", textOf(text.slice(0, 100_000)))),
  );
  await measured("tokens of many parts", () =>
    post(
      "/v1beta/models/gemini:countTokens",
      words.gemini.ask("gemini", new Array(98_000).fill(words.gemini.text("x")).join(",")),
    ),
  );
  const embed = (input: unknown) => () => post("/v1/embeddings", JSON.stringify({ model: "openai-chat", input }));
  await measured("embeddings of tokens", embed([Array.from({ length: 500_000 }, (_, place) => place)]));
  await measured("an embedding of 4 MB", embed("lorem ipsum ".repeat(340_000)));
  const form = new FormData();
  form.set("model", "openai-images");
  form.set("prompt", "a hat");
  for (let place = 0; place < 14; place++)
    form.append("image[]", new Blob([Buffer.alloc(2 << 20, place)], { type: "image/png" }), "a.png");
  await measured("a form of 28 MB", () => post("/v1/images/edits", form));
  const parts = new FormData();
  parts.set("model", "openai-images");
  parts.set("prompt", "a hat");
  parts.append("image", new Blob([Buffer.alloc(8, 1)], { type: "image/png" }), "a.png");
  for (let place = 0; place < 900; place++) parts.append(`field_${place}`, "x".repeat(5_000));
  await measured("a form of many parts", () => post("/v1/images/edits", parts));
  assert.deepEqual(slow.splice(0), []);
});

test("answers that are as large as they may be", async () => {
  const input = new Array(1_000).fill("x");
  for (const format of ["float", "base64"])
    await measured(`1,000 embeddings as ${format}`, () =>
      post("/v1/embeddings", JSON.stringify({ model: "large", input, encoding_format: format })),
    );
  const requests = new Array(1_000).fill({ content: { parts: [{ text: "x" }] } });
  await measured("1,000 embeddings, translated", () =>
    post("/v1beta/models/large:batchEmbedContents", JSON.stringify({ requests })),
  );
  const drawn = { model: "large-images", prompt: "a hat", n: 4, stream: true };
  await measured("pictures of 28 MB, as events", () => post("/v1/images/generations", JSON.stringify(drawn)));
  assert.deepEqual(slow.splice(0), []);
});

test("turns over a WebSocket", async () => {
  using socket = await Bare.open(gateway.url, gateway.key);
  const item = (text: string) => [{ role: "user", content: text }];
  let latest = "";
  const turn = (fields: object) => async () => {
    const frame = await socket.turn({ model: "openai-responses", ...fields });
    latest = frame.response?.id;
    return {
      status: frame.type === "response.completed" ? 200 : (frame.status ?? 0),
      text: JSON.stringify(frame).slice(0, 300),
    };
  };
  await measured("a frame of 15 MB", turn({ input: item(longText.slice(0, 15 << 20)) }));
  await measured(
    "a turn that goes on from it",
    turn({ input: item(longText.slice(0, 15 << 20)), previous_response_id: latest }),
  );
  await measured("a frame of many items", turn({ input: new Array(95_000).fill({ role: "user", content: "x" }) }));
  await measured("a turn that goes on from that", turn({ input: item("x"), previous_response_id: latest }));
  await measured("a frame of 31 MB", turn({ input: item(longText) }), copyMsMax);
  await measured(
    "a frame of many keys",
    turn({ input: "x", unknown: Object.fromEntries(Array.from({ length: 190_000 }, (_, place) => [`k${place}`, 1])) }),
  );
  assert.deepEqual(slow.splice(0), []);
});
