/**
 * A provider that misbehaves as the model's name says, as in Failover Bench's scenarios
 * (https://github.com/failoverbench/failoverbench, `scenarios/catalogue.yaml`, methodology 0.1,
 * profile `full`). Its healthy answer is always the same sixty words, and it continues a turn of
 * the assistant that begins them.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { dataEvent, jsonAnswer, startScriptedUpstream, type UpstreamAnswer } from "../support/upstream.ts";

const words = Array.from({ length: 60 }, (_, place) => `word${place + 1}`);
export const answer = words.join(" ");

export interface Call {
  /** In ms, of `performance.now()`. */
  at: number;
  isRefusedPrefill: boolean;
}

/** The part of a model's name before its mode, such as `s09`. */
const kindOf = (model: string): string => /^(?:s\d\d|ok-noprefill|ok)/.exec(model)?.[0] ?? "";

interface Asked {
  model: string;
  stream?: boolean;
  messages: { role: string; content: string }[];
}

export async function startProvider({ downMs }: { downMs: number }) {
  const calls = new Map<string, Call[]>();
  const startedAt = performance.now();

  const play: UpstreamAnswer = async (response, request) => {
    const { method, at } = request;
    if (method === "GET") return jsonAnswer({ object: "list", data: [] })(response);
    const { model, stream = false, messages }: Asked = request.json;
    const kind = kindOf(model);
    const ofModel = calls.get(model) ?? [];
    calls.set(model, ofModel);
    const call: Call = { at, isRefusedPrefill: false };
    ofModel.push(call);
    const isFirst = ofModel.length === 1;
    const refuse = (status: number, error: object, headers = {}) => jsonAnswer({ error }, status, headers)(response);
    const overloaded = () => refuse(503, { message: "The engine is currently overloaded.", type: "server_error" });
    const last = messages.at(-1);
    const begun = last?.role === "assistant" ? last.content.trim() : "";
    if (begun !== "" && kind === "ok-noprefill") {
      call.isRefusedPrefill = true;
      return refuse(400, {
        message:
          "This model does not support assistant message prefill. The conversation must end with a user message.",
        type: "invalid_request_error",
        code: "invalid_prefill",
        param: "messages",
      });
    }
    const rest = begun !== "" && answer.startsWith(begun) ? answer.slice(begun.length).split(" ").slice(1) : words;
    const isContinued = rest !== words;
    switch (kind) {
      case "s01":
        if (isFirst)
          return refuse(429, { message: "Rate limit reached.", code: "rate_limit_exceeded" }, { "retry-after": "2" });
        break;
      case "s02":
        return refuse(429, { message: "Rate limit reached.", code: "rate_limit_exceeded" });
      case "s03":
        if (isFirst) return refuse(500, { message: "The server had an error.", type: "server_error", code: null });
        break;
      case "s04":
      case "s16":
        return overloaded();
      case "s05":
        if (isFirst) return response.socket?.resetAndDestroy();
        break;
      case "s06":
        return;
      case "s12":
        return refuse(400, {
          message: "This model's maximum context length is 8192 tokens. Please reduce the length of the messages.",
          type: "invalid_request_error",
          code: "context_length_exceeded",
        });
      case "s13":
        return refuse(400, {
          message: "Your request was rejected as a result of our safety system.",
          type: "invalid_request_error",
          code: "content_policy_violation",
        });
      case "s15":
        if (performance.now() - startedAt < downMs) return overloaded();
        break;
      default:
    }
    const usage = { prompt_tokens: 21, completion_tokens: rest.length, total_tokens: 21 + rest.length };
    if (!stream) {
      if (kind === "s07") await sleep(20_000);
      const content = (isContinued ? " " : "") + rest.join(" ");
      const choices = [{ index: 0, message: { role: "assistant", content }, finish_reason: "stop" }];
      const body = JSON.stringify({ id: "theirs", object: "chat.completion", created: 1, model, choices, usage });
      const withLength = { "content-type": "application/json", "content-length": body.length };
      if (kind === "s08" || kind === "s14") {
        response.writeHead(200, withLength).write(body.slice(0, body.length * 0.6));
        await sleep(50);
        return response.destroy();
      }
      if (kind === "s09") {
        response.writeHead(200, withLength).flushHeaders();
        await sleep(30_000);
        return response.destroy();
      }
      return jsonAnswer(kind === "s10" ? `${body.slice(0, body.length / 2)}"oops` : body)(response);
    }
    response.writeHead(200, { "content-type": "text/event-stream" }).flushHeaders();
    if (kind === "s07") await sleep(20_000);
    const chunk = (more: object) =>
      response.write(
        dataEvent({ id: `theirs-${model}`, object: "chat.completion.chunk", created: 1, model, choices: [], ...more }),
      );
    const say = (delta: object, finish: string | null = null) =>
      chunk({ choices: [{ index: 0, delta, finish_reason: finish }] });
    say({ role: "assistant", content: "" });
    for (const [place, word] of rest.entries()) {
      if ((kind === "s08" || kind === "s14") && place === 40) return response.destroy();
      if (kind === "s09" && place === 20) {
        await sleep(30_000);
        return response.destroy();
      }
      if (kind === "s10" && place === 10) response.write('data: {"id":"theirs","choices":[{"delta":{"content": \n\n');
      say({ content: place > 0 || isContinued ? ` ${word}` : word });
      await sleep(15);
    }
    say({}, "stop");
    chunk({ usage });
    response.end(kind === "s11" ? "" : dataEvent("[DONE]"));
  };

  const server = await startScriptedUpstream(play);
  return {
    url: server.url,
    calls: (model: string) => calls.get(model) ?? [],
    /** How long the provider of `s15` has been running. */
    now: () => performance.now() - startedAt,
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
}
