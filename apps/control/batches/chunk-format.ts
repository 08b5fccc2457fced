/**
 * The objects of a chunk of lines. Its input has a line with each request's ids and one with its
 * body. Its results are lines that begin with the place of the request in the chunk and the kind of
 * the result.
 */
import { createHash } from "node:crypto";
import type { RequestLine } from "./format.ts";

const newline = 0x0a;
const lineEnd = Buffer.from("\n");

export type ChunkLine = Omit<RequestLine, "model">;

/** Where a result belongs: OpenAI has a file for errors. */
export const resultKinds = ["output", "error"] as const;
export type ResultKind = (typeof resultKinds)[number];

export interface LineResult {
  /** In its chunk, from 0. */
  place: number;
  kind: ResultKind;
  bytes: Buffer;
}

export const encodeInput = (lines: readonly ChunkLine[]): Buffer =>
  Buffer.concat(
    lines.flatMap(({ customId = null, metadata = null, body }) => [
      Buffer.from(`${JSON.stringify([customId, metadata])}\n`),
      body,
      lineEnd,
    ]),
  );

export function decodeInput(bytes: Buffer): ChunkLine[] {
  const lines: ChunkLine[] = [];
  for (let at = 0; at < bytes.length; ) {
    const headEnd = bytes.indexOf(newline, at);
    const bodyEnd = bytes.indexOf(newline, headEnd + 1);
    const [customId, metadata] = JSON.parse(bytes.toString("utf8", at, headEnd)) as (string | null)[];
    lines.push({
      customId: customId ?? undefined,
      metadata: metadata ?? undefined,
      body: bytes.subarray(headEnd + 1, bodyEnd),
    });
    at = bodyEnd + 1;
  }
  return lines;
}

export const encodeResults = (results: readonly LineResult[]): Buffer =>
  Buffer.concat(
    results.flatMap(({ place, kind, bytes }) => [
      Buffer.from(`${place}${kind === "output" ? "+" : "-"}`),
      bytes,
      lineEnd,
    ]),
  );

export function* decodeResults(bytes: Buffer): Generator<LineResult> {
  for (let at = 0; at < bytes.length; ) {
    const end = bytes.indexOf(newline, at);
    const [head = "", place, sign] = /^(\d+)([+-])/.exec(bytes.toString("latin1", at, at + 12)) ?? [];
    yield {
      place: Number(place),
      kind: sign === "+" ? "output" : "error",
      bytes: bytes.subarray(at + head.length, end),
    };
    at = end + 1;
  }
}

/** The names of a batch's objects. */
export const objectNames = {
  /** Each run of the intake has names of its own. */
  input: (batch: string, run: number, place: number) => `batches/${batch}/${place}-input-${run}`,
  segment: (batch: string, place: number, segment: string) => `batches/${batch}/${place}-segment-${segment}`,
};

/** The objects of a chunk of an accepted batch. */
export const objectsOf = (
  { id, input_run }: { id: string; input_run: number },
  { place, segments }: { place: number; segments: readonly string[] },
): string[] => [
  objectNames.input(id, input_run, place),
  ...segments.map((segment) => objectNames.segment(id, place, segment)),
];

/** The id of a line's request, the same in every run: 128 bits. */
export const lineIdOf = (batch: string, line: number): string =>
  createHash("sha256").update(`${batch} ${line}`).digest("hex").slice(0, 32);
