/**
 * TLS and users of a test's Redis servers. Without them a server listens on a plain port and asks
 * for no password.
 */
import { readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { RedisOptions } from "ioredis";
import { serverFiles, tlsFiles } from "./tls.ts";

export interface SecurityOptions {
  /** TLS for clients, replicas and the cluster's bus. Clients need a certificate. */
  hasTls?: boolean;
  /**
   * An ACL line of the gateway's user `sluice` with `>PASSWORD`. The user `default` then has a
   * password.
   */
  user?: string;
  /** The same for the Sentinels, whose users have other passwords. */
  sentinelUser?: string;
}

export interface Security {
  /** Where a server or a Sentinel listens, and whom it lets in. */
  settingsOf(port: number): string[][];
  /** Options for a connection as the user `default`, which may do everything. */
  access: Pick<RedisOptions, "tls" | "password">;
}

/** The administrator's password and the gateway's. */
interface Passwords {
  admin: string;
  gateway: string;
}

const serverPasswords = { admin: "admin", gateway: "p@ss:word" };
const sentinelPasswords = { admin: "sentinel-admin", gateway: "sentinel/word" };

async function securityOf(
  directory: string,
  name: string,
  { admin, gateway }: Passwords,
  user: string | undefined,
  hasTls: boolean,
): Promise<Security> {
  const aclFile = join(directory, `${name}.acl`);
  if (user !== undefined)
    await writeFile(aclFile, `user default on >${admin} ~* &* +@all\n${user.replace(">PASSWORD", `>${gateway}`)}\n`);
  const ca = readFileSync(tlsFiles.caFile);
  const [cert, key] = [readFileSync(tlsFiles.certificateFile), readFileSync(tlsFiles.keyFile)];
  return {
    settingsOf: (port) => [
      ...(hasTls ? tlsSettingsOf(port) : [["--port", `${port}`]]),
      ...(user === undefined ? [] : [["--aclfile", aclFile]]),
    ],
    access: { ...(hasTls && { tls: { ca, cert, key } }), ...(user !== undefined && { password: admin }) },
  };
}

const tlsSettingsOf = (port: number): string[][] => [
  ["--port", "0"],
  ["--tls-port", `${port}`],
  ["--tls-ca-cert-file", tlsFiles.caFile],
  ["--tls-cert-file", serverFiles.certificateFile],
  ["--tls-key-file", serverFiles.keyFile],
  ["--tls-client-cert-file", tlsFiles.certificateFile],
  ["--tls-client-key-file", tlsFiles.keyFile],
  ["--tls-replication", "yes"],
  ["--tls-cluster", "yes"],
];

/** The security of servers; `replicaSettings` let a replica log in at its primary. */
export async function serverSecurityOf(
  directory: string,
  { user, hasTls = false }: SecurityOptions,
): Promise<Security & { replicaSettings: string[][] }> {
  return {
    ...(await securityOf(directory, "server", serverPasswords, user, hasTls)),
    replicaSettings: user === undefined ? [] : [["--masterauth", serverPasswords.admin]],
  };
}

/**
 * The security of Sentinels; `lines` of their file let them log in at the servers and at each
 * other.
 */
export async function sentinelSecurityOf(
  directory: string,
  { user, sentinelUser, hasTls = false }: SecurityOptions,
): Promise<Security & { lines: string[] }> {
  return {
    ...(await securityOf(directory, "sentinel", sentinelPasswords, sentinelUser, hasTls)),
    lines: [
      ...(user === undefined ? [] : [`sentinel auth-pass mymaster ${serverPasswords.admin}`]),
      ...(sentinelUser === undefined ? [] : [`sentinel sentinel-pass ${sentinelPasswords.admin}`]),
    ],
  };
}

/** The gateway's REDIS_URL. */
export function redisUrlOf(ports: readonly number[], { hasTls, user, sentinelUser }: SecurityOptions): string {
  const query = new URLSearchParams({
    ...(hasTls && { ca: tlsFiles.caFile, cert: tlsFiles.certificateFile, key: tlsFiles.keyFile }),
    ...(sentinelUser !== undefined && {
      sentinelUsername: "sluice",
      sentinelPassword: sentinelPasswords.gateway,
    }),
  }).toString();
  const login = user === undefined ? "" : `sluice:${encodeURIComponent(serverPasswords.gateway)}@`;
  const addresses = ports.map((port) => `127.0.0.1:${port}`).join(",");
  return `${hasTls ? "rediss" : "redis"}://${login}${addresses}${query && `?${query}`}`;
}
