/** Answers that nobody reads: an ingress keeps them within its bound, and breaks only connections of the key above its share. */
import assert from "node:assert/strict";
import { connect, type Socket } from "node:net";
import { after, test } from "node:test";
import { type Role, startGateway, until } from "../support/gateway.ts";
import { Bare, socketCatalogue } from "./socket-support.ts";

/** An unread answer of this size takes all that a socket, its kernel and the relay's window hold. */
const large = "sim-text;rate=0;first=0;tokens=700;size=16000";
const medium = "sim-text;rate=0;first=0;tokens=40;size=16000";
const answersBytesMax = 16 << 20;
const gateway = await startGateway({
  catalogue: socketCatalogue({ sim: medium, large }),
  environment: { ANSWERS_BYTES_MAX: String(answersBytesMax), SEND_TIMEOUT_MS: "600000" },
});
after(() => gateway[Symbol.asyncDispose]());
const [greedy, other] = [gateway.key, await gateway.createKey("default")];
const { urls } = gateway.ingresses[0] as Role;

async function numbers(): Promise<{ used: number; cut: number; generations: number }> {
  const text = await (await fetch(`${urls.operations}/metrics`)).text();
  const numberOf = (name: string) =>
    Number(
      text
        .split("\n")
        .find((line) => line.startsWith(`${name} `))
        ?.split(" ")[1] ?? 0,
    );
  assert.match(text, /^sluice_capacity_max\{limit="answers",queue=""\} 16777216$/m);
  return {
    used: numberOf('sluice_capacity_used{limit="answers",queue=""}'),
    cut: numberOf('sluice_limit_refusals_total{limit="answers",scope="key"}'),
    generations: numberOf('sluice_capacity_used{limit="generations",queue=""}'),
  };
}

const saying = (model: string, stream: boolean) => ({ model, stream, messages: [{ role: "user", content: "hello" }] });

/** Asks for answers on a connection of its own, all at once, and reads nothing. */
function askAndNeverRead(asked: object, times = 1, headers: string[] = []): Socket {
  const { hostname, port } = new URL(gateway.url);
  const socket = connect({ port: Number(port), host: hostname });
  socket.pause();
  socket.on("error", () => undefined);
  const body = JSON.stringify(asked);
  const lines = [
    "POST /v1/chat/completions HTTP/1.1",
    "Host: x",
    `Authorization: Bearer ${greedy}`,
    "Content-Type: application/json",
    ...headers,
  ];
  socket.write(`${[...lines, `Content-Length: ${body.length}`].join("\r\n")}\r\n\r\n${body}`.repeat(times));
  return socket;
}

/** Another key's answers arrive, streamed, whole and over a WebSocket, however often they are asked for, and the bound holds meanwhile. */
async function servesOthers(): Promise<void> {
  using socket = await Bare.open(gateway.url, other);
  for (let round = 0; round < 2; round++) {
    const [streamed, whole, turn] = await Promise.all([
      gateway.post(saying("large", true), { key: other }).then((response) => response.text()),
      gateway
        .post(saying("sim", false), { key: other })
        .then((response) => response.json() as Promise<{ choices: { message: { content: string } }[] }>),
      socket.turn({ model: "sim", input: "hello" }),
    ]);
    assert.match(streamed, /data: \[DONE\]\n\n$/);
    assert.ok((whole.choices[0]?.message.content.length ?? 0) >= 40 * 16_000);
    assert.equal(turn.type, "response.completed");
    assert.ok((await numbers()).used <= answersBytesMax);
  }
}

async function isAllGivenBack(): Promise<void> {
  await until("nothing is held", async () => {
    const { used, generations } = await numbers();
    return used === 0 && generations === 0;
  });
}

test("one key whose callers read none of their streams loses connections, and another key's answers arrive", async () => {
  const sockets = Array.from({ length: 24 }, () => askAndNeverRead(saying("large", true)));
  await until("connections are broken", async () => {
    const { used, cut } = await numbers();
    assert.ok(used <= answersBytesMax, String(used));
    return cut > 0;
  });
  await servesOthers();
  const { used, cut } = await numbers();
  assert.ok(used > answersBytesMax / 4 && cut < 24, `${used} bytes are held after ${cut} cuts`);
  for (const socket of sockets) socket.destroy();
  await isAllGivenBack();
});

test("one key whose callers read none of their WebSockets' frames loses connections, and another key's answers arrive", async () => {
  const before = (await numbers()).cut;
  const sockets = await Promise.all(Array.from({ length: 24 }, () => Bare.open(gateway.url, greedy)));
  for (const { socket } of sockets) socket.pause();
  for (const socket of sockets) socket.create({ model: "large", input: "hello" });
  await until("connections are broken", async () => {
    const { used, cut } = await numbers();
    assert.ok(used <= answersBytesMax, String(used));
    return cut > before;
  });
  await servesOthers();
  for (const socket of sockets) socket[Symbol.dispose]();
  await isAllGivenBack();
});

test("one key whose callers request a stored answer repeatedly and do not read it loses connections, and another key's answers arrive", async () => {
  const before = (await numbers()).cut;
  const name = "idempotency-key";
  const stored = await gateway.post(saying("sim", false), { headers: { [name]: "one" } });
  assert.equal(stored.status, 200, await stored.text());
  const sockets = Array.from({ length: 2 }, () => askAndNeverRead(saying("sim", false), 60, [`${name}: one`]));
  await until("connections are broken", async () => {
    const { used, cut } = await numbers();
    assert.ok(used <= answersBytesMax, String(used));
    return cut > before;
  });
  await servesOthers();
  for (const socket of sockets) socket.destroy();
  await isAllGivenBack();
});
