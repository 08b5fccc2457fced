/** A collector of traces: receives OTLP over HTTP as protobuf, and decodes it. */
import type { ServerResponse } from "node:http";
import { gunzipSync } from "node:zlib";
import { startScriptedUpstream } from "./upstream.ts";

export type Value = string | number | boolean | Value[];

export interface ReceivedSpan {
  traceId: string;
  spanId: string;
  /** "" for none. */
  parentSpanId: string;
  traceState: string;
  name: string;
  /** 1 internal, 2 server, 3 client, 4 producer, 5 consumer. */
  kind: number;
  /** Epoch milliseconds. */
  startedAt: number;
  endedAt: number;
  attributes: Record<string, Value>;
  events: { name: string; at: number; attributes: Record<string, Value> }[];
  links: { traceId: string; spanId: string }[];
  /** 0 unset, 1 ok, 2 error. */
  status: number;
  /** The service's name of its resource. */
  service: Value | undefined;
}

export interface Collector extends AsyncDisposable {
  readonly url: string;
  readonly spans: ReceivedSpan[];
  readonly headers: Record<string, unknown>[];
  /** Answers in place of the collector, which then keeps nothing. */
  answer: ((response: ServerResponse) => void) | undefined;
}

export async function startCollector(): Promise<Collector> {
  const spans: ReceivedSpan[] = [];
  const headers: Record<string, unknown>[] = [];
  const server = await startScriptedUpstream((response, request) => {
    headers.push({ ...request.headers, path: request.path });
    if (collector.answer !== undefined) return collector.answer(response);
    spans.push(...spansIn(request.headers["content-encoding"] === "gzip" ? gunzipSync(request.body) : request.body));
    response.writeHead(200, { "content-type": "application/x-protobuf" }).end();
  });
  const collector: Collector = {
    url: server.origin,
    spans,
    headers,
    answer: undefined,
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
  return collector;
}

/** The fields of a message by number: https://protobuf.dev/programming-guides/encoding/ */
type Fields = Map<number, (bigint | Buffer)[]>;

function fieldsIn(message: Buffer): Fields {
  const fields: Fields = new Map();
  let at = 0;
  const varint = () => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = message[at++] as number;
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  };
  const bytes = (length: number) => {
    at += length;
    if (at > message.length) throw new Error("a field is longer than its message");
    return message.subarray(at - length, at);
  };
  while (at < message.length) {
    const tag = Number(varint());
    const type = tag & 7;
    const value = type === 0 ? varint() : type === 2 ? bytes(Number(varint())) : bytes(type === 1 ? 8 : 4);
    fields.set(tag >> 3, [...(fields.get(tag >> 3) ?? []), value]);
  }
  return fields;
}

const messages = (fields: Fields, field: number) => (fields.get(field) ?? []).map((each) => fieldsIn(each as Buffer));
const bufferOf = (fields: Fields, field: number) => (fields.get(field)?.[0] ?? Buffer.alloc(0)) as Buffer;
const textOf = (fields: Fields, field: number) => bufferOf(fields, field).toString();
const hexOf = (fields: Fields, field: number) => bufferOf(fields, field).toString("hex");
const numberOf = (fields: Fields, field: number) => Number(fields.get(field)?.[0] ?? 0n);
const timeOf = (fields: Fields, field: number) => Number(bufferOf(fields, field).readBigUInt64LE()) / 1e6;

function contentOf(value: Fields): Value {
  if (value.has(1)) return textOf(value, 1);
  if (value.has(2)) return numberOf(value, 2) === 1;
  if (value.has(3)) return numberOf(value, 3);
  if (value.has(4)) return bufferOf(value, 4).readDoubleLE();
  return messages(value, 5).flatMap((list) => messages(list, 1).map(contentOf));
}

const attributesOf = (fields: Fields, field: number): Record<string, Value> =>
  Object.fromEntries(
    messages(fields, field).map((pair) => [textOf(pair, 1), contentOf(messages(pair, 2)[0] ?? new Map())]),
  );

const spansIn = (request: Buffer): ReceivedSpan[] =>
  messages(fieldsIn(request), 1).flatMap((resourceSpans) => {
    const service = messages(resourceSpans, 1).map((resource) => attributesOf(resource, 1))[0]?.["service.name"];
    return messages(resourceSpans, 2).flatMap((scopeSpans) =>
      messages(scopeSpans, 2).map((span) => ({
        traceId: hexOf(span, 1),
        spanId: hexOf(span, 2),
        traceState: textOf(span, 3),
        parentSpanId: hexOf(span, 4),
        name: textOf(span, 5),
        kind: numberOf(span, 6),
        startedAt: timeOf(span, 7),
        endedAt: timeOf(span, 8),
        attributes: attributesOf(span, 9),
        events: messages(span, 11).map((event) => ({
          name: textOf(event, 2),
          at: timeOf(event, 1),
          attributes: attributesOf(event, 3),
        })),
        links: messages(span, 13).map((link) => ({ traceId: hexOf(link, 1), spanId: hexOf(link, 2) })),
        status: messages(span, 15).map((status) => numberOf(status, 3))[0] ?? 0,
        service,
      })),
    );
  });
