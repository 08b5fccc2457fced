/**
 * Gemini's Live: https://ai.google.dev/api/live. It repeats the texts and the audio that it
 * received.
 */
import type { Settings } from "../settings.ts";
import { estimateOf, type SessionDialect, type SessionPort, type SimulatedSession, tokensOf } from "./session.ts";

const path = /^\/ws\/google\.ai\.generativelanguage\.v1(?:beta|alpha)?\.GenerativeService\.BidiGenerateContent$/;
const invalidPayload = 1007;

interface ClientMessage {
  setup?: { model?: string };
  clientContent?: Turns;
  client_content?: Turns;
  realtimeInput?: Realtime;
  realtime_input?: Realtime;
  toolResponse?: object;
  tool_response?: object;
}

interface Turns {
  turns?: { parts?: { text?: string }[] }[];
  turnComplete?: boolean;
  turn_complete?: boolean;
}

interface Realtime {
  text?: string;
  audio?: { data: string; mimeType?: string; mime_type?: string };
}

export const geminiLive: SessionDialect = {
  serves: (requestPath) => path.test(requestPath),
  credentialOf: ({ headers, query }) => String(headers["x-goog-api-key"] ?? query.get("key") ?? ""),
  modelOf: () => undefined,
  modelIn(message) {
    try {
      return String((JSON.parse(message) as ClientMessage).setup?.model ?? "").replace(/^models\//, "");
    } catch {
      return "";
    }
  },
  open: (model, settings, port) => new GeminiSession(model, settings, port),
};

class GeminiSession implements SimulatedSession {
  readonly #settings: Settings;
  readonly #port: SessionPort;
  readonly #hasModel: boolean;
  #isSetUp = false;
  #texts: string[] = [];
  #contextTokens = 0;

  constructor(model: string, settings: Settings, port: SessionPort) {
    this.#hasModel = model !== "";
    this.#settings = settings;
    this.#port = port;
  }

  receive(text: string): void {
    const fault = this.#faultOf(text);
    if (fault !== undefined) this.#port.close(invalidPayload, fault);
  }

  /** Acts on a message; the reason to close the connection if it is not valid. */
  #faultOf(text: string): string | undefined {
    let message: ClientMessage;
    try {
      message = JSON.parse(text) as ClientMessage;
    } catch {
      return "Request contains an invalid argument: not JSON.";
    }
    if (!this.#isSetUp) return this.#setUp(message);
    const content = message.clientContent ?? message.client_content;
    const realtime = message.realtimeInput ?? message.realtime_input;
    if (content !== undefined) this.#addTurns(content);
    else if (realtime !== undefined) this.#hear(realtime);
    else if (message.toolResponse === undefined && message.tool_response === undefined)
      return `Invalid JSON payload received. Unknown name "${Object.keys(message)[0]}".`;
    return undefined;
  }

  #setUp({ setup }: ClientMessage): string | undefined {
    if (!this.#hasModel || setup?.model?.startsWith("models/") !== true)
      return "setup must be the first message and only the first.";
    this.#isSetUp = true;
    this.#port.send({ setupComplete: {} }, true);
    return undefined;
  }

  #addTurns({ turns = [], ...rest }: Turns): void {
    for (const { parts = [] } of turns) for (const { text } of parts) if (text !== undefined) this.#texts.push(text);
    if ((rest.turnComplete ?? rest.turn_complete) === true) this.#answer();
  }

  #hear({ text, audio }: Realtime): void {
    if (audio !== undefined) {
      const inlineData = { mimeType: audio.mimeType ?? audio.mime_type, data: audio.data };
      this.#port.send({ serverContent: { modelTurn: { parts: [{ inlineData }] } } });
    }
    if (text === undefined) return;
    this.#texts.push(text);
    this.#answer();
  }

  #answer(): void {
    const parts = tokensOf(`You said: ${this.#texts.join(" ")}`, this.#settings);
    const input = this.#contextTokens + this.#texts.reduce((sum, text) => sum + estimateOf(text), 0);
    this.#texts = [];
    this.#contextTokens = input + parts.length;
    this.#port.play(
      parts.map((text) => ({ serverContent: { modelTurn: { parts: [{ text }] } } })),
      () => {
        this.#port.send({ serverContent: { generationComplete: true } });
        const usageMetadata = {
          promptTokenCount: input,
          responseTokenCount: parts.length,
          totalTokenCount: input + parts.length,
        };
        this.#port.send({ serverContent: { turnComplete: true }, usageMetadata });
      },
    );
  }
}
