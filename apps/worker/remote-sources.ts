/**
 * Fetches images and documents that a request names by address, for upstreams that don't: only from public addresses, looked at after resolution
 * and at every redirect, and bounded in size, time and type.
 */
import { lookup as resolve } from "node:dns";
import type { LookupFunction } from "node:net";
import ipaddr from "ipaddr.js";
import { Agent, request } from "undici";
import { Refusal } from "#wire/carry.ts";
import type { Source } from "#wire/neutral.ts";
import { mimeTypeOf, type RemoteSource } from "#wire/sources.ts";

const sourceBytesMax = 20 << 20;
const allBytesMax = 50 << 20;
const sourcesMax = 32;
const redirectsMax = 3;
/** For all that one request names. */
const timeoutMs = 15_000;
const atOnceMax = 4;
const connectTimeoutMs = 5_000;

/** What may be fetched for each kind of part. */
const mimeTypes: Record<RemoteSource["part"], readonly string[]> = {
  image: ["image/png", "image/jpeg", "image/gif", "image/webp"],
  file: ["application/pdf", "text/plain"],
};

export type Network = [ipaddr.IPv4 | ipaddr.IPv6, number];

/** Networks in CIDR notation, separated by commas. Throws when one is none. */
export const networksOf = (text: string): Network[] =>
  text
    .split(",")
    .map((part) => part.trim())
    .filter((part) => part !== "")
    .map((part) => ipaddr.parseCIDR(part));

/** Unicast addresses that are no place on the internet all the same: those that once stood for IPv4, and a cloud's own server for its machines. */
const internal = networksOf("::/96, 168.63.129.16/32");

/** Is it an address of the public internet, or of one of the networks? */
export function isReachable(address: string, networks: readonly Network[]): boolean {
  if (!ipaddr.isValid(address)) return false;
  const parsed = ipaddr.process(address);
  const isIn = (among: readonly Network[]) => among.some(([network, bits]) => network.kind() === parsed.kind() && parsed.match(network, bits));
  return (parsed.range() === "unicast" && !isIn(internal)) || isIn(networks);
}

/** Fetches one source. Throws Refusal, naming the caller's field: what fails here is for the caller to know. */
export type FetchSource = (source: RemoteSource, bytesMax: number, signal: AbortSignal) => Promise<Extract<Source, { kind: "data" }>>;

export interface SourceFetcher {
  fetch: FetchSource;
  close(): Promise<void>;
}

/** `networks` are reachable although they are not public. */
export function createSourceFetcher(networks: readonly Network[]): SourceFetcher {
  const lookup: LookupFunction = (hostname, options, callback) =>
    resolve(hostname, { ...options, all: true }, (error, addresses) => {
      const reachable = error === null ? addresses.filter(({ address }) => isReachable(address, networks)) : [];
      const [first] = reachable;
      if (first === undefined) callback(error ?? new Unreachable(), "", 0);
      else if (options.all === true) callback(null, reachable);
      else callback(null, first.address, first.family);
    });
  const agent = new Agent({ connect: { lookup, timeout: connectTimeoutMs }, connections: 16, maxResponseSize: sourceBytesMax, pipelining: 1 });
  return {
    async fetch({ url, path, part }, bytesMax, signal) {
      const limit = Math.min(bytesMax, sourceBytesMax);
      try {
        let at = new URL(url);
        for (let redirects = 0; ; redirects++) {
          checkAddress(at, path, networks);
          const answer = await request(at, { dispatcher: agent, signal, headers: { accept: mimeTypes[part].join(", "), "user-agent": "sluice" } });
          const { location } = answer.headers;
          if (answer.statusCode >= 300 && answer.statusCode < 400 && typeof location === "string") {
            await answer.body.dump({ limit: 16_384 });
            if (redirects >= redirectsMax) throw unfetched(path, "it redirects too often");
            at = new URL(location, at);
            continue;
          }
          if (answer.statusCode !== 200) {
            await answer.body.dump({ limit: 16_384 });
            throw unfetched(path, `its server answered ${answer.statusCode}`);
          }
          const bytes = await read(answer.body, limit, path);
          const announced = String(answer.headers["content-type"] ?? "").split(";", 1)[0] as string;
          const mimeType = mimeTypeOf(bytes) ?? (announced.trim().toLowerCase() === "text/plain" ? "text/plain" : undefined);
          if (mimeType === undefined || !mimeTypes[part].includes(mimeType)) throw unfetched(path, `it is none of ${mimeTypes[part].join(", ")}`);
          return { kind: "data", mimeType, data: bytes.toString("base64") };
        }
      } catch (error) {
        if (error instanceof Refusal) throw error;
        if (error instanceof Unreachable || (error as Error).cause instanceof Unreachable) throw unfetched(path, "its address is not a public one");
        throw unfetched(path, signal.aborted ? "it did not arrive in time" : "its server could not be reached");
      }
    },
    close: () => agent.destroy(),
  };
}

/** Puts what was fetched in the place of every address, some at once, all within one time limit; stops when the signal says so. Throws Refusal. */
export async function inlineSources(sources: readonly RemoteSource[], fetchSource: FetchSource, signal: AbortSignal): Promise<void> {
  if (sources.length === 0) return;
  const surplus = sources[sourcesMax];
  if (surplus !== undefined) throw new Refusal(surplus.path, `${surplus.path}: a request may name ${sourcesMax} addresses at most for this model.`);
  const byUrl = Map.groupBy(sources, ({ url, part }) => `${part} ${url}`);
  const waiting = [...byUrl.values()];
  const failed = new AbortController();
  const until = AbortSignal.any([signal, failed.signal, AbortSignal.timeout(timeoutMs)]);
  let bytesLeft = allBytesMax;
  const work = async () => {
    for (let same = waiting.shift(); same !== undefined; same = waiting.shift()) {
      const source = await fetchSource(same[0] as RemoteSource, bytesLeft, until);
      bytesLeft -= Math.ceil((source.data.length * 3) / 4);
      for (const { replace } of same) replace(source);
    }
  };
  try {
    await Promise.all(Array.from({ length: Math.min(atOnceMax, waiting.length) }, work));
  } finally {
    failed.abort();
  }
}

class Unreachable extends Error {}

const unfetched = (path: string, why: string) => new Refusal(path, `${path}: what this address names can't be fetched: ${why}.`);

/** An address in the URL itself is never resolved, so it is looked at here. */
function checkAddress({ protocol, hostname, username, password }: URL, path: string, networks: readonly Network[]): void {
  if (protocol !== "http:" && protocol !== "https:") throw unfetched(path, "it is not an http(s) address");
  if (username !== "" || password !== "") throw unfetched(path, "it may not hold a name or password");
  const literal = hostname.replace(/^\[|\]$/g, "");
  if (ipaddr.isValid(literal) && !isReachable(literal, networks)) throw new Unreachable();
}

async function read(body: AsyncIterable<Buffer>, bytesMax: number, path: string): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of body) {
    bytes += chunk.length;
    if (bytes > bytesMax) throw unfetched(path, `it has more than ${bytesMax} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
