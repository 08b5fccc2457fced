/**
 * Fetches images and documents that a request names by address, for upstreams that do not fetch
 * them. Only public addresses are called, which is checked after DNS resolution and at every
 * redirect. Size, time and type are bounded.
 */

import { lookup as resolveAll } from "node:dns/promises";
import { isIP } from "node:net";
import { type Dispatcher, request } from "undici";
import { type AttachmentAddress, mimeTypeOf } from "#dialects/neutral/attachments.ts";
import { Refusal } from "#dialects/neutral/field-support.ts";
import { type Clock, systemClock } from "#service/clock.ts";
import { createPublicAgent, isReachable, type Network, Unreachable } from "#service/public-agent.ts";
import {
  attachmentBytesMax,
  attachmentConnectTimeoutMs,
  discardedAttachmentBytesMax,
  hostConnectionsMax,
  hostKnownMs,
  knownHostsMax,
  redirectsMax,
  textAttachmentBytesMax,
} from "../bounds.ts";
import { type Base64, Base64Writer, type BlockPool } from "./base64.ts";
import type { Pace } from "./pace.ts";

/** The first bytes of an attachment, which tell its type. */
const headBytes = 64;

const text = "text/plain";
/**
 * The types that may be fetched for each kind of part; none where only an upstream can use the
 * content.
 */
const mimeTypes: Record<AttachmentAddress["part"], readonly string[]> = {
  image: ["image/png", "image/jpeg", "image/gif", "image/webp"],
  file: ["application/pdf", text],
  media: [],
  server: [],
};

/** A fetched attachment, as base64 in blocks. Its owner puts the blocks back into their pool. */
export interface Fetched extends Base64 {
  mimeType: string;
}

/**
 * Called with an attachment's size before it is read, and again whenever it grows. `isKnown`: the
 * size is announced. Throws when it is too large.
 */
export type Claim = (bytes: number, isKnown: boolean) => void;

/** Where fetched bytes go. */
interface Sink {
  claim: Claim;
  pool: BlockPool;
  pace: Pace;
}

export interface AttachmentFetcher {
  /** Throws a Refusal that names the caller's field, and whatever `claim` throws. */
  fetch(attachment: AttachmentAddress, sink: Sink, signal: AbortSignal): Promise<Fetched>;
  /** Throws a Refusal for an address that `fetch` would not call. Calls nobody. */
  check(attachment: AttachmentAddress): Promise<void>;
  /**
   * Whether the host of an upstream's address is on the public internet. Cached for half a minute.
   */
  isPublic(url: string): Promise<boolean>;
  close(): Promise<void>;
}

/**
 * `networks` may be called although they are not public. `mayBeProxied`: upstreams may be behind a
 * proxy, so an upstream whose host can't be resolved here counts as public.
 */
export function createAttachmentFetcher(
  networks: readonly Network[],
  mayBeProxied = false,
  clock: Clock = systemClock,
): AttachmentFetcher {
  const agent = createPublicAgent(networks, {
    timeout: attachmentConnectTimeoutMs,
    connections: hostConnectionsMax,
  });
  const publicHosts = new Map<string, { isPublic: Promise<boolean>; until: number }>();
  return {
    async fetch(attachment, sink, signal) {
      const { path } = attachment;
      try {
        return await fetchWith(agent, networks, attachment, sink, signal);
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
      const now = clock.now();
      const publicHost = publicHosts.get(hostname);
      if (publicHost !== undefined && publicHost.until > now) return publicHost.isPublic;
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

async function fetchWith(
  agent: Dispatcher,
  networks: readonly Network[],
  { url, path, part }: AttachmentAddress,
  sink: Sink,
  signal: AbortSignal,
): Promise<Fetched> {
  const headers = { accept: mimeTypes[part].join(", "), "user-agent": "sluice" };
  let at = addressOf(url, path);
  for (let redirects = 0; ; redirects++) {
    checkAddress(at, path, networks);
    const response = await request(at, { dispatcher: agent, signal, headers });
    const { location } = response.headers;
    if (response.statusCode >= 300 && response.statusCode < 400 && typeof location === "string") {
      await response.body.dump({ limit: discardedAttachmentBytesMax });
      if (redirects >= redirectsMax) throw unfetched(path, "it redirects too often");
      at = new URL(location, at);
      continue;
    }
    if (response.statusCode !== 200) {
      await response.body.dump({ limit: discardedAttachmentBytesMax });
      throw unfetched(path, `its server answered ${response.statusCode}`);
    }
    return readResponse(response, path, part, sink);
  }
}

/**
 * The content decides the type. A text has no mark of its own, so there the server's word counts.
 */
async function readResponse(
  { headers, body }: Dispatcher.ResponseData,
  path: string,
  part: AttachmentAddress["part"],
  sink: Sink,
): Promise<Fetched> {
  const announced = String(headers["content-type"] ?? "").split(";", 1)[0] as string;
  const isText = announced.trim().toLowerCase() === text && mimeTypes[part].includes(text);
  const typeOf = (head: Buffer) => {
    const mimeType = mimeTypeOf(head) ?? (isText ? text : undefined);
    if (mimeType === undefined || !mimeTypes[part].includes(mimeType))
      throw unfetched(path, `it is none of ${mimeTypes[part].join(", ")}`);
    return mimeType;
  };
  try {
    return await read(body, headers["content-length"], { ...sink, path, typeOf });
  } finally {
    body.on("error", () => undefined).destroy();
  }
}

/** Thrown by a claim when the budget has no more bytes for it now. */
export class TooMuch extends Error {}

export const unfetched = (path: string, why: string) =>
  new Refusal(path, `${path}: what this address names can't be fetched: ${why}.`);

/** Checks what DNS resolution does not see: the scheme, credentials, and a literal address. */
function checkAddress(
  { protocol, hostname, username, password }: URL,
  path: string,
  networks: readonly Network[],
): void {
  if (protocol !== "http:" && protocol !== "https:") throw unfetched(path, "it is not an http(s) address");
  if (username !== "" || password !== "") throw unfetched(path, "it may not hold a name or password");
  const literal = hostname.replace(/^\[|\]$/g, "");
  if (isIP(literal) !== 0 && !isReachable(literal, networks)) throw new Unreachable();
}

function addressOf(url: string, path: string): URL {
  const address = URL.parse(url);
  if (address === null) throw unfetched(path, "it is not an http(s) address");
  return address;
}

/** All addresses of a host. Rejects when it has none. */
async function resolvedOf(hostname: string): Promise<string[]> {
  const addresses = await resolveAll(hostname.replace(/^\[|\]$/g, ""), { all: true });
  return addresses.map(({ address }) => address);
}

/**
 * Whether the server failed or the time ran out. Other errors already say what the caller needs to
 * know.
 */
const isOfTransport = (error: unknown): boolean => !(error instanceof Refusal || error instanceof TooMuch);

interface ReadOptions extends Sink {
  path: string;
  /**
   * The type of an attachment that begins with these bytes. Throws a Refusal for one that is not
   * accepted.
   */
  typeOf(head: Buffer): string;
}

/** Reads a body into base64. Stops as soon as it is too large or of another type. */
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
    if (mimeType === text) limit = textAttachmentBytesMax;
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
