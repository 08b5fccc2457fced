/** How an upstream is reached: TLS files, proxies, HTTP/1.1 or HTTP/2. */

import { Agent as HttpAgent } from "node:http";
import { Agent as HttpsAgent } from "node:https";
import type { Socket } from "node:net";
import { createSecureContext } from "node:tls";
import { buildConnector, type Dispatcher, EnvHttpProxyAgent, Pool } from "undici";
import type { CatalogueUpstream } from "#catalogue/catalogue.ts";
import type { Environment } from "#catalogue/environment.ts";
import { followFile, readBoundedSync } from "#service/followed-file.ts";
import { hasMetadataHost, isMetadataAddress } from "#service/networks.ts";
import { lookupOf, Unreachable } from "#service/public-agent.ts";
import { pingIntervalMs, responseHeadBytesMax, tlsFileBytesMax, tlsFilesEveryMs } from "../bounds.ts";
import { watchSocket } from "./plain-socket.ts";
import type { StreamPace } from "./stream-pace.ts";

/** Loopback addresses are never reached through a proxy. */
const localHosts = ["localhost", "127.0.0.1", "::1"];

/** Runs at each connection, so a name that changes its address gains nothing. */
const lookup = lookupOf((address) => !isMetadataAddress(address));

/**
 * Opens connections to one upstream, `connectionsMax` at most. Throws when a TLS file can't be
 * read, and for an address of a cloud's metadata server. `HTTPS_PROXY`, `HTTP_PROXY` and
 * `NO_PROXY` of the environment apply, in upper or lower case. A proxied connection uses HTTP/1.1
 * only, and its proxy looks names up. Direct connections of HTTP/1.1 are read at the pace.
 */
export function openConnections(
  upstream: CatalogueUpstream,
  connectionsMax: number,
  environment: Environment,
  pace: StreamPace,
): Dispatcher {
  if (hasMetadataHost(upstream.baseUrl)) throw new Unreachable();
  const { connectTimeoutMs } = upstream.timeouts;
  const { origin } = new URL(upstream.baseUrl);
  const tls = tlsOptionsOf(upstream);
  const common = {
    connections: connectionsMax,
    headersTimeout: 0,
    bodyTimeout: 0,
    maxHeaderSize: responseHeadBytesMax,
  };
  const [httpProxy, httpsProxy] = proxiesOf(environment);
  if (httpProxy !== undefined || httpsProxy !== undefined) {
    const noProxy = noProxyOf(environment);
    return new EnvHttpProxyAgent({
      ...common,
      httpProxy: httpProxy ?? "",
      httpsProxy: httpsProxy ?? "",
      noProxy,
      allowH2: false,
      connectTimeout: connectTimeoutMs,
      // The connect timeout includes the proxy's response to CONNECT.
      clientFactory: (proxy, options) => new Pool(proxy, { ...options, headersTimeout: connectTimeoutMs }),
      connect: { timeout: connectTimeoutMs, lookup, ...tls },
      requestTls: { timeout: connectTimeoutMs, ...tls },
    });
  }
  // An undici pool with HTTP/2 queues all requests until its first connection has negotiated a
  // protocol, so one stalled handshake would stall all of them. Therefore HTTP/2 is off for the
  // pool, and each connection negotiates its own protocol.
  const connect = buildConnector({ timeout: connectTimeoutMs, allowH2: true, lookup, ...tls });
  return new Pool(origin, {
    ...common,
    allowH2: false,
    h2Options: { pingInterval: pingIntervalMs },
    connect: (options, callback) =>
      connect(options, (...outcome) => {
        const [, socket] = outcome;
        if (socket && !isHttp2(socket)) watchSocket(socket, pace);
        callback(...outcome);
      }),
  });
}

const isHttp2 = (socket: Socket): boolean => "alpnProtocol" in socket && socket.alpnProtocol === "h2";

/** The same for a connection of a WebSocket. */
export function socketOptionsOf(upstream: CatalogueUpstream, environment: Environment) {
  const [httpProxy, httpsProxy] = proxiesOf(environment);
  const proxyEnv = {
    ...(httpProxy !== undefined && { HTTP_PROXY: httpProxy }),
    ...(httpsProxy !== undefined && { HTTPS_PROXY: httpsProxy }),
    NO_PROXY: noProxyOf(environment),
  };
  const isSecure = upstream.baseUrl.startsWith("https:");
  return {
    ...tlsOptionsOf(upstream),
    lookup,
    maxHeaderSize: responseHeadBytesMax,
    ...(isProxied(environment) && { agent: isSecure ? new HttpsAgent({ proxyEnv }) : new HttpAgent({ proxyEnv }) }),
  };
}

const noProxyOf = (environment: Environment): string =>
  [settingOf(environment, "no_proxy"), ...localHosts].filter((hosts) => hosts !== undefined).join(",");

const settingOf = (environment: Environment, name: string) => environment[name] || environment[name.toUpperCase()];
/** A proxy may be set without a scheme, as other programs allow. */
const proxyUrlOf = (setting: string | undefined): string | undefined =>
  setting === undefined || setting.includes("://") ? setting : `http://${setting}`;
const proxiesOf = (environment: Environment) =>
  ["http_proxy", "https_proxy"].map((name) => proxyUrlOf(settingOf(environment, name)));

/** Whether upstreams may be called through a proxy. */
export const isProxied = (environment: Environment): boolean =>
  proxiesOf(environment).some((proxy) => proxy !== undefined);

/**
 * Calls `onChange` when the TLS files of an upstream have changed and can be used. The returned
 * function ends it.
 */
export function followTlsFiles(upstream: CatalogueUpstream, onChange: () => void): () => void {
  const { tls } = upstream;
  const files = [tls?.caFile, tls?.certificateFile, tls?.keyFile].filter((file) => file !== undefined);
  const onReading = () => {
    try {
      createSecureContext(tlsOptionsOf(upstream));
      onChange();
    } catch {
      // The connections keep the last good files; a certificate may have changed before its key.
    }
  };
  const options = { bytesMax: tlsFileBytesMax, everyMs: tlsFilesEveryMs, onReading };
  const ends = files.map((file) => followFile(file, { ...options, initial: readBoundedSync(file, tlsFileBytesMax) }));
  return () => {
    for (const end of ends) end();
  };
}

/**
 * Throws for devices and large files, which would stop the worker; with the system's code, if any.
 */
function tlsFileOf(file: string): Buffer {
  const reading = readBoundedSync(file, tlsFileBytesMax);
  if (reading.kind === "unreadable") throw Object.assign(new Error(reading.reason), { code: reading.code });
  return Buffer.from(reading.bytes);
}

function tlsOptionsOf({ tls }: CatalogueUpstream): { ca?: Buffer; cert?: Buffer; key?: Buffer; servername?: string } {
  if (tls === undefined) return {};
  const { caFile, certificateFile, keyFile, serverName } = tls;
  return {
    ...(caFile !== undefined && { ca: tlsFileOf(caFile) }),
    ...(certificateFile !== undefined && { cert: tlsFileOf(certificateFile) }),
    ...(keyFile !== undefined && { key: tlsFileOf(keyFile) }),
    ...(serverName !== undefined && { servername: serverName }),
  };
}
