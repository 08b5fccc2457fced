/**
 * How many processes a number of open streams needs. The costs are those that docs/performance.md
 * measures for a chunk that travels alone; busy processes gather chunks, and need less. `npm run
 * reference` writes the table of docs/queues-and-scaling.md.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";
import { numberTableOf, withMarked } from "../../docs/tables.ts";

const root = join(import.meta.dirname, "..", "..");

/** CPU time of a chunk in each kind of process, in microseconds. */
export const chunkCosts = { worker: 43, ingress: 36, redis: 6 };
/** Bytes of a chunk that travels alone: so many reach Redis, and leave it. */
export const chunkBytes = 380;
/** The share of a core, and of the limits of a process, that is used. */
const utilization = 0.7;
/** Streams of one cell: a gateway of its own, with its own Redis. */
const cellStreamsMax = 100_000;
/** More of a role is one that stops or fails. */
const spare = 1;

/** How many streams the settings of a process allow. */
export interface Limits {
  /** The slots of a worker. */
  workerStreams: number;
  /** GENERATIONS_MAX of an ingress. */
  ingressStreams: number;
}

export interface Size {
  streams: number;
  chunksPerSecond: number;
  cells: number;
  /** In all cells. */
  workers: number;
  ingresses: number;
  redisPrimaries: number;
  /** Bits per second that reach all Redis primaries; as many leave them. */
  redisBits: number;
}

/** Processes use one core each. */
export function sizeOf(streams: number, chunksOfStream: number, limits: Limits): Size {
  const cells = Math.ceil(streams / cellStreamsMax);
  const cellStreams = streams / cells;
  const chunks = cellStreams * chunksOfStream;
  const cores = (microseconds: number) => (chunks * microseconds) / 1e6 / utilization;
  const processes = (microseconds: number, streamsMax: number) =>
    Math.ceil(Math.max(cores(microseconds), cellStreams / (streamsMax * utilization))) + spare;
  return {
    streams,
    chunksPerSecond: streams * chunksOfStream,
    cells,
    workers: cells * processes(chunkCosts.worker, limits.workerStreams),
    ingresses: cells * processes(chunkCosts.ingress, limits.ingressStreams),
    redisPrimaries: cells * Math.ceil(cores(chunkCosts.redis)),
    redisBits: streams * chunksOfStream * chunkBytes * 8,
  };
}

/** The chart's setting of a worker, and the default of an ingress. */
export function defaultLimits(): Limits {
  const textOf = (file: string) => readFileSync(join(root, file), "utf8");
  const { workers } = parse(textOf("infra/kubernetes/sluice/values.yaml")) as {
    workers: { chat: { queues: { chat: number } } };
  };
  const [, generationsMax = ""] = /^\| `GENERATIONS_MAX` \| `(\d+)`/m.exec(textOf("docs/reference.md")) ?? [];
  return { workerStreams: workers.chat.queues.chat, ingressStreams: Number(generationsMax) };
}

const streamCounts = [100, 1_000, 5_000, 10_000, 50_000, 100_000, 1_000_000];
export const chunksOfStream = 20;

/** Markdown, for docs/queues-and-scaling.md. */
export function sizingTable(): string {
  const count = (value: number) => value.toLocaleString("en");
  const bits = (value: number) =>
    value < 1e9 ? `${Math.ceil(value / 1e6)} Mbit/s` : `${(value / 1e9).toFixed(1)} Gbit/s`;
  const rows = streamCounts.map((streams) => {
    const size = sizeOf(streams, chunksOfStream, defaultLimits());
    const { chunksPerSecond, cells, workers, ingresses, redisPrimaries, redisBits } = size;
    return [...[streams, chunksPerSecond, cells, workers, ingresses, redisPrimaries].map(count), bits(redisBits)];
  });
  const head = ["streams", "chunks/s", "cells", "workers", "ingresses", "Redis primaries", "into Redis"];
  return numberTableOf(head, rows);
}

/** The text of docs/queues-and-scaling.md with the table of today. */
export const withSizes = (page: string): string => withMarked(page, "sizing", sizingTable());

export const sizingPage = join(root, "docs/queues-and-scaling.md");

if (import.meta.main) writeFileSync(sizingPage, withSizes(readFileSync(sizingPage, "utf8")));
