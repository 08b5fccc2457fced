/**
 * The scripted upstream: an HTTP server on a port of its own that records its requests and answers
 * as a test says, for cases that the simulator cannot produce.
 */
import { once } from "node:events";
import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";

export interface UpstreamRequest {
  method: string;
  path: string;
  headers: IncomingHttpHeaders;
  body: Buffer;
  /** The body as JSON. */
  json: ReturnType<typeof JSON.parse>;
  /** The time of its arrival, in ms of `performance.now()`. */
  at: number;
  /** Whether the connection is closed, or the answer finished. */
  isClosed: boolean;
}

/** An answer that does nothing hangs, and one that destroys the response breaks the connection. */
export type UpstreamAnswer = (response: ServerResponse, request: UpstreamRequest) => unknown;

export interface ScriptedUpstream extends AsyncDisposable {
  readonly port: number;
  /** The address without a path. */
  readonly origin: string;
  /** The base address, with /v1. */
  readonly url: string;
  /** All requests whose bodies have arrived, oldest first. */
  readonly requests: UpstreamRequest[];
  /** The last request to have arrived. */
  last(): UpstreamRequest;
  /** Sets the answers to the next requests, one each; the last answer repeats. */
  answerWith(...answers: [UpstreamAnswer, ...UpstreamAnswer[]]): void;
  /** The number of open connections. */
  connections(): Promise<number>;
}

export async function startScriptedUpstream(
  answer: UpstreamAnswer = (response) => response.writeHead(500).end(),
  listenPort = 0,
): Promise<ScriptedUpstream> {
  const requests: UpstreamRequest[] = [];
  let script = [answer];
  // Forwarded responses may name the simulator's keep-alive time, which must hold here as well.
  const server = createServer({ keepAliveTimeout: 120_000 }, async (incoming, response) => {
    response.on("error", () => undefined);
    const parts = await incoming.toArray().catch(() => undefined);
    if (parts === undefined) return;
    const body = Buffer.concat(parts);
    const request: UpstreamRequest = {
      method: incoming.method ?? "",
      path: incoming.url ?? "",
      headers: incoming.headers,
      body,
      get json() {
        return JSON.parse(body.toString());
      },
      at: performance.now(),
      isClosed: response.closed,
    };
    response.once("close", () => {
      request.isClosed = true;
    });
    requests.push(request);
    const [next = answer] = script.length > 1 ? script.splice(0, 1) : script;
    await next(response, request);
  }).listen(listenPort, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const origin = `http://127.0.0.1:${port}`;
  return {
    port,
    origin,
    url: `${origin}/v1`,
    requests,
    last() {
      const request = requests.at(-1);
      if (request === undefined) throw new Error("no request has arrived");
      return request;
    },
    answerWith(...answers) {
      script = answers;
    },
    connections: () => new Promise((resolve) => server.getConnections((_error, count) => resolve(count))),
    async [Symbol.asyncDispose]() {
      if (!server.listening) return;
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

export const bodyAnswer =
  (body: string | Buffer, contentType: string, status = 200, headers: Record<string, string> = {}) =>
  (response: ServerResponse) =>
    response.writeHead(status, { "content-type": contentType, ...headers }).end(body);

/** A whole answer: JSON as text, or a value. */
export const jsonAnswer = (body: string | object, status?: number, headers?: Record<string, string>) =>
  bodyAnswer(typeof body === "string" ? body : JSON.stringify(body), "application/json", status, headers);

/** Events at once; afterwards the stream is complete, stays open, or breaks. */
export const streamAnswer =
  (events: string, ending: "complete" | "open" | "broken" = "complete") =>
  (response: ServerResponse) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    if (ending === "complete") return response.end(events);
    response.write(events);
    if (ending === "broken") setImmediate(() => response.destroy());
  };

type Chunks = Iterable<string | Buffer> | AsyncIterable<string | Buffer>;

/**
 * The head at once and each chunk as `chunks` yields it: a generator that waits is a stream under
 * the test's control, and one that throws breaks the connection.
 */
export const chunkedAnswer =
  (chunks: (request: UpstreamRequest) => Chunks, contentType = "text/event-stream"): UpstreamAnswer =>
  (response, request) => {
    response.writeHead(200, { "content-type": contentType }).flushHeaders();
    return pipeline(Readable.from(chunks(request)), response).catch(() => undefined);
  };

/** A whole chat completion that says "hi", as JSON. */
export const chatCompletion = JSON.stringify({
  id: "c",
  object: "chat.completion",
  created: 1,
  model: "theirs",
  choices: [{ index: 0, message: { role: "assistant", content: "hi" }, finish_reason: "stop" }],
  usage: { prompt_tokens: 3, completion_tokens: 1, total_tokens: 4 },
});

/** An event of a stream: its data as text, or a value. */
export const dataEvent = (data: string | object) =>
  `data: ${typeof data === "string" ? data : JSON.stringify(data)}\n\n`;

/** An event with its type in the name and in the data, as in streams of Responses and Messages. */
export const typedEvent = (type: string, fields: object = {}) => `event: ${type}\n${dataEvent({ type, ...fields })}`;

/** An event of a streamed chat completion. */
export const chatChunk = (delta: object, finish: string | null = null, model = "theirs") =>
  dataEvent({
    id: "c",
    object: "chat.completion.chunk",
    created: 1,
    model,
    choices: [{ index: 0, delta, finish_reason: finish }],
  });

/** The events that end a streamed chat completion. */
export const chatEnd = `${chatChunk({}, "stop")}data: [DONE]\n\n`;
