import assert from "node:assert/strict";
import { once } from "node:events";
import { after, test } from "node:test";
import { GoogleGenAI, type LiveServerMessage, Modality } from "@google/genai";
import { hashOf } from "#access/key.ts";
import { revokeRecord } from "#access/projection.ts";
import { keyspaceOf } from "#service/keyspace.ts";
import { connectRedis } from "#service/redis.ts";
import { startGateway } from "../support/gateway.ts";
import { metricsOf } from "../support/metrics.ts";
import { until } from "../support/time.ts";
import { jsonAnswer, startScriptedUpstream } from "../support/upstream.ts";
import { BareSession, officialSession, openLive, openSession, realtimeCatalogue } from "./realtime-support.ts";
import { contentsOf } from "./support.ts";

const refusing = await startScriptedUpstream();
refusing.answerWith(jsonAnswer('{"error":{"message":"overloaded"}}', 503));
const gateway = await startGateway({
  catalogue: realtimeCatalogue(
    {
      voice: "sim-realtime",
      live: "sim-live",
      "refused-key": "sim-realtime;status=401",
      cut: "sim-realtime;cut=2",
    },
    `  refusing: { dialect: openai-chat, baseUrl: "${refusing.url}" }\n`,
    '  - { id: moved, retries: 2, queue: realtime, prices: { inputPerMillion: 1, outputPerMillion: 2 }, route: [{ upstream: refusing, model: m }, { upstream: openai, model: "sim-realtime" }] }\n' +
      "  - { id: covered, retries: 0, fallbacks: [voice], queue: realtime, prices: { inputPerMillion: 1, outputPerMillion: 2 }, route: [{ upstream: refusing, model: m }] }\n",
  ),
  ingresses: 2,
  workers: ["realtime=32", "realtime=32"],
});
const redis = await connectRedis(gateway.redis.url, "request");
after(async () => {
  redis.disconnect();
  await gateway[Symbol.asyncDispose]();
  await refusing[Symbol.asyncDispose]();
});

const metric = async (name: string) => {
  const text = await metricsOf(gateway.ingresses[0]);
  return text.split("\n").filter((line) => line.startsWith(name));
};

test("OpenAI's client holds a conversation of text and audio, and sees the catalogue's name of the model", async () => {
  const session = officialSession(gateway, "voice");
  const eventOf = (type: string) => new Promise<never>((resolve) => session.once(type as never, resolve as never));
  const created: { session: { model: string } } = await eventOf("session.created");
  assert.equal(created.session.model, "voice");

  const updated = eventOf("session.updated") as Promise<{ session: { model: string; instructions: string } }>;
  session.send({ type: "session.update", session: { type: "realtime", model: "voice", instructions: "Be brief." } });
  assert.deepEqual((({ model, instructions }) => ({ model, instructions }))((await updated).session), {
    model: "voice",
    instructions: "Be brief.",
  });

  const text: string[] = [];
  session.on("response.output_text.delta", ({ delta }) => void text.push(delta));
  const done = eventOf("response.done") as Promise<{ response: { usage: { output_tokens: number } } }>;
  session.send({
    type: "conversation.item.create",
    item: { type: "message", role: "user", content: [{ type: "input_text", text: "Hello there" }] },
  });
  session.send({ type: "response.create" });
  assert.equal((await done).response.usage.output_tokens, 4);
  assert.equal(text.join(""), "You said: Hello there");

  const audio: string[] = [];
  session.on("response.output_audio.delta", ({ delta }) => void audio.push(delta));
  const spoken = eventOf("response.done");
  const sounds = Array.from({ length: 5 }, (_, index) => Buffer.alloc(2_000, index).toString("base64"));
  for (const sound of sounds) session.send({ type: "input_audio_buffer.append", audio: sound });
  session.send({ type: "response.create" });
  await spoken;
  assert.deepEqual(audio, sounds);
  session.close();
  await once(session.socket, "close");
});

test("Google's client holds a conversation over Live, as the vendor's server answers it: in binary frames where those are binary", async () => {
  const google = new GoogleGenAI({ apiKey: gateway.key, httpOptions: { baseUrl: gateway.url } });
  const messages: LiveServerMessage[] = [];
  let wake: () => void = () => undefined;
  const until = async (holds: (message: LiveServerMessage) => boolean) => {
    while (!messages.some(holds))
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    return messages.splice(0);
  };
  const session = await google.live.connect({
    model: "live",
    config: { responseModalities: [Modality.TEXT] },
    callbacks: {
      onmessage(message) {
        messages.push(message);
        wake();
      },
    },
  });
  session.sendClientContent({ turns: [{ role: "user", parts: [{ text: "Hello" }] }], turnComplete: true });
  const turn = await until(({ serverContent }) => serverContent?.turnComplete === true);
  const texts = turn.flatMap(({ serverContent }) => serverContent?.modelTurn?.parts ?? []).map(({ text }) => text);
  assert.equal(texts.join(""), "You said: Hello");
  assert.equal(turn.at(-1)?.usageMetadata?.responseTokenCount, 3);
  const data = Buffer.alloc(3_000, 7).toString("base64");
  session.sendRealtimeInput({ audio: { data, mimeType: "audio/pcm;rate=16000" } });
  const heard = await until(({ serverContent }) => serverContent?.modelTurn !== undefined);
  assert.equal(heard[0]?.serverContent?.modelTurn?.parts?.[0]?.inlineData?.data, data);
  session.close();
});

test("Live is served under every version, and Python's spelling of messages is passed on", async () => {
  for (const version of ["v1", "v1beta", "v1alpha"]) {
    using session = await openLive(gateway, version);
    session.send({ setup: { model: "models/live" } });
    assert.deepEqual(await session.next(), { setupComplete: {} });
    assert.deepEqual(session.binary, [true]);
    session.send({ client_content: { turns: [{ parts: [{ text: "Hi" }] }], turn_complete: true } });
    await session.until(({ serverContent }) => serverContent?.turnComplete === true);
    assert.equal(session.binary.at(-1), false);
  }
});

test("Azure's addresses and a browser's subprotocol open sessions, and the key is not repeated", async () => {
  const paths = ["/openai/v1/realtime?model=voice", "/openai/realtime?api-version=2024-10-21&deployment=voice"];
  for (const path of paths) {
    using session = await BareSession.open(gateway.url + path, { headers: { "api-key": gateway.key } });
    assert.equal((await session.next()).session.model, "voice");
  }
  for (const path of paths) {
    using session = await BareSession.open(`${gateway.url}${path}&api-key=${gateway.key}`);
    assert.equal((await session.next()).session.model, "voice");
  }
  using session = await BareSession.open(`${gateway.url}/v1/realtime?model=voice`, {}, [
    "realtime",
    `openai-insecure-api-key.${gateway.key}`,
  ]);
  assert.equal(session.socket.protocol, "realtime");
  assert.equal((await session.next()).session.model, "voice");
});

test("a client secret opens sessions of its model with its settings, until its key is revoked", async () => {
  const key = await gateway.createKey("default");
  const { value, expires_at, session } = await gateway.client({ key }).realtime.clientSecrets.create({
    expires_after: { anchor: "created_at", seconds: 60 },
    session: { type: "realtime", model: "voice", instructions: "Be brief." },
  });
  assert.ok(expires_at * 1_000 > Date.now() && expires_at * 1_000 <= Date.now() + 60_000);
  assert.equal((session as { model?: string }).model, "voice");
  using page = await BareSession.open(`${gateway.ingresses[1]?.urls.api}/v1/realtime?model=voice`, {}, [
    "realtime",
    `openai-insecure-api-key.${value}`,
  ]);
  assert.equal((await page.until("session.updated")).session.instructions, "Be brief.");
  await page.say("Hello");
  using other = await openSession({ ...gateway, key: value }, "live");
  assert.match((await other.until("error")).error.message, /is for the model "voice"/);
  const models = await fetch(`${gateway.url}/v1/models`, { headers: { authorization: `Bearer ${value}` } });
  assert.equal(models.status, 401);
  await assert.rejects(openSession({ ...gateway, key: `${value.slice(0, -2)}AA` }, "voice"), /401/);
  await revokeRecord(redis, keyspaceOf("sluice"), hashOf(key), Date.now());
  await until("the secret is revoked", () =>
    openSession({ ...gateway, key: value }, "voice").then(stillOpen, isRefused),
  );
  // The job of a session that has just begun leaves its queue a moment later.
  await until("no job is left", async () => !(await contentsOf(redis)).includes("Be brief"));
  assert.ok(!(await contentsOf(redis)).includes(value));
});

const stillOpen = (session: BareSession): boolean => {
  session.socket.terminate();
  return false;
};
const isRefused = (error: Error): boolean => error.message.includes("401");

test("a client secret that cannot be created is refused with the field at fault", async () => {
  for (const [body, param] of [
    [{ session: { type: "transcription" } }, "session.type"],
    [{ session: { type: "realtime" } }, "session.model"],
    [{ session: { type: "realtime", model: "unknown" } }, "model"],
    [{ session: { type: "realtime", model: "voice" }, expires_after: { seconds: 9 } }, "expires_after.seconds"],
  ] as const) {
    const response = await fetch(`${gateway.url}/v1/realtime/client_secrets`, {
      method: "POST",
      headers: { authorization: `Bearer ${gateway.key}`, "content-type": "application/json" },
      body: JSON.stringify(body),
    });
    assert.equal(((await response.json()) as { error: { param: string } }).error.param, param);
  }
});

test("large messages pass unchanged in both directions", async () => {
  using session = await openSession(gateway, "voice");
  await session.until("session.created");
  const audio = Buffer.alloc(3_000_000, "sound").toString("base64");
  session.send({ type: "input_audio_buffer.append", audio });
  session.send({ type: "response.create" });
  assert.equal((await session.until("response.output_audio.delta")).delta, audio);
  await session.until("response.done");
});

test("a handshake without a valid key is refused with 401, and a plain GET with 426", async () => {
  await assert.rejects(openSession({ ...gateway, key: "wrong" }, "voice"), /401/);
  const headers = { authorization: `Bearer ${gateway.key}` };
  const plain = await fetch(`${gateway.url}/v1/realtime?model=voice`, { headers });
  assert.equal(plain.status, 426);
  const form = new FormData();
  form.append("sdp", "v=0");
  const offers = [{}, { body: form }, { body: "v=0", headers: { ...headers, "content-type": "application/sdp" } }];
  for (const offer of offers) {
    const calls = await fetch(`${gateway.url}/v1/realtime/calls`, { method: "POST", headers, ...offer });
    assert.equal(calls.status, 400);
    assert.match(await calls.text(), /not supported/);
  }
});

test("other refusals are error events, because clients show no body of a refused handshake", async () => {
  for (const [model, code, pattern] of [
    ["unknown", "model_not_found", /does not exist/],
    ["live", null, /does not serve OpenAI's Realtime/],
  ] as const) {
    using session = await openSession(gateway, model);
    const { error } = await session.until("error");
    assert.equal(error.code, code);
    assert.match(error.message, pattern);
    assert.equal((await session.closed).code, 1008);
  }
  using session = await BareSession.open(`${gateway.url}/v1/realtime`, {
    headers: { authorization: `Bearer ${gateway.key}` },
  });
  assert.match((await session.until("error")).error.message, /must name a model/);
});

test("Live reports errors in the close frame, as Google does", async () => {
  for (const [message, reason] of [
    [{ setup: { model: "models/unknown" } }, /does not exist/],
    [{ setup: { model: "models/voice" } }, /does not serve Gemini's Live/],
    [{ clientContent: {} }, /first message must be a setup/],
    ["no JSON", /first message must be a setup/],
  ] as const) {
    using session = await openLive(gateway);
    session.send(message);
    const closed = await session.closed;
    assert.equal(closed.code, 1008);
    assert.match(closed.reason, reason);
  }
});

test("a message that names another model is refused, and the session goes on", async () => {
  using session = await openSession(gateway, "voice");
  await session.until("session.created");
  session.send({ type: "session.update", session: { type: "realtime", model: "other" } });
  const { error } = await session.until("error");
  assert.equal(error.param, "session.model");
  await session.say("Hello");
});

test("a conversation whose input is transcribed names another model for that", async () => {
  using session = await openSession(gateway, "voice");
  await session.until("session.created");
  const transcription = { model: "whisper-1" };
  for (const more of [{}, { model: "voice" }]) {
    session.send({
      type: "session.update",
      session: { type: "realtime", ...more, audio: { input: { transcription } } },
    });
    const updated = await session.next();
    assert.equal(updated.type, "session.updated");
    assert.equal(updated.session.model, "voice");
    assert.deepEqual(updated.session.audio.input.transcription, transcription);
  }
});

test("the upstream answers messages that are not valid", async () => {
  using session = await openSession(gateway, "voice");
  await session.until("session.created");
  session.send("no JSON");
  assert.equal((await session.until("error")).error.code, "invalid_json");
  session.send({ type: "no.such.event" });
  assert.equal((await session.until("error")).error.param, "type");
  session.socket.send(Buffer.from([1, 2, 3]), { binary: true });
  assert.deepEqual(await session.closed, { code: 1003, reason: "Send text messages." });
});

test("a message that is too large ends the session", async () => {
  using session = await openSession(gateway, "voice");
  await session.until("session.created");
  session.send({ type: "input_audio_buffer.append", audio: "A".repeat((16 << 20) + 4) });
  assert.match((await session.until("error")).error.message, /larger than 16777216 bytes/);
  assert.equal((await session.closed).code, 1009);
});

test("a target that refuses the handshake is replaced by the next one", async () => {
  using session = await openSession(gateway, "moved");
  assert.equal((await session.next()).session.model, "moved");
  await session.say("Hello");
});

test("a fallback answers under its own name, which its caller may send back", async () => {
  using session = await openSession(gateway, "covered");
  assert.equal((await session.next()).session.model, "voice");
  for (const model of ["voice", "covered"]) {
    session.send({ type: "session.update", session: { type: "realtime", model } });
    assert.equal((await session.until("session.updated")).session.model, "voice");
  }
});

test("an upstream that refuses the gateway is an error without its reason", async () => {
  using session = await openSession(gateway, "refused-key");
  const { error } = await session.until("error");
  assert.match(error.message, /refused the gateway/);
  assert.equal((await session.closed).code, 1011);
});

test("an upstream that breaks the connection ends the session with an error event and code 1011", async () => {
  using session = await openSession(gateway, "cut");
  await session.until("session.created");
  session.send({ type: "response.create" });
  assert.match((await session.until("error")).error.message, /broke the connection/);
  assert.equal((await session.closed).code, 1011);
});

test("metrics count sessions and their messages", async () => {
  using session = await openSession(gateway, "voice");
  await session.say("Hello");
  await until("only this session runs", async () => {
    const [running] = await metric('sluice_generations{queue="realtime",state="running"}');
    return running?.endsWith(" 1") === true;
  });
  const messages = await metric("sluice_session_messages_total{");
  assert.equal(messages.filter((line) => /direction="(up|down)",dialect="(openai-chat|gemini)"/.test(line)).length, 4);
});

test("a transcription session names its model in its first message, and other ways get an error that says how", async () => {
  const url = `${gateway.url}/v1/realtime?intent=transcription`;
  const headers = { authorization: `Bearer ${gateway.key}` };
  const update = (model: string) => ({
    type: "session.update",
    session: { type: "transcription", audio: { input: { transcription: { model } } } },
  });
  using session = await BareSession.open(url, { headers });
  const created = await session.next();
  assert.deepEqual([created.type, created.session.type], ["session.created", "transcription"]);
  const audio = Buffer.alloc(300).toString("base64");
  session.send({ type: "input_audio_buffer.append", audio });
  session.send(update("voice"));
  const updated = await session.next();
  assert.deepEqual([updated.type, updated.session.audio.input.transcription.model], ["session.updated", "voice"]);
  for (const more of [{}, { model: "voice" }, { type: "realtime" }]) {
    const { type, session: settings } = update("other");
    session.send({ type, session: { ...settings, ...more } });
    assert.match((await session.next()).error.message, /model of a session cannot be changed/);
  }
  session.send({ type: "input_audio_buffer.append", audio });
  session.send({ type: "input_audio_buffer.commit" });
  const completed = await session.until("conversation.item.input_audio_transcription.completed");
  assert.equal(completed.transcript, "The simulator heard you.");
  assert.equal(completed.usage.input_tokens, 8, "both recordings");

  for (const [address, first] of [
    [`${url}&model=voice`, undefined],
    [url, { type: "session.update", session: { type: "realtime", model: "voice" } }],
    [url, { type: "input_audio_buffer.commit" }],
  ] as const) {
    using refused = await BareSession.open(address, { headers });
    if (first !== undefined) refused.send(first);
    const { error } = await refused.until("error");
    assert.match(error.message, /session\.audio\.input\.transcription\.model.*POST \/v1\/audio\/transcriptions/);
    assert.equal((await refused.closed).code, 1008);
  }
});
