/**
 * The common part of WebSocket tests: a catalogue, and a bare socket whose frames are read one by
 * one.
 */
import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import { type ClientOptions, WebSocket } from "ws";
import { modelLine } from "./support.ts";

/** Models of an upstream that speaks Responses itself, and the same of one that doesn't. */
export const socketCatalogue = (models: Record<string, string>, upstreams = "", more = "") =>
  `groups:\n  default: { models: ["*"] }\n  narrow: { models: ["sim"] }\nupstreams:\n  simulator: { dialect: openai-responses, circuitBreakerFailuresMax: 0, baseUrl: "\${SIMULATOR_URL}/v1" }\n  chat: { dialect: openai-chat, circuitBreakerFailuresMax: 0, baseUrl: "\${SIMULATOR_URL}/v1" }\n${upstreams}models:\n${Object.entries(
    models,
  )
    .map(([id, model]) => modelLine({ id, model, upstream: id.startsWith("chat") ? "chat" : "simulator" }))
    .join("")}${more}`;

export interface Frame {
  type: string;
  stream_id?: string;
  status?: number;
  delta?: string;
  error?: { type: string; code: string | null; message: string; param: string | null; headers: Record<string, string> };
  response: {
    id: string;
    status: string;
    model: string;
    output: { type: string }[];
    usage: { input_tokens: number } | null;
    store?: boolean;
    previous_response_id?: string | null;
  };
  steer?: unknown;
}

export class Bare implements Disposable {
  readonly socket: WebSocket;
  readonly closed: Promise<{ code: number; reason: string }>;
  readonly #frames: Frame[] = [];
  #wake: () => void = () => undefined;

  private constructor(socket: WebSocket) {
    this.socket = socket;
    socket.on("message", (data) => {
      this.#frames.push(JSON.parse(String(data)));
      this.#wake();
    });
    socket.on("error", () => undefined);
    this.closed = once(socket, "close").then(([code, reason]) => ({ code, reason: String(reason) }));
    void this.closed.then(() => this.#wake());
  }

  /** Opens a socket; rejects with the answer's status and body if it is refused. */
  static async open(url: string, key: string, options: ClientOptions = {}): Promise<Bare> {
    const socket = new WebSocket(`${url.replace("http", "ws")}/v1/responses`, {
      headers: { authorization: `Bearer ${key}` },
      ...options,
    });
    const bare = new Bare(socket);
    await new Promise<void>((resolve, reject) => {
      socket.once("open", resolve);
      socket.once("error", reject);
      socket.once("unexpected-response", (_request, response: IncomingMessage) => {
        response
          .toArray()
          .then(
            (parts) => reject(Object.assign(new Error(), { response, body: Buffer.concat(parts).toString() })),
            reject,
          );
      });
    });
    return bare;
  }

  send(frame: object | string): void {
    this.socket.send(typeof frame === "string" ? frame : JSON.stringify(frame));
  }

  create(fields: object): void {
    this.send({ type: "response.create", ...fields });
  }

  async next(): Promise<Frame> {
    while (this.#frames.length === 0) {
      if (this.socket.readyState === WebSocket.CLOSED) throw new Error("the socket is closed");
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    return this.#frames.shift() as Frame;
  }

  /** The next frame of this type; those before it are passed over. */
  async until(...types: string[]): Promise<Frame> {
    for (;;) {
      const frame = await this.next();
      if (types.includes(frame.type)) return frame;
    }
  }

  /** Asks, and waits for the answer's end. */
  async turn(fields: object): Promise<Frame> {
    this.create(fields);
    return this.until("response.completed", "response.incomplete", "response.failed", "error");
  }

  [Symbol.dispose](): void {
    this.socket.terminate();
  }
}
