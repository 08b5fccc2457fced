/**
 * The product from a newcomer's view: `npm start` in a checkout, and the official client with only
 * the address and the key.
 */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import OpenAI from "openai";
import { until } from "../support/time.ts";

const checkout = join(import.meta.dirname, "..", "..");
const root = mkdtempSync(join(tmpdir(), "sluice-newcomer-"));
for (const name of ["apps", "libs", "catalogue.yaml", "package.json", "package-lock.json", ".npmrc"])
  cpSync(join(checkout, name), join(root, name), { recursive: true });
symlinkSync(join(checkout, "node_modules"), join(root, "node_modules"));

const { REDIS_URL: _, NODE_TEST_CONTEXT: __, ...environment } = process.env;
const gateway = spawn("npm", ["start"], {
  cwd: root,
  env: { ...environment, PORT: "0", CONTROL_PORT: "0" },
  stdio: ["ignore", "pipe", "pipe"],
  detached: true,
});
let output = "";
for (const stream of [gateway.stdout, gateway.stderr])
  stream.on("data", (chunk: Buffer) => (output += chunk.toString()));
const ended = once(gateway, "exit");

interface Ready {
  baseUrl: string;
  key: string;
  operationsUrls: Record<string, string>;
  pids: Record<string, number>;
}

let ready: Ready;
let client: OpenAI;

before(async () => {
  const file = join(root, ".sluice", "ready.json");
  await until("npm start is ready", () => existsSync(file) || gateway.exitCode !== null, 60_000);
  assert.equal(gateway.exitCode, null, output);
  ready = JSON.parse(readFileSync(file, "utf8")) as Ready;
  client = new OpenAI({ baseURL: ready.baseUrl, apiKey: ready.key, maxRetries: 0 });
});

after(() => {
  if (gateway.exitCode === null && gateway.signalCode === null && gateway.pid !== undefined)
    process.kill(-gateway.pid, "SIGKILL");
  rmSync(root, { recursive: true, force: true });
});

const messages = [{ role: "user" as const, content: "What is the weather in Oslo? Call get_weather." }];
const tools = [
  {
    type: "function" as const,
    function: {
      name: "get_weather",
      description: "The weather of a city",
      parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
    },
  },
];

test("it lists models and answers, whole and streamed with usage", async () => {
  const models = [];
  for await (const model of client.models.list()) models.push(model.id);
  assert.ok(models.includes("sim-text"));
  const answer = await client.chat.completions.create({
    model: "sim-fast",
    messages: [{ role: "user", content: "Hello" }],
  });
  assert.match(answer.choices[0]?.message.content ?? "", /Hello/);
  assert.equal(answer.model, "sim-fast");
  let content = "";
  let tokens: number | undefined;
  const stream = await client.chat.completions.create({
    model: "sim-fast",
    messages: [{ role: "user", content: "Hello" }],
    stream: true,
    stream_options: { include_usage: true },
  });
  for await (const chunk of stream) {
    content += chunk.choices[0]?.delta.content ?? "";
    tokens = chunk.usage?.completion_tokens ?? tokens;
  }
  assert.equal(content, answer.choices[0]?.message.content);
  assert.equal(tokens, answer.usage?.completion_tokens);
});

test("tool calls make a round trip, streamed and whole", async () => {
  const first = await client.chat.completions.create({ model: "sim-fast", messages, tools, tool_choice: "required" });
  const message = first.choices[0]?.message;
  const call = message?.tool_calls?.[0];
  assert.equal(first.choices[0]?.finish_reason, "tool_calls");
  assert.ok(call?.type === "function" && call.function.name === "get_weather");
  assert.equal(typeof JSON.parse(call.function.arguments).city, "string");
  const second = await client.chat.completions.create({
    model: "sim-fast",
    messages: [
      ...messages,
      message as OpenAI.ChatCompletionMessage,
      { role: "tool", tool_call_id: call.id, content: '{"celsius":-3}' },
    ],
    tools,
  });
  assert.equal(second.choices[0]?.finish_reason, "stop");
  const streamed = await client.chat.completions
    .stream({ model: "sim-fast", messages, tools, tool_choice: "required" })
    .finalChatCompletion();
  const streamedCall = streamed.choices[0]?.message.tool_calls?.[0];
  assert.ok(streamedCall?.type === "function");
  assert.deepEqual(JSON.parse(streamedCall.function.arguments), JSON.parse(call.function.arguments));
});

test("a stream that is aborted in the middle ends its generation", async () => {
  const stream = await client.chat.completions.create({
    model: "sim-slow",
    messages: [{ role: "user", content: "Hello" }],
    stream: true,
  });
  for await (const chunk of stream) if (chunk.choices[0]?.delta.content) stream.controller.abort();
  const metrics = async () => (await fetch(`${ready.operationsUrls.worker}/metrics`)).text();
  await until("no generation is held", async () => /sluice_worker_generations{queue="chat"} 0/.test(await metrics()));
});

test("Ctrl-C stops it in order and leaves no process behind", async () => {
  process.kill(-(gateway.pid as number), "SIGINT");
  const [code, signal] = await ended;
  assert.ok(code === 0 || signal === "SIGINT", `${code} ${signal} ${output}`);
  const isAlive = (pid: number) => {
    try {
      return process.kill(pid, 0);
    } catch {
      return false;
    }
  };
  assert.ok(Object.values(ready.pids).length >= 3);
  await until("all processes are gone", () => !Object.values(ready.pids).some(isAlive));
});
