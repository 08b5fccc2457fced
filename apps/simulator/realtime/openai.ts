/**
 * OpenAI's Realtime: https://platform.openai.com/docs/api-reference/realtime-server-events. It
 * repeats the texts and the audio that it received.
 */

import { Refused, refuse } from "../dialects/dialect.ts";
import { openaiErrorOf } from "../dialects/openai.ts";
import type { Settings } from "../settings.ts";
import { estimateOf, type SessionDialect, type SessionPort, type SimulatedSession, tokensOf } from "./session.ts";

interface Item {
  id: string;
  type: string;
  role?: string;
  content?: { type: string; text?: string; audio?: string }[];
  output?: string;
}

interface ClientEvent {
  type: string;
  event_id?: string;
  session?: {
    type?: string;
    model?: string;
    output_modalities?: string[];
    audio?: { input?: { transcription?: { model?: string } } };
    [name: string]: unknown;
  };
  item?: Item;
  item_id?: string;
  content_index?: number;
  audio_end_ms?: number;
  audio?: string;
  response?: object;
}

export const openaiRealtime: SessionDialect = {
  serves: (path) => path === "/v1/realtime",
  credentialOf: ({ headers }) => headers.authorization?.replace(/^Bearer /, ""),
  modelOf: ({ query }) => (query.get("intent") === "transcription" ? undefined : (query.get("model") ?? "")),
  modelIn: (message) => transcriptionModelOf(eventOf(message)) ?? "",
  open: (model, settings, port) => new OpenaiSession(model, settings, port),
};

function eventOf(message: string): ClientEvent {
  try {
    return JSON.parse(message) as ClientEvent;
  } catch {
    refuse("The message is not JSON.", undefined, { code: "invalid_json" });
  }
}

/** https://developers.openai.com/api/docs/guides/realtime-transcription */
const transcriptionModelOf = ({ session }: ClientEvent) =>
  session?.type === "transcription" ? session.audio?.input?.transcription?.model : undefined;

/** https://platform.openai.com/docs/api-reference/realtime-client-events/conversation/item/create */
const itemTypes = ["function_call", "function_call_output", "mcp_approval_response"];

class OpenaiSession implements SimulatedSession {
  readonly #model: string;
  readonly #settings: Settings;
  readonly #port: SessionPort;
  #session: Record<string, unknown>;
  #audio: string[] = [];
  #texts: string[] = [];
  readonly #items = new Map<string, object>();
  #contextTokens = 0;
  #count = 0;
  #isAnswering = false;

  constructor(model: string, settings: Settings, port: SessionPort) {
    this.#model = model;
    this.#settings = settings;
    this.#port = port;
    this.#session = {
      type: "realtime",
      object: "realtime.session",
      id: "sess_1",
      model,
      output_modalities: ["audio"],
      expires_at: 1_790_003_600,
    };
    this.#send({ type: "session.created", session: this.#session });
  }

  receive(message: string, isBinary: boolean): void {
    if (isBinary) {
      this.#port.close(1003, "Send text messages.");
      return;
    }
    let event: ClientEvent | undefined;
    try {
      event = eventOf(message);
      this.#act(event);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      this.#send({ type: "error", error: { ...openaiErrorOf(error.fault), event_id: event?.event_id ?? null } });
    }
  }

  #act(event: ClientEvent): void {
    switch (event.type) {
      case "session.update":
        this.#update(event);
        return;
      case "conversation.item.create":
        this.#add(event);
        return;
      case "conversation.item.retrieve":
        this.#send({ type: "conversation.item.retrieved", item: this.#itemIn(event) });
        return;
      case "conversation.item.truncate":
        this.#truncate(event);
        return;
      case "conversation.item.delete":
        this.#itemIn(event);
        this.#items.delete(String(event.item_id));
        this.#send({ type: "conversation.item.deleted", item_id: event.item_id });
        return;
      case "input_audio_buffer.append":
        this.#hear(event);
        return;
      case "input_audio_buffer.commit":
        this.#commit();
        return;
      case "input_audio_buffer.clear":
        this.#audio = [];
        this.#send({ type: "input_audio_buffer.cleared" });
        return;
      case "response.create":
        if (this.#isAnswering)
          refuse("A response is in progress.", undefined, { code: "conversation_already_has_active_response" });
        this.#answer();
        return;
      case "response.cancel":
        if (!this.#isAnswering)
          refuse("No response is in progress.", undefined, { code: "response_cancel_not_active" });
        return;
      default:
        refuse(`There is no event ${String(event.type).slice(0, 40)}.`, "type", { code: "invalid_value" });
    }
  }

  #hear({ audio }: ClientEvent): void {
    if (typeof audio !== "string" || Buffer.from(audio, "base64").toString("base64") !== audio)
      refuse("'audio' must be base64.", "audio", { code: "invalid_value" });
    this.#audio.push(audio);
  }

  #update(event: ClientEvent): void {
    const { session } = event;
    if (session !== undefined && transcriptionModelOf(event) === this.#model) {
      this.#session = { object: "realtime.session", id: "sess_1", ...session };
      this.#send({ type: "session.updated", session: this.#session });
      return;
    }
    if (session?.type !== "realtime")
      refuse("'session.type' must be realtime.", "session.type", { code: "invalid_value" });
    if (session.model !== undefined && session.model !== this.#model)
      refuse("The model cannot be changed.", "session.model", { code: "invalid_value" });
    this.#session = { ...this.#session, ...session };
    this.#send({ type: "session.updated", session: this.#session });
  }

  /** In a transcription session, what was heard is written down. */
  #commit(): void {
    const id = this.#id("item");
    this.#send({ type: "input_audio_buffer.committed", previous_item_id: null, item_id: id });
    if (this.#session.type !== "transcription") return;
    const audio = this.#audio.reduce((sum, one) => sum + Math.ceil(one.length / 100), 0);
    const place = { item_id: id, content_index: 0 };
    const transcript = "The simulator heard you.";
    const name = "conversation.item.input_audio_transcription";
    const deltas = tokensOf(transcript, this.#settings);
    const usage = {
      type: "tokens",
      total_tokens: audio + deltas.length,
      input_tokens: audio,
      output_tokens: deltas.length,
      input_token_details: { text_tokens: 0, audio_tokens: audio },
    };
    this.#audio = [];
    this.#port.play(
      deltas.map((delta) => this.#event({ type: `${name}.delta`, ...place, delta })),
      () => this.#send({ type: `${name}.completed`, ...place, transcript, usage }),
    );
  }

  #add(event: ClientEvent): void {
    const { item } = event;
    const isItem = item?.type === "message" ? Array.isArray(item.content) : itemTypes.includes(String(item?.type));
    if (item === undefined || !isItem)
      refuse("'item' must be a message with content, a call or its output.", "item", { code: "invalid_value" });
    const added = { ...item, id: item.id ?? this.#id("item"), object: "realtime.item", status: "completed" };
    this.#items.set(added.id, added);
    for (const { text } of item.content ?? []) if (text !== undefined) this.#texts.push(text);
    if (item.output !== undefined) this.#texts.push(item.output);
    this.#send({ type: "conversation.item.added", previous_item_id: null, item: added });
    this.#send({ type: "conversation.item.done", previous_item_id: null, item: added });
  }

  /** The item that an event names. */
  #itemIn({ item_id: id }: ClientEvent): object {
    return this.#items.get(String(id)) ?? refuse("There is no such item.", "item_id", { code: "invalid_value" });
  }

  /** Only the assistant's messages can be truncated. */
  #truncate(event: ClientEvent): void {
    const { item_id, content_index, audio_end_ms } = event;
    if ((this.#itemIn(event) as Item).role !== "assistant")
      refuse("Only messages of the assistant can be truncated.", "item_id", { code: "invalid_value" });
    this.#send({ type: "conversation.item.truncated", item_id, content_index, audio_end_ms });
  }

  #answer(): void {
    const id = this.#id("resp");
    const isAudio = this.#audio.length > 0;
    const place = { response_id: id, item_id: this.#id("item"), output_index: 0, content_index: 0 };
    const answerText = `You said: ${this.#texts.join(" ")}`;
    const item = { id: place.item_id, object: "realtime.item", type: "message", role: "assistant" };
    const part = isAudio ? { type: "output_audio", transcript: answerText } : { type: "output_text", text: answerText };
    const base = { object: "realtime.response", id, output: [] as object[], usage: null as object | null };
    const deltas = isAudio
      ? this.#audio.map((delta) => ({ type: "response.output_audio.delta", ...place, delta }))
      : tokensOf(answerText, this.#settings).map((delta) => ({ type: "response.output_text.delta", ...place, delta }));
    const usage = this.#usageOf(deltas.length, isAudio);
    this.#isAnswering = true;
    this.#send({ type: "response.created", response: { ...base, status: "in_progress" } });
    this.#send({
      type: "response.output_item.added",
      response_id: id,
      output_index: 0,
      item: { ...item, status: "in_progress", content: [] },
    });
    this.#port.play(
      deltas.map((delta) => this.#event(delta)),
      () => {
        const done = { ...item, status: "completed", content: [part] };
        this.#items.set(item.id, done);
        this.#isAnswering = false;
        this.#audio = [];
        this.#texts = [];
        this.#send(
          isAudio
            ? { type: "response.output_audio.done", ...place }
            : { type: "response.output_text.done", ...place, text: answerText },
        );
        this.#send({ type: "response.output_item.done", response_id: id, output_index: 0, item: done });
        this.#send({ type: "response.done", response: { ...base, status: "completed", output: [done], usage } });
      },
    );
  }

  #usageOf(output: number, isAudio: boolean): object {
    const cached = this.#contextTokens;
    const text = this.#texts.reduce((sum, one) => sum + estimateOf(one), 0);
    const audio = this.#audio.reduce((sum, one) => sum + Math.ceil(one.length / 100), 0);
    const input = cached + text + audio;
    this.#contextTokens = input + output;
    return {
      total_tokens: input + output,
      input_tokens: input,
      output_tokens: output,
      input_token_details: { text_tokens: cached + text, audio_tokens: audio, image_tokens: 0, cached_tokens: cached },
      output_token_details: { text_tokens: isAudio ? 0 : output, audio_tokens: isAudio ? output : 0 },
    };
  }

  #send(event: object): void {
    this.#port.send(this.#event(event));
  }

  #event = (event: object): object => ({ event_id: this.#id("event"), ...event });

  #id(kind: string): string {
    return `${kind}_${++this.#count}`;
  }
}
