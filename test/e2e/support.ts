/** The common part of the end-to-end tests: catalogue lines, and bytes on a bare socket. */
import assert from "node:assert/strict";
import { connect } from "node:net";
import { APIError } from "openai";
import { hashOf } from "#access/key.ts";
import type { Redis } from "#service/redis.ts";

/** A line for `models` of a catalogue. */
export const modelLine = ({
  id,
  model,
  upstream = "simulator",
  queue = "chat",
}: {
  id: string;
  model: string;
  upstream?: string;
  queue?: string;
}) =>
  `  - { id: "${id}", retries: 0, queue: ${queue}, prices: { inputPerMillion: 1, outputPerMillion: 2 }, route: [{ upstream: ${upstream}, model: "${model}" }] }\n`;

export interface RawExchange {
  /** Everything that came back, byte by byte as characters. */
  text: string;
  /** The first answer's status; its headers and body follow. */
  status: number;
  headers: Record<string, string>;
  body: string;
  /** How many answers came. */
  answers: number;
}

/**
 * Writes bytes to a server and reads until it closes the connection, or until `until` is content
 * with what came. Rejects after `timeoutMs`. `more` is written each time that something came.
 */
export function exchange(
  url: string,
  bytes: string | Buffer,
  {
    until = () => false,
    timeoutMs = 20_000,
    more = () => undefined,
  }: { until?: (text: string) => boolean; timeoutMs?: number; more?: (text: string) => string | undefined } = {},
): Promise<RawExchange> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve, reject) => {
    let text = "";
    const socket = connect(Number(port), hostname);
    const timer = setTimeout(() => {
      socket.destroy();
      reject(new Error(`nothing settled within ${timeoutMs} ms; so far: ${text.slice(0, 500)}`));
    }, timeoutMs);
    const finish = () => {
      clearTimeout(timer);
      socket.destroy();
      resolve(exchangeOf(text));
    };
    socket.on("data", (chunk: Buffer) => {
      text += chunk.toString("latin1");
      if (until(text)) finish();
      else {
        const next = more(text);
        if (next !== undefined) socket.write(next);
      }
    });
    socket.on("error", () => undefined);
    socket.on("close", finish);
    socket.write(bytes);
  });
}

function exchangeOf(text: string): RawExchange {
  const [head = "", ...rest] = text.split("\r\n\r\n");
  const [statusLine = "", ...lines] = head.split("\r\n");
  const headers = Object.fromEntries(
    lines.map((line) => {
      const colon = line.indexOf(":");
      return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()];
    }),
  );
  return {
    text,
    status: Number(statusLine.split(" ")[1] ?? 0),
    headers,
    body: rest.join("\r\n\r\n"),
    answers: text.match(/HTTP\/1\.1 \d{3} /g)?.length ?? 0,
  };
}

/** The whole content of a Redis as text: keys, and values of every kind. */
export async function contentsOf(redis: Redis): Promise<string> {
  const parts: string[] = [];
  let cursor = "0";
  do {
    const [next, keys] = await redis.scan(cursor, "COUNT", 1_000);
    cursor = next;
    for (const key of keys) {
      const type = await redis.type(key);
      const read: Record<string, () => Promise<unknown>> = {
        string: () => redis.get(key),
        hash: () => redis.hgetall(key),
        list: () => redis.lrange(key, "0", "-1"),
        set: () => redis.smembers(key),
        zset: () => redis.zrange(key, "0", "-1", "WITHSCORES"),
        stream: () => redis.xrange(key, "-", "+"),
        none: () => Promise.resolve(""),
      };
      parts.push(key, JSON.stringify(await read[type]?.()));
    }
  } while (cursor !== "0");
  return parts.join("\n");
}

/** The error that a call ends in. */
export async function errorOf(call: Promise<unknown>): Promise<APIError> {
  const error = await call.then(
    () => assert.fail("the call succeeded"),
    (thrown: unknown) => thrown,
  );
  assert.ok(error instanceof APIError, String(error));
  return error;
}

/** The subject that a key's limits are counted for. */
export const subjectOf = (key: string) => `key_${hashOf(key).slice(0, 24)}`;
