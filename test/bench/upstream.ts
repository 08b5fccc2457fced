/**
 * The upstream of the bench: one process on raw sockets with answers made beforehand, for it shares
 * the cores with what is measured. What it answers is said by the model's name: `short-20` a whole
 * answer after 20 ms, `stream-64-20` a stream of 64 chunks at 20 ms, the first at once, each with
 * its number and the time it was sent, `image-2000000-1000` a picture of so many bytes after 1,000
 * ms.
 */
import { type AddressInfo, createServer, type Socket } from "node:net";
import { createWheel, createWheelEntry } from "../../apps/simulator/wheel.ts";
import { nowMicroseconds } from "./clock.ts";
import { stampOf } from "./stamp.ts";

/**
 * How a request's body is answered: at once or later; `leave` is called when the caller is gone.
 */
type Play = (socket: Socket, body: Body, leave: (forget: () => void) => void) => void;

interface Body {
  /** Does the caller want a stream's usage? */
  wantsUsage: boolean;
}

const wheel = createWheel();
const plays = new Map<string, Play>();

function whole(status: string, body: string): Buffer {
  return Buffer.from(
    `HTTP/1.1 ${status}\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  );
}

function later(answer: Buffer, afterMs: number): Play {
  if (afterMs === 0) return (socket) => void socket.write(answer);
  return (socket, _body, leave) => {
    const timer = createWheelEntry(() => socket.write(answer));
    wheel.set(timer, wheel.now() + afterMs);
    leave(() => wheel.remove(timer));
  };
}

const usage = { prompt_tokens: 20, completion_tokens: 64, total_tokens: 84 };

const shortAnswer = (model: string) =>
  whole(
    "200 OK",
    JSON.stringify({
      id: "chatcmpl-bench",
      object: "chat.completion",
      created: 1_767_225_600,
      model,
      choices: [
        {
          index: 0,
          message: { role: "assistant", content: "All is well at the other end of the wire." },
          finish_reason: "stop",
        },
      ],
      usage,
    }),
  );

const imageAnswer = (bytes: number) =>
  whole(
    "200 OK",
    JSON.stringify({ created: 1_767_225_600, data: [{ b64_json: "A".repeat(Math.ceil(bytes / 3) * 4) }] }),
  );

/** An event as a chunk of the HTTP body. */
const chunkOf = (event: string) => `${event.length.toString(16)}\r\n${event}\r\n`;

function stream(model: string, chunks: number, intervalMs: number): Play {
  const about = `"id":"chatcmpl-bench","object":"chat.completion.chunk","created":1767225600,"model":"${model}"`;
  const head =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n";
  const stampPlace = stampOf(0, 0);
  const [before, after] = chunkOf(
    `data: {${about},"choices":[{"index":0,"delta":{"role":"assistant","content":"${stampPlace}"},"finish_reason":null}]}\n\n`,
  ).split(stampPlace) as [string, string];
  const finish = chunkOf(`data: {${about},"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n`);
  const usageEvent = chunkOf(`data: {${about},"choices":[],"usage":${JSON.stringify(usage)}}\n\n`);
  const end = `${chunkOf("data: [DONE]\n\n")}0\r\n\r\n`;
  return (socket, body, leave) => {
    let number = 0;
    const beganMs = wheel.now();
    const timer = createWheelEntry(() => {
      const chunk = before + stampOf(number, nowMicroseconds()) + after;
      number++;
      const isLast = number === chunks;
      socket.write(
        (number === 1 ? head : "") + chunk + (isLast ? finish + (body.wantsUsage ? usageEvent : "") + end : ""),
        "latin1",
      );
      if (!isLast) wheel.set(timer, beganMs + number * intervalMs);
    });
    leave(() => wheel.remove(timer));
    timer.run(beganMs);
  };
}

function playOf(model: string): Play | undefined {
  const play = plays.get(model);
  if (play !== undefined) return play;
  const [kind, first = 0, second = 0] = model
    .split("-", 3)
    .map((part, place) => (place === 0 ? part : Number(part))) as [string, number?, number?];
  const made =
    kind === "short"
      ? later(shortAnswer(model), first)
      : kind === "stream"
        ? stream(model, first, second)
        : kind === "image"
          ? later(imageAnswer(first), second)
          : undefined;
  if (made !== undefined) plays.set(model, made);
  return made;
}

const badRequest = whole("400 Bad Request", '{"error":{"message":"The bench\'s upstream knows no such model."}}');
const lengthRequired = whole(
  "411 Length Required",
  '{"error":{"message":"The bench\'s upstream wants a Content-Length."}}',
);
const modelPattern = /"model" ?: ?"([a-z0-9-]+)"/;

/** One connection: its requests come one after the other, their bodies with a length. */
function serve(socket: Socket): void {
  let rest: Buffer | undefined;
  let text = "";
  let model: string | undefined;
  let bodyLeft = 0;
  let forget = () => {};
  const leave = (call: () => void) => {
    forget = call;
  };

  /**
   * The text of a body as far as it is needed: until the model's name is found, and the whole of a
   * small one.
   */
  const look = (part: Buffer) => {
    if (model !== undefined && text.length > 4_096) return;
    text += part.toString("latin1");
    model ??= modelPattern.exec(text)?.[1];
  };

  socket.on("data", (data) => {
    let input = rest === undefined ? data : Buffer.concat([rest, data]);
    rest = undefined;
    while (input.length > 0) {
      if (bodyLeft === 0) {
        const headEnd = input.indexOf("\r\n\r\n");
        if (headEnd < 0) {
          rest = input;
          return;
        }
        const length = /content-length: *(\d+)/i.exec(input.toString("latin1", 0, headEnd))?.[1];
        input = input.subarray(headEnd + 4);
        if (length === undefined) return void socket.end(lengthRequired);
        bodyLeft = Number(length);
        text = "";
        model = undefined;
      }
      const part = input.subarray(0, bodyLeft);
      look(part);
      bodyLeft -= part.length;
      input = input.subarray(part.length);
      if (bodyLeft > 0) return;
      const play = model === undefined ? undefined : playOf(model);
      if (play === undefined) socket.write(badRequest);
      else play(socket, { wantsUsage: text.includes('"include_usage"') }, leave);
    }
  });
  socket.on("close", () => forget());
  socket.on("error", () => socket.destroy());
}

const server = createServer({ noDelay: true }, serve);
server.listen({ host: "127.0.0.1", port: 0, backlog: 4_096 }, () => {
  process.send?.({ type: "listening", urls: { api: `http://127.0.0.1:${(server.address() as AddressInfo).port}` } });
});
process.on("SIGTERM", () => process.exit(0));
process.on("disconnect", () => process.exit(0));
