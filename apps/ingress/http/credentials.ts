/** Where callers of every dialect put their key. */
import type { IncomingHttpHeaders } from "node:http";

/**
 * All candidates, the one of the path's dialect first: clients send stale vendor keys beside the good one. A key in the query is read for
 * the sake of Google's clients and never logged.
 */
export function credentialsOf(headers: IncomingHttpHeaders, url: string): string[] {
  const found: string[] = [];
  const [scheme, bearer] = (headers.authorization ?? "").split(/ +/, 2);
  if (scheme?.toLowerCase() === "bearer" && bearer) found.push(bearer);
  for (const name of ["x-api-key", "x-goog-api-key"] as const) {
    const value = headers[name];
    if (typeof value === "string" && value !== "") found.push(value.trim());
  }
  const question = url.indexOf("?");
  if (question >= 0) {
    const key = new URLSearchParams(url.slice(question + 1)).get("key");
    if (key) found.push(key);
  }
  return found;
}
