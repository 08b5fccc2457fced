/**
 * Checks whether an upstream's message quotes the caller's request: quoted words prove nothing
 * about the operator's account.
 */

import { parseJson } from "#wire/json/parse.ts";
import { searchedBytesMax } from "../bounds.ts";

/**
 * Whether the request contains `text`, which is in lower case. True for a request that is too large
 * to be searched.
 */
export function isQuotedIn(body: Buffer, text: string): boolean {
  if (body.length > searchedBytesMax) return true;
  let request = body.toString("utf8");
  try {
    // Removes the escapes that the caller may have written.
    request = JSON.stringify(parseJson(body));
  } catch {}
  return request.replaceAll("%20", " ").toLowerCase().includes(JSON.stringify(text).slice(1, -1));
}
