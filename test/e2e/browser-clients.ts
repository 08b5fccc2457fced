/**
 * The official clients in a page. browsers.test.ts bundles this file and calls these functions in
 * Chromium.
 */
import Anthropic from "@anthropic-ai/sdk";
import { GoogleGenAI } from "@google/genai";
import OpenAI from "openai";

interface Target {
  url: string;
  key: string;
  model: string;
}

/** A client's answers, as a page got them. */
interface Asked {
  whole: string;
  streamed: string;
  chunks: number;
  requestIds: (string | null | undefined)[];
}

/** A failed call, as a page sees it. Without a status, the browser kept the response from it. */
interface Failed {
  status: number | undefined;
  retryAfter?: string | null | undefined;
  requestId?: string | null | undefined;
}

const messages = [{ role: "user" as const, content: "hello" }];

const openaiOf = ({ url, key }: Target) =>
  new OpenAI({ baseURL: `${url}/v1`, apiKey: key, dangerouslyAllowBrowser: true, maxRetries: 0 });
const anthropicOf = ({ url, key }: Target) =>
  new Anthropic({ baseURL: url, apiKey: key, dangerouslyAllowBrowser: true, maxRetries: 0 });
const googleOf = ({ url, key }: Target) => new GoogleGenAI({ apiKey: key, httpOptions: { baseUrl: url } });

const clients = {
  async openai(target: Target): Promise<Asked> {
    const { model } = target;
    const { completions } = openaiOf(target).chat;
    const { data, response } = await completions.create({ model, messages }).withResponse();
    const stream = await completions.create({ model, messages, stream: true }).withResponse();
    const texts: string[] = [];
    for await (const { choices } of stream.data) texts.push(choices[0]?.delta.content ?? "");
    return {
      whole: data.choices[0]?.message.content ?? "",
      streamed: texts.join(""),
      chunks: texts.length,
      requestIds: [response, stream.response].map(({ headers }) => headers.get("x-request-id")),
    };
  },

  async anthropic(target: Target): Promise<Asked> {
    const { model } = target;
    const client = anthropicOf(target);
    const { data, response } = await client.messages.create({ model, messages, max_tokens: 1000 }).withResponse();
    const stream = await client.messages.create({ model, messages, max_tokens: 1000, stream: true }).withResponse();
    const texts: string[] = [];
    for await (const event of stream.data)
      if (event.type === "content_block_delta" && event.delta.type === "text_delta") texts.push(event.delta.text);
    return {
      whole: data.content.map((block) => (block.type === "text" ? block.text : "")).join(""),
      streamed: texts.join(""),
      chunks: texts.length,
      requestIds: [response, stream.response].map(({ headers }) => headers.get("request-id")),
    };
  },

  async google(target: Target): Promise<Asked> {
    const { model } = target;
    const client = googleOf(target);
    const whole = await client.models.generateContent({ model, contents: "hello" });
    const texts: string[] = [];
    const requestIds = [whole.sdkHttpResponse?.headers?.["x-request-id"]];
    for await (const { text, sdkHttpResponse } of await client.models.generateContentStream({
      model,
      contents: "hello",
    })) {
      texts.push(text ?? "");
      requestIds[1] = sdkHttpResponse?.headers?.["x-request-id"];
    }
    return { whole: whole.text ?? "", streamed: texts.join(""), chunks: texts.length, requestIds };
  },
};

const failures: Record<keyof typeof clients, (target: Target) => Promise<Failed>> = {
  openai: (target) =>
    openaiOf(target)
      .chat.completions.create({ model: target.model, messages })
      .then(answered, (error: { status?: number; headers?: Headers; requestID?: string }) => ({
        status: error.status,
        retryAfter: error.headers?.get("retry-after"),
        requestId: error.requestID,
      })),
  anthropic: (target) =>
    anthropicOf(target)
      .messages.create({ model: target.model, messages, max_tokens: 1000 })
      .then(answered, (error: { status?: number; headers?: Headers; requestID?: string }) => ({
        status: error.status,
        retryAfter: error.headers?.get("retry-after"),
        requestId: error.requestID,
      })),
  google: (target) =>
    googleOf(target)
      .models.generateContent({ model: target.model, contents: "hello" })
      .then(answered, ({ status }: { status?: number }) => ({ status })),
};

const answered = (): Failed => ({ status: 200 });

declare global {
  /** Global variable of the page, through which a test calls the clients. */
  var inPage: { clients: typeof clients; failures: typeof failures };
}

globalThis.inPage = { clients, failures };
