/** A gateway whose ingress holds few bytes of unread answers, and callers who read nothing. */
import assert from "node:assert/strict";
import { connect, type Socket } from "node:net";
import { after } from "node:test";
import { type Role, startGateway } from "../support/gateway.ts";
import { metricsOf } from "../support/metrics.ts";
import { until } from "../support/time.ts";
import { Bare, socketCatalogue } from "./socket-support.ts";

/**
 * An unread answer of this size takes all that a socket, its kernel and the relay's window hold.
 */
const large = "sim-text;rate=0;first=0;tokens=700;size=16000";
const medium = "sim-text;rate=0;first=0;tokens=40;size=16000";
export const answersBytesMax = 16 << 20;
export const gateway = await startGateway({
  catalogue: socketCatalogue({ sim: medium, large }),
  environment: { ANSWERS_BYTES_MAX: String(answersBytesMax), SEND_TIMEOUT_MS: "600000" },
});
after(() => gateway[Symbol.asyncDispose]());
export const [greedy, other] = [gateway.key, await gateway.createKey("default")];
const { urls } = gateway.ingresses[0] as Role;

/** The bytes held, the connections broken, and the generations. */
export async function numbers(): Promise<{ used: number; cut: number; generations: number }> {
  const text = await metricsOf({ urls });
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

export const saying = (model: string, stream: boolean) => ({
  model,
  stream,
  messages: [{ role: "user", content: "hello" }],
});

/** Asks for answers on a connection of its own, all at once, and reads nothing. */
export function askAndNeverRead(request: object, times = 1, headers: string[] = []): Socket {
  const { hostname, port } = new URL(gateway.url);
  const socket = connect({ port: Number(port), host: hostname });
  socket.pause();
  socket.on("error", () => undefined);
  const body = JSON.stringify(request);
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

/**
 * Another key's answers arrive, streamed, whole and over a WebSocket, however often they are asked
 * for, and the bound holds meanwhile.
 */
export async function servesOthers(): Promise<void> {
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

/** Waits until no bytes and no generations are held. */
export async function isAllGivenBack(): Promise<void> {
  await until("nothing is held", async () => {
    const { used, generations } = await numbers();
    return used === 0 && generations === 0;
  });
}
