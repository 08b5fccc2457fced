/**
 * The common part of the tests of sessions: a catalogue, the official clients, and a bare socket
 * whose messages are read one by one.
 */
import { connect } from "node:net";
import { OpenAIRealtimeWS } from "openai/realtime/ws";
import { type ClientOptions, WebSocket } from "ws";
import type { Gateway } from "../support/gateway.ts";

/**
 * Models whose upstreams speak OpenAI's Realtime, and those with `live` in their names, whose
 * upstreams speak Gemini's Live.
 */
export const realtimeCatalogue = (models: Record<string, string>, upstreams = "", more = "", groups = "") =>
  `groups:\n  default: { models: ["*"] }\n${groups}upstreams:\n  openai: { dialect: openai-chat, baseUrl: "\${SIMULATOR_URL}/v1" }\n  google: { dialect: gemini, baseUrl: "\${SIMULATOR_URL}/v1beta" }\n${upstreams}models:\n${Object.entries(
    models,
  )
    .map(
      ([id, model]) =>
        `  - { id: "${id}", retries: 1, queue: realtime, prices: { inputPerMillion: 1, outputPerMillion: 2 }, route: [{ upstream: ${id.includes("live") ? "google" : "openai"}, model: "${model}" }] }\n`,
    )
    .join("")}${more}`;

// biome-ignore lint/suspicious/noExplicitAny: the tests read what a caller receives, whatever its shape.
export type Message = any;

/** A caller's socket. */
export class BareSession implements Disposable {
  readonly socket: WebSocket;
  readonly closed: Promise<{ code: number; reason: string }>;
  /** Whether each message was binary. */
  readonly binary: boolean[] = [];
  readonly #messages: Message[] = [];
  #wake: () => void = () => undefined;

  private constructor(socket: WebSocket) {
    this.socket = socket;
    socket.on("message", (data: Buffer, isBinary) => {
      this.binary.push(isBinary);
      this.#messages.push(JSON.parse(data.toString()));
      this.#wake();
    });
    socket.on("error", () => undefined);
    this.closed = new Promise((resolve) =>
      socket.once("close", (code, reason) => resolve({ code, reason: String(reason) })),
    );
    void this.closed.then(() => this.#wake());
  }

  /** Opens a socket; rejects with the status of a refused handshake. */
  static async open(url: string, options: ClientOptions = {}, protocols: string[] = []): Promise<BareSession> {
    const socket = new WebSocket(url.replace("http", "ws"), protocols, options);
    const session = new BareSession(socket);
    await new Promise<void>((resolve, reject) => {
      socket.once("open", resolve);
      socket.once("error", reject);
    });
    return session;
  }

  send(message: unknown): void {
    this.socket.send(typeof message === "string" ? message : JSON.stringify(message));
  }

  async next(): Promise<Message> {
    while (this.#messages.length === 0) {
      if (this.socket.readyState === WebSocket.CLOSED) throw new Error("the socket is closed");
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    return this.#messages.shift();
  }

  /** The next message of which this holds; those before it are passed over. */
  async until(holds: string | ((message: Message) => boolean)): Promise<Message> {
    for (;;) {
      const message = await this.next();
      if (typeof holds === "string" ? message.type === holds : holds(message)) return message;
    }
  }

  /** Says something at OpenAI's Realtime, and waits for the end of the answer. */
  async say(text: string): Promise<Message> {
    this.send({
      type: "conversation.item.create",
      item: { type: "message", role: "user", content: [{ type: "input_text", text }] },
    });
    this.send({ type: "response.create" });
    return this.until("response.done");
  }

  [Symbol.dispose](): void {
    this.socket.terminate();
  }
}

export const openSession = (
  { url, key }: Pick<Gateway, "url" | "key">,
  model: string,
  options: ClientOptions = {},
): Promise<BareSession> =>
  BareSession.open(`${url}/v1/realtime?model=${model}`, { headers: { authorization: `Bearer ${key}` }, ...options });

export const openLive = ({ url, key }: Pick<Gateway, "url" | "key">, version = "v1beta"): Promise<BareSession> =>
  BareSession.open(
    `${url}/ws/google.ai.generativelanguage.${version}.GenerativeService.BidiGenerateContent?key=${key}`,
  );

/** The official client always uses wss:, so its connection is opened without TLS in its place. */
export const officialSession = ({ url, client }: Gateway, model: string, key?: string): OpenAIRealtimeWS => {
  const { hostname, port } = new URL(url);
  const createConnection = () => connect(Number(port), hostname);
  return new OpenAIRealtimeWS(
    { model, options: { createConnection } as ClientOptions },
    client(key === undefined ? {} : { key }),
  );
};

/** A line for `models`: a token costs 1, so that money counts tokens. */
export const pricedLine = (id: string, upstream: string, model: string) =>
  `  - { id: ${id}, queue: realtime, retries: 0, prices: { inputPerMillion: 1000000, outputPerMillion: 1000000 }, route: [{ upstream: ${upstream}, model: "${model}" }] }\n`;
