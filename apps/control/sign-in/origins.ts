/**
 * Which requests come from control's own pages: browsers send the session's cookie from other ports
 * of the same host too.
 */
import type { FastifyRequest } from "fastify";
import { Fault } from "../api/faults.ts";

const localHost = /^(localhost|127\.0\.0\.1)(:\d{1,5})?$/;

/** Whether people may sign in under the name in the request's `Host`. `url` is CONTROL_URL. */
export function isOwnHost({ headers: { host = "" } }: Pick<FastifyRequest, "headers">, url: string): boolean {
  return url === "" ? localHost.test(host) : host === new URL(url).host;
}

/**
 * Throws a Fault for a request that changes something, or opens a WebSocket, and that a page of
 * another origin may have sent. A request with neither `Origin` nor `Sec-Fetch-Site` is no
 * browser's; it passes only without a cookie.
 */
export function checkOrigin({ method, headers }: Pick<FastifyRequest, "method" | "headers">, url: string): void {
  const { origin, host = "", cookie, upgrade } = headers;
  if ((method === "GET" || method === "HEAD") && upgrade === undefined) return;
  const site = headers["sec-fetch-site"];
  if (origin !== undefined) {
    const own = url === "" ? `http://${host}` : new URL(url).origin;
    if (origin === own) return;
  } else if (site === "same-origin" || (site === undefined && cookie === undefined)) return;
  throw new Fault(
    "forbidden",
    "This call did not come from a page of this gateway: `Origin` must be its address. Programs send a token instead of a cookie.",
  );
}
