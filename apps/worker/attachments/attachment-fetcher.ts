/**
 * Fetches images and documents that a request names by address, for upstreams that don't: only from public addresses, looked at after resolution
 * and at every redirect, and bounded in size, time and type.
 */
import { lookup as resolve } from "node:dns";
import { lookup as resolveAll } from "node:dns/promises";
import type { LookupFunction } from "node:net";
import ipaddr from "ipaddr.js";
import { Agent, request } from "undici";
import { type AttachmentAddress, mimeTypeOf } from "#dialects/attachments.ts";
import { Refusal } from "#dialects/field-support.ts";
import { type Base64, Base64Writer, type BlockPool } from "./base64.ts";
import type { Pace } from "./pace.ts";

export const attachmentBytesMax = 20 << 20;
/** A text is written into its request at once, and no model reads a longer one. */
const textBytesMax = 2 << 20;
const redirectsMax = 3;
const connectTimeoutMs = 5_000;
/** Of a source, by which its kind is known. */
const headBytes = 64;

/** How long the addresses of an upstream's host are taken to stay the same, and of how many hosts. */
const hostKnownMs = 30_000;
const knownHostsMax = 1_000;

const text = "text/plain";
/** What may be fetched for each kind of part; nothing for what only an upstream can use. */
const mimeTypes: Record<AttachmentAddress["part"], readonly string[]> = {
  image: ["image/png", "image/jpeg", "image/gif", "image/webp"],
  file: ["application/pdf", text],
  media: [],
  server: [],
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
  const isIn = (among: readonly Network[]) =>
    among.some(([network, bits]) => network.kind() === parsed.kind() && parsed.match(network, bits));
  return (parsed.range() === "unicast" && !isIn(internal)) || isIn(networks);
}

/** What was fetched: base64 in blocks, which whoever gets it puts back. */
export interface Fetched extends Base64 {
  mimeType: string;
}

/** Told how many bytes a source has, as far as that is known: before they are read, and again whenever there are more. It throws when they are too many. */
export type Claim = (bytes: number, isKnown: boolean) => void;

/** Where what is fetched goes. */
interface Hold {
  claim: Claim;
  pool: BlockPool;
  pace: Pace;
}

export interface AttachmentFetcher {
  /** Fetches one source. Throws Refusal, naming the caller's field: what fails here is for the caller to know; and whatever `claim` throws. */
  fetch(attachment: AttachmentAddress, { claim, pool, pace }: Hold, signal: AbortSignal): Promise<Fetched>;
  /** Throws Refusal for an address that `fetch` would refuse to call, without calling it. */
  check(attachment: AttachmentAddress): Promise<void>;
  /** Is the host of this upstream's address on the public internet? Known for half a minute. */
  isPublic(url: string): Promise<boolean>;
  close(): Promise<void>;
}

/** `networks` are reachable although they are not public. Upstreams `mayBeProxied`: then one whose host has no address here is taken for a public one. */
export function createAttachmentFetcher(networks: readonly Network[], mayBeProxied = false): AttachmentFetcher {
  const lookup: LookupFunction = (hostname, options, callback) =>
    resolve(hostname, { ...options, all: true }, (error, addresses) => {
      const reachable = error === null ? addresses.filter(({ address }) => isReachable(address, networks)) : [];
      const [first] = reachable;
      if (first === undefined) callback(error ?? new Unreachable(), "", 0);
      else if (options.all === true) callback(null, reachable);
      else callback(null, first.address, first.family);
    });
  const agent = new Agent({ connect: { lookup, timeout: connectTimeoutMs }, connections: 16, pipelining: 1 });
  const publicHosts = new Map<string, { isPublic: Promise<boolean>; until: number }>();
  return {
    async fetch({ url, path, part }, hold, signal) {
      try {
        let at = addressOf(url, path);
        for (let redirects = 0; ; redirects++) {
          checkAddress(at, path, networks);
          const answer = await request(at, {
            dispatcher: agent,
            signal,
            headers: { accept: mimeTypes[part].join(", "), "user-agent": "sluice" },
          });
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
          const announced = String(answer.headers["content-type"] ?? "").split(";", 1)[0] as string;
          const isText = announced.trim().toLowerCase() === text && mimeTypes[part].includes(text);
          try {
            return await read(answer.body, answer.headers["content-length"], {
              ...hold,
              path,
              typeOf: (head) => {
                const mimeType = mimeTypeOf(head) ?? (isText ? text : undefined);
                if (mimeType === undefined || !mimeTypes[part].includes(mimeType))
                  throw unfetched(path, `it is none of ${mimeTypes[part].join(", ")}`);
                return mimeType;
              },
            });
          } finally {
            answer.body.on("error", () => undefined).destroy();
          }
        }
      } catch (error) {
        if (error instanceof Unreachable || (error as Error).cause instanceof Unreachable)
          throw unfetched(path, "its address is not a public one");
        if (isOfTransport(error))
          throw unfetched(path, signal.aborted ? "it did not arrive in time" : "its server could not be reached");
        throw error;
      }
    },
    async check({ url, path }) {
      const at = addressOf(url, path);
      let addresses: string[];
      try {
        checkAddress(at, path, networks);
        addresses = await resolvedOf(at.hostname);
      } catch (error) {
        if (error instanceof Refusal) throw error;
        throw unfetched(
          path,
          error instanceof Unreachable ? "its address is not a public one" : "its server could not be found",
        );
      }
      if (!addresses.every((address) => isReachable(address, networks)))
        throw unfetched(path, "its address is not a public one");
    },
    isPublic(url) {
      const { hostname } = new URL(url);
      const now = performance.now();
      const known = publicHosts.get(hostname);
      if (known !== undefined && known.until > now) return known.isPublic;
      if (publicHosts.size >= knownHostsMax) publicHosts.clear();
      const isPublic = resolvedOf(hostname).then(
        (addresses) => addresses.every((address) => isReachable(address, [])),
        () => mayBeProxied,
      );
      publicHosts.set(hostname, { isPublic, until: now + hostKnownMs });
      return isPublic;
    },
    close: () => agent.destroy(),
  };
}

class Unreachable extends Error {}

/** What a claim throws when there is no more for it. */
export class TooMuch extends Error {}

export const unfetched = (path: string, why: string) =>
  new Refusal(path, `${path}: what this address names can't be fetched: ${why}.`);

/** An address in the URL itself is never resolved, so it is looked at here. */
function checkAddress(
  { protocol, hostname, username, password }: URL,
  path: string,
  networks: readonly Network[],
): void {
  if (protocol !== "http:" && protocol !== "https:") throw unfetched(path, "it is not an http(s) address");
  if (username !== "" || password !== "") throw unfetched(path, "it may not hold a name or password");
  const literal = hostname.replace(/^\[|\]$/g, "");
  if (ipaddr.isValid(literal) && !isReachable(literal, networks)) throw new Unreachable();
}

function addressOf(url: string, path: string): URL {
  const address = URL.parse(url);
  if (address === null) throw unfetched(path, "it is not an http(s) address");
  return address;
}

/** All addresses of a host. Rejects when it has none. */
async function resolvedOf(hostname: string): Promise<string[]> {
  const found = await resolveAll(hostname.replace(/^\[|\]$/g, ""), { all: true });
  return found.map(({ address }) => address);
}

/** Did the other end fail, or our time run out? Else the error is ours, or for the caller to know as it is. */
const isOfTransport = (error: unknown): boolean => !(error instanceof Refusal || error instanceof TooMuch);

interface ReadOptions extends Hold {
  path: string;
  /** The kind of what begins with these bytes. */
  typeOf(head: Buffer): string;
}

/** Reads a body into base64. Nothing that is too large or of another kind is read to its end. */
async function read(
  body: AsyncIterable<Buffer>,
  announced: string | string[] | undefined,
  { claim, pool, pace, path, typeOf }: ReadOptions,
): Promise<Fetched> {
  const writer = new Base64Writer(pool);
  const length = typeof announced === "string" && /^\d{1,15}$/.test(announced) ? Number(announced) : undefined;
  let limit = attachmentBytesMax;
  let mimeType: string | undefined;
  const count = (bytes: number, isKnown: boolean) => {
    if (mimeType === text) limit = textBytesMax;
    if (bytes > limit) throw unfetched(path, `it has more than ${limit} bytes`);
    claim(bytes, isKnown);
  };
  let head = Buffer.alloc(0);
  let bytes = 0;
  try {
    if (length !== undefined) count(length, true);
    for await (const chunk of body) {
      bytes += chunk.length;
      if (mimeType === undefined) {
        head = Buffer.concat([head, chunk.subarray(0, headBytes)]);
        if (head.length >= headBytes) mimeType = typeOf(head);
      }
      count(Math.max(bytes, length ?? 0), length !== undefined);
      writer.push(chunk);
      await pace.moved(chunk.length);
    }
    mimeType ??= typeOf(head);
    claim(bytes, true);
    return { mimeType, ...writer.end() };
  } catch (error) {
    writer.drop();
    throw error;
  }
}
